"""Runs all checks on one part, and times it. A failed check does not stop the others."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from timeit import timeit
from typing import NamedTuple, TypeVar

from fairbandit.conformance import contract, purity, relations
from fairbandit.conformance.world import REFERENCES, Spec, class_of, engine_with, run
from fairbandit.errors import FairbanditError

TIMED, TRIES = 512, 3
"""The number of rounds that are timed, and of measurements, of which the fastest counts."""

Done = TypeVar("Done")

Check = Callable[[str, Spec], None]
"""Takes a kind and a part, and raises `ConformanceError` with the reason if the check fails."""

_OF_PARTS: list[Check] = [relations.resumes, relations.online, relations.reads_no_later]

_CHECKS: dict[str, list[Check]] = {
    "split": [*_OF_PARTS, contract.splits_soundly],
    "estimator": [*_OF_PARTS, contract.models_soundly],
    "rank": [*_OF_PARTS, contract.permutes, contract.monotone],
    "selector": _OF_PARTS,
    "environment": [contract.draws_soundly, contract.ranks_soundly],
    "metric": [relations.resumes],
}


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        check: the check's name.
        label: the requirement, in one line.
        reason: why the part fails; None if it passes.
        tried: False if the check was skipped after an earlier failure.
    """

    check: str
    label: str
    reason: str | None = None
    tried: bool = True

    @property
    def passed(self) -> bool:
        """Whether the part passed the check."""
        return self.tried and self.reason is None


class Cost(NamedTuple):
    """Milliseconds per round of all replicas, with the part and with its kind's reference."""

    own: float
    reference: float


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass, the simplest first."""
    first = [contract.constructible, relations.plays, purity.changes_nothing]
    return [*first, relations.replicas_alone, relations.rounds_alone, *_CHECKS[kind]]


def examine(kind: str, spec: Spec) -> Iterator[CheckResult]:
    """Runs every check on one part.

    Args:
        kind: one of `registry.KINDS`.
        spec: its name, or a mapping with `name` and hyperparameters.

    Yields:
        A result for each check. An exception inside the part is a failed check; see `attempt`.

    Raises:
        FairbanditError: no such part.
    """
    class_of(kind, spec)
    gated = False
    for check in checks(kind):
        label = inspect.cleandoc(check.__doc__ or "").split("\n")[0].rstrip(".")
        if gated:
            yield CheckResult(check.__name__, label, "not tried, for the fault above", tried=False)
            continue
        reason = attempt(check, kind, spec)
        yield CheckResult(check.__name__, label, reason)
        gated = reason is not None and check is relations.plays


def attempt(work: Callable[[str, Spec], Done], kind: str, spec: Spec) -> Done | str:
    """Calls a function, such as a check, with a part, and restores the settings it changed.

    Returns:
        The function's result. If it raised an exception, one line that gives the exception's type,
        its message and the line of the part's file that raised it.

    Raises:
        FairbanditError: no such part.
    """
    cls = class_of(kind, spec)
    try:
        with purity.restored():
            return work(kind, spec)
    except FairbanditError as error:
        return " ".join(str(error).split())
    except (Exception, SystemExit) as error:
        message = " ".join(str(error).split())
        named = type(error).__name__ + (f": {message}" if message else "")
        return f"{named} ({_line(error, cls)})"


def _line(error: BaseException, cls: type) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    file = inspect.getsourcefile(cls)
    own = [frame for frame in frames if frame.filename == file]
    at = (own or frames)[-1]
    return f"{Path(at.filename).name if own else at.filename}:{at.lineno}"


def cost(kind: str, spec: Spec) -> Cost:
    """Times rounds of play with a part and, in turn, with its kind's reference."""
    pairs = [(_seconds(kind, spec), _seconds(kind, REFERENCES[kind])) for _ in range(TRIES)]
    return Cost(*(1000 * min(seconds) / TIMED for seconds in zip(*pairs, strict=True)))


def _seconds(kind: str, spec: Spec) -> float:
    engine = engine_with(kind, spec)
    return timeit(lambda: run(engine, TIMED), number=1)
