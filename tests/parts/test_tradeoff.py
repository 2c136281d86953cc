"""The trade-off against its formula, and at its two ends against the policies that they are."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Engine, FairbanditError, Policy, build
from fairbandit.conformance import Scattered
from fairbandit.parts import EmpiricalCdf, Identity, Tradeoff
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.parts.asking import ask, awkward, window


@pytest.mark.parametrize("split", ["full", "halves"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_the_formula(split: str, alpha: float) -> None:
    for seed in range(4):
        given = awkward(seed)
        index, asked = ask(Tradeoff(alpha=alpha), given, last=6, split=split)
        scores, draw = asked.scores, asked.uniform()
        for b, n, a in np.ndindex(*index.shape):
            t, group = asked.first + n, int(asked.groups[b, n, a])
            old = [window(given, b, t, asked.division, n, g) for g in range(3)]
            score, everyone = float(scores[b, n, a]), np.concatenate(old)
            own = old[group] if group >= 0 else np.array([])
            rank = np.mean(own <= score) if len(own) else float(draw[b, n, a])
            standard = (score - np.mean(everyone)) / np.std(everyone)
            wanted = (1 - alpha) * rank + alpha * standard
            assert float(index[b, n, a]) == pytest.approx(wanted, abs=1e-10)


def test_where_past_scores_do_not_differ() -> None:
    given = awkward(2)
    given.theta.zero_()
    index, _ = ask(Tradeoff(alpha=1.0), given)
    assert bool((index == 0).all())
    index, asked = ask(Tradeoff(alpha=1.0), awkward(2, rounds=1))
    assert torch.equal(index, asked.scores)


def policy(rank: object, split: str, estimator: str = "ridge") -> Policy:
    made = build({"split": split, "estimator": estimator, "rank": rank})
    assert isinstance(made, Policy)
    return made


@pytest.mark.parametrize(("alpha", "end"), [(0.0, "empirical_cdf"), (1.0, "identity")])
@pytest.mark.parametrize("split", ["full", "halves"])
@pytest.mark.parametrize("estimator", ["ridge", "optimistic_ridge", "oracle", "zero"])
@pytest.mark.parametrize("world", ["simulation", "scattered"])
def test_the_ends_decide_alike_in_every_round(
    alpha: float, end: str, split: str, estimator: str, world: str
) -> None:
    def play(rank: object) -> Tensor:
        played = support.environment() if world == "simulation" else Scattered()
        return support.actions(policy(rank, split, estimator), played, 150, replicas=3, seed=4)

    assert torch.equal(play({"name": "tradeoff", "alpha": alpha}), play(end))


@pytest.mark.parametrize("split", ["full", "halves"])
def test_the_ends_at_the_papers_length(split: str) -> None:
    for alpha, end in ((0.0, "empirical_cdf"), (1.0, "identity")):
        ranks = ({"name": "tradeoff", "alpha": alpha}, end)
        rounds = 1500 if split == "halves" else 300
        one, other = (
            support.actions(policy(rank, split), support.environment(), rounds, replicas=2)
            for rank in ranks
        )
        assert torch.equal(one, other)


@pytest.mark.parametrize("integers", [False, True])
def test_ties_at_the_ends(integers: bool) -> None:
    """Who is among the best is the same: with scores that tie, and some by rounding alone."""
    for seed in range(6):
        given = awkward(seed, rounds=40, integers=integers)
        given.contexts[:, :, 3] = given.contexts[:, :, 2] * (1 + 2**-52)
        given.groups[:, :, 2:4] = 0
        for alpha, end in ((0.0, EmpiricalCdf()), (1.0, Identity())):
            best = []
            for rank in (Tradeoff(alpha=alpha), end):
                index, asked = ask(rank, given, last=30)
                present = asked.groups >= 0
                top = index.masked_fill(~present, -torch.inf).amax(2, keepdim=True)
                best.append((rank.upper_index(index, asked) >= top) & present)
            assert torch.equal(*best)


def test_between_the_ends_it_trades() -> None:
    """Over 600 rounds of the simulation: standard regret falls with α, fair regret rises."""
    lost = []
    for alpha in (0.0, 0.5, 1.0):
        rank = {"name": "tradeoff", "alpha": alpha}
        engine = Engine(
            policy(rank, "halves"), support.environment(), rounds=600, seed=0, replicas=range(4)
        )
        played = list(engine.play())
        lost.append(
            [
                float(sum(getattr(piece, name).sum() for piece in played))
                for name in ("fair_regret", "standard_regret")
            ]
        )
    (fair, standard) = zip(*lost, strict=True)
    assert fair[0] < fair[1] < fair[2]
    assert standard[0] > standard[1] > standard[2]


def test_draws_for_unseen_groups_are_those_of_the_empirical_cdf() -> None:
    given = awkward(0, rounds=1)
    index, _ = ask(Tradeoff(alpha=0.0), given)
    assert torch.equal(index, Streams(5, range(2))[Purpose.RANK].uniform(1, 1, 5))


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_alpha_out_of_range(value: float) -> None:
    with pytest.raises(FairbanditError, match="alpha must be from 0 to 1, got"):
        Tradeoff(alpha=value)
