"""Where an agent goes on in a log, and whether the log is the agent's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs import LogFile, Position, own_lines
from fairbandit.logs.chain import LoggedLine, encoded, now
from fairbandit.logs.events import Header, body_of, event_of

_MISSING = object()


def resume(
    file: LogFile, header: Header, saved: Position | None
) -> tuple[Position, Iterator[LoggedLine]]:
    """Finds the position after which an agent goes on in a log; begins an empty log.

    Args:
        file: the open log.
        header: the header of a log that this agent begins.
        saved: the position of the agent's state; None for a state without a log.

    Returns:
        The position, and the lines after it, which the agent lacks.

    Raises:
        FairbanditError: the log is not the agent's.
    """
    lines = own_lines(file.path, new=True)
    first = next(lines, None)
    if first is None:  # a new file, or its header was cut off
        data, at = encoded(header, Position(), now())
        file.begin(0)
        file.append(data, 0)
        return at, iter(())
    new = event_of(body_of(header))
    assert isinstance(first.event, Header)
    assert isinstance(new, Header)
    if saved is not None:
        same, at, lines = file.holds(saved), saved, own_lines(file.path, at=saved)
    else:
        same, at = first.event.agent == new.agent, first.at
    if not same:
        raise FairbanditError(
            f"{file.path} is not the log that this agent wrote, or the agent has decided or "
            "learned without it since; to continue a log, load its agent by "
            "Agent.load(FILE, log=...), or create an agent with the same settings"
        )
    differences = [
        *_differences(first.event.config, new.config, "policy."),
        *_differences(_present(first.event.options), new.options),
        *_differences({"log_contexts": first.event.contexts}, {"log_contexts": new.contexts}),
    ]
    if saved is None and differences:
        raise FairbanditError(
            f"{file.path} is not the log that this agent wrote: {'; '.join(differences)}. To go on "
            "with other settings, begin a new log; Agent.from_log(policy, read_log(OLD)) learns "
            "from the old one"
        )
    return at, lines


def _present(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a log, with the encoder in the form of this version."""
    shape = options["features"]
    features = Encoder(**shape).state() if isinstance(shape, Mapping) else shape
    return {**options, "features": features}


def _name(column: Mapping[str, Any]) -> str:
    return str(column.get("name", (column.get("one"), column.get("other"))))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names each entry in which nested settings differ, with the value in the log and now."""
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        name = f"{prefix}{key}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{name}.")
        elif before != after:
            if key == "columns" and isinstance(before, list) and isinstance(after, list):
                logged, present = ({_name(c): c for c in columns} for columns in (before, after))
                names = [c for c in {**logged, **present} if logged.get(c) != present.get(c)]
                yield f"the encoder was made from another table: {', '.join(names)}"
                continue
            values = ("missing" if value is _MISSING else shown(value) for value in (before, after))
            yield f"{name} is {next(values)} in the log and {next(values)} now"
