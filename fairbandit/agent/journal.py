"""The log of an agent: a line for each call, which takes effect once the line is whole."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from fairbandit.agent.decisions import Decision
from fairbandit.errors import FairbanditError
from fairbandit.logs import SCHEMA, LogFile, Position, chain, own_lines
from fairbandit.logs.own import label
from fairbandit.selectors import Selection
from fairbandit.version import VERSION

Entry = Mapping[str, Any]
"""What a line says, but for its time."""


class Checker:
    """Stands for a log's file while a line is played again: what is done must be the same."""

    def __init__(self, line: chain.Line) -> None:
        self._line, self.size = line, line.at.end

    def line(self, entry: Entry, at: Position) -> tuple[bytes, Position]:
        """Compares an entry with the line.

        Raises:
            FairbanditError: they differ.
        """
        for key, value in entry.items():
            now, then = chain.text(value), chain.text(self._line.record.get(key))
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
    return {
        "kind": "decision",
        "ticket": decision.ticket,
        "contexts": contexts[0, 0].tolist(),
        "groups": [labels[group] for group in groups[0, 0].tolist()],
        "probabilities": selection.probabilities[0, 0].tolist(),
        "picks": list(decision.picks),
    }


def attach(agent: Any, path: str | PathLike[str], *, contexts: bool, fsync: bool) -> None:
    """Has an agent append to a log, after it has done again what the log says it did since.

    Args:
        agent: new, or loaded.
        path, contexts, fsync: see `LogFile`.

    Raises:
        FairbanditError: the log cannot be opened, is that of another agent, or is damaged.
    """
    file = LogFile(path, contexts, fsync)
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
    if next(chain.lines(file.path), None) is None:  # a new file, or a header that was cut off
        data, at = file.line(header, Position())
        file.append(data, 0)
    else:
        at = _caught_up(agent, file.path, header)
    agent._now = agent._now._replace(log=at)
    agent._journal = file


def _caught_up(agent: Any, path: Path, header: Mapping[str, Any]) -> Position:
    """Has an agent do again what it lacks of a log; returns the log's end."""
    begun, lines = agent._now.log, own_lines(path)
    first = next(lines)
    if begun is None:
        keys = ("config", "options", "contexts", "agent")
        found = all(chain.text(header[key]) == chain.text(first.record.get(key)) for key in keys)
    else:  # what is looked for is the end of one of its lines, and later ones remain
        found = begun == first.at or begun in (line.at for line in lines)
    if not found:
        raise FairbanditError(
            f"{path} is not the log that this agent wrote; an agent goes on with a log that it "
            "began, by Agent.load(FILE, log=...) or with the same settings"
        )
    at = begun or first.at
    for line in lines:
        again(agent, line)
        at = line.at
    return at


def again(agent: Any, line: chain.Line) -> None:
    """Has an agent do what a line of a log says, and checks that it does the same.

    Raises:
        FairbanditError: it does something else, or the line does not say enough.
    """
    record = line.record
    before, agent._journal = agent._journal, Checker(line)
    try:
        with chain.of_line(line.where):
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
