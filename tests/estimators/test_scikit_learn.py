"""Regressors of scikit-learn: beside a plain loop that fits them itself, and in every play."""

from __future__ import annotations

import warnings
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, SGDRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from fairbandit import FairbanditError, build
from fairbandit.estimators import Fixed, NoBounds, Sklearn
from fairbandit.history import Outcomes, Problem
from fairbandit.registry import create
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.estimators.refitted import check_plays
from tests.literal import pick, refreshed

REFRESH = 1.5

OPTIONS: dict[str, dict[str, Any]] = {
    "hist_gradient_boosting": {"max_iter": 20, "min_samples_leaf": 4},
    "random_forest": {"n_estimators": 5, "min_samples_leaf": 3},
    "kernel_ridge": {"alpha": 0.5},
    "gaussian_process": {},
    "sgd": {"alpha": 0.01},
}


def policy(regressor: str, rank: str = "identity", **parts: Any) -> Any:
    estimator = {"name": "sklearn", "model": regressor, "params": OPTIONS[regressor]}
    made = {"split": "full", "estimator": estimator, "rank": rank, "refresh": REFRESH}
    return build({**made, **parts})


def plain(regressor: str, seed: int) -> Any:
    """The same regressor, written out."""
    more = OPTIONS[regressor]
    if regressor == "hist_gradient_boosting":
        return HistGradientBoostingRegressor(random_state=seed, **more)
    if regressor == "random_forest":
        return RandomForestRegressor(random_state=seed, **more)
    if regressor == "kernel_ridge":
        return KernelRidge(kernel="rbf", **more)
    if regressor == "sgd":
        return SGDRegressor(random_state=seed, **more)
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    return GaussianProcessRegressor(kernel, random_state=seed)


def fitted(regressor: str, x: Any, r: Any, draw: float) -> tuple[Any, float, float]:
    centre, spread = r.mean(), r.std() or 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = plain(regressor, int(draw * 2**32)).fit(x, (r - centre) / spread)
    return made, centre, spread


@pytest.mark.parametrize("regressor", OPTIONS)
def test_it_equals_a_loop_that_fits_at_each_refresh(regressor: str) -> None:
    world, rounds, seed = support.environment("synthetic", link="quadratic"), 60, 3
    draws = support.draws(world, rounds, seed)
    random = Streams(seed, [0])[Purpose.ESTIMATOR].uniform(1, rounds, 1)[0, :, 0].tolist()
    actions, n, model = list[int](), 0, None
    for t in range(1, rounds + 1):
        if refreshed(t - 1, REFRESH) > n:
            n = refreshed(t - 1, REFRESH)
            at = np.arange(n), actions[:n]
            model = fitted(regressor, draws.contexts[at], draws.rewards[at], random[n - 1])
        score = np.zeros(world.places)
        if model is not None:
            score = model[1] + model[2] * model[0].predict(draws.contexts[t - 1])
        actions.append(pick(score, score + 1e-9, draws.ties[t - 1]))
    ours = support.actions(policy(regressor), world, rounds, seed=seed)
    assert ours[0].tolist() == actions


@pytest.mark.parametrize(
    ("regressor", "rank"), list(zip(OPTIONS, cycle(["identity", "empirical_cdf"])))
)
def test_blocks_rounds_replicas_and_agents_decide_alike(
    regressor: str, rank: str, tmp_path: Path
) -> None:
    check_plays(policy(regressor, rank), tmp_path)


def test_bounds_are_those_of_the_true_reward() -> None:
    draws, d, n = np.random.default_rng(0), 2, 40
    x = draws.normal(size=(1, n, d))
    r = np.sin(x[..., 0]) + 0.3 * draws.normal(size=(1, n))
    parts = x, np.zeros((1, n), dtype=np.int64), r
    known = Outcomes(torch.arange(1, n + 1), *map(torch.from_numpy, parts))
    problem = Problem(features=d, groups=1, streams=Streams(0, [0]))
    spec = {"name": "sklearn", "model": "gaussian_process", "beta": 3.0}
    estimator: Any = create("estimator", spec)
    model = estimator._models(problem, (), [n + 1], [n], known)
    asked, groups = torch.from_numpy(x[:, None, :5]), torch.zeros(1, 1, 5, dtype=torch.int64)
    low, high = model.bounds(asked, groups)
    made, centre, spread = fitted("gaussian_process", x[0], r[0], 0.0)
    mean, deviation = made.predict(x[0, :5], return_std=True)
    own = np.sqrt(deviation**2 - made.kernel_.k2.noise_level)
    np.testing.assert_allclose(low[0, 0], centre + spread * (mean - 3 * own), rtol=1e-6)
    np.testing.assert_allclose(high[0, 0], centre + spread * (mean + 3 * own), rtol=1e-6)
    other: Any = create("estimator", {"name": "sklearn", "model": "sgd"})
    with pytest.raises(NoBounds):
        other._models(problem, (), [n + 1], [n], known).bounds(asked, groups)


def test_all_scores_are_the_mean_reward_until_there_are_enough_rewards() -> None:
    """Five neighbours cannot be found among four outcomes."""
    draws = np.random.default_rng(0)
    x, r = draws.normal(size=(1, 5, 2)), draws.normal(size=(1, 5))
    parts = x, np.zeros((1, 5), dtype=np.int64), r
    known = Outcomes(torch.arange(1, 6), *map(torch.from_numpy, parts))
    estimator = Sklearn(model=KNeighborsRegressor(5), min_samples=5)
    problem = Problem(features=2, groups=1, streams=Streams(0, [0]))
    model = estimator._models(problem, (), [5, 6], [4, 5], known)
    scores = model.score(torch.from_numpy(x[:, None]), torch.zeros(1, 1, 5, dtype=torch.int64))
    means = np.array([r[0, :4].mean(), r.mean()])
    np.testing.assert_allclose(scores[0], np.repeat(means[:, None], 5, 1))


def test_mistakes_are_named() -> None:
    with pytest.raises(FairbanditError, match=r"'sklearn' is fitted anew .* needs policy.refresh"):
        policy("sgd", refresh=None)
    with pytest.raises(FairbanditError, match="params must be a mapping"):
        create("estimator", {"name": "sklearn", "params": 3})
    for options, message in (
        ({"depth": 3}, "Invalid parameter 'depth'.*Valid parameters are: .*max_depth"),
        ({"max_depth": "deep"}, "'max_depth' parameter of .* must be an int"),
    ):
        estimator = {"name": "sklearn", "params": options}
        with pytest.raises(FairbanditError, match=message):
            support.actions(policy("sgd", estimator=estimator), support.environment(), 5)
    for model in ("os.system", "sklearn", "forest", 3):
        with pytest.raises(FairbanditError, match=r"model: expected one of hist_gradient_boosting"):
            Sklearn(model=model)
    for model in ("sklearn.svm.SVC", "sklearn.nothing.Here", "sklearn.base.clone"):
        with pytest.raises(FairbanditError, match=f"model={model}: "):
            support.actions(_with(Sklearn(model=model)), support.environment(), 5)
    with pytest.raises(FairbanditError, match="model: expected, from Python, a fitted regressor"):
        Fixed(model="ridge")


def _with(estimator: Any) -> Any:
    return build({"split": "full", "estimator": estimator, "rank": "identity", "refresh": REFRESH})


def test_regressors_by_dotted_name_and_from_python_decide_like_short_names() -> None:
    world = support.environment("synthetic", link="quadratic")
    short = support.actions(policy("random_forest"), world, 40, 2)
    params = OPTIONS["random_forest"]
    dotted = Sklearn(model="sklearn.ensemble.RandomForestRegressor", params=params)
    for estimator in (dotted, Sklearn(model=RandomForestRegressor(**params))):
        assert torch.equal(support.actions(_with(estimator), world, 40, 2), short)
    pipeline = make_pipeline(PolynomialFeatures(2), Ridge())
    found = support.actions(_with(Sklearn(model=pipeline)), world, 40, 2)
    assert not hasattr(pipeline[-1], "coef_"), "the regressor that was given is fitted"
    assert not torch.equal(found, short)


def test_a_fixed_model_ranks_by_its_predictions() -> None:
    world, draws = support.environment("synthetic", link="quadratic"), np.random.default_rng(0)
    weights = draws.normal(size=world.features)
    x = draws.normal(size=(200, world.features))
    fitted_before = Ridge(alpha=1e-8, fit_intercept=False).fit(x, x @ weights)
    pools = support.draws(world, 30, 0).contexts
    for model in (fitted_before, lambda x: x @ weights):
        found = support.actions(_with(Fixed(model=model)), world, 30)
        assert found[0].tolist() == (pools @ weights).argmax(1).tolist()
