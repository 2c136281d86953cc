"""Runs all checks on one part. A failed check does not stop the others."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import NamedTuple

from fairbandit import registry
from fairbandit.conformance import values as values  # its checks register themselves
from fairbandit.conformance.purity import restored
from fairbandit.conformance.relations import CHECKS, Check, plays_one_to_three_picks
from fairbandit.conformance.world import Spec
from fairbandit.errors import FairbanditError


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        check: the check's name, which is its requirement in words.
        reason: why the part fails; None if it passes.
        inapplicable: why the check does not apply to the part; None if it applies.
    """

    check: str
    reason: str | None
    inapplicable: str | None = None


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass, the simplest first."""
    return [check for check, kinds in CHECKS.items() if kind in kinds]


def examine(kind: str, spec: Spec) -> Iterator[CheckResult]:
    """Runs every check on one part.

    Args:
        kind: one of `KINDS`.
        spec: its name, or a mapping with `name` and hyperparameters.

    Yields:
        The result of each check; none after a failure to play. An exception in the part is a failed
        check.
    """
    for check in checks(kind):
        reason, inapplicable = _outcome(check, kind, spec)
        yield CheckResult(check.__name__, reason, inapplicable)
        if reason and check is plays_one_to_three_picks:
            return


def _outcome(check: Check, kind: str, spec: Spec) -> tuple[str | None, str | None]:
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
