"""The log of an agent: a line for each call, written before the call takes effect."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from fairbandit.agent.decisions import Decision
from fairbandit.errors import FairbanditError
from fairbandit.logs import SCHEMA, LogFile, Position, chain, own_lines
from fairbandit.logs.labels import read, written
from fairbandit.logs.writer import now
from fairbandit.selectors import Selection
from fairbandit.version import VERSION

Entry = Mapping[str, Any]
"""What a line says, but for its time."""


class Journal(LogFile):
    """The log to which an agent appends what it does.

    Args:
        path: of the log, or a folder for a new one.
        contexts: whether decisions are written with their contexts.
        fsync: wait for the disk at each line.
    """

    def __init__(self, path: str | PathLike[str], contexts: bool, fsync: bool) -> None:
        super().__init__(path, fsync)
        self.contexts = contexts

    def line(self, entry: Entry, at: Position) -> tuple[bytes, Position]:
        """The line that follows a position, and the position after it."""
        entry = {k: v for k, v in entry.items() if self.contexts or k != "contexts"}
        data, digest = chain.encoded({**entry, "time": now()}, at.sha256)
        return data, Position(at.line + 1, digest, at.end + len(data))


class Checker:
    """Stands for a journal while a line of a log is played again: what is done must be the same."""

    def __init__(self, path: Path, line: chain.Line) -> None:
        self._path, self._line, self.size = path, line, line.end

    def line(self, entry: Entry, at: Position) -> tuple[bytes, Position]:
        """Compares an entry with the line.

        Raises:
            FairbanditError: they differ.
        """
        number, written = self._line.number, self._line.record
        for key, value in entry.items():
            if json.dumps(value) != json.dumps(written.get(key)):
                raise FairbanditError(
                    f"{self._path}, line {number}: played again, {key} is {json.dumps(value)}, and "
                    f"{json.dumps(written.get(key))} is written"
                )
        return b"", Position(number, self._line.sha256, self._line.end)

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
        "groups": [written(labels[group]) for group in groups[0, 0].tolist()],
        "probabilities": selection.probabilities[0, 0].tolist(),
        "picks": list(decision.picks),
    }


def header(agent: Any, contexts: bool, digest: str | None) -> dict[str, Any]:
    """The first line of an agent's log; the digest is that of the file it was loaded from."""
    return {
        "kind": "header",
        "schema": SCHEMA,
        "version": VERSION,
        "config": agent._policy.describe(),
        "options": agent._state()["options"],
        "rounds": agent.rounds,
        "contexts": contexts,
        "agent": digest,
    }


def attach(
    agent: Any,
    path: str | PathLike[str],
    *,
    contexts: bool,
    fsync: bool,
    begun: Position | None = None,
    digest: str | None = None,
) -> None:
    """Has an agent append to a log, after it has taken in what the log says it did since.

    Args:
        agent: new, or loaded.
        path, contexts, fsync: see `Journal`.
        begun: where the log ended when the agent was saved.
        digest: of the file it was loaded from.

    Raises:
        FairbanditError: the log cannot be opened, is that of another agent, or is damaged.
    """
    journal = Journal(path, contexts, fsync)
    first = header(agent, contexts, digest)
    if next(chain.lines(journal.path), None) is None:  # a new file, or a header that was cut off
        data, position = journal.line(first, Position())
        journal.append(data, 0)
    else:
        position = _catch_up(agent, journal.path, first, begun)
    agent._now = agent._now._replace(log=position)
    agent._journal = journal


def _catch_up(agent: Any, path: Path, first: Mapping[str, Any], begun: Position | None) -> Position:
    """Plays what a log has and an agent lacks; returns where the log ends."""
    lines = own_lines(path)
    line = next(lines)
    if begun is None:
        keys = ("config", "options", "contexts", "agent")
        if any(json.dumps(first[key]) != json.dumps(line.record.get(key)) for key in keys):
            raise FairbanditError(
                f"{path} is the log of another agent, or of other settings; an agent goes on with "
                "a log that it began, with Agent.load(FILE, log=...) or the same settings"
            )
    else:
        while line.number < begun.line:
            line = next(lines, line._replace(number=begun.line, sha256=""))
        if line.sha256 != begun.sha256:
            raise FairbanditError(
                f"{path} is not the log that the saved agent wrote: its line {begun.line} is "
                "missing or another one"
            )
    for line in lines:
        again(agent, path, line)
    return Position(line.number, line.sha256, line.end)


def again(agent: Any, path: Path, line: chain.Line) -> None:
    """Has an agent do what a line of a log says, and checks that it does the same.

    Raises:
        FairbanditError: it does something else, or the line does not say enough.
    """
    record = line.record
    if record["kind"] in ("decision", "observed") and "contexts" not in record:
        raise FairbanditError(
            f"{path}, line {line.number}: contexts are left out, so that it cannot be played again"
        )
    before, agent._journal = agent._journal, Checker(path, line)
    try:
        if record["kind"] == "decision":
            labels = [read(label) for label in record["groups"]]
            agent.act(record["contexts"], labels, len(record["picks"]))
        elif record["kind"] == "reward" and "candidate" in record:
            rewards = dict(zip(record["candidate"], record["reward"], strict=True))
            agent.update(rewards, record["ticket"])
        elif record["kind"] == "reward":
            agent.update(record["reward"], record["ticket"])
        elif record["kind"] == "drop":
            agent.drop(record["ticket"])
        else:
            groups = [[read(label) for label in pool] for pool in record["groups"]]
            agent.observe(record["contexts"], groups, record["actions"], record["rewards"])
    except KeyError as error:
        raise FairbanditError(f"{path}, line {line.number}: there is no {error}") from error
    except FairbanditError as error:
        where = f"{path}, line {line.number}"
        text = str(error) if where in str(error) else f"{where}: {error}"
        raise FairbanditError(text) from error
    finally:
        agent._journal = before
