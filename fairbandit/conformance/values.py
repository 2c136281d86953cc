"""The checks of the values that a part returns."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import (
    ASKERS,
    AXES,
    CLOSE,
    PAST,
    ROUNDS,
    SEED,
    ConformanceError,
    Recorded,
    Scattered,
    Spec,
    asked,
    differ,
    refuse,
    same_past,
)
from fairbandit.environments.base import Environment, Pools
from fairbandit.environments.picks import gather_picks
from fairbandit.estimators import NoBounds
from fairbandit.history import Block
from fairbandit.history.problem import Problem
from fairbandit.metrics import Judge
from fairbandit.ranks import Rank
from fairbandit.ranks.scored import Scored
from fairbandit.selectors import Selection
from fairbandit.streams import Streams

LATER = ROUNDS + 1
"""The first of the rounds that `asked` returns."""

DRAWN = 200
"""The number of rounds of pools that a check draws for `ASKERS` replicas."""

ERROR_RATE, SLACK = 1e-6, 0.05
"""The probability that chance alone fails a selector or an environment with correct probabilities,
and the tolerance of CDFs, some of which are estimates."""


def splits_soundly(kind: str, spec: Spec) -> None:
    """Gives fields of shape (N,), none of which decreases as t grows."""
    division = registry.create(kind, spec).divide(np.arange(1, 200))
    for name, field in division._asdict().items():
        field = torch.from_numpy(field)
        shown = {"before": field[:-1], "after": field[1:]}
        refuse(field.diff() < 0, f"`{name}` decreases", shown, axes=["round"], start=2)


def models_soundly(kind: str, spec: Spec) -> None:
    """Gives models with finite scores, which equal ⟨theta, x⟩ if the model has a theta."""
    scored = asked(kind, spec)[0].scored
    scores, model = scored.scores.value, scored.models.of_rounds
    slack = scored.scores.high - scores
    wrong, shown = ~(scores + slack).isfinite() | (slack < 0), {"score": scores, "error": slack}
    refuse(wrong, "scores that are not finite, or negative errors", shown, start=LATER)
    plain = model.score(scored.contexts, scored.groups)
    if model.theta is not None:
        linear = (scored.contexts @ model.theta[..., None])[..., 0]
        shown = {"score": plain, "linear": linear}
        refuse(differ(plain, linear), "scores differ from ⟨theta, x⟩", shown, start=LATER)
    fault = "scores of `approximate` differ from scores of `score`"
    refuse(differ(scores, plain), fault, {"score": plain, "approximate": scores}, start=LATER)
    with suppress(NoBounds):
        low, high = scored.bounds()
        crossing, shown = (low > high) & scored.present, {"lower": low, "upper": high}
        refuse(crossing, "bounds that cross", shown, start=LATER)


def _rescored(policy: Recorded, scored: Scored, contexts: Tensor, groups: Tensor) -> Scored:
    """Returns other pools, scored in the place of the pools that a policy decided last."""
    block = Block(scored.first, contexts, groups)
    return Scored(policy.known._replace(open=block), scored.plan, scored.models)


def permutes(kind: str, spec: Spec) -> None:
    """Permuting the candidates of a pool permutes their indices."""
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    ranked, policy = asked(kind, spec)
    scored = ranked.scored
    groups = scored.groups[:, :, order]
    shuffled = policy.rank.index(_rescored(policy, scored, scored.contexts[:, :, order], groups))
    fault = "permuting the candidates does more than permute their indices"
    for before, after in ((ranked.index.value, shuffled.value), (ranked.index.high, shuffled.high)):
        before = before[:, :, order]
        wrong = differ(before, after) & (groups >= 0)
        refuse(wrong, fault, {"before": before, "after": after}, start=LATER)


def ranks_alone(kind: str, spec: Spec) -> str | None:
    """Gives a candidate an index that does not depend on the pool, or declares the need `pool`."""
    ranked, policy = asked(kind, spec)
    if "pool" in policy.rank.needs:
        return "it declares that it reads the pool"
    scored, index = ranked.scored, ranked.index.value
    fault = (
        "the index depends on the other candidates of the pool, so that the rank cannot be used "
        'where they come later: declare needs = {"pool"};'
    )
    for k in range(index.shape[2]):
        x, groups = scored.contexts[:, :, k : k + 1], scored.groups[:, :, k : k + 1]
        alone = policy.rank.index(_rescored(policy, scored, x, groups)).value
        shown = {"among": index[:, :, k : k + 1], "alone": alone}
        wrong = differ(shown["among"], alone) & (groups >= 0)
        refuse(wrong, f"at place {k}, {fault}", shown, axes=AXES[:2], start=LATER)
    return None


def monotone(kind: str, spec: Spec) -> None:
    """Within a group, a higher score never has a lower index."""
    ranked, _ = asked(kind, spec)
    index, groups, scores = ranked.index.value, ranked.groups, ranked.scored.scores
    higher = scores.low[..., None] > scores.high[..., None, :]
    fallen = higher & (groups[..., None] == groups[..., None, :])
    fallen &= (index[..., None] < index[..., None, :] - 1e-12) & ranked.present[..., None]
    fault = "not monotone: within a group, a candidate of higher score has a lower index"
    shown = {"index": index[..., None], "other": index[..., None, :]}
    refuse(fallen, fault, shown, axes=(*AXES[:3], "other place"), start=LATER)


def equals_tie(kind: str, spec: Spec) -> str | None:
    """Gives equal candidates of groups with the same past indices that tie."""
    rank: Rank = registry.create(kind, spec)
    members = 3
    if rank.max_contexts is not None and rank.max_contexts < ROUNDS * members:
        return "it reads the last contexts of each group, which differ"
    try:
        index = rank.index(same_past(rank, members))
    except NoBounds:
        return "it reads confidence bounds"
    low, high = (end.unflatten(2, (2, 2)) for end in (index.low, index.high))
    what = "equal candidates do not tie: the index lacks the slack of rounding"
    shown = {"low": low.amax(3), "high": high.amin(3)}
    refuse(low.amax(3) > high.amin(3), what, shown, axes=(*AXES[:2], "pair"), start=PAST + 1)
    return None


def draws_as_stated(kind: str, spec: Spec) -> None:
    """Picks one, two and three candidates with the probabilities that it states.

    For each place in the order of the index, the picks of n pools differ from the sum of their
    probabilities by more than the bound of Freedman's inequality with a probability of at most
    `ERROR_RATE`.
    """
    ranked, policy = asked(kind, spec)
    order = ranked.index.value.where(ranked.present, -torch.inf).argsort(dim=2, descending=True)
    for m in (1, 2, 3):
        actions, stated, inclusion = policy.selector.select(ranked, m)
        own = gather_picks(inclusion, actions)
        fault = f"with {m} picks, a propensity is not the probability of the place"
        refuse(differ(stated, own), fault, {"propensity": stated, "place's": own}, start=LATER)
        filled = (actions >= 0).to(inclusion.dtype)
        picked = torch.zeros_like(inclusion).scatter_add(2, actions.clamp(min=0), filled)
        number, p = (values.gather(2, order).flatten(0, 1) for values in (picked, inclusion))
        log = math.log(2 * 3 * p.shape[1] / ERROR_RATE)
        bound = log / 3 + (log**2 / 9 + 2 * log * (p * (1 - p)).sum(0)).sqrt()
        fault = f"with {m} picks, the picks from {len(p)} pools contradict their probabilities"
        shown = {"picks": number.sum(0), "expected": p.sum(0), "tolerance": bound}
        wrong = (number - p).sum(0).abs() > bound
        refuse(wrong, fault, shown, axes=["place in the order of the index"])


def judges_every_pick(kind: str, spec: Spec) -> str | None:
    """Judges all picks of a shortlist, if it judges the first."""
    world, streams = Scattered(small_every=ROUNDS + 1), Streams(SEED, [0])
    world.bind(streams)
    metric, pools = registry.create(kind, spec), world.pools(1, ROUNDS)
    problem = Problem(world.features, 3, streams, truth=world.truth)
    present = (pools.groups >= 0).double()
    places = present.argsort(dim=2, descending=True, stable=True)  # at least four candidates
    inclusion = 3 * present / present.sum(2, keepdim=True)

    def judged(*slots: int) -> Tensor:
        actions = places[..., list(slots)]
        selection = Selection(actions, inclusion.gather(2, actions), inclusion)
        return Judge({"metric": metric}, problem).judge(1, pools, selection).metrics["metric"]

    others = (3, 1, 2), (0, 3, 2), (0, 1, 3)  # three picks, one of which is another
    reacts = [bool(differ(judged(0, 1, 2), judged(*other)).any()) for other in others]
    if reacts[0] and not all(reacts):
        raise ConformanceError(
            "the values change with the first of three picks, but not with the others; expected "
            "a metric of all picks, such as of `judged.total`"
        )
    return None if reacts[0] else "it reads probabilities or pools, and no picks"


def declares_truth(kind: str, spec: Spec) -> str | None:
    """Gives the same values where true rewards and ranks are unknown, or declares `needs_truth`."""
    metric, world, streams = registry.create(kind, spec), Scattered(), Streams(SEED, range(ASKERS))
    if metric.needs_truth:
        return "it declares that it reads true rewards or ranks"
    world.bind(streams)
    pools, problem = world.pools(1, ROUNDS), Problem(world.features, 3, streams, truth=world.truth)
    inclusion = (pools.groups >= 0).double()
    inclusion /= inclusion.sum(2, keepdim=True)
    selection = Selection(0 * pools.groups[..., 0], inclusion[..., 0], inclusion)  # place 0 is full
    known, unknown = (
        Judge({"metric": metric}, given).judge(1, pools, selection).metrics["metric"]
        for given in (problem, replace(problem, truth=None))
    )
    fault = "the values change with the true rewards or ranks; declare needs_truth = True:"
    refuse(differ(known, unknown), fault, {"known": known, "unknown": unknown})
    return None


def draws_soundly(kind: str, spec: Spec) -> None:
    """True rewards equal the truth's score, and pools stay unchanged when others are drawn."""
    world, pools, rounds = _drawn(kind, spec)
    kept = [part.clone() for part in vars(pools).values()]
    world.pools(DRAWN + 1, DRAWN)
    for (name, part), before in zip(vars(pools).items(), kept, strict=True):
        fault = f"{name} change when other pools are drawn"
        refuse(part != before, fault, {"was": before, "now": part})
    if world.truth is not None:
        true = world.truth.score(pools.contexts, pools.groups.clamp(min=0), rounds)
        wrong = ((true - pools.expected).abs() > 1e-6) & (pools.groups >= 0)
        shown = {"expected": pools.expected, "score": true}
        refuse(wrong, "true rewards that are not the truth's", shown)


def ranks_soundly(kind: str, spec: Spec) -> str | None:
    """True ranks equal the truth's CDFs, and the CDFs fit the true rewards of drawn pools.

    If V has the CDF F of its round, a uniform number lies between F(V−) and F(V); F may drift. The
    empirical CDF of n uniform numbers differs from the identity by at most √(ln(2G/rate)/(2n)), for
    all G groups with probability 1 − rate (Dvoretzky, Kiefer, Wolfowitz). Candidates of a pool may
    be dependent: only the first candidate of each group counts.
    """
    world, pools, rounds = _drawn(kind, spec)
    if world.truth is None:
        return "its ground truth is unknown"
    groups, expected, names = pools.groups, pools.expected, world.group_names
    tie = 1e-9 * (1 + expected.abs())  # rewards that tie may differ by rounding
    below, cdf = (world.truth.cdf(groups, expected + side, rounds) for side in (-tie, tie))
    for group in range(len(names)):
        first = (groups == group) & ((groups == group).cumsum(2) == 1)
        n = max(int(first.sum()), 1)
        band = SLACK + math.sqrt(math.log(2 * len(names) / ERROR_RATE) / (2 * n))
        differs = (
            f"the CDF of group {group} differs by more than {band:.3g} from the CDF of {n} drawn "
            f"true rewards, which by chance has probability {ERROR_RATE:g},"
        )
        drawn = expected[first].sort().values
        change = world.truth.cdf(torch.full_like(drawn, group).long(), drawn, rounds[::99]).diff()
        fault = f"the CDF of group {group} decreases"
        refuse(change < -CLOSE, fault, {"change": change}, axes=["sorted reward"])
        for right, values, sign in ((True, cdf[first], 1), (False, below[first], -1)):
            share = torch.searchsorted(values.sort().values, values, right=right) / n
            shown = {"cdf": values, "share": share}
            refuse(sign * (share - values) > band, differs, shown, axes=["drawn reward"])
    wrong = (pools.ranks < below.clamp(min=0) - tie) | (pools.ranks > cdf.clamp(max=1) + tie)
    fault = "a true rank that differs from the truth's CDF, or lies outside [0, 1],"
    refuse(wrong & (groups >= 0), fault, {"rank": pools.ranks, "cdf": cdf})
    return None


def _drawn(kind: str, spec: Spec) -> tuple[Environment, Pools, Tensor]:
    """The environment, its first pools, and the rounds of the pools, (N, 1)."""
    world: Environment = registry.create(kind, spec)
    world.bind(Streams(0, range(ASKERS)))
    return world, world.pools(1, DRAWN), torch.arange(1, DRAWN + 1)[:, None]
