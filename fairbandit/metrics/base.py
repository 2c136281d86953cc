"""The contract of a metric, which returns a number for each round, and its running reduction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from fairbandit.environments.base import Pools
from fairbandit.errors import FairbanditError, typed
from fairbandit.history import Problem
from fairbandit.history.outcomes import gather_picks
from fairbandit.registry import Registered, base
from fairbandit.selectors import Selection

Reduce = Literal["sum", "mean", "last", "max"]
"""The reduction of a metric's values in rounds 1 … t to its value after round t."""

REDUCTIONS: tuple[Reduce, ...] = get_args(Reduce)
"""The names of the reductions."""


class RunningReduction:
    """Reduces the values of B replicas over rounds 1 … t, for every t, by one of `REDUCTIONS`.

    >>> running = RunningReduction("mean", replicas=1)
    >>> running.add(torch.tensor([[1.0, 2.0]])), running.add(torch.tensor([[6.0]]))
    (tensor([[1.0000, 1.5000]], dtype=torch.float64), tensor([[3.]], dtype=torch.float64))
    """

    def __init__(self, reduce: Reduce, replicas: int) -> None:
        self._reduce = reduce
        self._rounds = 0
        start = -torch.inf if reduce == "max" else 0.0
        self._carried = torch.full((replicas,), start, dtype=torch.float64)

    def add(self, values: Tensor) -> Tensor:
        """Adds the next N rounds, (B, N); returns the value after each round, (B, N) float64."""
        values, carried = values.to(self._carried), self._carried[:, None]
        rounds = torch.arange(1, values.shape[1] + 1) + self._rounds
        if self._reduce in ("sum", "mean"):
            running = values.cumsum(1) + carried
        elif self._reduce == "max":
            running = values.cummax(1).values.maximum(carried)
        else:
            running = values
        self._carried = running[:, -1].clone()
        self._rounds += values.shape[1]
        return running / rounds if self._reduce == "mean" else running


def members(groups: Tensor, count: int) -> Tensor:
    """Whether each entry is in each group, (…) to (…, G) bool; −1 is in no group."""
    return groups[..., None] == torch.arange(count, device=groups.device)


@dataclass(frozen=True)
class Judged:
    """N consecutive rounds of B replicas as a metric sees them.

    Attributes:
        problem: the problem that is played.
        first: the number of the first round, from 1.
        pools: the candidates with all rewards, true rewards and true ranks. True rewards and ranks
            are NaN if the environment lacks a ground truth.
        selection: the picks; for one pick from each pool, its actions and propensities are (B, N).
        draws_models: whether the estimator draws a reward model for each round.
    """

    problem: Problem
    first: int
    pools: Pools
    selection: Selection
    draws_models: bool = False

    def gather_picks(self, values: Tensor) -> Tensor:
        """Gathers the values at the places picked: (B, N, K, …) to (B, N, …), or (B, N, m, …)."""
        return gather_picks(values, self.selection.actions)

    @property
    def picks(self) -> int:
        """m, the number of candidates picked from each pool; all, if a pool is smaller."""
        return self.selection.actions.shape[2] if self.selection.actions.ndim == 3 else 1

    def total(self, values: Tensor) -> Tensor:
        """Sums the values of the picks: (B, N, K, …) to (B, N, …)."""
        picked = gather_picks(values, self.selection.actions, 0)
        return picked if self.selection.actions.ndim == 2 else picked.sum(2)

    def lost(self, values: Tensor) -> Tensor:
        """Subtracts the picks' total from the total of the m best: (B, N, K) to (B, N)."""
        present = values.masked_fill(self.pools.groups < 0, -torch.inf)
        if self.picks == 1:
            return present.amax(2) - self.total(values)
        best = present.topk(min(self.picks, values.shape[2]), 2).values
        return best.masked_fill(best == -torch.inf, 0).sum(2) - self.total(values)


@base("metric")
class Metric(Registered, ABC):
    """A measure of picks, with one number for each round and replica.

    A subclass implements `_values(judged)`, which returns the values of N rounds, (B, N) float64.
    Rounds come in order and in pieces, and results must not depend on the length of a piece. A
    metric that needs sums of earlier rounds overrides `init`, and its `_values(judged, sums)`
    returns the values and the new sums. Its constructor takes keyword-only plain data and stores
    each argument under its own name. It never modifies a tensor that it receives, or itself.

    Example:
        >>> class PickedGroup(Metric):
        ...     '''Whether the pick belongs to group 0.'''
        ...
        ...     reduce = "mean"
        ...
        ...     def _values(self, judged: Judged) -> Tensor:
        ...         return (judged.gather_picks(judged.pools.groups) == 0).double()
    """

    reference: ClassVar[str] = ""
    """The publication that defines the metric."""
    reduce: ClassVar[Reduce] = "sum"
    """The reduction of the values of rounds 1 … t to the metric after round t."""
    needs_truth: ClassVar[bool] = False
    """Whether it reads true rewards or ranks; it is then null without a ground truth."""
    needs_fixed_models: ClassVar[bool] = False
    """Whether it needs probabilities that do not depend on a random draw of the reward model; it is
    null if the estimator draws a model for each round, as in posterior sampling."""
    lower_is_better: ClassVar[bool] = True
    """Whether the run with the lower value is better."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.reduce not in REDUCTIONS:
            raise FairbanditError(
                f"metric {cls.__name__} declares reduce = {cls.reduce!r}; expected one of "
                f"{', '.join(REDUCTIONS)}"
            )

    def init(self, problem: Problem) -> Any:
        """Returns the sums before round 1; None for a metric of each round alone."""
        return None

    def values(self, judged: Judged, sums: Any) -> tuple[Tensor, Any]:
        """Judges the next N rounds, given the sums of `init`, or of the last call.

        Returns:
            The values and the sums for the next call. The values are one finite number for each
            round and replica, (B, N) float64; they are NaN if the metric needs a ground truth that
            the problem lacks, or fixed models although models are drawn.

        Raises:
            FairbanditError: `_values` returns anything else.
        """
        chances, truth = judged.selection.propensities, judged.problem.truth is not None
        shape = tuple(chances.shape[:2])
        if (self.needs_truth and not truth) or (self.needs_fixed_models and judged.draws_models):
            return chances.new_full(shape, torch.nan), sums
        values = self._values(judged) if sums is None else self._values(judged, sums)
        if sums is not None:
            if not isinstance(values, tuple) or len(values) != 2:
                raise FairbanditError(
                    f"{self} gave {typed(values)}; expected (values, sums), since `init` gives sums"
                )
            values, sums = values
        valid = isinstance(values, Tensor) and values.dtype == torch.float64
        if not valid or values.shape != shape:
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
        return values, sums

    @abstractmethod
    def _values(self, *args: Any, **options: Any) -> Any:
        """Judges the next N rounds: `_values(judged)`, or with sums `_values(judged, sums)`."""
