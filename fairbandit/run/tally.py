"""Running statistics over rounds, replicas and batches: all that a summary and curves need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairbandit.engine import Played
from fairbandit.maths.moments import Moments
from fairbandit.streams import GRID

POINTS = 1000
"""The most points of a curve; TensorBoard keeps no more a tag."""


def log_spaced(rounds: int, points: int = POINTS) -> list[int]:
    """Rounds at which curves are sampled: all of them if few, else log-spaced, with 1 and T.

    >>> log_spaced(5), log_spaced(1000, points=4)
    ([1, 2, 3, 4, 5], [1, 10, 100, 1000])
    """
    if rounds <= points:
        return list(range(1, rounds + 1))
    spaced = np.geomspace(1, rounds, points).round().astype(int)
    return [int(step) for step in np.unique(spaced)]


@dataclass
class Totals:
    """Sums over rounds, a row a replica: regrets (B,), candidates selected and received (B, G)."""

    fair: Tensor
    standard: Tensor
    selected: Tensor
    received: Tensor

    @classmethod
    def zeros(cls, replicas: int, groups: int) -> Totals:
        """Nothing played yet."""
        regrets = [torch.zeros(replicas, dtype=torch.float64) for _ in range(2)]
        counts = [torch.zeros(replicas, groups, dtype=torch.int64) for _ in range(2)]
        return cls(*regrets, *counts)

    @property
    def rates(self) -> Tensor:
        """Selected ÷ received, (B, G); NaN where none was received."""
        return self.selected.double() / self.received.double()  # 0/0 is NaN

    @staticmethod
    def together(batches: Sequence[Totals]) -> Totals:
        """All replicas' totals in one."""
        return Totals(
            torch.cat([batch.fair for batch in batches]),
            torch.cat([batch.standard for batch in batches]),
            torch.cat([batch.selected for batch in batches]),
            torch.cat([batch.received for batch in batches]),
        )


class Tally:
    """Sums of the current batch, and curves over the batches so far.

    Regrets are sampled at log-spaced rounds. Candidates received are known at the ends of pieces
    of 64 rounds, so selection rates are sampled there, at the first such round from each
    log-spaced one on.

    Args:
        rounds: T.
        group_names: the groups' names, in order of their codes.
    """

    def __init__(self, rounds: int, group_names: Sequence[str]) -> None:
        self._names = tuple(group_names)
        self._steps = log_spaced(rounds)
        self._ends = sorted({min(-(-step // GRID) * GRID, rounds) for step in self._steps})
        self._fair, self._standard = Moments(len(self._steps)), Moments(len(self._steps))
        self._rates = Moments(len(self._ends), len(self._names))
        self._batches: list[Totals] = []

    def start(self, replicas: int) -> None:
        """Begins a batch of so many replicas."""
        self._batches.append(Totals.zeros(replicas, len(self._names)))

    def add(self, played: Played) -> None:
        """Takes in a piece of rounds of the current batch."""
        now = self._batches[-1]
        first, last = _span(played)
        here = _between(self._steps, first, last)
        columns = [step - first for step in self._steps[here]]
        for regrets, sums, moments in (
            (played.fair_regret, now.fair, self._fair),
            (played.standard_regret, now.standard, self._standard),
        ):
            running = regrets.cumsum(1) + sums[:, None]
            moments.add(running[:, columns], here)
            sums.copy_(running[:, -1])
        picked = torch.nn.functional.one_hot(played.groups, len(self._names))
        now.selected += picked.sum(1)
        now.received += played.received
        ends = _between(self._ends, last, last)
        if ends.start < ends.stop:
            self._rates.add(now.rates[:, None], ends)

    def points(self, played: Played) -> Iterator[tuple[int, dict[str, float]]]:
        """The curves' points in the rounds of a piece, over all batches added so far.

        Yields:
            Round, and values by tag: mean, and mean ∓ std over replicas as lower and upper.
        """
        first, last = _span(played)
        here, ends = _between(self._steps, first, last), _between(self._ends, last, last)
        values: dict[int, dict[str, float]] = {step: {} for step in self._steps[here]}
        for name, moments in (("fair", self._fair), ("standard", self._standard)):
            means, stds = moments.mean[here], moments.std[here].nan_to_num(nan=0.0)
            for step, mean, std in zip(values, means.tolist(), stds.tolist(), strict=True):
                values[step][f"{name}_pseudo_regret/mean"] = mean
                values[step][f"{name}_pseudo_regret/lower"] = mean - std
                values[step][f"{name}_pseudo_regret/upper"] = mean + std
        for rates in self._rates.mean[ends].tolist():
            known = zip(self._names, rates, strict=True)
            shown = {f"selection_rate/{name}": rate for name, rate in known if rate == rate}
            values.setdefault(last, {}).update(shown)
        yield from sorted(values.items())

    def totals(self) -> Totals:
        """The sums of all batches' replicas."""
        return Totals.together(self._batches)


def _span(played: Played) -> tuple[int, int]:
    return played.first, played.first + played.actions.shape[1] - 1


def _between(steps: Sequence[int], first: int, last: int) -> slice:
    """Where a sorted sequence lies within first … last."""
    low, high = np.searchsorted(steps, [first, last + 1])
    return slice(int(low), int(high))
