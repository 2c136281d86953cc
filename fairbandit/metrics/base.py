"""The contract of a metric: what it sees of the rounds played, and what it gives for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import typed
from fairbandit.maths.picks import gather_picks
from fairbandit.metrics.reduction import REDUCTIONS, Reduce
from fairbandit.part import Problem
from fairbandit.registry import Registered, base
from fairbandit.selectors import Selection


@dataclass(frozen=True)
class Judged:
    """N consecutive rounds of B replicas as a metric sees them.

    Attributes:
        first: the first of the rounds, from 1.
        pools: the candidates with all rewards and, where the environment has a truth, the true
            rewards and true ranks, which are NaN elsewhere.
        selection: the picks, whose fields are properties here.
        draws_models: whether the estimator draws a reward model for each round.
    """

    first: int
    pools: Pools
    selection: Selection
    draws_models: bool = False

    @property
    def actions(self) -> Tensor:
        """The places picked, (B, N) int64; see `Selection` for several picks of a pool."""
        return self.selection.actions

    @property
    def propensities(self) -> Tensor:
        """The probability of each pick, as `actions`."""
        return self.selection.propensities

    @property
    def probabilities(self) -> Tensor:
        """The probability with which each place would be among the picks, (B, N, K)."""
        return self.selection.inclusion

    def gather_picks(self, values: Tensor) -> Tensor:
        """What stands at the places picked: (B, N, K, …) to (B, N, …), or (B, N, m, …)."""
        return gather_picks(values, self.actions)

    @property
    def picks(self) -> int:
        """m, how many are picked of each pool; pools of fewer candidates are taken whole."""
        return self.actions.shape[2] if self.actions.ndim == 3 else 1

    def total(self, values: Tensor) -> Tensor:
        """The sum of the picks' values: (B, N, K, …) to (B, N, …)."""
        found = gather_picks(values, self.actions, 0)
        return found if self.actions.ndim == 2 else found.sum(2)

    def lost(self, values: Tensor) -> Tensor:
        """By how much the m best candidates are above the picks: (B, N, K) to (B, N)."""
        among = values.masked_fill(self.pools.groups < 0, -torch.inf)
        if self.picks == 1:
            return among.amax(2) - self.total(values)
        best = among.topk(min(self.picks, values.shape[2]), 2).values
        return best.masked_fill(best == -torch.inf, 0).sum(2) - self.total(values)


@base("metric")
class Metric(Registered, ABC):
    """A quantity by which picks are judged, one number for each round and replica.

    A subclass writes `_values`. It may keep a state: rounds come in order, in pieces whose length
    it must not depend on. Its constructor takes keyword-only plain data and stores each argument
    under its own name. Like any part, it never changes a tensor that it was given.

    Example:
        >>> class PickedGroup(Metric):
        ...     '''Whether the pick is of group 0.'''
        ...
        ...     reduce = "mean"
        ...
        ...     def _values(self, judged: Judged) -> Tensor:
        ...         return (judged.gather_picks(judged.pools.groups) == 0).double()
    """

    reference: ClassVar[str] = ""
    """Where the metric comes from."""
    reduce: ClassVar[Reduce] = "sum"
    """How the values of rounds 1 … t become the metric after round t."""
    needs_truth: ClassVar[bool] = False
    """Whether it reads true rewards or ranks; it is null where the environment has no truth."""
    needs_fixed_models: ClassVar[bool] = False
    """Whether it needs probabilities that do not depend on a random draw of the reward model; it is
    null where the estimator draws a model for each round, as in posterior sampling."""
    lower_is_better: ClassVar[bool] = True
    """Which of two runs is the better one."""

    problem: Problem

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.reduce not in REDUCTIONS:
            raise FairbanditError(
                f"metric {cls.__name__} declares reduce = {cls.reduce!r}; expected one of "
                f"{', '.join(REDUCTIONS)}"
            )

    def bind(self, problem: Problem) -> None:
        """Prepares the metric for rounds 1, 2, … of a problem; forgets rounds judged before."""
        self.problem = problem

    def values(self, judged: Judged) -> Tensor:
        """Judges the next N rounds of the problem that the metric is bound to.

        Returns:
            One finite number for each round and replica, (B, N) float64; NaN where the metric
            needs a truth and there is none, or fixed models and they are drawn.

        Raises:
            FairbanditError: `_values` gives something else.
        """
        shape, truth = tuple(judged.actions.shape[:2]), self.problem.truth is not None
        if (self.needs_truth and not truth) or (self.needs_fixed_models and judged.draws_models):
            return torch.full(shape, torch.nan, dtype=torch.float64, device=judged.actions.device)
        values = self._values(judged)
        sound = isinstance(values, Tensor) and values.dtype == torch.float64
        if not sound or values.shape != shape:
            raise FairbanditError(
                f"{self} gave {typed(values)}; expected (B, N) = {shape} values and torch.float64"
            )
        if not bool(values.isfinite().all()):
            replica, offset = (~values.isfinite()).nonzero()[0].tolist()
            raise FairbanditError(
                f"{self} gave {values[replica, offset].item()} for round "
                f"{judged.first + offset} of replica {replica} of the batch; expected a finite "
                "number (a metric that reads true rewards or ranks declares needs_truth = True)"
            )
        return values

    @abstractmethod
    def _values(self, judged: Judged) -> Tensor:
        """Judges the N rounds that follow those judged before, (B, N) float64."""

    def state(self) -> dict[str, Any]:
        """What the metric must remember of the rounds judged, as plain tensors and numbers."""
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from what `state` returned, of an equal metric bound to an equal problem.

        Raises:
            FairbanditError: the state is not empty, and this class does not override the method.
        """
        if state:
            raise FairbanditError(f"{self} has no state; got one with {', '.join(state)}")
