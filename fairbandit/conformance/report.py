"""Runs all checks on one part. A failed check does not stop the others."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fairbandit.conformance import contract
from fairbandit.conformance.purity import changes_nothing, restored
from fairbandit.conformance.world import Spec
from fairbandit.errors import FairbanditError

Check = Callable[[str, Spec], None]
"""Takes a kind and a part, and raises `ConformanceError` with the reason if the check fails."""

_OF_ALL: list[Check] = [
    *(contract.constructible, contract.plays, changes_nothing),
    *(contract.replicas_alone, contract.rounds_alone),
]
_OF_PARTS: list[Check] = [*_OF_ALL, contract.resumes, contract.online, contract.reads_no_later]

_CHECKS: dict[str, list[Check]] = {
    "split": [*_OF_PARTS, contract.splits_soundly],
    "estimator": [*_OF_PARTS, contract.models_soundly],
    "rank": [
        *(*_OF_PARTS, contract.permutes, contract.ranks_alone),
        *(contract.monotone, contract.equals_tie),
    ],
    "selector": [*_OF_PARTS, contract.shortlists],
    "environment": [*_OF_ALL, contract.draws_soundly, contract.ranks_soundly],
    "metric": [*_OF_ALL, contract.resumes],
}


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        check: the check's name.
        label: the requirement, in one line.
        reason: why the part fails; None if it passes.
    """

    check: str
    label: str
    reason: str | None


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass, the simplest first."""
    return list(_CHECKS[kind])


def examine(kind: str, spec: Spec) -> Iterator[CheckResult]:
    """Runs every check on one part.

    Args:
        kind: one of `registry.KINDS`.
        spec: its name, or a mapping with `name` and hyperparameters.

    Yields:
        The result of each check; none after `plays` if it fails. An exception in the part is a
        failed check.
    """
    for check in checks(kind):
        label = inspect.cleandoc(check.__doc__ or "").split("\n")[0].rstrip(".")
        reason = _failure(check, kind, spec)
        yield CheckResult(check.__name__, label, reason)
        if check is contract.plays and reason:
            return


def _failure(check: Check, kind: str, spec: Spec) -> str | None:
    """Why a check fails, in one line; settings that the part changed are restored."""
    try:
        with restored():
            check(kind, spec)
    except FairbanditError as error:
        return " ".join(str(error).split())
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(traceback.format_exception_only(error)[-1].split())
        return f"{message} ({Path(at.filename).name}:{at.lineno})"
    return None
