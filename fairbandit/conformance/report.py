"""The whole suite on one part, every fault told in one line and none of them fatal."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairbandit import registry
from fairbandit.conformance import contract, environments, leaving, metrics, playing
from fairbandit.conformance.world import Spec, name_of
from fairbandit.errors import FairbanditError

Done = TypeVar("Done")

Check = Callable[[str, Spec], None]
"""Takes the kind and the part; raises `ConformanceError`, with the reason, if all is not well."""

_LEFT_ALONE: list[Check] = [
    leaving.leaves_tensors,
    leaving.leaves_settings,
    leaving.leaves_global_generators,
]

_PLAYED: list[Check] = [
    playing.plays,
    *_LEFT_ALONE,
    playing.repeats,
    playing.replicas_alone,
    playing.rounds_alone,
    playing.resumes,
    playing.reads_no_later,
]

_OF_KIND: dict[str, list[Check]] = {
    "split": [contract.splits_soundly, *_PLAYED],
    "estimator": [*_PLAYED, contract.models_soundly, playing.learns_late],
    "rank": [
        *(contract.shapes, contract.finite_in_range),
        *_PLAYED,
        *(contract.ties, contract.permutes, contract.monotone),
    ],
    "selector": [contract.picks_soundly, *_PLAYED],
    "environment": [environments.draws_pools, *_LEFT_ALONE, environments.pools_by_address],
    "metric": [
        metrics.judges_soundly,
        *_LEFT_ALONE,
        *(metrics.pieces_agree, metrics.judges_replicas_alone, metrics.resumes_judging),
    ],
}
"""What those of one kind owe beside what all owe, in the order in which it is checked."""

_GATES: tuple[Check, ...] = (
    playing.plays,
    environments.draws_pools,
    metrics.judges_soundly,
)
"""A part that fails one of these fails all that follow, for the same reason."""


@dataclass(frozen=True)
class Finding:
    """What came of one check.

    Attributes:
        check: the check's name.
        label: what it asks for, in one line.
        reason: why the part does not pass; None where it does.
        tried: False where an earlier failure left no point in trying.
    """

    check: str
    label: str
    reason: str | None = None
    tried: bool = True

    @property
    def passed(self) -> bool:
        """Whether the part keeps this piece of the contract."""
        return self.tried and self.reason is None


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass, the simplest first."""
    return [contract.constructible, contract.documented, *_OF_KIND[kind]]


def examine(kind: str, spec: Spec) -> Iterator[Finding]:
    """Runs every check on one part.

    Args:
        kind: one of `registry.KINDS`.
        spec: its name, or a mapping with `name` and hyperparameters.

    Yields:
        A finding a check. Whatever is raised inside the part is a failed check; see `attempt`.

    Raises:
        FairbanditError: no such part.
    """
    registry.lookup(kind, name_of(spec))
    gated = False
    for check in checks(kind):
        label = inspect.cleandoc(check.__doc__ or "").split("\n")[0].rstrip(".")
        if gated:
            yield Finding(check.__name__, label, "not tried, for the fault above", tried=False)
            continue
        reason = attempt(check, kind, spec)
        yield Finding(check.__name__, label, reason)
        gated = reason is not None and check in _GATES


def attempt(work: Callable[[str, Spec], Done], kind: str, spec: Spec) -> Done | str:
    """Does something with a part, such as a check; leaves no setting changed.

    Returns:
        What the work returns, or why it failed, in one line: an exception of any type inside the
        part is told with its type and the line of the part where it arose.

    Raises:
        FairbanditError: no such part.
    """
    cls = registry.lookup(kind, name_of(spec))
    try:
        with leaving.restored():
            return work(kind, spec)
    except FairbanditError as error:
        return " ".join(str(error).split())
    except (Exception, SystemExit) as error:
        message = " ".join(str(error).split())
        named = type(error).__name__ + (f": {message}" if message else "")
        return f"{named} ({_line(error, cls)})"


def _line(error: BaseException, cls: type) -> str:
    """The innermost line of a part's own file that led to an error, or else of any file."""
    frames = traceback.extract_tb(error.__traceback__)
    file = inspect.getsourcefile(cls)
    own = [frame for frame in frames if frame.filename == file]
    at = (own or frames)[-1]
    return f"{Path(at.filename).name if own else at.filename}:{at.lineno}"
