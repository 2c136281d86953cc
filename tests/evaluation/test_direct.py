"""Direct estimates where all is known, and the division of decisions into parts."""

from typing import Any

import numpy as np
import pytest

from fairbandit import FairbanditError
from fairbandit.evaluation.direct import RewardFit, direct_values, unspanned
from fairbandit.evaluation.frozen import plan
from fairbandit.evaluation.sums import weight_below
from tests.evaluation.logs import THETA, random_log, target


@pytest.mark.parametrize("n", [0, 1, 40])
def test_the_weight_below_by_brute_force(n):
    draw = np.random.default_rng(n)
    values, weights = draw.integers(0, 6, n).astype(float), draw.integers(0, 3, n).astype(float)
    right = [weights[values <= one].sum() for one in values]
    left = [weights[values < one].sum() for one in values]
    assert weight_below(values, weights).tolist() == right
    assert weight_below(values, weights, 0.0).tolist() == left


def test_picks_that_all_have_a_feature_do_not_span_it():
    given: Any = {"groups": np.zeros((9, 2), int), "contexts": np.tile([[1.0], [0.0]], (9, 1, 1))}
    for picks, lost in ((np.zeros(9, int), (1, ["a"])), (np.arange(9) % 2, (0, []))):
        log = random_log(9, k=2, **given, picks=picks[:, None], features=("a",))
        assert unspanned(log) == lost


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_direct_values_are_exact_ranks_without_noise(noise):
    log = random_log(300, noise=noise)
    true = np.round(log.contexts @ THETA, 9)
    ranks = np.zeros(true.shape)
    for group in range(3):
        here = log.groups == group
        ranks[here] = [(true[here] <= one).mean() for one in true[here]]
    chances = target(log)
    values = direct_values(log, [chances], 0, 2)[0, :, 0]
    share, reward, rank, best = values.sum(1)
    exact = (
        reward == pytest.approx(chances @ true / 300, abs=1e-5)
        and rank == pytest.approx(chances @ ranks / 300, abs=1e-12)
        and best == pytest.approx(log.padded(ranks, 0.0).max(1).mean(), abs=1e-12)
    )
    assert exact == (noise == 0)
    assert share == pytest.approx(1)
    own = np.where(log.groups == 1, chances, 0.0)
    best = log.padded(ranks, 0.0).max(1)[log.decisions]
    of_b = [part.sum() / 300 for part in (own, own * true, own * ranks, own * best)]
    assert (values[:, 1] == pytest.approx(of_b, abs=1e-5)) == (noise == 0)


def test_the_best_of_shortlists_are_the_m_largest():
    log = random_log(40, noise=0.0)
    second = np.where(np.arange(40) < 10, -1, 1 - log.picks[:, 0].clip(max=1))[:, None]
    picks = np.append(log.picks, second, 1)
    rewards = np.take_along_axis(log.padded(log.contexts, 0.0) @ THETA, picks, 1)
    listed = random_log(40, noise=0.0, picks=picks, rewards=np.where(picks < 0, np.nan, rewards))
    every, total = np.round(log.contexts @ THETA, 9), 0.0
    true = log.padded(every, 0.0)
    for groups, own, some in zip(log.padded(log.groups, -1), true, picks, strict=True):
        here = [(g, v) for g, v in zip(groups, own, strict=True) if g >= 0]
        ranks = [(every[log.groups == group] <= value).mean() for group, value in here]
        total += np.mean(sorted(ranks)[-(some >= 0).sum() :])
    chances = target(listed) * (picks >= 0).sum(1)[listed.decisions]
    best = direct_values(listed, [chances], 0, 1)[0, 3].sum()
    assert best == pytest.approx(total / 40)


def test_scales_of_features_do_not_matter():
    log = random_log(200)
    odd = random_log(200, contexts=log.contexts * [1e-4, 1.0, 1e7] + [0.0, 2020.0, 0.0])
    one, other = (RewardFit(some).scores(some.contexts) for some in (log, odd))
    assert np.abs(one - other).max() < 1e-6
    assert RewardFit(log[:0]).scores(log.contexts).max() == 0


@pytest.mark.parametrize("forward", [True, False])
def test_parts_of_the_plan(forward):
    for train, folds in ((0.0, 1), (0.3, 2), (0.0, 3), (0.3, 3)):
        parts = plan(50, train, folds, 1, forward=forward)
        first = 15 if forward and train else 0
        assert sorted(np.concatenate([cut for _, cut in parts])) == list(range(first, 50))
        for trained, cut in parts:
            assert not set(cut) & set(trained)
            assert not forward or not len(trained) or trained.max() < cut.min()
            right = cut.min() if forward else 15 if train else 50 - len(cut)
            assert len(trained) == right
    wrong = [(1.0, 2, 50), (0.5, 2, 6)] if forward else [(0.6, 2, 50), (0.5, 1, 50)]
    for train, folds, n in wrong:
        with pytest.raises(FairbanditError, match=f"train={train:g} and folds={folds}"):
            plan(n, train, folds, 0, forward=forward)
