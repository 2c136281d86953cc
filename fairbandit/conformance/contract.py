"""The checks of the contract; most of them compare two plays that must give equal results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from fairbandit import registry
from fairbandit.conformance.world import (
    REPLICAS,
    ROUNDS,
    SETTINGS,
    ConformanceError,
    Played,
    Spec,
    engine_of,
    made,
    play,
    refuse,
    results,
    same,
)
from fairbandit.environments.base import Pools
from fairbandit.history import History
from fairbandit.policy.fixed_point import outcomes_of
from fairbandit.policy.policy import Policy
from fairbandit.registry.signatures import parameters_of
from fairbandit.selectors import Selection

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late in the check `online`."""


def constructible(kind: str, spec: Spec) -> str | None:
    """Has a docstring, and can be built from its name alone and from its own description."""
    given = spec if isinstance(spec, Mapping) else {"name": spec}
    cls = registry.lookup(kind, given["name"])
    if not cls.__doc__:
        raise ConformanceError("the class lacks a docstring; expected a description of the part")
    parameters = parameters_of(cls).items()
    missing = [key for key, p in parameters if p.default is p.empty and key not in given]
    if missing and kind == "environment":
        return f"no value is given for {', '.join(missing)}"
    if missing:
        raise ConformanceError(f"constructor arguments without a default: {', '.join(missing)}")
    described = registry.describe(registry.create(kind, given))
    again = registry.describe(registry.create(kind, described))
    if again != described:
        raise ConformanceError(
            f"a part built from its own description differs: {described} became {again}"
        )
    return None


def plays(kind: str, spec: Spec) -> None:
    """Plays one, two and three picks without breaking a contract that the public methods check."""
    for split, picks in SETTINGS:
        play(engine_of(kind, spec, split=split, picks=picks))


def replicas_alone(kind: str, spec: Spec) -> None:
    """Gives a replica the same results in company and alone, also in a second run."""
    part = made(kind, spec)
    for split, picks in SETTINGS[:2]:
        together = play(engine_of(kind, part, split=split, picks=picks))
        for b in range(REPLICAS):
            alone = play(engine_of(kind, part, split=split, picks=picks, replicas=[b]))
            company = {name: values[b, None] for name, values in together.items()}
            same(f"replica {b} in company and alone", company, alone, replicas=[b])


def rounds_alone(kind: str, spec: Spec) -> None:
    """Gives the same results for rounds in a block and one at a time."""
    for split, picks in SETTINGS:
        blocks, single = (
            play(engine_of(kind, spec, split=split, picks=picks), piece=n) for n in (ROUNDS, 1)
        )
        same("rounds in blocks and one at a time", blocks, single)


def empty_slots(kind: str, spec: Spec) -> str | None:
    """Gives the same results for pools that are taken whole, however many slots stay empty."""
    engine = engine_of(kind, spec, picks=2, small_every=1)
    few, many = play(engine), play(engine_of(kind, spec, picks=4, small_every=1))
    if bool((few["probability"] < (engine.environment.pools(1, ROUNDS).groups >= 0)).any()):
        return "it may leave places open, so that their number matters"
    del few["pick"]  # it has more slots in the other play
    same("two picks and four picks from pools of at most two candidates", few, many)
    return None


def online(kind: str, spec: Spec) -> str | None:
    """Gives the same results for late rewards and new groups as for those known in time."""
    for split, m in SETTINGS[:2]:
        engine = engine_of(kind, spec, split=split, picks=m, rare_after=ROUNDS // 2)
        policy, problem, shown = engine.policy, engine.known.problem, list[Played]()
        actions = play(engine)["pick"].long().view(REPLICAS, ROUNDS, m)
        pools = engine.environment.pools(1, ROUNDS + 1)
        picks = outcomes_of(1, pools[:ROUNDS], Selection.of(actions))
        for late, groups in ((LATE, problem.groups - 1), ((), problem.groups)):
            known = policy.init(replace(problem, groups=groups))
            for t in range(1, ROUNDS + 1):
                known = policy.grow(known, problem) if t == ROUNDS // 2 + 1 else known
                new = picks.rows(m * t - m, m * t)
                made = Selection.of(actions[:, t - 1 : t])
                known = policy.close(_with_pool(policy, known, pools), made)
                known = known if t in late else policy.tell(known, new)
            for slot in [m * t - n for t in reversed(late) for n in range(1, m + 1)]:
                known = policy.tell(known, picks.rows(slot, slot + 1))  # one pick at a time
            policy.propose(_with_pool(policy, known, pools), m)
            shown.append(results(policy, ROUNDS + 1, ROUNDS + 1))
        label = f"rewards of {m} picks and a group that come late and in time"
        same(label, *shown, start=ROUNDS + 1)
    return None


def _with_pool(policy: Policy, known: History, pools: Pools) -> History:
    """The history with the pool of the next round."""
    at = slice(known.rounds, known.rounds + 1)
    return policy.open(known, pools.contexts[:, at], pools.groups[:, at])


def reads_no_later(kind: str, spec: Spec) -> None:
    """Decides without the rewards after the last round that it declares to read."""
    for split, picks in SETTINGS[:2]:
        options: dict[str, Any] = {"split": split, "picks": picks}
        policy = engine_of(kind, spec, **options).policy
        last = torch.from_numpy(policy.schedule.plan(1, ROUNDS).reads)
        shown = {"before": last[:-1], "after": last[1:]}
        refuse(last.diff() < 0, "`last_read` decreases", shown, axes=["round"], start=2)
        calm = play(engine_of(kind, spec, **options), piece=1)
        for after in (5, 17):
            blind = int((last <= after).sum())  # rounds that read no later reward
            upset = play(engine_of(kind, spec, upset_after=after, **options), blind, 1)
            label = f"beside split {split!r}, two plays whose rewards differ after round {after}, "
            before = {name: values[:, :blind] for name, values in calm.items()}
            same(f"{label}the last that the policy declares to read,", before, upset)
