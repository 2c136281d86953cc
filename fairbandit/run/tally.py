"""Running statistics over rounds, replicas and batches: all that a summary and curves need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairbandit.engine import Played
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import like
from fairbandit.maths.moments import Moments
from fairbandit.run.boards import FAIR, GAP, INSTANT, MAX_GROUPS, RATE, STANDARD
from fairbandit.streams import GRID

POINTS = 1000
"""The most points of a curve; TensorBoard keeps no more a tag."""

WINDOWS = 50
"""The most windows of rounds over which the instantaneous regret is averaged."""


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
    of `GRID` rounds, so selection rates are sampled there, at the first such round from each
    log-spaced one on; with them the parity gap, the greatest rate less the least. Instantaneous
    regrets are means over the rounds since the last of some fifty log-spaced ones.

    Args:
        rounds: T.
        group_names: the groups' names, in order of their codes.
    """

    def __init__(self, rounds: int, group_names: Sequence[str]) -> None:
        self._names = tuple(group_names)
        self._steps = log_spaced(rounds)
        self._ends = sorted({min(-(-step // GRID) * GRID, rounds) for step in self._steps})
        windows = np.searchsorted(self._steps, log_spaced(rounds, WINDOWS))
        self._windows = [int(index) for index in np.unique(windows)]
        self._fair, self._standard = Moments(len(self._steps)), Moments(len(self._steps))
        self._rates = Moments(len(self._ends), len(self._names))
        self._batches: list[Totals] = []

    def start(self, replicas: int) -> None:
        """Begins a batch of so many replicas."""
        self._batches.append(Totals.zeros(replicas, len(self._names)))

    def add(self, played: Played) -> None:
        """Takes in a piece of rounds of the current batch."""
        now = self._batches[-1]
        first, last = played.first, played.last
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

    def points(self, first: int, last: int) -> Iterator[tuple[int, dict[str, float]]]:
        """The curves' points in rounds first … last, over all batches added so far.

        Args:
            first: a round that begins a piece.
            last: the last round of the same piece or of a later one.

        Yields:
            Round, and values by tag: mean, and mean ∓ std over replicas as lower and upper.
        """
        here, ends = _between(self._steps, first, last), _between(self._ends, first, last)
        values: dict[int, dict[str, float]] = {step: {} for step in self._steps[here]}
        for name, moments in ((FAIR, self._fair), (STANDARD, self._standard)):
            means, stds = moments.mean[here], moments.std[here].nan_to_num(nan=0.0)
            for step, mean, std in zip(values, means.tolist(), stds.tolist(), strict=True):
                values[step][f"{name}/mean"] = mean
                values[step][f"{name}/lower"] = mean - std
                values[step][f"{name}/upper"] = mean + std
        for index in _indices(self._windows, here):
            values[self._steps[index]].update(self._instant(index))
        for end, rates in zip(self._ends[ends], self._rates.mean[ends].tolist(), strict=True):
            values.setdefault(end, {}).update(self._shares(rates))
        yield from sorted(values.items())

    def _instant(self, index: int) -> dict[str, float]:
        """Mean regret a round in the window that ends at a step."""
        ends = self._windows.index(index)
        before = self._windows[ends - 1] if ends else None
        span = self._steps[index] - (0 if before is None else self._steps[before])
        means = {"fair": self._fair.mean, "standard": self._standard.mean}
        return {
            f"{INSTANT}/{name}": float(mean[index] - (0 if before is None else mean[before])) / span
            for name, mean in means.items()
        }

    def _shares(self, rates: Sequence[float]) -> dict[str, float]:
        """Selection rates by tag, and their gap; a group not yet received (NaN) has none."""
        known = {n: rate for n, rate in zip(self._names, rates, strict=True) if rate == rate}
        few = known if len(self._names) <= MAX_GROUPS else {}
        gap = {GAP: max(known.values()) - min(known.values())} if known else {}
        return {f"{RATE}/{name}": rate for name, rate in few.items()} | gap

    def totals(self) -> Totals:
        """The sums of all batches' replicas."""
        return Totals.together(self._batches)

    def state(self) -> dict[str, Any]:
        """All sums and curves so far, as plain data and tensors."""
        moments = {name: moments.state() for name, moments in self._moments().items()}
        return {**moments, "batches": [asdict(batch) for batch in self._batches]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that `state` gave.

        Raises:
            FairbanditError: a state of other groups or rounds.
        """
        for name, moments in self._moments().items():
            moments.load_state(state[name])
        self._batches = [self._loaded(batch) for batch in state["batches"]]
        if not self._batches:
            raise FairbanditError("totals: expected those of at least one batch, got none")

    def _loaded(self, batch: Mapping[str, Tensor]) -> Totals:
        """The totals of a batch, of which only the number of replicas may be any."""
        model = asdict(Totals.zeros(1, len(self._names)))
        for name, tensor in model.items():
            like(f"totals, {name}", batch[name], tensor, free=0)
        return Totals(**batch)

    def _moments(self) -> dict[str, Moments]:
        return {"fair": self._fair, "standard": self._standard, "rates": self._rates}


def _indices(chosen: Sequence[int], within: slice) -> Sequence[int]:
    """The numbers of a sorted sequence that lie within a slice."""
    low, high = np.searchsorted(chosen, [within.start, within.stop])
    return chosen[low:high]


def _between(steps: Sequence[int], first: int, last: int) -> slice:
    """Where a sorted sequence lies within first … last."""
    low, high = np.searchsorted(steps, [first, last + 1])
    return slice(int(low), int(high))
