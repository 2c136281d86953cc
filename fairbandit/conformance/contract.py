"""Checks of a constructor and of the values that methods return."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import (
    ASKERS,
    ConformanceError,
    Spec,
    asked,
    class_of,
    differ,
    engine_with,
    refuse,
)
from fairbandit.constructors import parameters_of
from fairbandit.environments.base import Environment, Pools
from fairbandit.estimators import NoBounds
from fairbandit.streams import Streams

DRAWN = 200
"""How many rounds of pools an environment draws for `ASKERS` replicas."""

ERROR_RATE, SLACK = 1e-6, 0.05
"""The probability with which chance alone would refuse an environment whose CDFs are right, and how
far they may be off, since some are estimates."""


def constructible(kind: str, spec: Spec) -> None:
    """Has a docstring, and is built from its name alone and from its own description."""
    cls, given = class_of(kind, spec), spec if isinstance(spec, Mapping) else {"name": spec}
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


def splits_soundly(kind: str, spec: Spec) -> None:
    """Gives a field (N,) each, of which none falls as t grows."""
    split, t = engine_with(kind, spec).policy.split, torch.arange(1, 200)
    for name, field in split.divide(t)._asdict().items():
        if field.shape != t.shape:
            raise ConformanceError(f"`{name}` has shape {tuple(field.shape)}; expected (N,)")
        refuse(field.diff() < 0, f"`{name}` moves back", before=field[:-1], after=field[1:])


def models_soundly(kind: str, spec: Spec) -> None:
    """Gives models whose scores are finite, and the same alone and among U models."""
    candidates, _ = asked(kind, spec)
    model, x, groups = candidates.model, candidates.contexts, candidates.groups
    scores = model.score(x, groups)
    errors = model.error(x, groups, scores)
    wrong = ~(scores + errors).isfinite() | (errors < 0)
    refuse(wrong, "scores are not finite, or errors below 0", score=scores, error=errors)
    shared = model.score(x[:, :1], groups[:, :1])  # one pool for all models
    for n in range(len(model)):
        one = model.take(torch.tensor([n]))
        for all_, of in ((scores, slice(n, n + 1)), (shared, slice(1))):
            alone, among = one.score(x[:, of], groups[:, of]), all_[:, n, None]
            what = f"model {n} scores differently among others"
            refuse(differ(alone, among), what, alone=alone, among=among)
    if model.theta is not None:
        linear = (x @ model.theta[..., None])[..., 0]
        refuse(differ(scores, linear), "scores differ from ⟨theta, x⟩", score=scores, linear=linear)
    with suppress(NoBounds):
        low, high = candidates.bounds()
        refuse((low > high) & candidates.present, "bounds that cross", lower=low, upper=high)


def permutes(kind: str, spec: Spec) -> None:
    """Permuting the candidates of a pool permutes their indices."""
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    candidates, _ = asked(kind, spec)
    x, groups = candidates.contexts[:, :, order], candidates.groups[:, :, order]
    shuffled = replace(candidates, contexts=x, groups=groups)
    what = "permuting the candidates does more than permute their indices"
    for name in ("index", "tie_ceiling"):
        before, after = getattr(candidates, name)[:, :, order], getattr(shuffled, name)
        refuse(differ(before, after) & shuffled.present, what, before=before, after=after)


def monotone(kind: str, spec: Spec) -> None:
    """Within a group, a higher score never has a lower index."""
    candidates, _ = asked(kind, spec)
    index, groups = candidates.index, candidates.groups
    low, high = candidates.scores - candidates.errors, candidates.scores + candidates.errors
    fallen = (low[..., None] > high[..., None, :]) & (groups[..., None] == groups[..., None, :])
    fallen &= (index[..., None] < index[..., None, :] - 1e-12) & candidates.present[..., None]
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

    With the CDF F, F(X) is at least a uniform number in distribution, and P(X' < X | X) at most
    one. So the empirical CDFs of n independent ones are off the diagonal by at most
    √(ln(2G/rate)/(2n)) on the one side each, for all groups with the probability 1 − rate
    (Dvoretzky, Kiefer, Wolfowitz). Candidates of one pool may depend on each other: one counts.
    """
    world, pools, rounds = _drawn(kind, spec)
    if world.truth is None:
        return
    groups, expected, ranks, cdf = pools.groups, pools.expected, pools.ranks, world.truth.cdf
    tie = 1e-9 * (1 + expected.abs())  # rewards that tie may differ by rounding
    low, high = (cdf(groups, expected + side * tie, rounds) for side in (-1, 1))
    least, most = torch.minimum(low, high) - tie, torch.maximum(low, high) + tie
    wrong = (ranks < least.clamp(min=0)) | (ranks > most.clamp(max=1))
    what = "a true rank that is not the truth's CDF, or not from 0 to 1,"
    refuse(wrong & (groups >= 0), what, rank=ranks, cdf=high)
    for group in range(len(world.group_names)):
        values = expected[groups == group].sort().values
        shares = cdf(torch.full_like(values, group).long(), values, rounds[:1, 0])
        refuse(shares.diff() < -1e-9, f"the CDF of group {group} falls", at=values[1:])
        one = (groups == group) & ((groups == group).cumsum(2) == 1)
        n = max(int(one.sum()), 1)
        steps = torch.arange(n + 1) / n
        gaps = steps[1:] - high[one].sort().values, low[one].sort().values - steps[:-1]
        band = SLACK + math.sqrt(math.log(2 * len(world.group_names) / ERROR_RATE) / (2 * n))
        what = (
            f"the CDF of group {group} is further than {band:.3g} from that of {n} true rewards "
            f"drawn, which chance does with probability {ERROR_RATE:g},"
        )
        for gap in gaps:
            refuse(gap > band, what, by=gap)


def _drawn(kind: str, spec: Spec) -> tuple[Environment, Pools, Tensor]:
    """An environment, its first pools, and their rounds, (N, 1)."""
    world: Environment = registry.create(kind, spec)
    world.bind(Streams(0, range(ASKERS)))
    return world, world.pools(1, DRAWN), torch.arange(1, DRAWN + 1)[:, None]
