"""Reads the decisions in the logs that agents write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.files.files import of_file, open_regular, written_aside
from fairbandit.logs.chain import LoggedLine, Position, encoded, of_line, own_lines
from fairbandit.logs.events import (
    Closed,
    Decided,
    Dropped,
    Header,
    Line,
    Offered,
    Opened,
    Rewarded,
)
from fairbandit.logs.log import Log
from fairbandit.logs.schema import described, unnamed
from fairbandit.logs.tables import Pool, log_of_pools
from fairbandit.notices import remark
from fairbandit.tables.encoder import Encoder

_LEFT_OUT = {"Observed": "observed rounds", "Rewarded": "rewards of earlier decisions"}


def is_own(path: Path) -> bool:
    """Whether a file begins like the log of an agent."""
    with open_regular(path) as file:
        begin = file.read(64).replace(b" ", b"")
        return begin.startswith(b'{"kind":"header","schema":')


def read_own(paths: Sequence[Path], name: str, unknown: Sequence[str] = ()) -> Log:
    """Returns the decisions in the files of an agent's log.

    Observed rounds are left out, since their propensities are unknown. So are rewards of decisions
    that a saved agent had made before it began a file.
    """
    pools, headers, left_out = list[Pool](), list[Header](), Counter[str]()
    for path in paths:
        tickets, begun = dict[Any, Pool](), dict[Any, list[Any]]()
        for line in own_lines(path):
            event = line.event
            with of_line(line.where):
                ticket = getattr(event, "ticket", None)
                if isinstance(event, Header):
                    headers.append(event)
                elif isinstance(event, Decided | Opened):
                    if ticket in tickets or ticket in begun:
                        raise ValueError(f"ticket {ticket} recurs")
                    begun[ticket] = [event]
                elif ticket in begun:
                    begun[ticket].append(event)
                elif isinstance(event, Rewarded) and (ticket in tickets or not headers[-1].agent):
                    _reward(tickets[ticket], event)
                elif not isinstance(event, Dropped):
                    left_out[type(event).__name__] += 1
                if isinstance(event, Decided | Closed) and ticket in begun:
                    if (pool := _pool(path, line, begun.pop(ticket))) is None:
                        left_out["decisions without a pick"] += 1
                    else:
                        tickets[ticket] = pool
        left_out.update({"openings that are not closed": len(begun)} if begun else {})
        pools += tickets.values()
    if left_out:
        counts = [f"{count:,} of {_LEFT_OUT.get(kind, kind)}" for kind, count in left_out.items()]
        remark(f"{name}: lines that hold no decision to judge are left out: {' and '.join(counts)}")
    contexts, further = None, dict[str, Any](features=())
    adaptive = draws = False
    with of_line(name):
        options = [header.options for header in headers]
        shape, reward = options[0]["features"], options[0].get("reward")
        if any((own["features"], own.get("reward")) != (shape, reward) for own in options):
            raise ValueError("its files are of agents with different features or rewards")
        if pools and all(pool.contexts is not None for pool in pools):
            contexts = np.concatenate([pool.contexts for pool in pools])
            encoder, names, d = described(Encoder(**shape) if isinstance(shape, dict) else shape)
            if contexts.shape[1:] != (d,):
                raise ValueError(f"expected contexts of {d} features, got {contexts.shape[1:]}")
            further = {"features": names or unnamed(d), "encoder": encoder, "reward": reward}
            further["columns"] = encoder.groups if encoder else ()
        further["policies"] = tuple(dict.fromkeys(str(h.config["name"]) for h in headers))
        for estimator in [header.config["estimator"]["name"] for header in headers]:
            try:
                part = registry.lookup("estimator", estimator)
            except FairbanditError:  # an unknown plugin, which may learn
                adaptive = True
            else:
                adaptive, draws = adaptive or part.learns, draws or part.draws_models
    further |= {"adaptive": adaptive, "draws_models": draws, "unknown": unknown}
    return log_of_pools(pools, name, contexts, **further)


def _pool(path: Path, line: LoggedLine, events: Sequence[Line]) -> Pool | None:
    """Returns the decision of all events up to a line; None without a pick."""
    labels, picks, chances, x = list[Any](), list[int](), list[float](), list[Any]()
    for event in events:
        if isinstance(event, Decided):
            picks += event.picks
            chances += event.probabilities
        elif isinstance(event, Offered):
            picks += [len(labels)] * event.taken
            chances.append(event.probability)
        if isinstance(event, Decided | Offered):
            labels += event.groups
            x += [] if event.contexts is None else [*event.contexts]
    if not picks:
        return None
    first = events[0]
    assert isinstance(first, Decided | Opened)
    contexts = np.array(x, dtype=np.float64) if x else None
    time = next(event.time for event in events if isinstance(event, Decided | Offered))
    decided = labels, picks, chances, contexts, first.places is not None, _utc(time)
    pool = Pool(str(path), line.at.line, first.ticket, *decided)
    for event in events:
        if isinstance(event, Rewarded):
            _reward(pool, event)
    return pool


def _utc(time: str | None) -> str | None:
    """Returns a time of ISO 8601 in UTC; raises a ValueError for any other text."""
    return time and datetime.fromisoformat(time).astimezone(UTC).isoformat(" ", "seconds")


def _reward(pool: Pool, event: Rewarded) -> None:
    rewards = event.rewards
    if not isinstance(rewards, dict):
        (place,) = pool.order
        rewards = {place: rewards}
    for place, reward in rewards.items():
        pool.reward(place, reward)


def erase(source: Path | str, target: Path | str, tickets: Collection[int]) -> int:
    """Copies a log without the decisions of some tickets, and returns how many are left out.

    The copy has new hashes. Its first line holds the number of erased decisions and the last hash
    of the old log. It serves evaluations and audits, but cannot be replayed. An existing file is
    replaced.

    Raises:
        FairbanditError: the file is not a log, is damaged, or cannot be written.
    """
    first, *lines = own_lines(Path(source))
    decided = {line.event.ticket for line in lines if isinstance(line.event, Decided | Opened)}
    erased = decided & {*tickets}
    last = [first, *lines][-1].at.sha256
    kept = [replace(first.event, erased=len(erased), before=last)]
    kept += [line.event for line in lines if getattr(line.event, "ticket", None) not in erased]
    at = Position()
    with of_file(Path(target), "cannot write"), written_aside(Path(target)) as file:
        for event in kept:
            data, at = encoded(replace(event, time=None, previous=None), at, event.time)
            file.write(data)
    return len(erased)
