"""Replays of an agent's log, which verify every line, and explain a decision in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fairbandit.agent.agent import Agent
from fairbandit.agent.explaining import Explanation
from fairbandit.agent.journal import replay_line
from fairbandit.agent.saving import options
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import Line, of_line, own_lines
from fairbandit.logs.own import label, picks_of
from fairbandit.policy.build import build_policy
from fairbandit.version import VERSION


class Receipt(NamedTuple):
    """The result of a replay: numbers of lines, and the last hash, which covers all lines."""

    lines: int
    decisions: int
    rewards: int
    sha256: str


def replay(
    path: Path | str, agent: Path | str | None = None, truth: Truth | None = None
) -> Receipt:
    """Replays a log from its first line, and verifies every decision, probability and hash.

    Probabilities are compared up to rounding.

    Args:
        path: a log that an agent wrote.
        agent: the file of the saved agent with which the log began, if there is one.
        truth: the ground truth, for policies that need it.

    Raises:
        FairbanditError: a line that is damaged or differs in the replay, or a log that cannot be
            replayed; the message names the first such line.
    """
    kinds = Counter[str]()
    for _, last in _lines(path, agent, truth):
        kinds[last.record["kind"]] += 1
    decisions = kinds["decision"] + kinds["closed"]
    return Receipt(last.at.line, decisions, kinds["reward"], last.at.sha256)


def explain(
    path: Path | str,
    ticket: int,
    agent: Path | str | None = None,
    truth: Truth | None = None,
    *,
    candidate: int = 0,
) -> Explanation:
    """Explains a logged decision, by a replay of all lines before it, and says who was picked.

    Args:
        path: a log that an agent wrote, with contexts.
        ticket: the ticket of the decision.
        agent, truth: as for `replay`.
        candidate: for an opening, the number of the candidate whose offer is explained, from 0.

    Raises:
        FairbanditError: as for `replay`, or the log does not have this decision.
    """
    for decider, line in _lines(path, agent, truth):
        record = line.record
        if record.get("ticket") != ticket or "contexts" not in record:
            continue
        groups = list(map(label, record["groups"]))
        if record["kind"] == "decision":
            explanation = decider.explain(record["contexts"], groups, picks_of(record))
        elif decider._now.openings[ticket].n == candidate:
            explanation = decider._explain(ticket, record["contexts"][0], groups[0])
        else:
            continue
        picked = torch.zeros(len(groups), dtype=torch.bool)
        picked[record["picks"]] = True
        return replace(explanation, picked=picked)
    raise FairbanditError(
        f"{path} lacks a decision of ticket {ticket}, or candidate {candidate} of an opening"
    )


def _lines(
    path: Path | str, saved: Path | str | None, truth: Truth | None
) -> Iterator[tuple[Agent, Line]]:
    """Yields the lines of a log, the header first, each with the agent before it; replays each."""
    lines = own_lines(Path(path))
    first = next(lines)
    if first.record.get("erased"):
        *_, last = first, *lines
        raise FairbanditError(
            f"{path}: every hash is right, but decisions were erased from the log, so it cannot be "
            f"replayed; the last hash is {last.at.sha256}"
        )
    try:
        with of_line(first.where):
            agent = _initial_agent(first.record, saved, truth)
        yield agent, first
        for line in lines:
            yield agent, line
            replay_line(agent, line)
    except FairbanditError as error:
        version = first.record.get("version")
        if version == VERSION:
            raise
        raise FairbanditError(
            f"{error} (the log is of version {version}; this is {VERSION})"
        ) from error


def _initial_agent(
    record: Mapping[str, Any], saved: Path | str | None, truth: Truth | None
) -> Agent:
    """Returns the agent with which a log began."""
    if record["agent"] is None:
        return Agent(build_policy(record["config"]), truth=truth, **options(record["options"]))
    expected = f"the log goes on from a saved agent whose file has the SHA-256 {record['agent']}"
    if saved is None:
        raise FairbanditError(f"{expected}; give this file")
    agent = Agent.load(saved, truth=truth)
    if agent.digest != record["agent"]:
        raise FairbanditError(f"{expected}; got {saved} of SHA-256 {agent.digest}")
    return agent
