"""Reads the decisions in the logs that agents write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    tickets_of,
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
        return file.read(64).replace(b" ", b"").startswith(b'{"kind":"header","schema":')


class _Decision:
    """A decision about a whole pool, or an opening with all its offers."""

    def __init__(self, path: Path, first: Decided | Opened, shadow: bool) -> None:
        self.path, self.first, self.shadow, self.time = path, first, shadow, first.time
        self.labels, self.chances, self.contexts = list[Any](), list[float](), list[Any]()
        self.picks, self.taken, self.slots = list[int](), list[int](), set[int]()
        self.rewards, self.reports = list[LoggedLine](), list[LoggedLine]()  # of other workers

    def add(self, line: LoggedLine) -> None:
        """Adds candidates and picks, or the person who was taken in place of a pick."""
        event = line.event
        if isinstance(event, Decided | Closed):
            self.end = line
        if isinstance(event, Decided | Offered):
            if not self.labels:
                self.time = event.time
            if isinstance(event, Decided):
                picks, chances = [*event.picks], event.probabilities
            else:
                picks, chances = [len(self.labels)] * event.taken, [event.probability]
            self.picks += picks
            self.taken += picks
            self.chances += chances
            self.labels += event.groups
            self.contexts += [] if event.contexts is None else [*event.contexts]
        elif isinstance(event, Taken) and event.instead in self.taken:
            self.slots.add(slot := self.taken.index(event.instead))
            self.taken[slot] = event.candidate
        elif isinstance(event, Rewarded):
            self.rewards.append(line)

    def pool(self) -> Pool | None:
        """Returns the pool with its rewards; None without a pick."""
        if not self.taken:
            return None
        if by_person := bool(self.slots):
            self.chances = [float(place in self.taken) for place in range(len(self.labels))]
        x = np.array(self.contexts, dtype=np.float64) if self.contexts else None
        decided = self.labels, self.taken, self.chances, x, self.first.places is not None
        with of_line(self.end.where):
            line, ticket = self.end.at.line, self.first.ticket
            if time := self.time:
                time = datetime.fromisoformat(time).astimezone(UTC).isoformat(" ", "seconds")
            pool = Pool(str(self.path), line, ticket, *decided, time, by_person)
        for report in self.rewards:
            with of_line(report.where):
                _reward(pool, report.event)
        for report in self.reports:  # the worker itself may have reported the reward, too
            with suppress(ValueError):
                _reward(pool, report.event)
        return pool


def _decisions(paths: Sequence[Path]) -> tuple[list[_Decision], list[Header], Counter[str]]:
    """Returns the decisions and the headers of files, and counts the lines that are left out."""
    decisions, headers, left_out = list[_Decision](), list[Header](), Counter[str]()
    of_ticket, reports = dict[Any, _Decision](), list[LoggedLine]()
    for path in paths:
        begun, n = dict[Any, _Decision](), len(decisions)
        for line in own_lines(path):
            event, ticket = line.event, getattr(line.event, "ticket", None)
            if isinstance(event, Header):
                headers.append(header := event)
            elif isinstance(event, Decided | Opened):
                begun[ticket] = _Decision(path, event, "shadow" in header.options)
            elif ticket not in begun and not isinstance(event, Dropped | Refreshed):
                if not isinstance(event, Taken | Rewarded):
                    left_out[type(event).__name__] += 1
                elif event.ticket // TICKETS != header.worker:
                    reports.append(line)
                else:
                    left_out["Rewarded"] += 1
            if ticket in begun:
                begun[ticket].add(line)
                if isinstance(event, Decided | Closed):
                    decisions.append(begun[ticket])
        of_ticket |= begun
        if still := len(begun) - (len(decisions) - n):
            left_out["openings that are not closed"] += still
    for line in reports:
        decision = of_ticket.get(getattr(line.event, "ticket", None))
        if decision is None:
            left_out["Rewarded"] += 1
        elif isinstance(line.event, Rewarded):
            decision.reports.append(line)
        else:
            decision.add(line)
    for decision in (decision for decision in decisions if decision.shadow):
        slots = sorted(decision.slots)
        decision.picks = [decision.picks[slot] for slot in slots]
        decision.taken = [decision.taken[slot] for slot in slots]
    return decisions, headers, left_out


def read_own(paths: Sequence[Path], name: str, unknown: Sequence[str] = ()) -> Log:
    """Returns the decisions in the files of an agent's log, or in the logs of several workers.

    Observed rounds are left out, since their propensities are unknown. So are rewards of decisions
    that a saved agent had made before it began a file. The propensities of decisions in which a
    person said who was taken are NaN.
    """
    decisions, headers, left_out = _decisions(paths)
    read = [(pool, decision.first) for decision in decisions if (pool := decision.pool())]
    pools = [pool for pool, _ in read]
    if empty := len(decisions) - len(pools):
        left_out["decisions without a pick"] = empty
    if left_out:
        counts = [f"{count:,} of {_LEFT_OUT.get(kind, kind)}" for kind, count in left_out.items()]
        remark(f"{name}: lines that hold no decision to judge are left out: {' and '.join(counts)}")
    contexts, further = None, dict[str, Any](features=(), adaptive=False, draws_models=False)
    with of_line(name):
        shapes = [(of.options["features"], of.options.get("reward")) for of in headers]
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError("its files are of agents with different features or rewards")
        if pools and all(pool.contexts is not None for pool in pools):
            features, reward = shapes[0]
            contexts = np.concatenate([pool.contexts for pool in pools])
            given = Encoder(**features) if isinstance(features, dict) else features
            encoder, names, d = described(given)
            further |= {"features": names or unnamed(d), "encoder": encoder, "reward": reward}
            further["columns"] = encoder.groups if encoder else ()
        further["policies"] = tuple(dict.fromkeys(str(of.config["name"]) for of in headers))
        for header in headers:
            try:
                part = registry.lookup("estimator", header.config["estimator"]["name"])
            except FairbanditError:  # an unknown plugin, which may learn
                further["adaptive"] = True
            else:
                further["adaptive"] |= part.learns
                further["draws_models"] |= part.draws_models
    further["ids"] = np.array([getattr(event, "id", None) for _, event in read], object)
    further["about"] = np.array([getattr(event, "about", None) or {} for _, event in read], object)
    return log_of_pools(pools, name, contexts, unknown=unknown, **further)


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
        for place, label in enumerate(decision.labels if decision.taken else ()):
            old, new = place in decision.picks, place in decision.taken
            rows.append((normal(label), 1, old, new, old and not new, new and not old))
    return pd.DataFrame(rows, columns=columns).groupby("group", as_index=False).sum()


def _reward(pool: Pool, event: Line) -> None:
    if isinstance(event, Rewarded):
        rewards = event.rewards
        if not isinstance(rewards, dict):
            (place,) = pool.order
            rewards = {place: rewards}
        for place, reward in rewards.items():
            pool.reward(place, reward)


def erase(source: Path | str, target: Path | str, tickets: Collection[int | str]) -> int:
    """Copies a log without the decisions of some tickets, or ids, and returns how many these are.

    The copy has new hashes. Its first line holds the number of erased decisions and the last hash
    of the old log. It serves evaluations and audits, but cannot be replayed. An existing file is
    replaced.

    Raises:
        FairbanditError: the file is not a log, is damaged, or cannot be written.
    """
    first, *lines = own_lines(Path(source))
    decided = [line.event for line in lines if isinstance(line.event, Decided | Opened)]
    erased = {event.ticket for event in decided if not tickets_of(event).isdisjoint(tickets)}
    last = [first, *lines][-1].at.sha256
    kept = [replace(first.event, erased=len(erased), before=last)]
    kept += [line.event for line in lines if getattr(line.event, "ticket", None) not in erased]
    at = Position()
    with of_file(Path(target), "cannot write"), written_aside(Path(target)) as file:
        for event in kept:
            data, at = encoded(replace(event, time=None, previous=None), at, event.time)
            file.write(data)
    return len(erased)
