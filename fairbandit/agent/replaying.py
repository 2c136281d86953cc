"""Playing the log of an agent again, to confirm every line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairbandit.agent.agent import Agent
from fairbandit.agent.journal import again
from fairbandit.agent.saving import options
from fairbandit.building import build_policy
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import of_line, own_lines
from fairbandit.version import VERSION


class Receipt(NamedTuple):
    """What a replay confirms: how many lines, and the hash of the last, which stands for all."""

    lines: int
    decisions: int
    rewards: int
    sha256: str


def replay(path: Path, begun: Path | None = None, truth: Truth | None = None) -> Receipt:
    """Plays a log again from its first line, and confirms every decision, probability and hash.

    Args:
        path: a log that an agent wrote.
        begun: the saved agent that it began from, if it did.
        truth: the truth, for policies that need it.

    Raises:
        FairbanditError: a line is damaged, or differs when it is played again, or why the log
            cannot be played; the message names the first such line.
    """
    lines, kinds = own_lines(path), Counter[str]()
    first = last = next(lines)
    if first.record.get("erased"):
        *_, last = first, *lines
        raise FairbanditError(
            f"{path}: every hash is right, but decisions were erased from the log, so that it "
            f"cannot be played again; the last hash is {last.at.sha256}"
        )
    try:
        with of_line(first.where):
            agent = _beginning(first.record, begun, truth)
        for last in lines:
            again(agent, last)
            kinds[last.record["kind"]] += 1
    except FairbanditError as error:
        version = first.record.get("version")
        if version == VERSION:
            raise
        raise FairbanditError(f"{error} (version {version} wrote it; this is {VERSION})") from error
    return Receipt(last.at.line, kinds["decision"], kinds["reward"], last.at.sha256)


def _beginning(record: Mapping[str, Any], begun: Path | None, truth: Truth | None) -> Agent:
    """The agent as it was when its log began."""
    if record["agent"] is None:
        return Agent(build_policy(record["config"]), truth=truth, **options(record["options"]))
    if begun is None:
        raise FairbanditError(
            f"it goes on from a saved agent of SHA-256 {record['agent']}; name it"
        )
    found = Agent.load(begun, truth=truth)
    if found.digest != record["agent"]:
        raise FairbanditError(f"it goes on from a file of SHA-256 {record['agent']}, not {begun}")
    return found
