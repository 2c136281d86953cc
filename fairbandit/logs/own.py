"""The logs that agents write: what their lines say, and a `Log` from them.

The first line is the `header`: schema, package version, the policy's config, the agent's options,
and the hash of the file it was loaded from, if it was. Then come, in the order of the calls,

    decision  ticket, time, contexts (K, d), groups, probabilities of all K, picks
    reward    ticket, time, reward; of several picks, a list of candidates and one of rewards
    drop      ticket, time: the reward is not waited for any more
    observed  time, contexts, groups, actions and rewards of n rounds that others decided

See `chain` for the two hashes of each line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain as chained
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.files import written_aside
from fairbandit.logs import chain
from fairbandit.logs.chain import Line
from fairbandit.logs.labels import read
from fairbandit.logs.log import Log, padded

SCHEMA = 1
"""The version of what lines say; logs of other versions are refused."""

LARGEST = 1e100
"""The largest reward that an agent takes."""

KINDS = ("decision", "reward", "drop", "observed")
"""What the lines after the first one may say."""


def is_own(path: Path) -> bool:
    """Whether a file begins as a log of ours does."""
    with path.open("rb") as file:
        return file.read(64).startswith(b'{"kind": "header", "schema": ')


def own_lines(path: Path) -> Iterator[Line]:
    """The lines of a log, the header first; each is of a known kind.

    Raises:
        FairbanditError: a file that is no log, or is damaged; the message names the line.
    """
    found = chain.lines(path)
    header = next(found, None)
    if header is None or header.record.get("kind") != "header":
        raise FairbanditError(f"{path} is no log of an agent: it does not begin with a header")
    if header.record.get("schema") != SCHEMA:
        raise FairbanditError(
            f"{path} is of schema {header.record.get('schema')!r}; expected {SCHEMA}"
        )
    yield header
    for line in found:
        if line.record.get("kind") not in KINDS:
            kind = line.record.get("kind")
            raise FairbanditError(f"{path}, line {line.number}: unknown kind {kind!r}")
        yield line


def read_own(path: Path) -> Log:
    """The decisions of a log of ours.

    Rounds that were observed and not decided are left out, since nobody knows how probable their
    picks were.

    Raises:
        FairbanditError: as `own_lines`, or a line whose values do not make sense.
    """
    decisions: dict[int, dict[str, Any]] = {}
    rewards: dict[tuple[int, int], float] = {}
    hashes, header = set[str](), None
    for line in own_lines(path):
        hashes.add(line.sha256)
        try:
            if header is None:
                header = line.record
                estimator = header["config"]["estimator"]
            elif line.record["kind"] == "decision":
                _check(line.record, decisions)
                decisions[line.record["ticket"]] = line.record
            elif line.record["kind"] == "reward":
                for pick, reward in _rewards(line.record, decisions):
                    if pick in rewards:
                        raise ValueError(f"the reward of ticket {pick[0]} came already")
                    rewards[pick] = reward
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FairbanditError(
                f"{path}, line {line.number}: {type(error).__name__}: {error}"
            ) from error
    assert header is not None
    try:
        part = registry.lookup("estimator", str(estimator["name"]))
        learns, draws = part.learns, part.draws_models
    except FairbanditError:  # a plugin that is not loaded
        learns, draws = True, False
    return _arrays(decisions, rewards, learns, draws, frozenset(hashes))


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
    lines = list(own_lines(source))
    gone = {line.record["ticket"] for line in lines if line.record["kind"] == "decision"}
    gone &= set(tickets)
    first = {**lines[0].record, "erased": len(gone), "before": lines[-1].sha256}
    records = [first, *(line.record for line in lines[1:] if line.record.get("ticket") not in gone)]
    previous = chain.START
    try:
        with written_aside(target) as file:
            for record in records:
                data, previous = chain.encoded(record, previous)
                file.write(data)
    except OSError as error:
        raise FairbanditError(f"cannot write {target}: {error.strerror or error}") from error
    return len(gone)


def _check(record: Mapping[str, Any], before: Mapping[int, Any]) -> None:
    """Refuses a decision whose values do not fit together."""
    ticket, groups, picks = record["ticket"], record["groups"], record["picks"]
    chances = np.asarray(record["probabilities"], dtype=np.float64)
    k = len(groups)
    if type(ticket) is not int or ticket in before:
        raise ValueError(f"ticket {ticket!r} recurs or is no number")
    if not k or chances.shape != (k,) or not (chances >= 0).all():
        raise ValueError(f"expected a probability for each of {k} candidates")
    if abs(chances.sum() - len(picks)) > 1e-6 or len(set(picks)) < len(picks) or not picks:
        raise ValueError("probabilities do not sum to the number of picks, which differ")
    for pick in picks:
        if type(pick) is not int or not 0 <= pick < k or not chances[pick] > 0:
            raise ValueError(f"pick {pick!r} is no candidate, or had probability 0")
    hash(tuple(map(read, groups)))  # a mapping is no label
    contexts = record.get("contexts")
    if contexts is not None:
        array = np.asarray(contexts, dtype=np.float64)
        if array.ndim != 2 or len(array) != k or not np.isfinite(array).all():
            raise ValueError(f"expected {k} contexts of finite numbers")


def _rewards(
    record: Mapping[str, Any], decisions: Mapping[int, Mapping[str, Any]]
) -> Iterator[tuple[tuple[int, int], float]]:
    """The rewards that a line says, each with the ticket and the place of its pick."""
    ticket, given = record["ticket"], record["reward"]
    if ticket not in decisions:
        raise ValueError(f"ticket {ticket} waits for no reward")
    picks = decisions[ticket]["picks"]
    if "candidate" not in record and len(picks) == 1:
        every = [(picks[0], given)]
    else:
        every = list(zip(record["candidate"], given, strict=True))
    for place, reward in every:
        if type(place) is not int or place not in picks:
            raise ValueError(f"candidate {place!r} of ticket {ticket} waits for no reward")
        if type(reward) not in (int, float) or not abs(reward) <= LARGEST:
            raise ValueError(f"a reward is a number of at most {LARGEST:g}; got {reward!r}")
        yield (ticket, place), float(reward)


def _arrays(
    decisions: Mapping[int, Mapping[str, Any]],
    rewards: Mapping[tuple[int, int], float],
    learns: bool,
    draws_models: bool,
    hashes: frozenset[str],
) -> Log:
    """The log of some decisions by ticket."""
    if not decisions:
        raise FairbanditError("the log holds no decision")
    every = list(decisions.values())
    pools = [[read(label) for label in one["groups"]] for one in every]
    codes = {label: code for code, label in enumerate(dict.fromkeys(chained(*pools)))}
    contexts = [one.get("contexts") for one in every]
    some = [one for one in contexts if one is not None]
    widths = {len(one[0]) for one in some}
    if len(widths) > 1:
        raise FairbanditError(f"the log has contexts of different lengths: {sorted(widths)}")
    picks = padded([one["picks"] for one in every], -1, np.int64)
    probabilities = padded([one["probabilities"] for one in every], 0.0)
    found = np.full(picks.shape, np.nan)
    for row, (ticket, one) in enumerate(decisions.items()):
        for slot, place in enumerate(one["picks"]):
            found[row, slot] = rewards.get((ticket, place), np.nan)
    at = probabilities[np.arange(len(every))[:, None], picks.clip(min=0)]
    whole = len(some) == len(every)
    return Log(
        groups=padded([[codes[label] for label in pool] for pool in pools], -1, np.int64),
        labels=tuple(codes),
        picks=picks,
        rewards=found,
        propensities=np.where(picks >= 0, at, np.nan),
        contexts=padded(contexts, 0.0) if whole else None,
        probabilities=probabilities,
        features=tuple(f"x{number}" for number in range(*widths)) if whole else (),
        names=list(decisions),
        adaptive=learns,
        draws_models=draws_models,
        hashes=hashes,
    )
