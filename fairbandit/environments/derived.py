"""Any problem, changed: its candidates come one at a time, or its rewards are distorted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.families import Noise, Synthetic
from fairbandit.environments.simulation import Simulation
from fairbandit.environments.table import RewardSource, Table
from fairbandit.errors import FairbanditError
from fairbandit.registry import completed, create, lookup, register
from fairbandit.streams import Purpose, Streams

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda y: y,
    "exp": torch.exp,
    "cube": lambda y: y**3,
    "tanh": torch.tanh,
    "sinh": torch.sinh,
    "root": lambda y: y.sign() * y.abs().sqrt(),
    "logistic": torch.sigmoid,
}
"""Strictly increasing functions by name."""

# groups that share their features; the functions bend rewards and hardly make them equal
BASE = {"name": "synthetic", "theta": [2, -2, 1, 1], "scales": [1, 3, 2, 1], "noise": 2}
NODES, ROUNDS, STEPS, FARTHEST = 64, 1024, 120, 1e6


class _Derived(Environment):
    """An environment that changes the pools of its base, an environment with a truth."""

    _default: ClassVar[Any]

    def _derive(self, base: Any) -> None:
        self.base, self._inner = base, create("environment", base or self._default)
        inner = self._inner
        if inner.truth is None:
            raise FairbanditError(
                f"environment.base: expected an environment with a truth; {inner} has none"
            )
        self.features, self.places = inner.features, inner.places
        self.group_names, self.truth = inner.group_names, inner.truth
        vars(self)["exploration"] = inner.exploration

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """Returns the fingerprint of the base."""
        spec = completed("environment", parameters.get("base") or cls._default)
        base: type[Environment] = lookup("environment", spec.pop("name"))
        return base.fingerprint(spec)

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        self._inner.bind(streams)
        self.truth = self._inner.truth


@register("environment", "arrivals")
class Arrivals(_Derived):
    """Any environment, with the candidates of one or several pools in their order of arrival.

    A round joins the next `join` pools of the base, with their places in a random order, which the
    selector `rolling` needs for parity. With `trend`, better candidates come earlier: places are
    sorted by (1 − |trend|)·U − trend·(true rank), with a uniform U for each candidate. True rewards
    that drift do so at the first pool of a round.

    Args:
        base: the environment, a name or a mapping with `name` and parameters; null for
            `simulation`.
        join: the number of pools that come together.
        trend: from −1, where the best candidates come last, to 1, where they come first.
        least: the number of candidates is uniform on least … K, and the last places are empty; null
            for K.

    Raises:
        FairbanditError: a value is out of range, or the base cannot be made or lacks a truth.
    """

    _default = "simulation"

    def __init__(
        self, *, base: Any = None, join: int = 1, trend: float = 0.0, least: int | None = None
    ) -> None:
        self._derive(base)
        self.join, self.trend, self.least = join, trend, least
        self.places *= max(join, 1)
        if not (join >= 1 and -1 <= trend <= 1 and 1 <= (least or 1) <= self.places):
            raise FairbanditError(
                "environment: expected join of at least 1, trend from -1 to 1, and least from 1 to "
                f"{self.places}; got {join}, {trend} and {least}"
            )

    def _pools(self, first: int, count: int) -> Pools:
        n, k = self.join, self.places
        parts = vars(self._inner.pools((first - 1) * n + 1, count * n))
        joined = {name: part.unflatten(1, (count, n)).flatten(2, 3) for name, part in parts.items()}
        drawn = self.streams[Purpose.ARRIVALS].uniform(first, count, k + 1)
        late = (1 - abs(self.trend)) * drawn[..., :k] - self.trend * joined["ranks"]
        order = late.masked_fill(joined["groups"] < 0, torch.inf).argsort(2)
        pools = {
            name: part.take_along_dim(order if part.ndim == 3 else order[..., None], 2)
            for name, part in joined.items()
        }
        least = self.least or k
        come = least + (drawn[..., k:] * (k - least + 1)).floor()
        places = torch.arange(k, device=come.device)
        pools["groups"] = pools["groups"].masked_fill(places >= come, -1)
        return Pools(**pools)


@register("environment", "distorted")
class Distorted(_Derived):
    """Any environment, with the rewards of each group seen through an increasing function.

    A reward s + ε of the base becomes h_g(s + ε) for a candidate of group g, where h_g(y) is y or a
    function of scale·y. The true reward is H_g(s) = E[h_g(s + ε)], which increases with s, so that
    true ranks do not change. The expectation is Gauss-Hermite quadrature with 64 nodes if ε is
    Gaussian with the base's `noise`: for `simulation`, `synthetic` with rewards=normal, and `table`
    with rewards=model. For any other base it is the mean over 64 quantiles of reward − true reward
    in 1,024 rounds, as if all candidates had the same noise. True rewards have a θ only if all
    functions are the identity. A function that is flat in double precision, like tanh beyond 19,
    makes rewards equal and loses their order.

    Args:
        base: the environment, a name or a mapping with `name` and parameters; null for `synthetic`
            with theta=[2, −2, 1, 1], scales=[1, 3, 2, 1] and noise=2.
        functions: h of group 0, 1, …, repeated if there are more groups: identity, exp, cube, tanh,
            sinh, root (of |y|, with the sign of y) or logistic.
        scale: the factor of rewards before a function other than the identity.

    Raises:
        FairbanditError: a value is out of range, or the base cannot be made or lacks a truth.
    """

    _default = BASE

    def __init__(
        self,
        *,
        base: Any = None,
        functions: Sequence[str] = ("identity", "exp", "cube", "tanh"),
        scale: float = 1.0,
    ) -> None:
        if not functions or not set(functions) <= set(FUNCTIONS):
            raise FairbanditError(
                f"environment.functions: expected some of {', '.join(FUNCTIONS)}; got "
                f"{list(functions)}"
            )
        if not 0 < scale < math.inf:
            raise FairbanditError(f"environment.scale must be above 0 and finite, got {scale}")
        self.functions, self.scale = list(functions), scale
        self._derive(base)
        names = [functions[g % len(functions)] for g in range(len(self.group_names))]
        self._functions = [None if name == "identity" else FUNCTIONS[name] for name in names]
        self._noise = _noise_of(self._inner)
        self.bind(Streams(0, []))

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        self._nodes, self._weights = (part.to(streams.device) for part in self._noise)
        base = self.truth
        if base is None or not any(self._functions):
            return

        def rewards(contexts: Tensor, groups: Tensor, rounds: Tensor) -> Tensor:
            return self._mean(base.score(contexts, groups, rounds), groups)

        def cdf(groups: Tensor, values: Tensor, rounds: Tensor) -> Tensor:
            return base.cdf(groups, self._inverse(groups, values), rounds)

        self.truth = Truth(None, cdf, rewards)

    def _pools(self, first: int, count: int) -> Pools:
        pools = self._inner.pools(first, count)
        rewards = self._mean(pools.rewards, pools.groups, noisy=True)
        expected = self._mean(pools.expected, pools.groups)
        return replace(pools, rewards=rewards, expected=expected)

    def _mean(self, values: Tensor, groups: Tensor, noisy: bool = False) -> Tensor:
        """Returns H_g of true rewards (…), or h_g of noisy rewards; 0 in empty places."""
        values, groups = torch.broadcast_tensors(values, groups)
        means = torch.zeros_like(values)
        for group, function in enumerate(self._functions):
            here = groups == group
            if function is None or noisy:
                means[here] = function(self.scale * values[here]) if function else values[here]
            else:
                around = values[here][:, None] + self._nodes
                means[here] = function(self.scale * around) @ self._weights
        return means

    def _inverse(self, groups: Tensor, values: Tensor) -> Tensor:
        """Returns the largest s with H_g(s) ≤ value, by bisection between ∓`FARTHEST`."""
        groups, values = torch.broadcast_tensors(groups, values)
        low, high = (torch.full_like(values, end) for end in (-FARTHEST, FARTHEST))
        for _ in range(STEPS):
            middle = (low + high) / 2
            below = self._mean(middle, groups) <= values
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return low


def _noise_of(base: Environment) -> tuple[Tensor, Tensor]:
    """Returns values of an environment's reward noise, and their weights, (`NODES`,) each."""
    modelled = getattr(base, "rewards", Noise.normal) in (Noise.normal, RewardSource.model)
    if isinstance(base, (Simulation, Synthetic, Table)) and modelled:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        nodes, weights = base.noise * nodes, weights / math.sqrt(2 * math.pi)
    else:
        base.bind(Streams(0, [0]))
        pools = base.pools(1, ROUNDS)
        off = (pools.rewards - pools.expected)[pools.groups >= 0].numpy()
        nodes = np.quantile(off, (np.arange(NODES) + 0.5) / NODES)
        weights = np.full(NODES, 1 / NODES)
    return torch.from_numpy(nodes), torch.from_numpy(weights)
