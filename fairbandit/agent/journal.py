"""The log of an agent: a line for each call, which takes effect once the line is whole."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from typing import Any

from torch import Tensor

from fairbandit.agent.decisions import Decision
from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import Line, LogFile, Position, of_line, own_lines, text
from fairbandit.logs.own import label
from fairbandit.logs.records import SCHEMA
from fairbandit.selectors import Selection
from fairbandit.version import VERSION

Entry = Mapping[str, Any]
"""What a line says, but for its time."""


class Checker:
    """Stands for a log's file while a line is played again: what is done must be the same."""

    def __init__(self, line: Line) -> None:
        self._line, self.size = line, line.at.end

    def line(self, entry: Entry, at: Position) -> tuple[bytes, Position]:
        """Compares an entry with the line; raises an error if they differ."""
        for key, value in entry.items():
            now, then = text(value), text(self._line.record.get(key))
            if now != then:
                raise FairbanditError(f"played again, {key} is {now}, and {then} is written")
        return b"", self._line.at

    def append(self, data: bytes, end: int) -> None:
        """Writes nothing."""


def rewarded(ticket: int, rewards: Mapping[int, float], places: Sequence[int]) -> Entry:
    """What a log says of rewards, by place; of one pick alone its place is left out."""
    if len(places) == 1:
        return {"kind": "reward", "ticket": ticket, "reward": rewards[places[0]]}
    named = {"candidate": list(rewards), "reward": list(rewards.values())}
    return {"kind": "reward", "ticket": ticket, **named}


def decided(
    decision: Decision,
    contexts: Tensor,
    groups: Tensor,
    labels: Sequence[Hashable],
    selection: Selection,
) -> Entry:
    """What a log says of a decision, of one replica and one round."""
    [[x]], [[codes]], [[chances]] = (
        part.tolist() for part in (contexts, groups, selection.inclusion)
    )
    return {
        "kind": "decision",
        "ticket": decision.ticket,
        "contexts": x,
        "groups": [labels[code] for code in codes],
        "probabilities": chances,
        "picks": list(decision.picks),
    }


def attach(agent: Any, path: str | PathLike[str], *, contexts: bool, fsync: bool) -> None:
    """Has an agent, new or loaded, append to a log, once it has done again what it lacks of it."""
    file, begun = LogFile(path, contexts, fsync), agent._now.log
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
        at = begun or first.at
        if begun is None:
            keys = ("config", "options", "contexts", "agent")
            same = all(text(header[key]) == text(first.record.get(key)) for key in keys)
        else:  # what is looked for is the end of one of its lines, and later ones remain
            same = begun == first.at or begun in (line.at for line in lines)
        if not same:
            raise FairbanditError(
                f"{path} is not the log that this agent wrote, or the agent has decided or learned "
                "without it since; an agent goes on with a log that it began, by "
                "Agent.load(FILE, log=...) or with the same settings"
            )
        for line in lines:
            again(agent, line)
            at = line.at
        file.begin(at.end)
    agent._now = agent._now._replace(log=at)
    agent._journal = file


def again(agent: Any, line: Line) -> None:
    """Has an agent do what a line of a log says; raises an error if it does something else."""
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
            elif "contexts" not in record:
                raise FairbanditError("contexts are left out, so that it cannot be played again")
            elif record["kind"] == "decision":
                labels = list(map(label, record["groups"]))
                agent.act(record["contexts"], labels, len(record["picks"]))
            else:
                groups = [list(map(label, pool)) for pool in record["groups"]]
                agent.observe(record["contexts"], groups, record["actions"], record["rewards"])
    finally:
        agent._journal = before
