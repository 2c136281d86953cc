"""The checks of the values that a part returns, and the run of all checks of a part."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.relations import (
    CHECKS,
    Check,
    ascends,
    plays_one_to_three_picks,
    relation,
)
from fairbandit.conformance.world import (
    ASKERS,
    AXES,
    CLOSE,
    PLACES,
    ROUNDS,
    SEED,
    ConformanceError,
    Scattered,
    Spec,
    asked,
    differ,
    play,
    refuse,
    restored,
    same,
)
from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.errors import FairbanditError
from fairbandit.estimators import NoBounds
from fairbandit.estimators.ties import ROUNDING, Approximate
from fairbandit.history import Block, Problem
from fairbandit.history.outcomes import gather_picks
from fairbandit.metrics import Judge
from fairbandit.ranks import Scored
from fairbandit.selectors import Ranked, Selection
from fairbandit.streams import Streams

DRAWN = 200  # the number of rounds of pools that a check draws for `ASKERS` replicas

ERROR_RATE, SLACK = 1e-6, 0.05
"""The probability that chance alone fails a selector or an environment with correct probabilities,
and the tolerance of CDFs, some of which are estimates."""

_refuse_later = partial(refuse, start=ROUNDS + 1)


@relation("split")
def divides_later_rounds_no_earlier(kind: str, spec: Spec) -> None:
    """The columns of a division ascend, since they are searched for the rounds of a block."""
    for name, column in registry.create(kind, spec).plan(np.arange(1, 200))._asdict().items():
        ascends(name, torch.from_numpy(column))


@relation("estimator", "policy")
def gives_finite_scores_which_are_linear_if_it_has_a_theta(kind: str, spec: Spec) -> None:
    """`score`, `approximate` and ⟨theta, x⟩ are equal, and bounds do not cross."""
    scored = asked(kind, spec)[0].scored
    scores, model = scored.scores.value, scored.models.of_rounds
    slack, plain = scored.scores.slack, model.score(scored.contexts, scored.groups)
    wrong = ~(scores + slack).isfinite() | (scores + slack < scores)
    _refuse_later(wrong, "scores that are not finite, or negative errors", score=scores)
    if model.theta is not None:
        linear = (scored.contexts @ model.theta[..., None])[..., 0]
        fault = "scores differ from ⟨theta, x⟩"
        _refuse_later(differ(plain, linear), fault, score=plain, linear=linear)
    fault = "scores of `approximate` differ from scores of `score`"
    _refuse_later(differ(scores, plain), fault, score=plain, approximate=scores)
    with suppress(NoBounds):
        low, high = scored.bounds()
        _refuse_later((low > high) & scored.present, "bounds that cross", lower=low, upper=high)


@relation("rank", "policy")
def gives_a_candidate_the_same_index_in_any_pool(kind: str, spec: Spec) -> None:
    """Its place does not matter, nor other candidates unless the rank declares the need `pool`."""
    ranked, policy = asked(kind, spec)
    scored, index, rank = ranked.scored, ranked.index, policy.rank
    orders, fault = [[3, 0, 5, 1, 4, 2]], "permuting the candidates does more than permute indices"
    for order in orders + [[k] for k in range(PLACES) if "pool" not in rank.needs]:
        block = Block.of(ROUNDS + 1, scored.contexts[:, :, order], scored.groups[:, :, order])
        history = policy.history._replace(open=block)
        permuted = rank.index(Scored(history, scored.plan, scored.models))
        for among, alone in ((index.value, permuted.value), (index.high, permuted.high)):
            wrong = differ(among[:, :, order], alone) & (block.groups >= 0)
            _refuse_later(wrong, fault, among=among[:, :, order], alone=alone)
        fault = 'the index depends on the other candidates of the pool: declare needs = {"pool"};'


@relation("rank")
def gives_a_higher_score_no_lower_index_within_a_group(kind: str, spec: Spec) -> None:
    """The index is monotone in the score."""
    ranked, _ = asked(kind, spec)
    index, groups, scores = ranked.index.value, ranked.groups, ranked.scored.scores
    lower, higher = index[..., None], index[..., None, :]
    fallen = (scores.low[..., None] > scores.high[..., None, :]) & (lower < higher - 1e-12)
    fallen &= (groups[..., None] == groups[..., None, :]) & ranked.present[..., None]
    fault = "not monotone: within a group, a candidate of higher score has a lower index"
    _refuse_later(fallen, fault, (*AXES[:3], "other place"), index=lower, other=higher)


@relation("rank")
def ties_equal_candidates_of_groups_with_the_same_past(kind: str, spec: Spec) -> str | None:
    """Both groups have had the same contexts, in another order: their sums round differently."""
    world = {"estimator": "oracle", "delay": 3 * ROUNDS, "twins": True}  # no reward comes
    ranked, policy = asked(kind, spec, setting=("full", 1), **world)
    if (policy.rank.max_contexts or math.inf) < PLACES * ROUNDS:
        return "it reads the last contexts of each group, which differ"
    index, fault = ranked.index, "equal candidates do not tie: the index lacks its slack"
    refuse(index.low > index.high.flip(2), fault, low=index.low, high=index.high.flip(2))
    return None


@relation("selector")
def gives_a_candidate_the_same_probability_at_any_place(kind: str, spec: Spec) -> str | None:
    """Also if indices that tie differ within their slack."""
    ranked, policy = asked(kind, spec)
    if policy.selector.sequential:
        return "it decides the candidates in the order of their places"
    order, scored, (value, slack) = [3, 0, 5, 1, 4, 2], ranked.scored, ranked.index
    block = Block.of(ROUNDS + 1, scored.contexts[:, :, order], scored.groups[:, :, order])
    permuted = Scored(policy.history._replace(open=block), scored.plan, scored.models)
    moved = torch.linspace(-ROUNDING, ROUNDING, PLACES, dtype=value.dtype)
    index = Approximate(value[:, :, order] + moved, (slack + 0 * value)[:, :, order] + ROUNDING)
    bounds = ranked._bounds and (ranked._bounds[0][:, :, order], ranked._bounds[1][:, :, order])
    other = Ranked(permuted, index, bounds, ranked._pick_counts)
    for m in (1, 2, 3):
        first = policy.selector.select(ranked, m).inclusion[:, :, order]
        second = policy.selector.select(other, m).inclusion
        fault = f"with {m} picks, a probability depends on the place, or on how indices tie"
        fault += " (those of `best` do not)"
        _refuse_later(differ(first, second), fault, before=first, permuted=second)
    return None


@relation("selector", "policy")
def picks_with_the_probabilities_that_it_states(kind: str, spec: Spec) -> None:
    """Counts of picks stay within the bound of Freedman's inequality.

    For each place in the order of the index, the picks of n pools differ from the sum of their
    probabilities by more than the bound with a probability of at most `ERROR_RATE`.
    """
    ranked, policy = asked(kind, spec)
    order = ranked.index.value.where(ranked.present, -torch.inf).argsort(dim=2, descending=True)
    for m in (1, 2, 3):
        actions, stated, inclusion = policy.selector.select(ranked, m)
        chances = gather_picks(inclusion, actions)
        fault = f"with {m} picks, a propensity is not the probability of the place"
        _refuse_later(differ(stated, chances), fault, propensity=stated, place=chances)
        picked = torch.zeros_like(inclusion)
        picked.scatter_add_(2, actions.clamp(min=0), (actions >= 0).to(picked.dtype))
        number, p = (values.gather(2, order).flatten(0, 1) for values in (picked, inclusion))
        log, difference = math.log(2 * 3 * PLACES / ERROR_RATE), (number - p).sum(0)
        bound = log / 3 + (log**2 / 9 + 2 * log * (p * (1 - p)).sum(0)).sqrt()
        fault = f"with {m} picks, the picks from {len(p)} pools contradict their probabilities"
        values = {"picks": number.sum(0), "expected": p.sum(0), "tolerance": bound}
        refuse(difference.abs() > bound, fault, ("place in the order of the index",), 1, **values)


@relation("metric")
def judges_all_picks_if_it_judges_the_first(kind: str, spec: Spec) -> str | None:
    """The values change with each of three picks if they change with the first."""
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
        return Judge({kind: metric}, problem).judge(1, pools, selection).metrics[kind]

    changed_slots = (3, 1, 2), (0, 3, 2), (0, 1, 3)  # three picks, one of which is another
    reacts = [bool(differ(judged(0, 1, 2), judged(*changed)).any()) for changed in changed_slots]
    if reacts[0] and not all(reacts):
        raise ConformanceError(
            "the values change with the first of three picks, but not with the others; expected "
            "a metric of all picks, such as of `judged.total`"
        )
    return None if reacts[0] else "it reads probabilities or pools, and no picks"


@relation("metric")
def reads_no_truth_unless_it_declares_needs_truth(kind: str, spec: Spec) -> str | None:
    """The values are the same where true rewards and ranks are unknown."""
    if registry.create(kind, spec).needs_truth:
        return "it declares that it reads true rewards or ranks"
    known, unknown = (play(kind, spec, known=known).results for known in (True, False))
    same("known and unknown true rewards and ranks (declare needs_truth = True)", known, unknown)
    return None


@relation("environment")
def draws_the_rewards_and_ranks_of_its_truth(kind: str, spec: Spec) -> str | None:
    """True rewards are the truth's scores, and true ranks are their CDFs."""
    truth, _, pools, rounds = _drawn(kind, spec)
    if truth is None:
        return "its ground truth is unknown"
    present, expected, ranks = pools.groups >= 0, pools.expected, pools.ranks
    score = truth.score(pools.contexts, pools.groups.clamp(min=0), rounds)
    wrong = ((score - expected).abs() > 1e-6) & present
    refuse(wrong, "true rewards that are not the truth's", expected=expected, score=score)
    below, cdf = (truth.cdf(pools.groups, end, rounds) for end in _ends(expected))
    wrong = (ranks < below.clamp(min=0) - CLOSE) | (ranks > cdf.clamp(max=1) + CLOSE)
    fault = "a true rank that differs from the truth's CDF, or lies outside [0, 1],"
    refuse(wrong & present, fault, rank=ranks, cdf=cdf)
    return None


@relation("environment")
def has_distributions_that_fit_the_rewards_that_it_draws(kind: str, spec: Spec) -> str | None:
    """CDFs of groups ascend, and differ from CDFs of drawn rewards no more than by chance.

    If V has the CDF F of its round, a uniform number lies between F(V−) and F(V); F may drift. The
    empirical CDF of n uniform numbers differs from the identity by at most √(ln(2G/rate)/(2n)), for
    all G groups with probability 1 − rate (Dvoretzky, Kiefer, Wolfowitz). Candidates of a pool may
    be dependent: only the first candidate of each group counts.
    """
    truth, names, pools, rounds = _drawn(kind, spec)
    if truth is None:
        return "its ground truth is unknown"
    for group in range(len(names)):
        first = (members := pools.groups == group) & (members.cumsum(2) == 1)
        drawn, n, when = pools.expected[first], max(int(first.sum()), 1), rounds.expand_as(members)
        codes = torch.full_like(drawn, group).long()
        step = truth.cdf(codes, drawn.sort().values, rounds[::99]).diff()
        refuse(step < -CLOSE, f"the CDF of group {group} decreases", ("sorted reward",), step=step)
        band = SLACK + math.sqrt(math.log(2 * len(names) / ERROR_RATE) / (2 * n))
        fault = (
            f"the CDF of group {group} differs by more than {band:.3g} from the CDF of {n} drawn "
            f"true rewards, which by chance has probability {ERROR_RATE:g},"
        )
        for right, end in zip((False, True), _ends(drawn), strict=True):
            cdf = truth.cdf(codes, end, when[first])
            share = torch.searchsorted(cdf.sort().values, cdf, right=right) / n
            wrong = (share - cdf if right else cdf - share) > band
            refuse(wrong, fault, ("drawn reward",), cdf=cdf, share=share)
    return None


def _drawn(kind: str, spec: Spec) -> tuple[Truth | None, tuple[str, ...], Pools, Tensor]:
    world: Environment = registry.create(kind, spec)
    world.bind(Streams(0, range(ASKERS)))
    rounds = torch.arange(1, DRAWN + 1)[:, None]
    return world.truth, world.group_names, world.pools(1, DRAWN), rounds


def _ends(rewards: Tensor) -> tuple[Tensor, Tensor]:
    """Just below and just above each reward: rewards that tie may differ by rounding."""
    slack = 1e-9 * (1 + rewards.abs())
    return rewards - slack, rewards + slack


class CheckResult(NamedTuple):
    """The result of one check.

    Attributes:
        check: the check's name, which is its requirement in words.
        reason: why the part fails; None if it passes.
        inapplicable: why the check does not apply to the part; None if it applies.
    """

    check: str
    reason: str | None
    inapplicable: str | None = None


def checks(kind: str) -> list[Check]:
    """The checks that parts of a kind must pass, the simplest first."""
    return [check for check, kinds in CHECKS.items() if kind in kinds]


def examine(kind: str, spec: Spec) -> Iterator[CheckResult]:
    """Runs every check on one part.

    Args:
        kind: one of `KINDS`.
        spec: its name, or a mapping with `name` and hyperparameters.

    Yields:
        The result of each check; none after a failure to play. An exception in the part is a failed
        check.
    """
    for check in checks(kind):
        reason, inapplicable = _outcome(check, kind, spec)
        yield CheckResult(check.__name__, reason, inapplicable)
        if reason and check is plays_one_to_three_picks:
            return


def _outcome(check: Check, kind: str, spec: Spec) -> tuple[str | None, str | None]:
    try:
        with restored(), redirect_stdout(StringIO()):
            return None, check(kind, spec)
    except FairbanditError as error:
        return " ".join(str(error).split()), None
    except Exception as error:
        message = " ".join(traceback.format_exception_only(error)[-1].split())
        at = registry.line_of(error)
        if at is None:
            last = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{last.filename}:{last.lineno}, in no line of a plugin"
        return f"{message} ({at})", None
