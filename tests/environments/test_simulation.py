"""The simulation is the paper's, with an exact CDF, and refuses what does not fit."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.environments import Pools, Simulation
from fairbandit.environments.simulation import MAX_TERMS, UniformSums, uniform_sum_pdf
from fairbandit.streams import Streams
from tests import support
from tests.support import weighted_uniforms_cdf


def bound(**parameters: object) -> Simulation:
    world = support.environment("simulation", **parameters)
    assert isinstance(world, Simulation)
    world.bind(Streams(0, range(3)))
    return world


def test_pools_are_the_papers() -> None:
    pools = bound().pools(1, 2000)
    x, theta = pools.contexts.numpy(), np.array([4, 3, 7, 0, 8, 0, 0, 0, 5, 5, 0, 0, 2, 2, 2, 2, 1])
    for a in range(4):
        own = x[:, :, a, 4 * a : 4 * a + 4]
        assert own.min() >= 0
        assert own.max() <= 1
        assert own.mean() == pytest.approx(0.5, abs=0.01)
        assert (x[:, :, a, -1] == 3 * a).all()
        rest = np.delete(x[:, :, a, :-1], np.arange(4 * a, 4 * a + 4), axis=-1)
        assert (rest == 0).all()
    np.testing.assert_allclose(pools.expected.numpy(), x @ theta, atol=1e-12)
    noise = (pools.rewards - pools.expected).numpy()
    assert noise.std() == pytest.approx(2, rel=0.02)
    assert float(pools.ranks.mean()) == pytest.approx(0.5, abs=0.01)
    assert torch.equal(pools.groups, torch.arange(4).expand(3, 2000, 4))


def test_sampled_cdf_is_close_to_the_exact_one() -> None:
    """DKW, n = 200,000: a correct sample leaves the band with probability 1e-6 a group."""
    exact, sampled = bound(), bound(cdf="sampled", cdf_samples=200_000)
    gap = (exact.pools(1, 500).ranks - sampled.pools(1, 500).ranks).abs().max()
    assert 0 < float(gap) < np.sqrt(np.log(2 / 1e-6) / 400_000)


def test_every_number_is_configurable() -> None:
    world = bound(groups=2, theta=[1.0, -2.0, 0.5], bias=4.0, noise=0.0)
    assert (world.places, world.features, len(world.group_names)) == (2, 3, 2)
    pools = world.pools(1, 500)
    assert torch.equal(pools.rewards, pools.expected)
    assert float(pools.expected[..., 1].min()) >= 0  # −2·U + ½·4·1
    assert float(pools.ranks.mean()) == pytest.approx(0.5, abs=0.03)


def test_bad_parameters() -> None:
    with pytest.raises(FairbanditError, match="got 4 groups and 3 values"):
        bound(theta=[1.0, 2.0, 3.0])
    with pytest.raises(FairbanditError, match="must be finite"):
        bound(bias=float("nan"))


class Faulty(Simulation):
    """Damages one thing about its pools."""

    fault: Any

    def _pools(self, first: int, count: int) -> Pools:
        parts = {key: value.clone() for key, value in vars(super()._pools(first, count)).items()}
        type(self).fault(parts)
        return Pools(**parts)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            lambda parts: parts.update(contexts=parts["contexts"][..., :-1]),
            r"contexts of shape \(3, 10, 4, 16\) .* expected \(3, 10, 4, 17\)",
        ),
        (
            lambda parts: parts["groups"][0, 0, 0].fill_(7),
            "groups of 7 at replica 0, round 1, place 0; groups are 0 to 3",
        ),
        (
            lambda parts: parts["contexts"][1, 4, 2, 0].fill_(torch.nan),
            "contexts of nan at replica 1, round 5, place 2",
        ),
    ],
)
def test_faulty_environments_are_stopped(fault: Any, message: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Faulty, "fault", fault, raising=False)
    with pytest.raises(FairbanditError, match=message):
        support.actions(support.policy("uniform"), Faulty(), 10, replicas=3)


def uniform_sum_cdf(
    values: torch.Tensor, weights: list[float], offset: float = 0.0
) -> torch.Tensor:
    """The CDF of a single group."""
    return UniformSums([weights], [offset])(torch.zeros_like(values, dtype=torch.int64), values)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=4), st.floats(-5, 5), st.floats(0, 1))
def test_against_quadrature(weights: list[float], offset: float, place: float) -> None:
    value = offset + place * sum(weights)
    exact = uniform_sum_cdf(torch.tensor(value, dtype=torch.float64), weights, offset)
    assert float(exact) == pytest.approx(weighted_uniforms_cdf(weights, offset, value), abs=1e-10)


@pytest.mark.parametrize("unit", [1e-50, 2.0**170, 1e50])
def test_weights_within_range(unit: float) -> None:
    """Weights of another unit give the same CDF, up to the largest and the smallest of them."""
    weights, places = [4.0, 3.0, 7.0], torch.linspace(0, 14, 40, dtype=torch.float64)
    found = uniform_sum_cdf(places * unit, [w * unit for w in weights])
    torch.testing.assert_close(found, uniform_sum_cdf(places, weights), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "weights",
    [
        *([1e-110] * 3, [1e50] * 12, [1e-30] + [1e110] * 3, [1.0] * (MAX_TERMS + 1)),
        *([1.0, 2.0, 8.5e-118], [1.0, 1e-5, 1e-5]),
    ],
)
def test_weights_that_are_refused(weights: list[float]) -> None:
    with pytest.raises(FairbanditError, match=f"at most {MAX_TERMS} nonzero weights a group, of"):
        UniformSums([[1.0], weights], [0.0, 0.0])


@settings(max_examples=25)
@given(
    st.lists(st.floats(0.1, 10), min_size=1, max_size=4), st.floats(-5, 5), st.floats(0.02, 0.98)
)
def test_the_density_is_the_derivative(weights: list[float], offset: float, place: float) -> None:
    """Its integral over an interval is the difference of the CDF, by Gauss-Legendre quadrature."""
    nodes, shares = np.polynomial.legendre.leggauss(400)
    stop = place * sum(weights)
    values = torch.from_numpy(offset + stop * (nodes + 1) / 2)
    area = float(uniform_sum_pdf(values, weights, offset) @ torch.from_numpy(shares)) * stop / 2
    assert area == pytest.approx(weighted_uniforms_cdf(weights, offset, offset + stop), abs=1e-3)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_company_changes_no_digit(seed: int, terms: int) -> None:
    draws = np.random.default_rng(seed)
    cdf = UniformSums(draws.uniform(0.5, 3, (3, terms)).tolist(), [0.0, 1.0, 2.0])
    groups = torch.arange(3).expand(4, 7, 3)
    values = torch.from_numpy(draws.uniform(0, 10, (4, 7, 3)))
    together = cdf(groups, values)
    for part in ((slice(1, 2),), (slice(None), slice(2, 5)), (3, 6), (0, 0, slice(1, 2))):
        assert torch.equal(cdf(groups[part], values[part]), together[part])


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([(), (3,), (2, 4, 3)]))
def test_several_groups_at_once(seed: int, groups: int, shape: tuple[int, ...]) -> None:
    """As one by one, constants and negative weights too; an empty place harms no other."""
    draws = np.random.default_rng(seed)
    weights = [
        (draws.uniform(0.5, 3, n) * draws.choice([-1, 0, 1], n, p=[0.2, 0.2, 0.6])).tolist()
        for n in draws.integers(0, 6, groups)
    ]
    offsets = draws.integers(-2, 3, groups).tolist()
    member = torch.from_numpy(np.asarray(draws.integers(-1, groups, shape)))
    values = torch.from_numpy(np.asarray(draws.integers(-8, 16, shape) / 2))
    before = values.clone()
    shares = UniformSums(weights, offsets)(member, values)
    assert torch.equal(values, before)
    assert shares.shape == values.shape
    assert bool(((shares >= 0) & (shares <= 1)).all())
    for group in range(groups):
        own = member == group
        alone = uniform_sum_cdf(values[own], weights[group], offsets[group])
        torch.testing.assert_close(shares[own], alone, rtol=0, atol=1e-12)
