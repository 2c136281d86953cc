"""Regressors of scikit-learn as reward models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError, shown
from fairbandit.estimators.base import Estimator, RewardModel, Rounds, fit_tables
from fairbandit.estimators.ties import PLAIN
from fairbandit.history import Outcomes, Problem, State
from fairbandit.registry import Count, NonNegative, register

LARGEST = 1e30  # contexts are clipped to this size, since forests store them in single precision
KEPT = 64  # the number of cached regressors, so that an agent does not refit them at each decision

SHORT = {
    "hist_gradient_boosting": "sklearn.ensemble.HistGradientBoostingRegressor",
    "random_forest": "sklearn.ensemble.RandomForestRegressor",
    "kernel_ridge": "sklearn.kernel_ridge.KernelRidge",
    "gaussian_process": "sklearn.gaussian_process.GaussianProcessRegressor",
    "sgd": "sklearn.linear_model.SGDRegressor",
}
"""The classes of regressors with a short name."""

LIBRARIES = ("sklearn", "lightgbm", "xgboost")
"""The packages whose regressors a config can name; a saved agent, which is data, too."""


class FittedModel(RewardModel):
    """Rewards predicted by regressors that were fitted to standardised rewards.

    The parameters are the index of each model's regressor, −1 for none, and the mean and standard
    deviation of the rewards to which it was fitted, (B, U) each. `beta` is None without bounds.
    """

    def __init__(self, *parameters: Tensor, regressors: list[Any], beta: float | None) -> None:
        super().__init__(*parameters)
        self._regressors, self._beta = regressors, beta

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        _, centre, deviation = self.parameters
        predicted = self._each(contexts, lambda regressor, x: regressor.predict(x))
        return centre[..., None] + deviation[..., None] * predicted

    def _error(self, contexts: Tensor, groups: Tensor, scores: Tensor) -> Tensor:
        _, centre, deviation = self.parameters
        return (PLAIN * (centre.abs() + deviation))[..., None].expand_as(scores)

    def _bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        if self._beta is None:
            return super()._bounds(contexts, groups)
        middle, deviation = self._score(contexts, groups), self.parameters[2][..., None]
        width = self._beta * deviation * self._each(contexts, _uncertainty)
        return middle - width, middle + width

    def _each(self, contexts: Tensor, predict: Callable[[Any, Any], Any]) -> Tensor:
        numbers, x = (part.numpy(force=True) for part in (self.parameters[0], contexts))
        x = x.clip(-LARGEST, LARGEST)
        values = np.zeros((*numbers.shape, x.shape[2]))
        for b, indices in enumerate(numbers):
            for i in np.unique(indices[indices >= 0]):
                at = np.flatnonzero(indices == i)
                points = x[b] if x.shape[1] == 1 else x[b, at]
                rows = points.reshape(-1, points.shape[2])
                predicted = _quiet("sklearn", predict, self._regressors[i], rows)
                values[b, at] = predicted.reshape(points.shape[:2])
        return torch.from_numpy(values).to(contexts.device)


@register("estimator", "sklearn")
@dataclass(kw_only=True, eq=False)
class Sklearn(Estimator):
    """A regressor with scikit-learn's interface, fitted anew at each refresh of the policy's model.

    A clone of the regressor is fitted to the contexts of all outcomes as they are, and to
    standardised rewards. The kernel of `gaussian_process` is c·exp(−‖x − x'‖²/2ℓ²); c, ℓ and the
    noise maximise the likelihood, and the bounds are mean ± β·(standard deviation of the true
    reward). The kernel of `kernel_ridge` is exp(−‖x − x'‖²/d). A random state that the regressor
    does not set is drawn from the run's streams for each number of training rounds. Fitted
    regressors are not saved. The policy must set `refresh`. Decisions may depend on the processor.

    Args:
        model: `hist_gradient_boosting`, `random_forest`, `kernel_ridge`, `gaussian_process` or
            `sgd`; the dotted name of a regressor's class in scikit-learn, LightGBM or XGBoost, such
            as sklearn.ensemble.GradientBoostingRegressor; or, from Python, a regressor or a
            pipeline.
        params: a mapping with parameters of the class, such as {max_depth: 3}.
        min_samples: the number of rewards from which a regressor is fitted; with fewer, every score
            is their mean. `gaussian_process` is fitted to one.
        beta: β ≥ 0 (gaussian_process).

    Raises:
        FairbanditError: another model, or params that are not a mapping.
    """

    reference = "Pedregosa et al., Scikit-learn: Machine Learning in Python, JMLR 2011"
    needs = frozenset({"rewards", "refresh"})

    model: Any = "hist_gradient_boosting"
    params: Any = None
    min_samples: Count = 2
    beta: NonNegative = 2.0

    def __post_init__(self) -> None:
        model, params = self.model, self.params
        if not isinstance(params or {}, Mapping):
            raise FairbanditError(f"params must be a mapping; got {params}")
        named = isinstance(model, str)
        library, _, rest = str(model).partition(".")
        fits = hasattr(model, "fit") and hasattr(model, "predict") and not params
        if not (model in SHORT or (library in LIBRARIES and rest) if named else fits):
            raise FairbanditError(
                f"model: expected one of {', '.join(SHORT)}; the dotted name of a class of "
                f"{', '.join(LIBRARIES)}; or, from Python, a regressor with fit and predict, "
                f"without params; got {shown(model)}"
            )

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        shape, regressors = (problem.replicas, len(n_train)), list[Any]()
        numbers, centre, deviation = np.full(shape, -1), np.zeros(shape), np.ones(shape)
        gaussian = self.model == "gaussian_process"
        for u, (n, size) in enumerate(zip(n_train, outcomes.counts(n_train), strict=True)):
            for b, (seed, table) in enumerate(fit_tables(problem, outcomes.rows(0, size), n)):
                if not len(table):
                    continue
                y, x = table[:, 0].copy(), table[:, 1:].clip(-LARGEST, LARGEST)
                centre[b, u], deviation[b, u] = y.mean(), y.std() or 1.0
                if gaussian or len(y) >= self.min_samples:
                    numbers[b, u], y = len(regressors), (y - centre[b, u]) / deviation[b, u]
                    data = seed, x.tobytes(), y.tobytes()
                    regressors.append(_quiet("sklearn", _fitted, self, *data))
        parts = (torch.from_numpy(part).to(problem.device) for part in (numbers, centre, deviation))
        return FittedModel(*parts, regressors=regressors, beta=self.beta if gaussian else None)

    def _made(self, seed: int) -> Any:
        from sklearn.base import clone, is_regressor

        if isinstance(self.model, str):
            module, _, name = SHORT.get(self.model, self.model).rpartition(".")
            try:
                made = getattr(import_module(module), name)(**self._kernel())
            except (ImportError, AttributeError, TypeError) as error:
                raise FairbanditError(f"model={self.model}: {error}") from error
            if not is_regressor(made):
                raise FairbanditError(f"model={self.model}: expected the class of a regressor")
            made.set_params(**(self.params or {}))
        else:
            made = clone(self.model)
        states = (key for key in made.get_params() if key.split("__")[-1] == "random_state")
        unset = [key for key in states if made.get_params()[key] is None]
        return made.set_params(**dict.fromkeys(unset, seed))

    def _kernel(self) -> dict[str, Any]:
        if self.model == "kernel_ridge":
            return {"kernel": "rbf"}
        if self.model != "gaussian_process":
            return {}
        kernels = import_module("sklearn.gaussian_process.kernels")
        return {"kernel": kernels.ConstantKernel() * kernels.RBF() + kernels.WhiteKernel()}


@lru_cache(maxsize=KEPT)
def _fitted(part: Sklearn, seed: int, x: bytes, y: bytes) -> Any:
    """A regressor fitted to contexts (n, d) and rewards (n,), which are given as bytes."""
    from threadpoolctl import threadpool_limits  # these imports take seconds

    made = part._made(seed)
    with threadpool_limits(1):  # results do not depend on threads
        return made.fit(np.frombuffer(x).reshape(len(y) // 8, -1), np.frombuffer(y))


class FixedModel(RewardModel):
    """Rewards predicted by one function of contexts (n, d), the same for all replicas."""

    def __init__(self, predict: Callable[[Any], Any]) -> None:
        super().__init__()
        self._predict = predict

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        rows = contexts.flatten(0, -2).numpy(force=True)
        values = np.asarray(_quiet("fixed", self._predict, rows), dtype=float)
        if values.size != len(rows):
            raise FairbanditError(
                f"estimator 'fixed': expected {len(rows)} predictions, got the shape {values.shape}"
            )
        return torch.from_numpy(values.reshape(groups.shape)).to(contexts.device)


class Fixed(Estimator):
    """A fitted model that does not learn, such as a model in production.

    The scores are the predictions of the model for the contexts as they are. No reward is read.

    Args:
        model: from Python, a fitted regressor or pipeline with `predict`, or a function of
            contexts (n, d) that returns n predictions.

    Raises:
        FairbanditError: another model.
    """

    reference = "Grazzi et al., Group Meritocratic Fairness, NeurIPS 2022 (a fixed score is ranked)"
    learns = False
    _name = "fixed"  # not registered, since a config cannot hold a fitted model

    def __init__(self, *, model: Any) -> None:
        if not (hasattr(model, "predict") or callable(model)):
            raise FairbanditError(
                "model: expected, from Python, a fitted regressor with predict, or a function of "
                f"contexts (n, d); got {shown(model)}"
            )
        self.model = model

    def _models(
        self, problem: Problem, state: State, rounds: Rounds, n_train: Rounds, outcomes: Outcomes
    ) -> RewardModel:
        return FixedModel(getattr(self.model, "predict", self.model))


def _uncertainty(regressor: Any, x: Any) -> Any:
    """The standard deviation of a Gaussian process, without the noise of a single reward."""
    squares = regressor.predict(x, return_std=True)[1] ** 2 - regressor.kernel_.k2.noise_level
    return np.sqrt(np.maximum(squares, 0.0))


def _quiet(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"sklearn\.")
            return function(*arguments)
    except ValueError as error:
        message = " ".join(str(error).split())
        raise FairbanditError(f"estimator '{name}': {message}") from error
