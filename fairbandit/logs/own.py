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

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit import registry
from fairbandit.environments.encoder import Encoder
from fairbandit.environments.reading import remark
from fairbandit.errors import FairbanditError
from fairbandit.files import of_file, open_regular, written_aside
from fairbandit.logs.chain import Position, encoded, of_line, own_lines
from fairbandit.logs.log import Log
from fairbandit.logs.schema import described, unnamed
from fairbandit.logs.tables import Pool, log_of_pools


def is_own(path: Path) -> bool:
    """Whether a file begins as a log of ours does."""
    with open_regular(path) as file:
        return file.read(64).startswith(b'{"kind": "header", "schema": ')


def label(plain: Any) -> Hashable:
    """The group label that a line holds: tuples are lists in JSON."""
    return tuple(map(label, plain)) if isinstance(plain, list) else plain


def read_own(paths: Sequence[Path], name: str) -> Log:
    """The decisions of the files of a log of ours.

    Left out are rounds that were observed and not decided, since nobody knows how probable their
    picks were, and the rewards of decisions that a saved agent had made before it began a file.
    """
    pools, headers, left_out = list[Pool](), list[Any](), Counter[str]()
    for path in paths:
        tickets, loaded = dict[Any, Pool](), False
        for line in own_lines(path):
            record = line.record
            with of_line(line.where):
                kind, ticket = record["kind"], record.get("ticket")
                if kind == "header":
                    headers.append(record)
                    loaded = record["agent"] is not None
                elif kind == "decision":
                    if ticket in tickets:
                        raise ValueError(f"ticket {ticket} recurs")
                    labels, x = list(map(label, record["groups"])), record.get("contexts")
                    x = None if x is None else np.array(x, dtype=np.float64)
                    parts = ticket, labels, record["picks"], record["probabilities"], x
                    tickets[ticket] = Pool(str(path), line.at.line, *parts)
                elif kind == "reward" and (ticket in tickets or not loaded):
                    pool, rewards = tickets[ticket], record["reward"]
                    if "candidate" not in record:
                        rewards = [rewards]
                    places = record.get("candidate", pool.order)
                    for place, reward in zip(places, rewards, strict=True):
                        pool.reward(place, reward)
                elif kind != "drop":
                    left_out[kind] += 1
        pools += tickets.values()
    if left_out:
        counts = " and ".join(f"{count:,} of kind {kind}" for kind, count in left_out.items())
        remark(f"{name}: some lines are left out: {counts}")
    contexts, further = None, dict[str, Any](features=())
    with of_line(name):
        options = [one["options"] for one in headers]
        given, *others = [(one["features"], one.get("reward")) for one in options]
        if any(one != given for one in others):
            raise ValueError("its files are of agents with different features or rewards")
        if pools and all(pool.contexts is not None for pool in pools):
            contexts = np.concatenate([pool.contexts for pool in pools])
            shape, reward = given
            encoder, names, d = described(Encoder(**shape) if isinstance(shape, dict) else shape)
            if contexts.shape[1:] != (d,):
                raise ValueError(f"expected contexts of {d} features, got {contexts.shape[1:]}")
            further = {"features": names or unnamed(d), "encoder": encoder, "reward": reward}
    kinds = [_learning(one["config"]["estimator"]["name"]) for one in headers]
    further["adaptive"], further["draws_models"] = map(any, zip(*kinds, strict=True))
    return log_of_pools(pools, name, contexts, **further)


def _learning(estimator: str) -> tuple[bool, bool]:
    """Whether an estimator learns, and draws its models; that of an unknown plugin learns."""
    try:
        part = registry.lookup("estimator", estimator)
    except FairbanditError:
        return True, False
    return part.learns, part.draws_models


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
    at = Position()
    with of_file(target, "cannot write"), written_aside(target) as file:
        for record in [{**first.record, "erased": len(gone), "before": before}, *kept]:
            data, at = encoded(record, at)
            file.write(data)
    return len(gone)
