"""The logs that agents write.

The first line is the `header`: schema, package version, the policy's config, the agent's options,
and the hash of the file from which the agent was loaded, if any. Then come, in the order of calls,

    decision  ticket, time, contexts (K, d), groups, probabilities of all K, picks; also the number
              of places if some may stay open
    opened    ticket, time, name, places and law of candidates who come one at a time
    offer     ticket, time, and contexts, groups, probabilities and picks of one candidate
    closed    ticket, time: the candidates of the opening are a decision, in their order
    reward    ticket, time, reward; for several picks, a list of candidates and a list of rewards
    drop      ticket, time: the agent no longer waits for the reward
    observed  time, contexts, groups, actions and rewards of n rounds that another system decided

See `chain` for the two hashes of each line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.files.files import of_file, open_regular, written_aside
from fairbandit.logs.chain import Line, Position, encoded, of_line, own_lines
from fairbandit.logs.log import Log
from fairbandit.logs.schema import described, unnamed
from fairbandit.logs.tables import Pool, log_of_pools
from fairbandit.notices import remark
from fairbandit.tables.encoder import Encoder

_FIRST, _LAST = ("decision", "opened"), ("decision", "closed")  # kinds of lines of a decision

_LEFT_OUT = {"observed": "observed rounds", "reward": "rewards of earlier decisions"}


def is_own(path: Path) -> bool:
    """Whether a file begins like the log of an agent."""
    with open_regular(path) as file:
        return file.read(64).startswith(b'{"kind": "header", "schema": ')


def label(plain: Any) -> Hashable:
    """Returns a group label of a line; JSON holds a tuple as a list."""
    return tuple(map(label, plain)) if isinstance(plain, list) else plain


def read_own(paths: Sequence[Path], name: str, unknown: Sequence[str] = ()) -> Log:
    """Returns the decisions in the files of an agent's log.

    Observed rounds are left out, since their propensities are unknown. So are rewards of decisions
    that a saved agent had made before it began a file.
    """
    pools, headers, left_out = list[Pool](), list[Any](), Counter[str]()
    for path in paths:
        tickets, begun, loaded = dict[Any, Pool](), dict[Any, list[Any]](), False
        for line in own_lines(path):
            record = line.record
            with of_line(line.where):
                kind, ticket = record["kind"], record.get("ticket")
                if kind == "header":
                    headers.append(record)
                    loaded = record["agent"] is not None
                elif kind in _FIRST:
                    if ticket in tickets or ticket in begun:
                        raise ValueError(f"ticket {ticket} recurs")
                    begun[ticket] = [record]
                elif ticket in begun:
                    begun[ticket].append(record)
                elif kind == "reward" and (ticket in tickets or not loaded):
                    _reward(tickets[ticket], record)
                elif kind != "drop":
                    left_out[kind] += 1
                if kind in _LAST and ticket in begun:
                    if (pool := _pool(path, line, begun.pop(ticket))) is None:
                        left_out["decisions without a pick"] += 1
                    else:
                        tickets[ticket] = pool
        left_out.update({"openings that are not closed": len(begun)} if begun else {})
        pools += tickets.values()
    if left_out:
        counts = [f"{count:,} of {_LEFT_OUT.get(kind, kind)}" for kind, count in left_out.items()]
        remark(f"{name}: lines that hold no decision to judge are left out: {' and '.join(counts)}")
    contexts, further = None, dict[str, Any](features=())
    adaptive = draws = False
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
            further["columns"] = encoder.groups if encoder else ()
        further["policies"] = tuple(dict.fromkeys(str(h["config"]["name"]) for h in headers))
        for estimator in [header["config"]["estimator"]["name"] for header in headers]:
            try:
                part = registry.lookup("estimator", estimator)
            except FairbanditError:  # an unknown plugin, which may learn
                adaptive = True
            else:
                adaptive, draws = adaptive or part.learns, draws or part.draws_models
    further |= {"adaptive": adaptive, "draws_models": draws, "unknown": unknown}
    return log_of_pools(pools, name, contexts, **further)


def picks_of(record: Mapping[str, Any]) -> int:
    """Returns the number of picks that a decision was asked for."""
    return int(record.get("places", len(record["picks"])))


def _pool(path: Path, line: Line, records: Sequence[Mapping[str, Any]]) -> Pool | None:
    """Returns the decision of all records up to a line; None without a pick."""
    labels, picks, chances, x = list[Any](), list[int](), list[Any](), list[Any]()
    for record in records:
        if record["kind"] in ("decision", "offer"):
            picks += [len(labels) + place for place in record["picks"]]
            labels += map(label, record["groups"])
            chances += record["probabilities"]
            x += record.get("contexts", ())
    if not picks:
        return None
    contexts = np.array(x, dtype=np.float64) if x else None
    ticket, may_fall_short = records[0]["ticket"], "places" in records[0]
    time = next(record.get("time") for record in records if "picks" in record)
    given = labels, picks, chances, contexts, may_fall_short, _utc(time)
    pool = Pool(str(path), line.at.line, ticket, *given)
    for record in records:
        if record["kind"] == "reward":
            _reward(pool, record)
    return pool


def _utc(time: Any) -> str | None:
    """Returns a time of ISO 8601 in UTC; raises a ValueError for any other text."""
    return time and datetime.fromisoformat(time).astimezone(UTC).isoformat(" ", "seconds")


def _reward(pool: Pool, record: Mapping[str, Any]) -> None:
    rewards, places = record["reward"], record.get("candidate", pool.order)
    rewards = rewards if "candidate" in record else [rewards]
    for place, reward in zip(places, rewards, strict=True):
        pool.reward(place, reward)


def erase(source: Path | str, target: Path | str, tickets: Collection[int]) -> int:
    """Copies a log without the decisions of some tickets, and returns how many are left out.

    The copy has new hashes. Its first line holds the number of erased decisions and the last hash
    of the old log. It serves evaluations and audits, but cannot be replayed. An existing file is
    replaced.

    Raises:
        FairbanditError: the file is not a log, is damaged, or cannot be written.
    """
    first, *lines = own_lines(Path(source))
    decided = {line.record.get("ticket") for line in lines if line.record["kind"] in _FIRST}
    erased = decided & {*tickets}
    header = {**first.record, "erased": len(erased), "before": [first, *lines][-1].at.sha256}
    kept = [line.record for line in lines if line.record.get("ticket") not in erased]
    at = Position()
    target = Path(target)
    with of_file(target, "cannot write"), written_aside(target) as file:
        for record in [header, *kept]:
            data, at = encoded(record, at)
            file.write(data)
    return len(erased)
