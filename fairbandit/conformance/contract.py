"""The checks of the contract; most of them compare two plays that must give equal results."""

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
    same_past,
)
from fairbandit.constructors import parameters_of
from fairbandit.environments.base import Environment, Pools
from fairbandit.estimators import NoBounds
from fairbandit.ranks import Rank
from fairbandit.run import state
from fairbandit.scored import Scored
from fairbandit.streams import Streams

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late in the check `online`."""

DRAWN = 200
"""The number of rounds of pools that a check draws for `ASKERS` replicas."""

ERROR_RATE, SLACK = 1e-6, 0.05
"""The probability that chance alone fails an environment with correct CDFs, and the tolerance of
CDFs, some of which are estimates."""


def constructible(kind: str, spec: Spec) -> None:
    """Has a docstring, and can be built from its name alone and from its own description."""
    given = spec if isinstance(spec, Mapping) else {"name": spec}
    cls = registry.lookup(kind, given["name"])
    if not cls.__doc__:
        raise ConformanceError("the class lacks a docstring; expected a description of the part")
    parameters = parameters_of(cls).items()
    missing = [key for key, p in parameters if p.default is p.empty and key not in given]
    if missing and kind == "environment":
        return  # no table has a path by default
    if missing:
        raise ConformanceError(f"constructor arguments without a default: {', '.join(missing)}")
    described = registry.describe(registry.create(kind, given))
    again = registry.describe(registry.create(kind, described))
    if again != described:
        raise ConformanceError(
            f"a part built from its own description differs: {described} became {again}"
        )


def plays(kind: str, spec: Spec) -> None:
    """Plays some rounds without breaking a contract that the public methods check."""
    for split in SPLITS:
        play(engine_of(kind, spec, split=split))


def replicas_alone(kind: str, spec: Spec) -> None:
    """Gives a replica the same results in company and alone, also in a second run."""
    part = registry.create(kind, spec)
    together = play(engine_of(kind, part))
    for b in range(REPLICAS):
        alone = play(engine_of(kind, part, replicas=[b]))
        _same(f"replica {b} in company and alone", together[b, None], alone)


def rounds_alone(kind: str, spec: Spec) -> None:
    """Gives the same results for rounds in a block and one at a time."""
    for split in SPLITS:
        blocks, single = (play(engine_of(kind, spec, split=split), piece=n) for n in (ROUNDS, 1))
        _same("rounds in blocks and one at a time", blocks, single)


def resumes(kind: str, spec: Spec) -> None:
    """Continues from its saved state as if it had never stopped."""
    whole, first, second = (engine_of(kind, spec) for _ in range(3))
    head = play(first, ROUNDS // 2)
    second.load_state(state.unpacked(state.packed(first.state())))
    resumed = torch.cat([head, play(second)], 1)
    _same("a run never stopped and one resumed from its state", play(whole), resumed)


def online(kind: str, spec: Spec) -> None:
    """Gives the same results for late rewards and new groups as for those known in time."""
    engine = engine_of(kind, spec, replicas=[0], split="full", rare_after=ROUNDS // 2)
    truth, features = engine.environment.truth, engine.environment.features
    late, in_time = (
        Agent(engine.policy, features=features, groups=known, seed=SEED, truth=truth)
        for known in (2, 3)
    )
    pools = engine.environment.pools(1, ROUNDS + 1)
    places = zip(pools.contexts[0], pools.groups[0], pools.rewards[0], strict=True)
    *rounds, last = [(x[g >= 0], g[g >= 0], r[g >= 0]) for x, g, r in places]
    actions, received = [], []
    for t, (x, groups, rewards) in enumerate(rounds, 1):
        actions.append(late.act(x, groups).candidate)
        received.append(rewards[actions[-1]])
        if t not in LATE:
            late.update(received[-1])
    for t in reversed(LATE):
        late.update(received[t - 1], t)
    contexts, codes, _ = zip(*rounds, strict=True)
    in_time.observe(contexts, codes, actions, received)
    explained = [agent.explain(*last[:2]) for agent in (late, in_time)]
    shown = (torch.cat([e.scores, e.index, e.probabilities])[None, None] for e in explained)
    _same("rewards and a group that come late and in time", *shown, start=ROUNDS + 1)


def reads_no_later(kind: str, spec: Spec) -> None:
    """Decides without the rewards after the last round that it declares to read."""
    for split in SPLITS:
        policy = engine_of(kind, spec, split=split).policy
        last = torch.tensor([policy.last_read(t) for t in range(1, ROUNDS + 1)])
        refuse(last.diff() < 0, "`last_read` decreases", before=last[:-1], after=last[1:])
        calm = play(engine_of(kind, spec, split=split), piece=1)
        for after in (5, 17):
            blind = int((last <= after).sum())  # rounds that read no later reward
            upset = play(engine_of(kind, spec, split=split, upset_after=after), blind, 1)
            plays = f"beside split {split!r}, two plays whose rewards differ after round {after}, "
            _same(f"{plays}the last that the policy declares to read,", calm[:, :blind], upset)


def shortlists(kind: str, spec: Spec) -> None:
    """Gives shortlists that depend neither on blocks nor on other replicas."""
    part = registry.create(kind, spec)
    for split, picks in zip((*SPLITS, *SPLITS), (2, 2, 4, 4), strict=True):
        options: dict[str, Any] = {"split": split, "picks": picks}
        blocks, single = (play(engine_of(kind, part, **options), piece=n) for n in (ROUNDS, 1))
        _same("shortlists of rounds in blocks and one at a time", blocks, single)
        alone = play(engine_of(kind, part, replicas=[1], **options))
        _same("shortlists of replica 1 in company and alone", blocks[1, None], alone)


def splits_soundly(kind: str, spec: Spec) -> None:
    """Gives fields of shape (N,), none of which decreases as t grows."""
    division = registry.create(kind, spec).divide(torch.arange(1, 200))
    for name, field in division._asdict().items():
        refuse(field.diff() < 0, f"`{name}` decreases", before=field[:-1], after=field[1:])


def models_soundly(kind: str, spec: Spec) -> None:
    """Gives models with finite scores, which equal ⟨theta, x⟩ if the model has a theta."""
    scored = asked(kind, spec)[0].scored
    model = scored.models.of_rounds
    scores, theta = scored.scores.value, model.theta
    slack = scored.scores.high - scores
    wrong = ~(scores + slack).isfinite() | (slack < 0)
    refuse(
        wrong,
        "scores that are not finite, or negative errors",
        score=scores,
        error=torch.as_tensor(slack),
    )
    plain = model.score(scored.contexts, scored.groups)
    if theta is not None:
        linear = (scored.contexts @ theta[..., None])[..., 0]
        refuse(differ(plain, linear), "scores differ from ⟨theta, x⟩", score=plain, linear=linear)
    refuse(
        differ(scores, plain),
        "scores of `approximate` differ from scores of `score`",
        score=plain,
        approximate=scores,
    )
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
    fault = "permuting the candidates does more than permute their indices"
    for before, after in ((ranked.index.value, shuffled.value), (ranked.index.high, shuffled.high)):
        before = before[:, :, order]
        refuse(differ(before, after) & (pools[1] >= 0), fault, before=before, after=after)


def ranks_alone(kind: str, spec: Spec) -> None:
    """Gives a candidate its index whoever else is in the pool, or declares the need `pool`."""
    ranked, policy = asked(kind, spec)
    scored, index = ranked.scored, ranked.index.value
    for k in range(0 if "pool" in policy.rank.needs else index.shape[2]):
        pools = scored.contexts[:, :, k : k + 1], scored.groups[:, :, k : k + 1]
        alone = policy.rank.index(Scored(policy.known, scored.plan, pools, scored.models)).value
        fault = (
            "the index depends on the other candidates of the pool, so that the rank cannot be "
            'used where they come later: declare needs = {"pool"};'
        )
        among = index[:, :, k : k + 1]
        refuse(differ(among, alone) & (pools[1] >= 0), fault, among=among, alone=alone)


def monotone(kind: str, spec: Spec) -> None:
    """Within a group, a higher score never has a lower index."""
    ranked, _ = asked(kind, spec)
    index, groups, scores = ranked.index.value, ranked.groups, ranked.scored.scores
    higher = scores.low[..., None] > scores.high[..., None, :]
    fallen = higher & (groups[..., None] == groups[..., None, :])
    fallen &= (index[..., None] < index[..., None, :] - 1e-12) & ranked.present[..., None]
    fault = "not monotone: within a group, a candidate of higher score has a lower index"
    refuse(fallen, fault, index=index[..., None], other=index[..., None, :])


def equals_tie(kind: str, spec: Spec) -> None:
    """Gives equal candidates of groups with the same past indices that tie."""
    rank: Rank = registry.create(kind, spec)
    members = 3
    if rank.max_contexts is not None and rank.max_contexts < ROUNDS * members:
        return  # the last contexts of the groups differ
    with suppress(NoBounds):
        index = rank.index(same_past(rank, members))
        low, high = (end.unflatten(2, (2, 2)) for end in (index.low, index.high))
        apart = low.amax(3) > high.amin(3)
        what = "equal candidates do not tie: the index lacks the slack of rounding"
        refuse(apart, what, low=low.amax(3), high=high.amin(3))


def draws_soundly(kind: str, spec: Spec) -> None:
    """True rewards equal the truth's score, and pools stay unchanged when others are drawn."""
    world, pools, rounds = _drawn(kind, spec)
    kept = [part.clone() for part in vars(pools).values()]
    world.pools(DRAWN + 1, DRAWN)
    for (name, part), before in zip(vars(pools).items(), kept, strict=True):
        refuse(part != before, f"{name} change when other pools are drawn", was=before, now=part)
    if world.truth is not None:
        true = world.truth.score(pools.contexts, pools.groups.clamp(min=0), rounds)
        wrong = ((true - pools.expected).abs() > 1e-6) & (pools.groups >= 0)
        refuse(wrong, "true rewards that are not the truth's", expected=pools.expected, score=true)


def ranks_soundly(kind: str, spec: Spec) -> None:
    """True ranks equal the truth's CDFs, and the CDFs fit the true rewards of drawn pools.

    If V has the CDF F of its round, a uniform number lies between F(V−) and F(V); F may drift. The
    empirical CDF of n uniform numbers differs from the identity by at most √(ln(2G/rate)/(2n)), for
    all G groups with probability 1 − rate (Dvoretzky, Kiefer, Wolfowitz). Candidates of a pool may
    be dependent: only the first candidate of each group counts.
    """
    world, pools, rounds = _drawn(kind, spec)
    if world.truth is None:
        return
    groups, expected, names = pools.groups, pools.expected, world.group_names
    tie = 1e-9 * (1 + expected.abs())  # rewards that tie may differ by rounding
    below, cdf = (world.truth.cdf(groups, expected + side, rounds) for side in (-tie, tie))
    for group in range(len(names)):
        first = (groups == group) & ((groups == group).cumsum(2) == 1)
        n = max(int(first.sum()), 1)
        band = SLACK + math.sqrt(math.log(2 * len(names) / ERROR_RATE) / (2 * n))
        fault = (
            f"the CDF of group {group} differs by more than {band:.3g} from the CDF of {n} drawn "
            f"true rewards, which by chance has probability {ERROR_RATE:g},"
        )
        drawn = expected[first].sort().values
        change = world.truth.cdf(torch.full_like(drawn, group).long(), drawn, rounds[::99]).diff()
        refuse(change < -CLOSE, f"the CDF of group {group} decreases", change=change)
        for right, values, sign in ((True, cdf[first], 1), (False, below[first], -1)):
            share = torch.searchsorted(values.sort().values, values, right=right) / n
            refuse(sign * (share - values) > band, fault, cdf=values, share=share)
    wrong = (pools.ranks < below.clamp(min=0) - tie) | (pools.ranks > cdf.clamp(max=1) + tie)
    fault = "a true rank that differs from the truth's CDF, or lies outside [0, 1],"
    refuse(wrong & (groups >= 0), fault, rank=pools.ranks, cdf=cdf)


def _drawn(kind: str, spec: Spec) -> tuple[Environment, Pools, Tensor]:
    """The environment, its first pools, and the rounds of the pools, (N, 1)."""
    world: Environment = registry.create(kind, spec)
    world.bind(Streams(0, range(ASKERS)))
    return world, world.pools(1, DRAWN), torch.arange(1, DRAWN + 1)[:, None]


def _same(label: str, first: Tensor, second: Tensor, *, start: int = 1) -> None:
    """Raises if two plays (B, N, M) differ; the message names the first round that differs."""
    wrong = differ(first, second)
    t = int(wrong.any(2).any(0).to(torch.uint8).argmax())
    fault = f"{label} give different results from round {start + t} on: [replica, number]"
    refuse(wrong[:, t], fault, first=first[:, t], second=second[:, t])
