"""Regressors of scikit-learn as reward models."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.base import Estimator
from fairbandit.estimators.models import RewardModel
from fairbandit.estimators.ties import PLAIN
from fairbandit.history import Outcomes, State
from fairbandit.history.problem import Problem
from fairbandit.registry import register
from fairbandit.streams import Purpose

LARGEST = 1e30
"""Contexts are clipped to this size, since forests store them in single precision."""

KEPT = 16
"""The number of cached regressors, so that an agent does not refit them at each decision."""


class Regressor(Enum):
    """The regressors, with their classes in scikit-learn."""

    hist_gradient_boosting = "sklearn.ensemble.HistGradientBoostingRegressor"
    random_forest = "sklearn.ensemble.RandomForestRegressor"
    kernel_ridge = "sklearn.kernel_ridge.KernelRidge"
    gaussian_process = "sklearn.gaussian_process.GaussianProcessRegressor"
    sgd = "sklearn.linear_model.SGDRegressor"


class FittedModel(RewardModel):
    """Rewards predicted by regressors that were fitted to standardised rewards.

    Args:
        parameters: the index of each model's regressor, −1 for none, and the mean and standard
            deviation of the rewards to which it was fitted, (B, U) each.
        regressors, beta: regressors of scikit-learn; β of the bounds, None without bounds.
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
        """The predictions of each model's regressor, (B, U, M); 0 without a regressor."""
        numbers, x = (part.numpy(force=True) for part in (self.parameters[0], contexts))
        x = x.clip(-LARGEST, LARGEST)
        values = np.zeros((*numbers.shape, x.shape[2]))
        for b, indices in enumerate(numbers):
            for i in np.unique(indices[indices >= 0]):
                at = np.flatnonzero(indices == i)
                points = x[b] if x.shape[1] == 1 else x[b, at]
                rows = points.reshape(-1, points.shape[2])
                values[b, at] = _quiet(predict, self._regressors[i], rows).reshape(points.shape[:2])
        return torch.from_numpy(values).to(contexts.device)


@register("estimator", "sklearn")
class SklearnEstimator(Estimator):
    """A regressor of scikit-learn, fitted to all outcomes whenever the policy refreshes its model.

    The regressor is fitted to the contexts as they are and to standardised rewards. The kernel of
    `gaussian_process` is c·exp(−‖x − x'‖²/2ℓ²); c, ℓ and the noise maximise the likelihood, and the
    bounds are mean ± β·(standard deviation of the true reward). The kernel of `kernel_ridge` is
    exp(−‖x − x'‖²/d). A random state is drawn from the run's streams for each number of training
    rounds. Fitted regressors are not saved. The policy must set `refresh`. Decisions may depend on
    the processor.

    Args:
        regressor: `hist_gradient_boosting`, `random_forest`, `kernel_ridge`, `gaussian_process` or
            `sgd`.
        options: a mapping with parameters of scikit-learn's class, such as {max_depth: 3}.
        beta: β ≥ 0 (gaussian_process).

    Raises:
        FairbanditError: options are not a mapping, or β is out of range.
    """

    reference = "Pedregosa et al., Scikit-learn: Machine Learning in Python, JMLR 2011"
    needs = frozenset({"rewards", "refresh"})

    def __init__(
        self,
        *,
        regressor: Regressor = Regressor.hist_gradient_boosting,
        options: Any = None,
        beta: float = 2.0,
    ) -> None:
        if not isinstance(options or {}, Mapping) or not 0 <= beta < math.inf:
            raise FairbanditError(
                f"options must be a mapping, beta (β) at least 0 and finite; got {options}, {beta}"
            )
        self.regressor, self.options, self.beta = regressor, options, beta

    def _models(
        self,
        problem: Problem,
        state: State,
        rounds: list[int],
        n_train: list[int],
        outcomes: Outcomes,
    ) -> RewardModel:
        played, x, groups, rewards = (part.numpy(force=True) for part in outcomes)
        x = x.clip(-LARGEST, LARGEST)
        shape, regressors = (problem.replicas, len(n_train)), list[Any]()
        numbers, centre, deviation = np.full(shape, -1), np.zeros(shape), np.ones(shape)
        how = self.regressor, json.dumps(self.options or {}, sort_keys=True)
        for u, (n, size) in enumerate(zip(n_train, outcomes.counts(n_train), strict=True)):
            draws = problem.streams[Purpose.ESTIMATOR].uniform(max(n, 1), 1, 1).flatten().tolist()
            for b, draw in enumerate(draws):
                rows = np.flatnonzero(groups[b, :size] >= 0)
                if len(rows):  # sorted, since the order of arrival in a round must not matter
                    rows = rows[np.lexsort((*x[b, rows].T, rewards[b, rows], played[rows]))]
                    y, numbers[b, u] = rewards[b, rows], len(regressors)
                    centre[b, u], deviation[b, u] = y.mean(), y.std() or 1.0
                    y = (y - centre[b, u]) / deviation[b, u]
                    seed, contexts = int(draw * 2**32), x[b, rows].tobytes()
                    regressors.append(_quiet(_fitted, *how, seed, contexts, y.tobytes()))
        parts = (torch.from_numpy(part).to(problem.device) for part in (numbers, centre, deviation))
        beta = self.beta if self.regressor is Regressor.gaussian_process else None
        return FittedModel(*parts, regressors=regressors, beta=beta)


@lru_cache(maxsize=KEPT)
def _fitted(kind: Regressor, options: str, seed: int, x: bytes, y: bytes) -> Any:
    """A regressor fitted to contexts (n, d) and rewards (n,), which are given as bytes."""
    from threadpoolctl import threadpool_limits  # these imports take seconds

    module, _, name = kind.value.rpartition(".")
    given = {"kernel": "rbf"} if kind is Regressor.kernel_ridge else {"random_state": seed}
    if kind is Regressor.gaussian_process:
        kernels = import_module("sklearn.gaussian_process.kernels")
        given["kernel"] = kernels.ConstantKernel() * kernels.RBF() + kernels.WhiteKernel()
    made = getattr(import_module(module), name)().set_params(**(given | json.loads(options)))
    with threadpool_limits(1):  # results do not depend on threads
        return made.fit(np.frombuffer(x).reshape(len(y) // 8, -1), np.frombuffer(y))


def _uncertainty(regressor: Any, x: Any) -> Any:
    """The standard deviation of a Gaussian process, without the noise of a single reward."""
    squares = regressor.predict(x, return_std=True)[1] ** 2 - regressor.kernel_.k2.noise_level
    return np.sqrt(np.maximum(squares, 0.0))


def _quiet(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of scikit-learn and ignores its warnings.

    Raises:
        FairbanditError: the function raised a ValueError.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"sklearn\.")
            return function(*arguments)
    except ValueError as error:
        message = " ".join(str(error).split())
        raise FairbanditError(f"estimator 'sklearn': {message}") from error
