"""Estimated propensities: the fit beside an optimiser, and the coverage of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from fairbandit import FairbanditError, evaluate, read_log
from fairbandit.evaluation.direct import RewardFit
from fairbandit.evaluation.sums import Sums, weighted_rewards
from fairbandit.logs.propensities import FOLDS, SEED, calibration, with_propensities
from tests.evaluation.logs import random_log, span_of

K = 4


def world(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Features, groups and rewards of all candidates; the reward has a hidden cause."""
    draws = np.random.default_rng(seed)
    x, group = draws.normal(size=(n, K, 2)), draws.integers(2, size=(n, K))
    cause = draws.normal(size=(n, K))
    return x, group, x @ [1.0, 1.0] + 0.5 * group + x[..., 0] ** 2 + cause


def logged(n: int, seed: int, hidden: float = 0.0) -> Any:
    """Picks of a conditional logit of features and group, and of the reward if some is hidden."""
    x, group, reward = world(n, seed)
    u = x @ [0.6, -0.3] + 0.3 * group + hidden * reward
    picks = (u + np.random.default_rng(seed + 1).gumbel(size=u.shape)).argmax(1)[:, None]
    parts: dict[str, Any] = {"groups": group, "labels": ("a", "b"), "contexts": x, "picks": picks}
    parts |= {"rewards": np.take_along_axis(reward, picks, 1), "features": ("x", "y")}
    return random_log(n, k=K, **parts, propensities=np.full((n, 1), np.nan), probabilities=None)


def prefers_y(x: Any) -> Any:
    """The probabilities of a policy that prefers large y, (n, K)."""
    return softmax(x[..., 1], axis=1)


def test_probabilities_are_those_of_a_fit_by_an_optimiser() -> None:
    log: Any = with_propensities(logged(200, 0))
    z = np.column_stack([log.contexts, log.groups == 0, log.groups == 1])
    z = ((z - z.mean(0)) / z.std(0)).reshape(200, K, -1)
    folds = np.random.default_rng(SEED).permutation(200) % FOLDS
    for fold in range(FOLDS):
        train, picks = z[folds != fold], log.picks[folds != fold, 0]

        def objective(beta: Any, train: Any = train, picks: Any = picks) -> float:
            u = train @ beta
            return float((logsumexp(u, 1) - u[range(len(u)), picks]).sum() + beta @ beta / 2)

        beta = minimize(objective, np.zeros(z.shape[2]), tol=1e-10).x
        found = log.probabilities.reshape(200, K)[folds == fold]
        np.testing.assert_allclose(found, softmax(z[folds == fold] @ beta, 1), atol=1e-5)


def coverage(hidden: float, logs: int) -> dict[str, float]:
    """The share of logs whose 95 % intervals hold the value of a policy, by estimator."""
    x, _, reward = world(300_000, 10**6)
    truth = float((prefers_y(x) * reward).sum(1).mean())
    model, hits = RewardFit(logged(300, 10**7)), dict.fromkeys(("ips", "snips", "dr"), 0)
    for seed in range(0, 2 * logs, 2):
        log: Any = with_propensities(logged(500, seed, hidden))
        chances = prefers_y(log.contexts.reshape(-1, K, 2)).ravel()
        sums = Sums.of(log, chances, model.scores(log.contexts))
        for estimator, value in weighted_rewards(sums.picked, 500, span_of(log)):
            low, high = value.ends(0.95)
            hits[estimator] += low <= truth <= high
    return {name: hit / logs for name, hit in hits.items()}


@pytest.mark.parametrize("logs", [100, pytest.param(300, marks=pytest.mark.all)])
def test_intervals_cover_if_picks_depend_on_logged_columns_alone(logs: int) -> None:
    """The least coverage is 3.2 standard errors below 0.95; hidden causes make it far less."""
    assert min(coverage(0.0, logs).values()) >= 0.95 - 3.2 * (0.95 * 0.05 / logs) ** 0.5
    assert max(coverage(0.3, logs // 2).values()) < 0.75


def test_a_table_without_propensities_is_evaluated_under_an_assumption() -> None:
    log = logged(300, 0)
    frame = log.frame.drop(columns="propensity")
    read = read_log(frame, propensity="estimate")
    table = evaluate(read, "greedy")
    assert {"ips", "snips", "dr"} <= {*table["estimator"]}
    assert (table["assumes"] == "picks depend on logged columns alone").all()
    found = table.attrs["calibration"]
    assert found["candidates"].sum() == 300 * K
    assert float(np.average(found["picked"], weights=found["candidates"])) == pytest.approx(1 / K)
    with pytest.raises(FairbanditError, match="anytime"):
        evaluate(read, "greedy", anytime=True, reward_range=(-50, 50))
    frame["estimate"] = 1 / K  # a column of this name has the propensities
    assert read_log(frame, propensity="estimate").propensities.tolist() == [[1 / K]] * 300


def test_the_calibration_is_that_of_a_loop() -> None:
    log: Any = with_propensities(logged(50, 3))
    order = sorted(range(50 * K), key=lambda row: log.probabilities[row])
    for tenth, row in enumerate(calibration(log).itertuples()):
        own = order[tenth * 20 : (tenth + 1) * 20]
        assert row.picked == pytest.approx(sum(log.picked[at] for at in own) / 20)
    listed = random_log(20, picks=np.tile([0, 1], (20, 1)), rewards=np.zeros((20, 2)))
    with pytest.raises(FairbanditError, match="one pick a decision"):
        with_propensities(listed)
