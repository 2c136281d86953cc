"""The logs that agents write.

The first line is the `header`: schema, package version, the policy's config, the agent's options,
and the hash of the file from which the agent was loaded, if any. Then come, in the order of calls,

    decision  ticket, time, contexts (K, d), groups, probabilities of all K, picks
    reward    ticket, time, reward; for several picks, a list of candidates and a list of rewards
    drop      ticket, time: the agent no longer waits for the reward
    observed  time, contexts, groups, actions and rewards of n rounds that another system decided

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
    """Whether a file begins like the log of an agent."""
    with open_regular(path) as file:
        return file.read(64).startswith(b'{"kind": "header", "schema": ')


def label(plain: Any) -> Hashable:
    """Returns a group label of a line; JSON holds a tuple as a list."""
    return tuple(map(label, plain)) if isinstance(plain, list) else plain


def read_own(paths: Sequence[Path], name: str) -> Log:
    """Returns the decisions in the files of an agent's log.

    Observed rounds are left out, since their propensities are unknown. So are rewards of decisions
    that a saved agent had made before it began a file.
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
                    places = record.get("candidate", pool.order)
                    if "candidate" not in record:
                        rewards = [rewards]
                    for place, reward in zip(places, rewards, strict=True):
                        pool.reward(place, reward)
                elif kind != "drop":
                    left_out[kind] += 1
        pools += tickets.values()
    if left_out:
        counts = " and ".join(f"{count:,} of kind {kind}" for kind, count in left_out.items())
        remark(f"{name}: some lines are left out: {counts}")
    contexts, further, adaptive, draws = None, dict[str, Any](features=()), False, False
    with of_line(name):
        options = [header["options"] for header in headers]
        shape, reward = options[0]["features"], options[0].get("reward")
        if any((own["features"], own.get("reward")) != (shape, reward) for own in options):
            raise ValueError("its files are of agents with different features or rewards")
        if pools and all(pool.contexts is not None for pool in pools):
            contexts = np.concatenate([pool.contexts for pool in pools])
            encoder, names, d = described(Encoder(**shape) if isinstance(shape, dict) else shape)
            if contexts.shape[1:] != (d,):
                raise ValueError(f"expected contexts of {d} features, got {contexts.shape[1:]}")
            further = {"features": names or unnamed(d), "encoder": encoder, "reward": reward}
        for estimator in [header["config"]["estimator"]["name"] for header in headers]:
            try:
                part = registry.lookup("estimator", estimator)
            except FairbanditError:  # an unknown plugin, which may learn
                adaptive = True
            else:
                adaptive, draws = adaptive or part.learns, draws or part.draws_models
    return log_of_pools(pools, name, contexts, adaptive=adaptive, draws_models=draws, **further)


def erase(source: Path, target: Path, tickets: Collection[int]) -> int:
    """Copies a log without the decisions of some tickets, and returns how many are left out.

    The copy has new hashes. Its first line holds the number of erased decisions and the last hash
    of the old log. It serves evaluations and audits, but cannot be replayed. An existing file is
    replaced.

    Raises:
        FairbanditError: the file is not a log, is damaged, or cannot be written.
    """
    first, *lines = own_lines(source)
    decided = {line.record.get("ticket") for line in lines if line.record["kind"] == "decision"}
    erased = decided & {*tickets}
    header = {**first.record, "erased": len(erased), "before": [first, *lines][-1].at.sha256}
    kept = [line.record for line in lines if line.record.get("ticket") not in erased]
    at = Position()
    with of_file(target, "cannot write"), written_aside(target) as file:
        for record in [header, *kept]:
            data, at = encoded(record, at)
            file.write(data)
    return len(erased)
