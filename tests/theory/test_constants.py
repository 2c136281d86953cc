"""Constants against hand-computed cases, Monte Carlo, and numpy."""

import math
from dataclasses import fields
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.environments import Environment, Pools, Simulation, Table
from fairbandit.environments.base import Truth
from fairbandit.environments.distribution import bandwidth
from fairbandit.maths.uniform_sum import uniform_sum_pdf
from fairbandit.streams import Purpose, Streams
from fairbandit.theory import Estimate, constants
from fairbandit.theory.computed import moment_factor, sampled_constants
from fairbandit.theory.estimation import greatest_density, smallest_direction, subgaussian
from tests import support
from tests.environments.data import needs_records


def test_the_simulation_by_hand():
    """L² = 4 + 9²; λ⁺ is the lesser root of x² − (13/12 + 126)x + 126/12, over K; M = 1/3."""
    known = constants(support.environment())
    assert (known.places, known.groups, known.features) == (4, 4, 17)
    assert known.exact
    assert known.norm.value == pytest.approx(math.sqrt(85))
    trace, det = 13 / 12 + 126, 126 / 12
    lesser = (trace - math.sqrt(trace**2 - 4 * det)) / 2
    assert known.eigenvalue.value == pytest.approx(lesser / 4, rel=1e-10)
    # four uniforms on [0, 2]: the Irwin-Hall density of order 4 is 2/3 at its centre
    assert known.density.value == pytest.approx(1 / 3)
    assert known.noise.value == 2.0
    assert known.theta == pytest.approx(math.sqrt(16 + 9 + 49 + 64 + 25 + 25 + 16 + 1))
    assert known.candidates.value == 1
    assert known.balance is None
    assert known.own_places


def test_the_second_moment_by_monte_carlo():
    world = support.environment(bias=0.5)
    assert isinstance(world, Simulation)
    world.bind(Streams(0, range(50)))
    drawn = world.pools(1, 400).contexts.flatten(0, 2)
    products = drawn[:, :, None] * drawn[:, None, :]
    error = products.std(0) / math.sqrt(len(drawn))
    factor = moment_factor(world)
    off = (products.mean(0) - factor.T @ factor).abs()
    assert bool((off <= 5 * error + 1e-12).all())


def test_a_feature_that_is_always_zero_is_left_out():
    known = constants(support.environment(bias=0.0))
    assert known.eigenvalue.value == pytest.approx(1 / 48)


@pytest.mark.parametrize("weights", [[3.0], [1.0, 4.0], [-1.0, 2.0, 5.0], [1, 1, 1, 1, 1]])
def test_the_centre_is_the_mode(weights):
    """M against a fine grid and all knots."""
    theta = [*weights, *weights, 0.0]
    known = constants(support.environment(groups=2, theta=theta))
    low, high = sum(min(w, 0) for w in weights), sum(max(w, 0) for w in weights)
    grid = torch.linspace(low, high, 20_001, dtype=torch.float64)
    knots = [
        low + sum(w for i, w in enumerate(map(abs, weights)) if bits >> i & 1)
        for bits in range(1 << len(weights))
    ]
    values = torch.cat([grid, torch.tensor(knots, dtype=torch.float64)])
    largest = float(uniform_sum_pdf(values, weights).max())
    assert known.density.value == pytest.approx(largest, rel=1e-9)


def test_a_group_without_a_density():
    known = constants(support.environment(groups=2, theta=[0, 1, 1]))
    assert math.isinf(known.density.value)
    assert "no reward density" in known.caveats[0]


def test_too_many_weights_for_the_closed_form():
    """Thirteen uniforms of weight 1 are nearly normal: M ≈ 1/√(2π·13/12)."""
    world = support.environment(groups=2, theta=[1.0] * 26 + [1.0], cdf="sampled", cdf_samples=10)
    known = constants(world)
    assert not known.density.exact
    assert known.density.value == pytest.approx(1 / math.sqrt(2 * math.pi * 13 / 12), rel=0.05)


def test_the_kernel_density_of_a_normal_sample():
    """Its maximum is that of the normal smoothed by h, within the interval's error."""
    draws = np.random.default_rng(1).normal(size=40_000)
    found = greatest_density(torch.from_numpy(draws))
    h = bandwidth(torch.from_numpy(draws))
    smooth = 1 / math.sqrt(2 * math.pi * (1 + h**2))
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(smooth, abs=1.5 * (found.high - found.low))
    # against the sum over all values, without bins
    grid = np.linspace(-0.5, 0.5, 201)[:, None]
    direct = np.exp(-(((grid - draws) / h) ** 2) / 2).mean(1) / (h * math.sqrt(2 * math.pi))
    assert found.value == pytest.approx(direct.max(), rel=2e-3)


def test_equal_values_have_no_density():
    assert math.isinf(greatest_density(torch.ones(5, dtype=torch.float64)).value)
    with pytest.raises(FairbanditError, match="at least two values"):
        greatest_density(torch.ones(1, dtype=torch.float64))


def test_the_subgaussian_constant():
    """Rademacher: R = 1. A coin of probability p: R² = (1 − 2p)/(2·ln((1 − p)/p))."""
    coin = torch.cat([torch.ones(10), torch.zeros(90)]).double()
    known = math.sqrt((1 - 0.2) / (2 * math.log(0.9 / 0.1)))
    assert subgaussian(coin) == pytest.approx(known, rel=1e-4)
    assert subgaussian(torch.ones(7).double()) == 0.0
    normal = torch.from_numpy(np.random.default_rng(0).normal(0, 2, 100_000))
    assert subgaussian(normal) == pytest.approx(2, rel=0.03)
    assert float(normal.std()) * 0.999 <= subgaussian(normal)
    assert subgaussian(normal) <= float(normal.max() - normal.min()) / 2


def test_eigenvalues_of_rank_deficient_groups():
    """Against numpy, with a column that is a sum of others."""
    draw = np.random.default_rng(2)
    groups = []
    for count in (300, 40):
        rows = draw.normal(size=(count, 3)) * [1, 0.1, 5]
        groups.append(np.column_stack([rows, rows.sum(1)]))
    moment = sum(rows.T @ rows / len(rows) for rows in groups) / 2
    expected = np.linalg.eigvalsh(moment)[1]
    value, direction = smallest_direction([torch.from_numpy(rows) for rows in groups])
    assert value == pytest.approx(expected)
    assert np.allclose(moment @ direction.numpy(), value * direction.numpy())


@pytest.mark.parametrize("bias", [1e-9, 3.0, 1e7, 1e11])
def test_the_least_eigenvalue_beside_a_huge_one(bias):
    """Exact rationals: with K = G = 2 and one feature each, Σ's characteristic polynomial."""
    world = support.environment(groups=2, theta=[1, 1, 1], bias=bias)
    third, half, b = Fraction(1, 6), Fraction(bias) / 4, Fraction(bias) ** 2 / 2
    # Σ = diag(1/6) and the block [[1/6, bias/4], [bias/4, bias²/2]]
    trace, det = third + b, third * b - half**2
    with localcontext() as context:
        context.prec = 80
        t, q = (Decimal(x.numerator) / Decimal(x.denominator) for x in (trace, det))
        lesser = 2 * q / (t + (t * t - 4 * q).sqrt())
    assert constants(world).eigenvalue.value == pytest.approx(min(float(lesser), 1 / 6), rel=1e-6)


def table(folder: Path, **parameters: Any) -> Table:
    """Nine people of group a, three of b."""
    lines = ["group,x,pay"]
    lines += [f"{'aab'[i % 3] if i < 9 else 'a'},{i * i % 7},{i % 5}" for i in range(12)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    given = {"path": str(folder / "people.csv"), "group": "group", "reward": "pay"}
    made = support.environment(
        "table", **given, columns={"x": None}, group_feature=False, **parameters
    )
    assert isinstance(made, Table)
    return made


def test_a_table_by_hand(tmp_path):
    world = table(tmp_path, pool="random", candidates=6, rewards="model", noise=0.5)
    known = constants(world)
    assert known.random
    assert known.candidates.value == pytest.approx(6 * 3 / 12)
    assert known.balance is not None
    assert known.balance.value == pytest.approx(2 * 3 / 12)
    assert known.noise.value == 0.5
    members = world.members
    x, groups = members.contexts.numpy(), members.groups.numpy()
    moment = sum(x[groups == g].T @ x[groups == g] / (groups == g).sum() for g in (0, 1)) / 2
    assert known.eigenvalue.value == pytest.approx(np.linalg.eigvalsh(moment)[0])
    assert known.norm.value == pytest.approx(np.linalg.norm(x, axis=1).max())
    assert not known.density.exact
    assert "kernel density, bandwidth" in known.density.how


def test_the_noise_of_a_column(tmp_path):
    world = table(tmp_path, rewards="column", noise=0.3)
    known = constants(world)
    assert known.own_places
    assert known.balance is None
    parts = []
    for g in (0, 1):
        here = world.members.groups == g
        parts.append(subgaussian((world.members.rewards - world.members.expected)[here]))
    assert known.noise.value == pytest.approx(math.hypot(max(parts), 0.3))
    assert any("assumption i" in caveat for caveat in known.caveats)


def test_estimates_cover_what_is_known():
    """The simulation as if only its pools were known; intervals are 95 % ones, widened here."""
    world = support.environment()
    exact, drawn = constants(world), sampled_constants(world)
    assert drawn.norm.value <= exact.norm.value
    assert drawn.norm.value == pytest.approx(exact.norm.value, rel=0.02)
    for name in ("eigenvalue", "density", "noise"):
        known, guess = getattr(exact, name), getattr(drawn, name)
        half = (guess.high - guess.low) / 2
        assert abs(guess.value - known.value) <= 2 * half + 0.05 * known.value
    assert drawn.own_places


class Mixed(Environment):
    """Three places whose groups are drawn with probabilities 0.2 and 0.8."""

    part_name = "mixed"
    features, places, group_names = 2, 3, ("a", "b")

    def __init__(self, truth: bool = True, unlike: bool = False) -> None:
        theta = torch.tensor([1.0, 0.5], dtype=torch.float64)
        self.truth = Truth(theta, lambda groups, values: values.clamp(0, 1)) if truth else None
        self.unlike = unlike

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, 9)
        drawn = drawn.view(*drawn.shape[:2], 3, 3)
        share = torch.tensor([0.2, 0.2, 0.5 if self.unlike else 0.2])
        groups = (drawn[..., 0] > share).long()
        contexts = drawn[..., 1:].contiguous()
        expected = contexts @ torch.tensor([1.0, 0.5], dtype=torch.float64)
        noise = self.streams[Purpose.REWARDS].normal(first, count, 3)
        return Pools(contexts, groups, expected + noise, expected, expected / 1.5)


def test_any_environment_by_its_pools():
    known = constants(Mixed())
    assert known.random
    assert known.balance is not None
    # 95 % intervals, of which this seed's may miss by as much again
    half = known.candidates.high - known.candidates.value
    assert abs(known.candidates.value - 0.6) < 2 * half
    assert known.balance.value == pytest.approx(known.candidates.value * 2 / 3)
    assert known.eigenvalue.low < 1 / 12 < known.eigenvalue.high
    assert known.noise.value == pytest.approx(1, rel=0.1)
    assert constants(Mixed(unlike=True)).balance is None


def test_theory_takes_an_oracle():
    with pytest.raises(FairbanditError, match="has no truth"):
        constants(Mixed(truth=False))


def test_the_ends_of_intervals():
    known = constants(Mixed())
    worst, best = known.at(worst=True), known.at(worst=False)
    for field in fields(known):
        value = getattr(known, field.name)
        if isinstance(value, Estimate):
            ends = {getattr(worst, field.name).value, getattr(best, field.name).value}
            assert ends == {value.low, value.high}
    assert worst.density.value >= best.density.value
    assert worst.eigenvalue.value <= best.eigenvalue.value


@needs_records
def test_the_census(tmp_path):
    known = constants(support.census("census_gender", tmp_path))
    assert known.own_places
    assert known.eigenvalue.value > 1e-6
    ethnic = constants(support.census("census_ethnicity", tmp_path))
    assert ethnic.random
    assert ethnic.noise.value == 0.2
    assert ethnic.balance is not None
    assert ethnic.balance.value == pytest.approx(ethnic.candidates.value * ethnic.groups / 10)
