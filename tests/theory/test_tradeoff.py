"""`thm:linreg_opt` against closed forms and against rounds that the fair optimum plays."""

import math

import pytest
import torch

from fairbandit import Engine
from fairbandit.environments import Table
from fairbandit.theory import trade_off
from tests import support


def uniforms(scale: float = 1.0, shift: float = 1.0):
    """Two groups, of rewards scale·U and U + shift."""
    return support.environment(groups=2, theta=[scale, 1, 1], bias=shift)


def near(found, expected: float) -> None:
    """Within five standard errors: fails once in 1e6."""
    assert 0 < found.error < 0.01
    assert found.value == pytest.approx(expected, abs=5 * found.error)


def test_disjoint_supports():
    """U and U + 3: GMF picks the worse group half the time, and loses (3 − 1/3)/2 on average.

    The reward optimum loses (U₁ − U₂)₊ of rank, 1/6 on average.
    """
    found = trade_off(uniforms(shift=3.0), 2.0)
    near(found.share, 0.5)
    near(found.mean_loss, 4 / 3)
    near(found.mean_unfairness, 1 / 6)
    assert trade_off(uniforms(shift=3.0), 4.0).share.value == 0


def test_the_best_epsilon():
    """For U and U + 1, ε·p = ε·(1 − ε²)/2 is greatest at 1/√3; the integral of p is 1/3."""
    found = trade_off(uniforms())
    near(found.mean_loss, 1 / 3)
    assert found.epsilon == pytest.approx(1 / math.sqrt(3), abs=0.05)
    best = (1 - 1 / 3) / 2 / math.sqrt(3)
    assert found.rate == pytest.approx(best, rel=0.02)
    assert found.rate <= found.mean_loss.value
    assert found.chance(norm=2, theta=3) == pytest.approx(found.rate / 24)


def test_a_table_by_all_pairs(tmp_path):
    """Over all pairs of members, of whom ranks and rewards tie; maximisers that tie share."""
    draw = torch.Generator().manual_seed(7)
    skill = torch.randint(0, 6, (40,), generator=draw)
    skill[20:] = skill[20:] // 2 + 3
    lines = [f"{'a' if i < 20 else 'b'},{s},{2 * s + i % 2}" for i, s in enumerate(skill)]
    (tmp_path / "people.csv").write_text("\n".join(["group,skill,pay", *lines]) + "\n")
    given = {"path": str(tmp_path / "people.csv"), "group": "group", "reward": "pay"}
    world = support.environment("table", **given, columns={"skill": None}, group_feature=False)
    assert isinstance(world, Table)
    members = world.members
    one, other = (members.expected[members.groups == g] for g in (0, 1))
    ranks = [(v[:, None] >= v[None] - 1e-9).double().mean(1) for v in (one, other)]
    rank = torch.stack(torch.broadcast_tensors(ranks[0][:, None], ranks[1][None]))
    reward = torch.stack(torch.broadcast_tensors(one[:, None], other[None]))
    fair, best = ((v >= v.amax(0) - 1e-9).double() for v in (rank, reward))
    losses, unfair = reward.amax(0) - reward, rank.amax(0) - rank
    epsilon = float((losses * fair).max()) / 2
    found = trade_off(world, epsilon)
    share = ((losses > epsilon) * fair / fair.sum(0)).sum(0).mean()
    near(found.share, float(share))
    near(found.mean_loss, float((losses * fair / fair.sum(0)).sum(0).mean()))
    near(found.mean_unfairness, float((unfair * best / best.sum(0)).sum(0).mean()))


@pytest.mark.parametrize(("theta", "bias"), [([2, 1, 1], 3.0), ([4, -3, 2, 1, 1, 1, 1], 0.0)])
def test_the_fair_optimum_loses_as_computed(theta, bias):
    """Its losses in play, at 5 standard errors: a correct engine fails with probability 1e-5."""
    world = support.environment(groups=2, theta=theta, bias=bias)
    engine = Engine(support.policy("gmf"), world, rounds=500, seed=5, replicas=range(100))
    lost = torch.cat([played.standard_regret.flatten() for played in engine.play()])
    best = trade_off(world)
    for epsilon in (best.epsilon, 0.3 * best.epsilon):
        share = trade_off(world, epsilon).share
        error = math.sqrt(share.value * (1 - share.value) / len(lost)) + share.error
        assert float((lost > epsilon).double().mean()) == pytest.approx(share.value, abs=5 * error)
    error = float(lost.std()) / math.sqrt(len(lost)) + best.mean_loss.error
    assert float(lost.mean()) == pytest.approx(best.mean_loss.value, abs=5 * error)
