"""`thm:linreg_opt` against closed forms and against rounds that the fair optimum plays."""

import math

import pytest
import torch

from fairbandit import Engine, FairbanditError
from fairbandit.theory import (
    DiscreteLaw,
    UniformSumLaw,
    laws,
    loss_share,
    mean_losses,
    trade_off,
)
from tests import support
from tests.environments.data import needs_records


def test_disjoint_supports():
    """The paper's example: p = 1/2 for every ε up to the gap between the groups."""
    first, second = UniformSumLaw([1.0], offset=3.0), UniformSumLaw([1.0])
    assert loss_share(first, second, [0.1, 1.0, 2.0]).tolist() == pytest.approx([0.5] * 3)
    assert float(loss_share(first, second, 4.0)[0]) == 0


@pytest.mark.parametrize("shift", [0.2, 0.7, 1.0])
def test_shifted_uniforms(shift):
    """U and U + b: p(ε) = (b − ε) − (b − ε)²/2 below b ≤ 1, whichever group comes first."""
    one, other = UniformSumLaw([1.0]), UniformSumLaw([1.0], offset=shift)
    epsilon = [0.0, 0.3 * shift, 0.9 * shift, 1.1 * shift]
    known = [max(shift - e, 0) - max(shift - e, 0) ** 2 / 2 for e in epsilon]
    for first, second in ((one, other), (other, one)):
        found = loss_share(first, second, epsilon).tolist()
        assert found == pytest.approx(known, abs=1e-6)


def test_the_best_epsilon():
    """For U and U + 1, ε·p = ε·(1 − ε²)/2 is greatest at 1/√3; the integral of p is 1/3."""
    found = trade_off(UniformSumLaw([1.0]), UniformSumLaw([1.0], offset=1.0))
    assert found.epsilon == pytest.approx(1 / math.sqrt(3), abs=1e-3)
    assert found.rate == pytest.approx((1 - 1 / 3) / 2 / math.sqrt(3), abs=1e-6)
    assert found.mean_loss == pytest.approx(1 / 3, abs=1e-4)
    assert max(found.errors) == 0
    assert found.chance(norm=2, theta=3) == pytest.approx(found.rate / 24)


def test_equal_laws_cost_nothing():
    law = UniformSumLaw([2.0, 1.0])
    found = trade_off(law, law)
    assert found.rate == pytest.approx(0, abs=1e-9)
    assert found.mean_loss == pytest.approx(0, abs=1e-9)


def losses(world, rounds: int, replicas: int) -> torch.Tensor:
    """What the fair optimum loses of reward, round by round."""
    engine = Engine(support.policy("gmf"), world, rounds=rounds, seed=5, replicas=range(replicas))
    return torch.cat([played.standard_regret.flatten() for played in engine.play()])


def check(world, rounds: int, replicas: int) -> None:
    """p(ε) is the measured share within 4 standard errors, ε·p(ε) is below the mean loss."""
    lost = losses(world, rounds, replicas)
    first, second = laws(world)
    best = trade_off(first, second)
    for epsilon in (best.epsilon, 0.3 * best.epsilon, 2 * best.epsilon):
        share = trade_off(first, second, epsilon).share
        measured = float((lost > epsilon).double().mean())
        assert abs(measured - share) <= 4 * math.sqrt(share * (1 - share) / len(lost)) + 1e-9
        assert epsilon * share <= float(lost.mean())
    error = float(lost.std()) / math.sqrt(len(lost))
    assert float(lost.mean()) == pytest.approx(best.mean_loss, abs=4 * error + 1e-4)
    assert best.rate <= best.mean_loss
    assert float(lost.max()) <= best.loss_upper_bound


@pytest.mark.parametrize(
    "parameters",
    [
        {"groups": 2, "theta": [2, 1, 1], "bias": 3.0},
        {"groups": 2, "theta": [4, 3, 5, 5, 1], "bias": 0.5},
        {"groups": 2, "theta": [4, -3, 2, 1, 1, 1, 1], "bias": 0.0},
    ],
)
def test_the_fair_optimum_loses_as_computed(parameters):
    """The share of rounds in which it loses more than ε is p(ε); ε·p(ε) is below its mean loss.

    Nine comparisons at 4 standard errors over the three problems, and three means: a correct
    engine fails one with probability below 1e-3.
    """
    check(support.environment(**parameters), rounds=500, replicas=100)


@needs_records
def test_the_census(tmp_path):
    """Over finitely many members, of whom ranks and rewards tie now and then."""
    check(support.census("census_gender", tmp_path), rounds=1000, replicas=20)


@pytest.mark.parametrize("count", [200, 300])
def test_discrete_laws_by_all_pairs(count):
    """The share over all pairs of members, equal ranks (of as many members) being split evenly."""
    draw = torch.Generator().manual_seed(3)
    one = torch.randn(300, generator=draw, dtype=torch.float64)
    other = 1.5 * torch.randn(count, generator=draw, dtype=torch.float64) + 0.5
    first, second = DiscreteLaw(one), DiscreteLaw(other)
    rank_one, rank_other = ((v[:, None] >= v[None]).double().mean(1) for v in (one, other))
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        shares = []
        for picks_one in (
            rank_one[:, None] > rank_other[None],
            rank_one[:, None] >= rank_other[None],
        ):
            ahead = one[:, None] - other[None]
            lost = torch.where(picks_one, -ahead, ahead)
            shares.append(float((lost > epsilon).double().mean()))
        assert float(loss_share(first, second, epsilon)[0]) == pytest.approx(sum(shares) / 2)


def by_pairs(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float, float]:
    """Over all pairs, ranks tied by half: both optima's mean losses, and the best ε·p(ε)."""
    ranks = [(v[:, None] >= v[None]).double().mean(1) for v in (one, other)]
    picks_one = (ranks[0][:, None] > ranks[1][None]).double()
    picks_one += (ranks[0][:, None] == ranks[1][None]).double() / 2
    ahead = one[:, None] - other[None]
    lost_one, lost_other = (-ahead).clamp(min=0), ahead.clamp(min=0)
    losses = torch.cat([lost_one.flatten(), lost_other.flatten()])
    weights = torch.cat([picks_one.flatten(), 1 - picks_one.flatten()]) / ahead.numel()
    unfair = torch.maximum(ranks[0][:, None], ranks[1][None])
    best = torch.where(ahead > 0, ranks[0][:, None], ranks[1][None])
    best = torch.where(ahead == 0, (ranks[0][:, None] + ranks[1][None]) / 2, best)
    falling = losses.argsort(descending=True)
    rate = float((losses[falling] * weights[falling].cumsum(0)).max())
    return float((losses * weights).sum()), float((unfair - best).mean()), rate


@pytest.mark.parametrize("outlier", [1.0, 1e3, 1e4, 1e8])
def test_outliers(outlier):
    """Exact sums over sorted values, whatever the largest one; 300 and 200 members, some tied."""
    draw = torch.Generator().manual_seed(7)
    one = (torch.randn(300, generator=draw, dtype=torch.float64) * 20).round() / 20
    other = (torch.randn(200, generator=draw, dtype=torch.float64) * 20).round() / 20 + 0.3
    one[0] = outlier
    found = trade_off(DiscreteLaw(one), DiscreteLaw(other))
    loss, unfairness, rate = by_pairs(one, other)
    assert found.mean_loss == pytest.approx(loss, rel=1e-9)
    assert found.mean_unfairness == pytest.approx(unfairness, rel=1e-9)
    assert (1 - 1.01e-3) * rate <= found.rate <= rate * (1 + 1e-12)
    assert found.rate <= found.mean_loss <= found.loss_upper_bound


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (([2.0], 0.0), ([1.0], 0.5)),
        (([4.0, 3.0], 0.0), ([5.0, 5.0, 1.0], 2.0)),
        (([1.0], 0.0), ([1.0] * 7, 40.0)),
    ],
)
def test_the_mean_loss_of_sums_of_uniforms(first, second):
    """Without atoms it is ½∫(F₁ − F₂)² dv: E max = h − ∫F₁F₂, and E[R·F(R)] = ½E max(R, R′)."""
    one, other = UniformSumLaw(*first), UniformSumLaw(*second)
    low, high = min(one.low, other.low), max(one.high, other.high)
    grid = torch.linspace(low, high, 20_001, dtype=torch.float64)
    squared = (one.cdf(grid) - other.cdf(grid)) ** 2
    assert mean_losses(one, other)[0] == pytest.approx(
        float(torch.trapezoid(squared, grid)) / 2, rel=1e-5
    )


def test_a_sample_has_an_error():
    draw = torch.Generator().manual_seed(4)
    values = torch.rand(2, 4000, generator=draw, dtype=torch.float64)
    first = DiscreteLaw(values[0], sample=True)
    second = DiscreteLaw(values[1] + 0.7, sample=True)
    found = trade_off(first, second, 0.2)
    assert 0.001 < found.errors[0] < 0.02
    assert found.share == pytest.approx(0.5 - 0.125, abs=4 * found.errors[0])


def test_a_sum_of_many_uniforms():
    """Nine uniforms a group, off by 1: the quadrature without knots against Monte Carlo."""
    first, second = UniformSumLaw([1.0] * 9), UniformSumLaw([1.0] * 9, offset=1.0)
    draw = torch.rand(
        2, 100_000, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(6)
    )
    one, other = draw.sum(2)
    share = ((one > other) & (other + 1 - one > 0.5)) | ((one < other) & (one - other - 1 > 0.5))
    error = math.sqrt(0.25 / 100_000)
    assert float(loss_share(first, second, 0.5)[0]) == pytest.approx(
        float(share.double().mean()), abs=4 * error
    )


@pytest.mark.parametrize("epsilon", [-0.1, float("nan"), float("inf")])
def test_epsilon_out_of_range(epsilon):
    law = UniformSumLaw([1.0])
    with pytest.raises(FairbanditError, match="epsilon must be at least 0"):
        loss_share(law, law, epsilon)


def test_no_values_no_law():
    with pytest.raises(FairbanditError, match="at least one value"):
        DiscreteLaw(torch.empty(0, dtype=torch.float64))
