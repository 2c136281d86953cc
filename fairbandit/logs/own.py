"""Reads the decisions in the logs that agents write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.files.files import of_file, open_regular, written_aside
from fairbandit.logs.chain import LoggedLine, Position, encoded, of_line, own_lines
from fairbandit.logs.events import (
    TICKETS,
    Closed,
    Decided,
    Dropped,
    Header,
    Line,
    Offered,
    Opened,
    Refreshed,
    Rewarded,
    Taken,
)
from fairbandit.logs.log import Log
from fairbandit.logs.schema import described, unnamed
from fairbandit.logs.tables import Pool, log_of_pools
from fairbandit.notices import remark
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import normal

if TYPE_CHECKING:
    import pandas as pd

_LEFT_OUT = {"Observed": "observed rounds", "Rewarded": "rewards of earlier decisions"}


def is_own(path: Path) -> bool:
    """Whether a file begins like the log of an agent."""
    with open_regular(path) as file:
        begin = file.read(64).replace(b" ", b"")
        return begin.startswith(b'{"kind":"header","schema":')


class _People(NamedTuple):
    """The candidates of a decision: labels, probabilities, contexts, and places of the picks."""

    labels: list[Any]
    chances: list[float]
    contexts: list[Any]
    picks: list[int]
    taken: list[int]  # by a person, or the picks
    by_person: bool  # whether a person said who was taken


class _Decision(NamedTuple):
    """The lines of a decision: whole pools, or openings with all offers."""

    path: Path
    shadow: bool
    lines: list[LoggedLine]
    reports: list[LoggedLine]  # of other workers

    def people(self) -> _People:
        """Returns the candidates, and who of them was picked and taken."""
        labels, chances, x = list[Any](), list[float](), list[Any]()
        picks, slots = list[int](), set[int]()
        for event in [line.event for line in self.lines]:
            if isinstance(event, Decided):
                picks += event.picks
                chances += event.probabilities
            elif isinstance(event, Offered):
                picks += [len(labels)] * event.taken
                chances.append(event.probability)
            if isinstance(event, Decided | Offered):
                labels += event.groups
                x += [] if event.contexts is None else [*event.contexts]
        taken = [*picks]
        for line in [*self.lines, *self.reports]:
            if isinstance(event := line.event, Taken) and event.instead in taken:
                slots.add(slot := taken.index(event.instead))
                taken[slot] = event.candidate
        if self.shadow:
            picks, taken = ([places[slot] for slot in sorted(slots)] for places in (picks, taken))
        return _People(labels, chances, x, picks, taken, bool(slots))


def _decisions(paths: Sequence[Path]) -> tuple[list[_Decision], list[Header], Counter[str]]:
    """Returns the decisions and the headers of files, and counts the lines that are left out."""
    decisions, headers, left_out = list[_Decision](), list[Header](), Counter[str]()
    of_ticket, reports = dict[int, _Decision](), list[LoggedLine]()
    for path in paths:
        begun, n = dict[Any, _Decision](), len(decisions)
        for line in own_lines(path):
            event, header = line.event, headers[-1:]
            ticket = getattr(event, "ticket", None)
            if isinstance(event, Header):
                headers.append(event)
            elif isinstance(event, Decided | Opened):
                begun[ticket] = _Decision(path, "shadow" in header[0].options, [], [])
            elif ticket not in begun and isinstance(event, Taken | Rewarded):
                if event.ticket // TICKETS != header[0].worker:
                    reports.append(line)
                else:
                    left_out["Rewarded"] += 1
            elif ticket not in begun and not isinstance(event, Dropped | Refreshed):
                left_out[type(event).__name__] += 1
            if ticket in begun:
                begun[ticket].lines.append(line)
                if isinstance(event, Decided | Closed):
                    decisions.append(begun[ticket])
        of_ticket |= begun
        if still := len(begun) - (len(decisions) - n):
            left_out["openings that are not closed"] += still
    for line in reports:
        if (decision := of_ticket.get(getattr(line.event, "ticket", 0))) is None:
            left_out["Rewarded"] += 1
        else:
            decision.reports.append(line)
    return decisions, headers, left_out


def read_own(paths: Sequence[Path], name: str, unknown: Sequence[str] = ()) -> Log:
    """Returns the decisions in the files of an agent's log, or in the logs of several workers.

    Observed rounds are left out, since their propensities are unknown. So are rewards of decisions
    that a saved agent had made before it began a file. The propensities of decisions in which a
    person said who was taken are NaN.
    """
    decisions, headers, left_out = _decisions(paths)
    read = [(pool, d.lines[0].event) for d in decisions if (pool := _pool(d)) is not None]
    pools = [pool for pool, _ in read]
    if empty := len(decisions) - len(pools):
        left_out["decisions without a pick"] = empty
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
    further["ids"] = np.array([getattr(event, "id", None) for _, event in read], object)
    further["about"] = np.array([getattr(event, "about", None) or {} for _, event in read], object)
    further |= {"adaptive": adaptive, "draws_models": draws, "unknown": unknown}
    return log_of_pools(pools, name, contexts, **further)


def _pool(decision: _Decision) -> Pool | None:
    labels, chances, x, _, taken, by_person = decision.people()
    if not taken:
        return None
    events = [line.event for line in decision.lines]
    if by_person:
        chances = [float(place in taken) for place in range(len(labels))]
    first, at = events[0], next(n for n in decision.lines if isinstance(n.event, Decided | Closed))
    assert isinstance(first, Decided | Opened)
    contexts = np.array(x, dtype=np.float64) if x else None
    time = next(event.time for event in events if isinstance(event, Decided | Offered))
    with of_line(at.where):
        decided = labels, taken, chances, contexts, first.places is not None, _utc(time), by_person
        pool = Pool(str(decision.path), at.at.line, first.ticket, *decided)
    for line in decision.lines:
        with of_line(line.where):
            _reward(pool, line.event)
    for line in decision.reports:  # the worker itself may have reported the reward, too
        with suppress(ValueError):
            _reward(pool, line.event)
    return pool


def overrides(*paths: Path | str) -> pd.DataFrame:
    """Compares the recommendations of an agent with the people who were taken, by group.

    Args:
        paths: the log of an agent, or of each worker.

    Returns:
        A row a group: `group`; the number of `candidates`; how many of them were `recommended` and
        `taken`; and how many were `passed_over`, so that another person was taken instead, or
        `preferred` to a recommended one. Decisions of an agent in the shadow count once somebody
        is taken.
    """
    import pandas as pd

    columns = "group", "candidates", "recommended", "taken", "passed_over", "preferred"
    rows = list[tuple[str, int, int, int, int, int]]()
    for decision in _decisions([Path(path) for path in paths])[0]:
        people = decision.people()
        for place, label in enumerate(people.labels if people.taken else ()):
            old, new = place in people.picks, place in people.taken
            rows.append((normal(label), 1, old, new, old and not new, new and not old))
    return pd.DataFrame(rows, columns=columns).groupby("group", as_index=False).sum()


def _utc(time: str | None) -> str | None:
    """Returns a time of ISO 8601 in UTC; raises a ValueError for any other text."""
    return time and datetime.fromisoformat(time).astimezone(UTC).isoformat(" ", "seconds")


def _reward(pool: Pool, event: Line) -> None:
    if isinstance(event, Rewarded):
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
