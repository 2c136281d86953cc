"""Reads the decisions in the logs that agents write."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.files.files import of_file, open_regular, written_aside
from fairbandit.logs import events as logged
from fairbandit.logs.chain import LoggedLine, Position, chained, of_line, own_lines
from fairbandit.logs.events import TICKETS
from fairbandit.logs.log import Log
from fairbandit.logs.schema import described, unnamed
from fairbandit.logs.tables import SINGLE, Pool, log_of_pools
from fairbandit.notices import remark
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import normal

if TYPE_CHECKING:
    import pandas as pd

_COMPLETE = logged.Decided, logged.Closed
_NO_DECISIONS = logged.Header, logged.Dropped, logged.Refreshed
_REPORTS = logged.Taken, logged.Rewarded
_EARLIER = "rewards of earlier decisions"
_LEFT_OUT = {**dict.fromkeys(_REPORTS, _EARLIER), logged.Observed: "observed rounds"}

_SHORT = "{:,} decisions left places open by chance, so that the number of picks is random"
_BY_PERSON = "in {:,} decisions a person said who was taken, so that the probability is unknown"


def is_own(path: Path) -> bool:
    """Whether a file begins like the log of an agent."""
    with open_regular(path) as file:
        return file.read(64).replace(b" ", b"").startswith(b'{"kind":"header","schema":')


class _Decision:
    """The lines of a decision about a whole pool, or of an opening with all its offers.

    `taken` holds the place of the candidate who was taken for each of the `picks`. A decision of an
    agent in the shadow has only the picks for which a person took somebody.
    """

    def __init__(self, path: Path, header: logged.Header, lines: Sequence[LoggedLine]) -> None:
        self.path, self.events = path, [line.event for line in lines]
        self.line = next(line.at.line for line in lines if isinstance(line.event, _COMPLETE))
        parts = [e for e in self.events if isinstance(e, logged.Decided | logged.Offered)]
        self.labels = [label for part in parts for label in part.groups]
        self.contexts = [x for part in parts if part.contexts is not None for x in part.contexts]
        self.time = parts[0].time if parts else None
        self.picks, self.chances = list[int](), list[float]()
        for part in parts:
            if isinstance(part, logged.Decided):
                self.picks, self.chances = [*part.picks], part.probabilities
            else:
                self.picks += [len(self.chances)] * part.taken
                self.chances.append(part.probability)
        self.taken, slots = [*self.picks], set[int]()
        for event in self.events:
            if isinstance(event, logged.Taken) and event.instead in self.taken:
                slots.add(slot := self.taken.index(event.instead))
                self.taken[slot] = event.candidate
        if "shadow" in header.options:
            self.picks = [self.picks[slot] for slot in sorted(slots)]
            self.taken = [self.taken[slot] for slot in sorted(slots)]
        self.by_person = bool(slots)

    def pool(self) -> Pool:
        """Returns the pool with the rewards of the candidates who were taken."""
        first, rewards, chances, refused = self.events[0], dict[int, float](), self.chances, ""
        assert isinstance(first, logged.Decided | logged.Opened)
        for event in self.events:
            if isinstance(event, logged.Rewarded):  # workers may report a reward again
                of = event.rewards
                rewards = (of if isinstance(of, dict) else dict.fromkeys(self.taken, of)) | rewards
        if self.by_person:
            refused = _BY_PERSON
        elif first.places is not None and abs(math.fsum(chances) - len(self.taken)) > SINGLE:
            refused = _SHORT
        if refused:
            chances = [float(place in self.taken) for place in range(len(self.labels))]
        picks = {place: rewards.get(place, math.nan) for place in self.taken}
        x = np.array(self.contexts) if self.contexts else None
        decided = self.labels, chances, picks, x, self.time, refused
        return Pool(str(self.path), self.line, first.ticket, *decided)


def _decisions(paths: Sequence[Path]) -> tuple[list[_Decision], list[logged.Header], Counter[str]]:
    """Returns the decisions and the headers of files, and counts the lines that are left out."""
    headers, left_out = list[logged.Header](), Counter[str]()
    complete = list[tuple[Path, logged.Header, list[LoggedLine]]]()
    of_ticket, reports = dict[int, list[LoggedLine]](), list[tuple[int, LoggedLine]]()
    for path in paths:
        of_file, before = dict[int, list[LoggedLine]](), len(complete)
        for line in own_lines(path):
            event, kind, ticket = line.event, type(line.event), getattr(line.event, "ticket", 0)
            if isinstance(event, logged.Header):
                headers.append(header := event)
            elif isinstance(event, logged.Decided | logged.Opened):
                of_file[ticket] = []
            if ticket in of_file:
                of_file[ticket].append(line)
                if kind in _COMPLETE:
                    complete.append((path, header, of_file[ticket]))
            elif kind in _REPORTS and ticket // TICKETS != header.worker:
                reports.append((ticket, line))
            elif kind not in _NO_DECISIONS:
                left_out[_LEFT_OUT.get(kind, kind.__name__)] += 1
        of_ticket |= of_file
        if still_open := len(of_file) - (len(complete) - before):
            left_out["openings that are not closed"] += still_open
    for ticket, line in reports:  # these came to workers that did not decide
        if ticket in of_ticket:
            of_ticket[ticket].append(line)
        else:
            left_out[_EARLIER] += 1
    return [_Decision(*lines) for lines in complete], headers, left_out


def read_own(paths: Sequence[Path], name: str, unknown: Sequence[str] = ()) -> Log:
    """Returns the decisions in the files of an agent's log, or in the logs of several workers."""
    decisions, headers, left_out = _decisions(paths)
    judged = [decision for decision in decisions if decision.taken]
    if empty := len(decisions) - len(judged):
        left_out["decisions without a pick"] = empty
    if left_out:
        counts = [f"{count:,} of {kind}" for kind, count in left_out.items()]
        remark(f"{name}: lines that hold no decision to judge are left out: {' and '.join(counts)}")
    pools, events = [decision.pool() for decision in judged], [of.events[0] for of in judged]
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
    further["ids"] = np.array([getattr(event, "id", None) for event in events], object)
    further["about"] = np.array([getattr(event, "about", None) or {} for event in events], object)
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


def erase(source: Path | str, target: Path | str, tickets: Collection[int | str]) -> int:
    """Copies a log without the decisions of some tickets, or ids, and returns how many these are.

    The copy has new hashes. Its first line holds the number of erased decisions and the last hash
    of the old log. It serves evaluations and audits, but cannot be replayed. An existing file is
    replaced.

    Raises:
        FairbanditError: the file is not a log, is damaged, or cannot be written.
    """
    first, *lines = own_lines(Path(source))
    decided = [
        line.event for line in lines if isinstance(line.event, logged.Decided | logged.Opened)
    ]
    erased = {event.ticket for event in decided if not logged.tickets_of(event).isdisjoint(tickets)}
    last = [first, *lines][-1].at.sha256
    kept = [replace(first.event, erased=len(erased), before=last)]
    kept += [line.event for line in lines if getattr(line.event, "ticket", None) not in erased]
    at = Position()
    with of_file(Path(target), "cannot write"), written_aside(Path(target)) as file:
        for event in kept:
            body = logged.body_of(replace(event, time=None, previous=None))
            data, at = chained(body, at, event.time)
            file.write(data)
    return len(erased)
