"""The simulation is the paper's, and refuses what does not fit."""

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError, build
from fairbandit.environments import Environment, Pools, Simulation
from fairbandit.streams import Streams
from tests import support


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"theta": [1.0, 2.0, 3.0]}, "got 4 groups and 3 values"),
        ({"bias": float("nan")}, "must be finite"),
    ],
)
def test_bad_parameters(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        build({"name": "simulation", **parameters})


class Faulty(Environment):
    """Damages one thing about its pools."""

    def __init__(self, fault: str) -> None:
        self.inner = Simulation()
        self.fault, self.truth = fault, self.inner.truth
        self.features, self.places = self.inner.features, self.inner.places
        self.group_names = self.inner.group_names

    def bind(self, streams: Streams) -> None:
        super().bind(streams)
        self.inner.bind(streams)

    def _pools(self, first: int, count: int) -> Pools:
        pools = self.inner.pools(first, count)
        parts = {key: value.clone() for key, value in vars(pools).items()}
        if self.fault == "features":
            parts["contexts"] = parts["contexts"][..., :-1]
        elif self.fault == "group":
            parts["groups"][0, 0, 0] = 7
        else:
            parts["contexts"][1, 4, 2, 0] = torch.nan
        return Pools(**parts)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("features", r"contexts of shape \(3, 10, 4, 16\) .* expected \(3, 10, 4, 17\)"),
        ("group", "groups of 7 at replica 0, round 1, place 0; groups are 0 to 3"),
        ("context", "contexts of nan at replica 1, round 5, place 2"),
    ],
)
def test_faulty_environments_are_stopped(fault: str, message: str) -> None:
    with pytest.raises(FairbanditError, match=message):
        support.actions(support.policy("uniform"), Faulty(fault), 10, replicas=3)
