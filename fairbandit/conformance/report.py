"""Runs all checks on one part. A failed check does not stop the others."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple

from fairbandit import registry
from fairbandit.conformance import contract, values
from fairbandit.conformance.purity import changes_nothing, restored
from fairbandit.conformance.world import REFERENCES, Spec
from fairbandit.errors import FairbanditError

Check = Callable[[str, Spec], str | None]
"""Takes a kind and a part, and raises `ConformanceError` with the reason if the check fails.
Returns None, or the reason why the check does not apply."""

_ALL = [contract.plays, changes_nothing, contract.replicas_alone, contract.rounds_alone]
_METRIC = [*_ALL, contract.empty_slots]
_PART = [*_METRIC, contract.online, contract.reads_no_later]
_RANK = [values.permutes, values.ranks_alone, values.monotone, values.equals_tie]

_CHECKS: dict[str, list[Check]] = {
    "split": [contract.constructible, *_PART, values.splits_soundly],
    "estimator": [contract.constructible, *_PART, values.models_soundly],
    "rank": [contract.constructible, *_PART, *_RANK],
    "selector": [contract.constructible, *_PART, values.draws_as_stated],
    "environment": [contract.constructible, *_ALL, values.draws_soundly, values.ranks_soundly],
    "metric": [contract.constructible, *_METRIC, values.judges_every_pick, values.declares_truth],
    "policy": [*_PART, values.models_soundly, values.permutes, values.draws_as_stated],
}

KINDS = tuple(_CHECKS)
"""The kinds of parts, and policies."""


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        check: the check's name.
        label: the requirement, in one line.
        reason: why the part fails; None if it passes.
        inapplicable: why the check does not apply to the part; None if it applies.
    """

    check: str
    label: str
    reason: str | None
    inapplicable: str | None = None


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass, the simplest first."""
    return list(_CHECKS[kind])


def examine(kind: str, spec: Spec) -> Iterator[CheckResult]:
    """Runs every check on one part.

    Args:
        kind: one of `KINDS`.
        spec: its name, or a mapping with `name` and hyperparameters.

    Yields:
        The result of each check; none after `plays` if it fails. An exception in the part is a
        failed check. If a part of fairbandit fails the same check, the reason says so.
    """
    for check in checks(kind):
        label = inspect.cleandoc(check.__doc__ or "").split("\n")[0].rstrip(".")
        reason, inapplicable = _outcome(check, kind, spec)
        if reason:
            other, _ = _outcome(check, kind, REFERENCES[kind])
            if other:
                reason = (
                    f"fairbandit is at fault, not the {kind}: its own {REFERENCES[kind]} fails, "
                    f"too, with {other}"
                )
        yield CheckResult(check.__name__, label, reason, inapplicable)
        if check is contract.plays and reason:
            return


def _outcome(check: Check, kind: str, spec: Spec) -> tuple[str | None, str | None]:
    """Why a check fails, and why it does not apply, in one line; restores changed settings."""
    try:
        with restored(), redirect_stdout(StringIO()):
            return None, check(kind, spec)
    except FairbanditError as error:
        return " ".join(str(error).split()), None
    except Exception as error:
        message = " ".join(traceback.format_exception_only(error)[-1].split())
        at = registry.line_of(error)
        if at is None:
            last = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{last.filename}:{last.lineno}, in no line of a plugin"
        return f"{message} ({at})", None
