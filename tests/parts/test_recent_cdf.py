"""The bounded CDF against loops, against the whole one, and against the DKW bound."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Engine, FairbanditError, Policy, build
from fairbandit.conformance import Scattered
from fairbandit.parts import Division, EmpiricalCdf, Full, Problem, RecentCdf
from fairbandit.streams import Streams
from tests import support
from tests.parts.asking import World, ask, awkward, window, world


@pytest.mark.parametrize("split", ["full", "halves"])
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize(("last", "blocks"), [(6, (1, 4, 13)), (24, ()), (1, range(1, 23))])
def test_the_formula(split: str, size: int, last: int, blocks: tuple[int, ...]) -> None:
    for seed in range(2):
        given = awkward(seed, integers=seed % 2 == 0)
        index, asked = ask(RecentCdf(size=size), given, last=last, split=split, blocks=blocks)
        scores, draw = asked.scores, asked.uniform()
        for b, n, a in np.ndindex(*index.shape):
            group, t = int(asked.groups[b, n, a]), asked.first + n
            old = window(given, b, t, asked.division, n, group)[-size:]
            if group < 0 or len(old) == 0:
                assert index[b, n, a] == draw[b, n, a]
            else:
                share = np.mean(old <= float(scores[b, n, a]) + 1e-12)
                assert float(index[b, n, a]) == share


def test_a_split_whose_windows_end_early() -> None:
    """Of the last m contexts before the round, those in the window, in blocks as in rounds."""

    class Early(Full):
        def _divide(self, t: Tensor) -> Division:
            return super()._divide(t)._replace(stop=(t - 4).clamp(min=0))

    def play(at_once: int) -> Tensor:
        made = build(
            {"split": "full", "estimator": "oracle", "rank": {"name": "recent_cdf", "size": 9}}
        )
        assert isinstance(made, Policy)
        made.split = Early()
        return support.actions(made, Scattered(), 60, replicas=2, at_once=at_once)

    assert torch.equal(play(64), play(1))


@pytest.mark.parametrize("split", ["full", "halves"])
def test_a_size_beyond_the_window_is_the_empirical_cdf(split: str) -> None:
    def play(rank: object) -> Tensor:
        made = build({"split": split, "estimator": "ridge", "rank": rank})
        assert isinstance(made, Policy)
        return support.actions(made, Scattered(), 150, replicas=2)

    assert torch.equal(play({"name": "recent_cdf", "size": 900}), play("empirical_cdf"))
    given = awkward(2, integers=True)
    one, other = (
        ask(rank, given, last=8, split=split)[0] for rank in (RecentCdf(size=120), EmpiricalCdf())
    )
    assert torch.equal(one, other)


def uniforms(b: int, n: int, seed: int) -> World:
    """B samples of n uniform scores, then 99 candidates at 0.01, …, 0.99."""
    draws = np.random.default_rng(seed)
    x, groups = np.zeros((b, n + 1, 99)), np.full((b, n + 1, 99), -1)
    x[:, :n, 0], groups[:, :, 0] = draws.random((b, n)), 0
    x[:, n], groups[:, n] = np.linspace(0.01, 0.99, 99), 0
    return world(torch.from_numpy(x)[..., None], torch.from_numpy(groups))


def test_its_error_stays_below_dkw() -> None:
    """sup |F̂ − F| > √(ln(2/δ)/(2m)) in at most a share δ of samples, at every m.

    With δ = 0.1, of 400 samples more than 63 exceed the bound with probability below 1e-3 if each
    does with probability 0.1. The bound is not idle: errors fall as 1/√m and reach 2/5 of it.
    """
    given, typical = uniforms(400, 300, seed=8), []
    for size in (5, 20, 80, 300):
        index, asked = ask(RecentCdf(size=size), given)
        error = (index - asked.scores).abs().amax((1, 2))
        dkw = math.sqrt(math.log(2 / 0.1) / (2 * size))
        assert int((error > dkw).sum()) <= 63
        typical.append(float(error.median()) / dkw)
    assert all(0.4 < share < 1 for share in typical), typical


def test_memory_is_flat() -> None:
    made = build(
        {"split": "halves", "estimator": "oracle", "rank": {"name": "recent_cdf", "size": 16}}
    )
    assert isinstance(made, Policy)
    engine = Engine(made, Scattered(), rounds=1024, seed=0, replicas=range(2))
    sizes, kept = set(), set()
    for _ in engine.play():
        state = engine.state()
        tensors = [v for v in state["parts"]["rank"].values() if isinstance(v, Tensor)]
        sizes.add(sum(tensor.untyped_storage().nbytes() for tensor in tensors))
        kept.add(sum(tensor.numel() for tensor in state["history"]["contexts"]["entries"]))
        kept.add(state["history"]["picks"]["rows"].numel())
    assert sizes == {2 * 3 * 16 * (4 + 1) * 8}  # B·G·m contexts of d numbers, and their rounds
    assert kept == {0}


def test_rounds_out_of_order_are_refused() -> None:
    rank = RecentCdf()
    rank.bind(Problem(1, 1, Streams(0, [0])))
    pool = torch.zeros(1, 2, 3, 1, dtype=torch.float64), torch.zeros(1, 2, 3).long()
    rank.observe(1, *pool)
    with pytest.raises(FairbanditError, match="observed rounds 1 to 2, so the next one is 3; got"):
        rank.observe(5, *pool)


@pytest.mark.parametrize("value", [0, -3, 1_000_001])
def test_size_out_of_range(value: int) -> None:
    with pytest.raises(FairbanditError, match="size must be from 1 to 1,000,000, got"):
        RecentCdf(size=value)
