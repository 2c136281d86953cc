"""Splits: which past rounds teach the estimator and which feed the ranks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.parts.base import Part, Problem
from fairbandit.registry import base, register
from fairbandit.streams import GRID

PAPER = "Grazzi et al., Group Meritocratic Fairness in Linear Contextual Bandits, NeurIPS 2022"


class Spans(NamedTuple):
    """What rounds t read of the past, each field (N,) int64.

    Attributes:
        taught: rounds 1 … taught teach the estimator.
        after: the ranks read rounds after+1 …
        until: … up to this one.
    """

    taught: Tensor
    after: Tensor
    until: Tensor


STRETCH = 8 * GRID
"""So many rounds are divided at a time, to be looked up."""


@base("split")
class Split(Part):
    """Divides the past at every round; a subclass writes `_spans`.

    A part never changes a tensor that it was given, such as the rounds t, nor one that it has
    returned.
    """

    _stretch = -1  # which one is kept
    _kept: Spans
    _numbers: NDArray[np.int64]  # the same, (STRETCH, 3)

    def bind(self, problem: Problem) -> None:
        """Prepares for a problem; what was divided in another counts no more."""
        super().bind(problem)
        self._stretch = -1

    def grow(self, problem: Problem) -> None:
        """Goes on in a problem with more groups."""
        super().grow(problem)
        self._stretch = -1

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state that the same split, bound to the same problem, gave."""
        super().load_state(state)
        self._stretch = -1

    def spans(self, t: Tensor) -> Spans:
        """The division of the past at rounds t.

        Args:
            t: rounds, (N,) int64, from 1.

        Returns:
            The spans, none of which reads round t or later, nor ever moves back.

        Raises:
            FairbanditError: a span that reads the future.
        """
        spans = Spans(*(span.to(torch.int64) for span in self._spans(t.clone())))
        wrong = (spans.taught < 0) | (spans.taught >= t) | (spans.until >= t)
        wrong |= (spans.after < 0) | (spans.after > spans.until)
        if bool(wrong.any()):
            at = int(t[wrong][0])
            raise FairbanditError(
                f"split {self.part_name!r} at round {at}: expected 0 ≤ taught < {at} and "
                f"0 ≤ after ≤ until < {at}; got {[int(s[wrong][0]) for s in spans]}"
            )
        return spans

    def between(self, first: int, last: int) -> Spans:
        """The division at rounds first … last, as `spans` gives it."""
        stretch, place = divmod(first - 1, STRETCH)
        if place + last - first >= STRETCH:
            return self.spans(torch.arange(first, last + 1, device=self.problem.device))
        self._look_up(stretch)
        return Spans(*(span[place : place + last - first + 1] for span in self._kept))

    def taught(self, t: int) -> int:
        """How many rounds teach the estimator at round t."""
        return self._read(t, 0)

    def after(self, t: int) -> int:
        """The last round before those that the ranks read at round t."""
        return self._read(t, 1)

    def _read(self, t: int, what: int) -> int:
        stretch, place = divmod(t - 1, STRETCH)
        self._look_up(stretch)
        return int(self._numbers[place, what])

    def _look_up(self, stretch: int) -> None:
        if stretch != self._stretch:
            first, device = stretch * STRETCH + 1, self.problem.device
            rounds = torch.arange(first, first + STRETCH, device=device)
            self._stretch, self._kept = stretch, self.spans(rounds)
            self._numbers = torch.stack(self._kept, 1).cpu().numpy()

    @abstractmethod
    def _spans(self, t: Tensor) -> Spans:
        """The division at rounds t, elementwise and nondecreasing in t.

        It is asked about `STRETCH` rounds at a time, so also about some after the last one played.
        """


@register("split", "halves")
class Halves(Split):
    """First half of the past teaches the estimator, second half feeds the ranks.

    t̃ = ⌊(t − 1)/2⌋; rounds 1 … t̃ teach, rounds t̃+1 … t−1 rank (Algorithms 1 and 2, line 4).
    """

    reference = PAPER

    def _spans(self, t: Tensor) -> Spans:
        half = (t - 1) // 2
        return Spans(taught=half, after=half, until=t - 1)


@register("split", "full")
class Full(Split):
    """All past rounds teach the estimator and feed the ranks.

    Rounds 1 … t−1 do both, as in the paper's oracle variants and baselines (App. D.2).
    """

    reference = PAPER

    def _spans(self, t: Tensor) -> Spans:
        return Spans(taught=t - 1, after=torch.zeros_like(t), until=t - 1)
