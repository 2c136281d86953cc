"""Metamorphic checks: plays that differ in what must not matter give the same."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.agent import Agent
from fairbandit.conformance.world import (
    REPLICAS,
    ROUNDS,
    SEED,
    ConformanceError,
    Spec,
    differ,
    engine_with,
    refuse,
    run,
)
from fairbandit.engine import Engine
from fairbandit.run import state

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late, in the check of late rewards."""


def plays(kind: str, spec: Spec) -> None:
    """Plays some rounds without breaking a contract that the public methods check."""
    for split in ("halves", "full"):
        run(engine_with(kind, spec, split=split))


def replicas_alone(kind: str, spec: Spec) -> None:
    """Gives for each of B replicas, in a second run too, what it gives for that replica alone."""
    part = registry.create(kind, spec)
    together = run(engine_with(kind, spec, part=part))
    for b in range(REPLICAS):
        alone = run(engine_with(kind, spec, part=part, replicas=[b]))
        _same(f"replica {b} in company and alone", together[b, None], alone)


def rounds_alone(kind: str, spec: Spec) -> None:
    """Gives for a block of rounds what it gives for them one at a time."""
    for split in ("halves", "full"):
        found = (run(engine_with(kind, spec, split=split), piece=piece) for piece in (ROUNDS, 1))
        _same("rounds in blocks and one at a time", *found)


def resumes(kind: str, spec: Spec) -> None:
    """Continues from the file of its state as if it had never stopped."""
    whole, first, second = (engine_with(kind, spec) for _ in range(3))
    head = run(first, ROUNDS // 2)
    second.load_state(state.unpacked(state.packed(first.state())))
    resumed = torch.cat([head, run(second)], 1)
    _same("a run never stopped and one resumed from its state", run(whole), resumed)


def online(kind: str, spec: Spec) -> None:
    """Rewards that come late, and groups that appear, give what they give in time."""
    engine = engine_with(kind, spec, replicas=[0], split="full", rare_after=ROUNDS // 2)
    *rounds, (x, groups, _) = met(engine, ROUNDS + 1)
    for late, known in ((LATE, 3), ((), 2)):
        one, other = agent_of(engine, known), agent_of(engine, 3)
        actions, given = [], []
        for t, (*pool, rewards) in enumerate(rounds, 1):
            actions.append(one.act(*pool).candidate)
            given.append(rewards[actions[-1]])
            if t not in late:
                one.update(given[-1])
        for t in reversed(late):
            one.update(given[t - 1], t)
        other.observe([pool[0] for pool in rounds], [pool[1] for pool in rounds], actions, given)
        told = [agent.explain(x, groups) for agent in (one, other)]
        shown = (torch.cat([t.scores, t.index, t.probabilities])[None, None] for t in told)
        what = "rewards in time and late" if late else "a group known before and one that appears"
        _same(what, *shown, after=ROUNDS)


def reads_no_later(kind: str, spec: Spec) -> None:
    """A reward after the last round that it says it reads changes nothing at round t."""
    for split in ("halves", "full"):
        policy = engine_with(kind, spec, split=split).policy
        last = [policy.last_read(t) for t in range(1, ROUNDS + 1)]
        for t, (before, read) in enumerate(pairwise([0, *last]), 1):
            if not before <= read < t:
                raise ConformanceError(
                    f"the last round read at round {t} is {read}; expected {before}, as at the "
                    f"round before, to {t - 1}"
                )
        calm = run(engine_with(kind, spec, split=split), ROUNDS, 1)
        for after in (5, 17):
            blind = bisect_right(last, after)  # so many rounds read no reward after this one
            upset = run(engine_with(kind, spec, split=split, upset_after=after), blind, 1)
            what = f"beside split {split!r}, two plays with other rewards after round {after}, the "
            _same(f"{what}last one that the policy says it reads,", calm[:, :blind], upset)


def agent_of(engine: Engine, groups: int) -> Agent:
    """An agent of the problem of replica 0 of an engine, which knows some groups."""
    truth, features = engine.environment.truth, engine.environment.features
    return Agent(engine.policy, features=features, groups=groups, seed=SEED, truth=truth)


def met(engine: Engine, rounds: int) -> list[tuple[Tensor, ...]]:
    """What replica 0 meets, without empty places: contexts, groups and rewards of each pool."""
    pools = engine.environment.pools(1, rounds)
    parts = (part[0].unbind() for part in (pools.contexts, pools.groups, pools.rewards))
    return [(x[g >= 0], g[g >= 0], r[g >= 0]) for x, g, r in zip(*parts, strict=True)]


def _same(what: str, one: Tensor, other: Tensor, *, after: int = 0) -> None:
    """Refuses two results of `run` that differ; the message names the first round that does."""
    wrong = differ(one, other)
    t = int(wrong.any(2).any(0).to(torch.uint8).argmax())
    what = f"{what} give different results from round {after + t + 1} on: [replica, number]"
    refuse(wrong[:, t], what, one=one[:, t], other=other[:, t])
