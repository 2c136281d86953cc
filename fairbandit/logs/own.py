"""The logs that agents write: what their lines say, and the decisions that they hold.

The first line is the `header`: schema, package version, the policy's config, the agent's options,
and the hash of the file it was loaded from, if it was. Then come, in the order of the calls,

    decision  ticket, time, contexts (K, d), groups, probabilities of all K, picks
    reward    ticket, time, reward; of several picks, a list of candidates and one of rewards
    drop      ticket, time: the reward is not waited for any more
    observed  time, contexts, groups, actions and rewards of n rounds that others decided

See `chain` for the two hashes of each line.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import learns
from fairbandit.files import of_file, written_aside
from fairbandit.logs import chain
from fairbandit.logs.log import Log
from fairbandit.logs.tables import Lines

SCHEMA = 1
"""The version of what lines say; logs of other versions are refused."""

KINDS = ("decision", "reward", "drop", "observed")
"""What the lines after the first one may say."""


def is_own(path: Path) -> bool:
    """Whether a file begins as a log of ours does."""
    with of_file(path), path.open("rb") as file:
        return file.read(64).startswith(b'{"kind": "header", "schema": ')


def own_lines(path: Path) -> Iterator[chain.Line]:
    """The lines of a log, the header first; each is of a known kind.

    Raises:
        FairbanditError: a file that is no log, or is damaged; the message names the line.
    """
    kinds: Collection[str] = ("header",)
    for line in chain.lines(path):
        if line.record.get("kind") not in kinds or line.record.get("schema", SCHEMA) != SCHEMA:
            raise FairbanditError(f"{line.where}: expected {kinds} of schema {SCHEMA}")
        kinds = KINDS
        yield line
    if kinds != KINDS:
        raise FairbanditError(f"{path} is no log of an agent: it has no header")


def label(plain: Any) -> Hashable:
    """The group label that a line holds: tuples are lists in JSON."""
    return tuple(map(label, plain)) if isinstance(plain, list) else plain


def read_own(path: Path) -> Log:
    """The decisions of a log of ours.

    Rounds that were observed and not decided are left out, since nobody knows how probable their
    picks were.

    Raises:
        FairbanditError: as `own_lines`, or a line whose values do not make sense.
    """
    lines = own_lines(path)
    first = next(lines)
    with chain.of_line(first.where):
        estimator = str(first.record["config"]["estimator"]["name"])
    try:
        part = registry.lookup("estimator", estimator)
        adaptive, draws = learns(part), part.draws_models
    except FairbanditError:  # a plugin that is not loaded
        adaptive, draws = True, False
    rows, tickets, hashes = Lines(str(path)), dict[int, dict[int, int]](), {first.at.sha256}
    for line in lines:
        hashes.add(line.at.sha256)
        with chain.of_line(line.where):
            record = line.record
            if record["kind"] == "decision":
                ticket, labels = record["ticket"], list(map(label, record["groups"]))
                if type(ticket) is not int or ticket in tickets:
                    raise ValueError(f"ticket {ticket!r} recurs, or is no number")
                own = record.get("contexts")
                own = None if own is None else np.array(own, dtype=np.float64)
                parts = record["picks"], record["probabilities"], own
                tickets[ticket] = rows.add(line.at.line, ticket, labels, *parts)
            elif record["kind"] == "reward":
                at, given = tickets[record["ticket"]], record["reward"]
                several = "candidate" in record
                picks, rewards = (record["candidate"], given) if several else (at, [given])
                for pick, reward in zip(picks, rewards, strict=True):
                    rows.reward(at[pick], reward)
    contexts, names = None, list[str]()
    if rows.contexts and len(rows.contexts) == len(rows):
        with chain.of_line(str(path)):
            contexts = np.concatenate(rows.contexts)
            _, d = contexts.shape
            names = [f"x{column}" for column in range(d)]
    further = {"adaptive": adaptive, "draws_models": draws, "hashes": frozenset(hashes)}
    return rows.log(contexts, names, **further)


def erase(source: Path, target: Path, tickets: Collection[int]) -> int:
    """Writes a log anew without some decisions and their rewards; returns how many are left out.

    The new log has a chain of hashes of its own, and its first line says how many decisions were
    erased and what the last hash of the old log was. It serves evaluations and audits, but cannot
    be played again.

    Args:
        source: a log that an agent wrote.
        target: the new file, which replaces one of this name.
        tickets: of the decisions.

    Raises:
        FairbanditError: a file that is no log, is damaged, or cannot be written.
    """
    first, *lines = own_lines(source)
    gone = {line.record.get("ticket") for line in lines if line.record["kind"] == "decision"}
    gone &= set(tickets)
    before = (lines or [first])[-1].at.sha256
    kept = [line.record for line in lines if line.record.get("ticket") not in gone]
    at = chain.Position()
    with of_file(target, "cannot write"), written_aside(target) as file:
        for record in [{**first.record, "erased": len(gone), "before": before}, *kept]:
            data, at = chain.encoded(record, at)
            file.write(data)
    return len(gone)
