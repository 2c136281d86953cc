"""An agent's log: one line for each call, which takes effect once its line is complete."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from fairbandit.agent.blocks import LabelledPools
from fairbandit.agent.decisions import Decision
from fairbandit.agent.tickets import Waiting
from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import SUMS
from fairbandit.logs.chain import Line, LogFile, Position, of_line, own_lines, text
from fairbandit.logs.own import label, picks_of
from fairbandit.logs.records import SCHEMA
from fairbandit.notices import remark
from fairbandit.selectors import Selection
from fairbandit.version import VERSION

Entry = Mapping[str, Any]
"""The content of a line, except its time."""


class Checker:
    """Replaces the log's file while a line is replayed; compares the new entry with the line."""

    def __init__(self, line: Line) -> None:
        self._line, self.size = line, line.at.end

    def line(self, entry: Entry, at: Position) -> tuple[bytes, Position]:
        """Compares an entry with the line; raises an error if they differ.

        Probabilities may differ by rounding: pools that were decided together are decided one by
        one in the replay.
        """
        for key, value in entry.items():
            logged_value = self._line.record.get(key)
            replayed, logged = text(value), text(logged_value)
            if replayed != logged and not (key == "probabilities" and _near(value, logged_value)):
                raise FairbanditError(f"{key} is {replayed} in the replay, and {logged} in the log")
        return b"", self._line.at

    def append(self, data: bytes, end: int) -> None:
        """Writes nothing."""


def _near(replayed: Sequence[float], logged: Any) -> bool:
    """Whether probabilities are equal up to rounding."""
    if not isinstance(logged, list) or len(logged) != len(replayed):
        return False
    return all(abs(a - b) <= SUMS for a, b in zip(replayed, logged, strict=True))


def reward_entry(ticket: int, rewards: Mapping[int, float], picks: Waiting) -> Entry:
    """Returns the log's entry for rewards by place; the place of a single pick is left out."""
    if picks.round and len(picks.places) == 1:
        return {"kind": "reward", "ticket": ticket, "reward": rewards[picks.places[0]]}
    columns = {"candidate": list(rewards), "reward": list(rewards.values())}
    return {"kind": "reward", "ticket": ticket, **columns}


def decision_entries(
    decisions: Sequence[Decision], pools: LabelledPools, selection: Selection
) -> list[Entry]:
    """Returns the log's entries for the decisions about N pools."""
    [contexts], [chances] = pools.contexts.tolist(), selection.inclusion.tolist()
    m = selection.actions.shape[2]
    return [
        {
            "kind": "decision",
            "ticket": decision.ticket,
            "contexts": x[: len(labels)],
            "groups": labels,
            "probabilities": shares[: len(labels)],
            "picks": list(decision.picks),
            **({"places": m} if round(math.fsum(shares) - m, 6) else {}),  # some may stay open
        }
        for decision, x, labels, shares in zip(
            decisions, contexts, pools.labels, chances, strict=True
        )
    ]


def attach(agent: Any, path: str | PathLike[str], *, contexts: bool, fsync: bool) -> None:
    """Makes a new or loaded agent append to a log, after a replay of the lines that it lacks."""
    file, saved_at = LogFile(path, contexts, fsync), agent._now.log
    header = {
        "kind": "header",
        "schema": SCHEMA,
        "version": VERSION,
        "config": agent._policy.describe(),
        "options": agent._state()["options"],
        "rounds": agent.rounds,
        "contexts": contexts,
        "agent": agent.digest,
    }
    lines = own_lines(file.path, new=True)
    first = next(lines, None)
    if first is None:  # a new file, or its header was cut off
        data, at = file.line(header, Position())
        file.begin(0)
        file.append(data, 0)
    else:
        at = saved_at or first.at
        if saved_at is None:
            keys = ("config", "options", "contexts", "agent")
            same = all(text(header[key]) == text(first.record.get(key)) for key in keys)
        else:  # the search ends at the line of the saved state; later lines are replayed below
            same = saved_at == first.at or saved_at in (line.at for line in lines)
        if not same:
            raise FairbanditError(
                f"{path} is not the log that this agent wrote, or the agent has decided or learned "
                "without it since; to continue a log, load its agent by "
                "Agent.load(FILE, log=...), or create an agent with the same settings"
            )
        before = at.line
        for line in lines:
            replay_line(agent, line)
            at = line.at
        if repeated := at.line - before:
            remark(f"{file.path}: the agent repeats {repeated:,} lines, and goes on after them")
        file.begin(at.end)
    agent._now = agent._now._replace(log=at)
    agent._journal = file


def replay_line(agent: Any, line: Line) -> None:
    """Repeats the call that a line of a log records; raises an error if the result differs."""
    record = line.record
    before, agent._journal = agent._journal, Checker(line)
    try:
        with of_line(line.where):
            if record["kind"] == "reward":
                reward = record["reward"]
                if "candidate" in record:
                    reward = dict(zip(record["candidate"], reward, strict=True))
                agent.update(reward, record["ticket"])
            elif record["kind"] == "drop":
                agent.drop(record["ticket"])
            elif record["kind"] == "opened":
                law = {key: record[key] for key in ("places", "count", "candidates")}
                agent.round(record["name"], **law)
            elif record["kind"] == "closed":
                agent._close(record["ticket"])
            elif "contexts" not in record:
                raise FairbanditError("contexts are left out, so the line cannot be replayed")
            elif record["kind"] == "offer":
                [x], [group] = record["contexts"], map(label, record["groups"])
                agent._offer(record["ticket"], x, group)
            elif record["kind"] == "decision":
                labels = list(map(label, record["groups"]))
                agent.act(record["contexts"], labels, picks_of(record))
            else:
                groups = [list(map(label, pool)) for pool in record["groups"]]
                agent.observe(record["contexts"], groups, record["actions"], record["rewards"])
    finally:
        agent._journal = before
