"""Playing the log of an agent again, to confirm every line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairbandit.agent.agent import Agent
from fairbandit.agent.journal import again
from fairbandit.building import build_policy
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.logs import own_lines
from fairbandit.logs.labels import read
from fairbandit.version import VERSION


class Receipt(NamedTuple):
    """What a replay confirms.

    Attributes:
        lines: how many lines the log has.
        decisions, rewards: how many of them there are.
        sha256: the hash of the last line, which stands for all of them.
    """

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
    lines = list(own_lines(path))  # all hashes are checked before anything is played
    first, *rest = lines
    if first.record.get("erased"):
        raise FairbanditError(
            f"{path}: every hash is right, but decisions were erased from the log, so that it "
            f"cannot be played again; the last hash is {lines[-1].sha256}"
        )
    try:
        agent = _beginning(first.record, begun, truth)
        for line in rest:
            again(agent, path, line)
    except FairbanditError as error:
        version = first.record.get("version")
        other = (
            ""
            if version == VERSION
            else f" (it was written by version {version}; this is {VERSION})"
        )
        raise FairbanditError(f"{error}{other}") from error
    kinds = [line.record["kind"] for line in rest]
    return Receipt(len(lines), kinds.count("decision"), kinds.count("reward"), lines[-1].sha256)


def _beginning(record: Mapping[str, Any], begun: Path | None, truth: Truth | None) -> Agent:
    """The agent as it was when its log began."""
    if record.get("agent") is not None:
        if begun is None:
            raise FairbanditError(
                f"the log goes on from a saved agent of SHA-256 {record['agent']}; name its file"
            )
        found = Agent.load(begun, truth=truth)
        if found.digest != record["agent"]:
            raise FairbanditError(
                f"{begun} is not the file from which the log goes on: its SHA-256 is "
                f"{found.digest}, and not {record['agent']}"
            )
        return found
    try:
        options = dict(record["options"])
        options["groups"] = [read(label) for label in options["groups"]]
        return Agent(build_policy(record["config"]), truth=truth, **options)
    except (KeyError, TypeError) as error:
        raise FairbanditError(
            f"the log's first line does not describe an agent: {error}"
        ) from error
