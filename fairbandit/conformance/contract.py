"""The checks of parts; most of them compare two plays that differ in what must not matter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.agent import Agent
from fairbandit.conformance.world import (
    ASKERS,
    CLOSE,
    REPLICAS,
    ROUNDS,
    SEED,
    SPLITS,
    ConformanceError,
    Spec,
    asked,
    differ,
    engine_of,
    play,
    refuse,
)
from fairbandit.constructors import parameters_of
from fairbandit.environments.base import Environment, Pools
from fairbandit.estimators import NoBounds
from fairbandit.run import state
from fairbandit.scored import Scored
from fairbandit.streams import Streams

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late, in the check of late rewards."""

DRAWN = 200
"""How many rounds of pools an environment draws for `ASKERS` replicas."""

ERROR_RATE, SLACK = 1e-6, 0.05
"""The probability with which chance alone would refuse an environment whose CDFs are right, and how
far they may be off, since some are estimates."""


def constructible(kind: str, spec: Spec) -> None:
    """Has a docstring, and is built from its name alone and from its own description."""
    given = spec if isinstance(spec, Mapping) else {"name": spec}
    cls = registry.lookup(kind, given["name"])
    if not cls.__doc__:
        raise ConformanceError("the class has no docstring; expected what it is in the first line")
    parameters = parameters_of(cls).items()
    missing = [key for key, one in parameters if one.default is one.empty and key not in given]
    if missing and kind == "environment":
        return  # no table has a path by default
    if missing:
        raise ConformanceError(f"constructor arguments without a default: {', '.join(missing)}")
    described = registry.describe(registry.create(kind, given))
    again = registry.describe(registry.create(kind, described))
    if again != described:
        raise ConformanceError(
            f"built again from its own description it differs: {described} became {again}"
        )


def plays(kind: str, spec: Spec) -> None:
    """Plays some rounds without breaking a contract that the public methods check."""
    for split in SPLITS:
        play(engine_of(kind, spec, split=split))


def replicas_alone(kind: str, spec: Spec) -> None:
    """Gives for each of B replicas, in a second run too, what it gives for that replica alone."""
    part = registry.create(kind, spec)
    together = play(engine_of(kind, part))
    for b in range(REPLICAS):
        alone = play(engine_of(kind, part, replicas=[b]))
        _same(f"replica {b} in company and alone", together[b, None], alone)


def rounds_alone(kind: str, spec: Spec) -> None:
    """Gives for a block of rounds what it gives for them one at a time."""
    for split in SPLITS:
        blocks, single = (play(engine_of(kind, spec, split=split), piece=n) for n in (ROUNDS, 1))
        _same("rounds in blocks and one at a time", blocks, single)


def resumes(kind: str, spec: Spec) -> None:
    """Continues from the file of its state as if it had never stopped."""
    whole, first, second = (engine_of(kind, spec) for _ in range(3))
    head = play(first, ROUNDS // 2)
    second.load_state(state.unpacked(state.packed(first.state())))
    resumed = torch.cat([head, play(second)], 1)
    _same("a run never stopped and one resumed from its state", play(whole), resumed)


def online(kind: str, spec: Spec) -> None:
    """Rewards that come late, and groups that appear, give what they give in time."""
    engine = engine_of(kind, spec, replicas=[0], split="full", rare_after=ROUNDS // 2)
    truth, features = engine.environment.truth, engine.environment.features
    late, in_time = (
        Agent(engine.policy, features=features, groups=known, seed=SEED, truth=truth)
        for known in (2, 3)
    )
    pools = engine.environment.pools(1, ROUNDS + 1)
    met = zip(pools.contexts[0], pools.groups[0], pools.rewards[0], strict=True)
    *rounds, last = [(x[g >= 0], g[g >= 0], r[g >= 0]) for x, g, r in met]
    actions, given = [], []
    for t, (x, groups, rewards) in enumerate(rounds, 1):
        actions.append(late.act(x, groups).candidate)
        given.append(rewards[actions[-1]])
        if t not in LATE:
            late.update(given[-1])
    for t in reversed(LATE):
        late.update(given[t - 1], t)
    contexts, codes, _ = zip(*rounds, strict=True)
    in_time.observe(contexts, codes, actions, given)
    found = [agent.explain(*last[:2]) for agent in (late, in_time)]
    shown = (torch.cat([e.scores, e.index, e.probabilities])[None, None] for e in found)
    _same("rewards and a group that come late and in time", *shown, first=ROUNDS + 1)


def reads_no_later(kind: str, spec: Spec) -> None:
    """A reward after the last round that it says it reads changes nothing at round t."""
    for split in SPLITS:
        policy = engine_of(kind, spec, split=split).policy
        last = torch.tensor([policy.last_read(t) for t in range(1, ROUNDS + 1)])
        refuse(last.diff() < 0, "the last round read falls", before=last[:-1], after=last[1:])
        calm = play(engine_of(kind, spec, split=split), piece=1)
        for after in (5, 17):
            blind = int((last <= after).sum())  # so many rounds read no reward after this one
            upset = play(engine_of(kind, spec, split=split, upset_after=after), blind, 1)
            what = f"beside split {split!r}, two plays with other rewards after round {after}, the "
            _same(f"{what}last one that the policy says it reads,", calm[:, :blind], upset)


def shortlists(kind: str, spec: Spec) -> None:
    """Gives shortlists that do not depend on blocks and replicas."""
    part = registry.create(kind, spec)
    for split in SPLITS:
        options: dict[str, Any] = {"split": split, "picks": 2}
        blocks, single = (play(engine_of(kind, part, **options), piece=n) for n in (ROUNDS, 1))
        _same("shortlists of rounds in blocks and one at a time", blocks, single)
        alone = play(engine_of(kind, part, replicas=[1], **options))
        _same("shortlists of replica 1 in company and alone", blocks[1, None], alone)


def splits_soundly(kind: str, spec: Spec) -> None:
    """Gives a field (N,) each, of which none falls as t grows."""
    division = registry.create(kind, spec).divide(torch.arange(1, 200))
    for name, field in division._asdict().items():
        refuse(field.diff() < 0, f"`{name}` moves back", before=field[:-1], after=field[1:])


def models_soundly(kind: str, spec: Spec) -> None:
    """Gives models whose scores are finite, and ⟨theta, x⟩ if there is a theta."""
    scored = asked(kind, spec)[0].scored
    scores, theta = scored.scores.value, scored.models.of_rounds.theta
    slack = scored.scores.high - scores
    wrong = ~(scores + slack).isfinite() | (slack < 0)
    refuse(
        wrong,
        "scores are not finite, or errors below 0",
        score=scores,
        error=torch.as_tensor(slack),
    )
    if theta is not None:
        linear = (scored.contexts @ theta[..., None])[..., 0]
        refuse(differ(scores, linear), "scores differ from ⟨theta, x⟩", score=scores, linear=linear)
    with suppress(NoBounds):
        low, high = scored.bounds()
        refuse((low > high) & scored.present, "bounds that cross", lower=low, upper=high)


def permutes(kind: str, spec: Spec) -> None:
    """Permuting the candidates of a pool permutes their indices."""
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    ranked, policy = asked(kind, spec)
    scored = ranked.scored
    pools = scored.contexts[:, :, order], scored.groups[:, :, order]
    shuffled = policy.rank.index(Scored(policy.known, scored.plan, pools, scored.models))
    what = "permuting the candidates does more than permute their indices"
    for before, after in ((ranked.index.value, shuffled.value), (ranked.index.high, shuffled.high)):
        before = before[:, :, order]
        refuse(differ(before, after) & (pools[1] >= 0), what, before=before, after=after)


def monotone(kind: str, spec: Spec) -> None:
    """Within a group, a higher score never has a lower index."""
    ranked, _ = asked(kind, spec)
    index, groups, scores = ranked.index.value, ranked.groups, ranked.scored.scores
    higher = scores.low[..., None] > scores.high[..., None, :]
    fallen = higher & (groups[..., None] == groups[..., None, :])
    fallen &= (index[..., None] < index[..., None, :] - 1e-12) & ranked.present[..., None]
    what = "not monotone: of two candidates of a group, the one of the higher score is lower"
    refuse(fallen, what, index=index[..., None], other=index[..., None, :])


def draws_soundly(kind: str, spec: Spec) -> None:
    """True rewards are the truth's, and pools stay as they are when others are drawn."""
    world, pools, rounds = _drawn(kind, spec)
    kept = [part.clone() for part in vars(pools).values()]
    world.pools(DRAWN + 1, DRAWN)
    for (name, part), before in zip(vars(pools).items(), kept, strict=True):
        refuse(part != before, f"{name} change when other pools are drawn", was=before, now=part)
    if world.truth is not None:
        true = world.truth.score(pools.contexts, pools.groups.clamp(min=0), rounds)
        wrong = ((true - pools.expected).abs() > 1e-6) & (pools.groups >= 0)
        refuse(wrong, "not the truth's score", expected=pools.expected, score=true)


def ranks_soundly(kind: str, spec: Spec) -> None:
    """True ranks are the truth's CDFs, which are those of the true rewards that are drawn.

    The CDF F of its round at a reward V, and that just below V, enclose a number that is uniform on
    [0, 1], so that CDFs may drift. The empirical CDF of n of these is off the identity by at most
    √(ln(2G/rate)/(2n)), for all G groups with the probability 1 − rate (Dvoretzky, Kiefer,
    Wolfowitz). Candidates of one pool may depend on each other: one counts.
    """
    world, pools, rounds = _drawn(kind, spec)
    if world.truth is None:
        return
    groups, expected, names = pools.groups, pools.expected, world.group_names
    tie = 1e-9 * (1 + expected.abs())  # rewards that tie may differ by rounding
    below, cdf = (world.truth.cdf(groups, expected + side, rounds) for side in (-tie, tie))
    for group in range(len(names)):
        one = (groups == group) & ((groups == group).cumsum(2) == 1)
        n = max(int(one.sum()), 1)
        band = SLACK + math.sqrt(math.log(2 * len(names) / ERROR_RATE) / (2 * n))
        what = (
            f"the CDF of group {group} is further than {band:.3g} from that of {n} true rewards "
            f"drawn, which chance does with probability {ERROR_RATE:g},"
        )
        drawn = expected[one].sort().values
        fall = world.truth.cdf(torch.full_like(drawn, group).long(), drawn, rounds[::99]).diff()
        refuse(fall < -CLOSE, f"the CDF of group {group} falls", change=fall)
        for right, values, sign in ((True, cdf[one], 1), (False, below[one], -1)):
            share = torch.searchsorted(values.sort().values, values, right=right) / n
            refuse(sign * (share - values) > band, what, cdf=values, share=share)
    wrong = (pools.ranks < below.clamp(min=0) - tie) | (pools.ranks > cdf.clamp(max=1) + tie)
    what = "a true rank that is not the truth's CDF, or not from 0 to 1,"
    refuse(wrong & (groups >= 0), what, rank=pools.ranks, cdf=cdf)


def _drawn(kind: str, spec: Spec) -> tuple[Environment, Pools, Tensor]:
    """An environment, its first pools, and their rounds, (N, 1)."""
    world: Environment = registry.create(kind, spec)
    world.bind(Streams(0, range(ASKERS)))
    return world, world.pools(1, DRAWN), torch.arange(1, DRAWN + 1)[:, None]


def _same(what: str, one: Tensor, other: Tensor, *, first: int = 1) -> None:
    """Refuses two plays (B, N, M) that differ; the message names the first round that does."""
    wrong = differ(one, other)
    t = int(wrong.any(2).any(0).to(torch.uint8).argmax())
    what = f"{what} give different results from round {first + t} on: [replica, number]"
    refuse(wrong[:, t], what, one=one[:, t], other=other[:, t])
