"""Selection of candidates in turn: each is taken or let go before the next is seen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.registry import register
from fairbandit.selectors.base import Selection, Selector
from fairbandit.selectors.ranked import Ranked
from fairbandit.selectors.stopping import Thresholds, hazards, thresholds
from fairbandit.streams import Purpose


class Course(NamedTuple):
    """What happens to candidates: to K of each opening, (B, N, K) each, or to one, (B, N) each.

    Attributes:
        taken: whether the candidate is taken.
        inclusion: the probability of that, before the opening's own draws; 0 at empty places.
        bars: the threshold that the candidate meets; ∞ once all places are taken, and −∞ where the
            places left are enough for all who may come. Of no meaning at empty places.
        expected: how many candidates are expected from this candidate on, with itself.
    """

    taken: Tensor
    inclusion: Tensor
    bars: Tensor
    expected: Tensor


class Places(NamedTuple):
    """The m places of N openings, between two candidates.

    Attributes:
        table: the thresholds of the law of the number of candidates.
        first: the row of the table for the first candidate, (B, N) int64.
        came: the number of candidates so far, (B, N) int64.
        left: the number of places left, (B, N) int64.
        chance: the probabilities that 0 … m places are left, before the openings' own draws,
            (B, N, m + 1).
        best: the m greatest indices of the candidates that `secretary` has observed, (B, N, m);
            −∞ for each that is lacking, so for all of them under `rolling`.
    """

    table: Thresholds
    first: Tensor
    came: Tensor
    left: Tensor
    chance: Tensor
    best: Tensor

    @classmethod
    def new(cls, law: tuple[float, ...], picks: int, first: Tensor) -> Self:
        """Returns m places before the first candidate, for a law that `hazards` returns."""
        table = Thresholds(*(part.to(first.device) for part in thresholds(law, picks)))
        left, best = (
            torch.full_like(first, picks),
            table.bars.new_full((*first.shape, picks), -torch.inf),
        )
        chance = torch.nn.functional.pad(torch.zeros_like(best), (0, 1), value=1.0)
        return cls(table, first, torch.zeros_like(first), left, chance, best)


@register("selector", "rolling")
class Rolling(Selector):
    """Takes each candidate or lets it go, in the order of the places, by optimal thresholds.

    With j places left when candidate i comes, it is taken if and only if its index is at least
    c(j, i); see `fairbandit.selectors.stopping`. If the index of every candidate is an independent
    U(0, 1), as relative ranks are, no other rule has a larger expected sum of the picks' ranks,
    and who is taken does not depend on the group. An index that ties with a threshold reaches it.
    Where the places left are enough for all who may come, the candidate is taken. While the reward
    model has learned from no reward, all candidates tie, and the first m are taken.

    The index of a candidate must not depend on the other candidates of its pool. Those who come
    after the law has run out are taken while places are left. If fewer come than expected, places
    stay open, so that the probabilities may sum to less than m.

    With `epsilon` ε > 0, a candidate is taken with the probability (1 − ε)·1{index ≥ c(j, i)} +
    ε·min(1, j/n), where n is the number of candidates expected from i on. For a known number of
    candidates, the part of ε alone is simple random sampling, in which all have the probability
    m/n. For an unknown number N, it depends on the order of arrival: candidate i has the
    probability m·P(N ≥ i)/E[N] while the places left do not exceed the number expected, so that
    candidates who come early are taken more often. The inclusion probability of a candidate is
    Σ_j P(j places are left when it comes)·P(it is taken | j), by a recursion over the places.

    Args:
        count: the law of the number of candidates: `fixed`, `uniform`, `geometric`, or a list of
            the probabilities of 1, 2, … candidates.
        candidates: the number, the greatest number or the mean number of candidates of a named
            law. None is the size of each pool, for `fixed` only.
        epsilon: ε, from 0 to 1.

    Raises:
        FairbanditError: a value out of range.
    """

    reference = (
        "Moser, On a problem of Cayley, Scripta Mathematica 1956; Gilbert and Mosteller, "
        "Recognizing the maximum of a sequence, JASA 1966; relative ranks in the place of values "
        "are ours"
    )

    sequential = True

    def __init__(
        self, *, count: Any = "fixed", candidates: int | None = None, epsilon: float = 0.0
    ) -> None:
        if not 0 <= epsilon <= 1:
            raise FairbanditError(f"epsilon (ε) must be from 0 to 1, got {epsilon}")
        self.count, self.candidates, self.epsilon = count, candidates, epsilon
        if count != "fixed" or candidates is not None:
            hazards(count, candidates)

    def select(self, ranked: Ranked, picks: int = 1) -> Selection:
        """Picks up to m places of each pool, in order of arrival; see `Selector.select`."""
        course = self.course(ranked, picks)
        k = course.taken.shape[2]
        places = torch.arange(k, device=course.taken.device)
        places = torch.where(course.taken, places, k).sort(2).values[..., :picks]
        places = torch.nn.functional.pad(places, (0, picks - places.shape[2]), value=k)
        empty = places == k
        places = places.masked_fill(empty, 0)
        propensities = course.inclusion.gather(2, places).masked_fill(empty, torch.nan)
        return Selection(places.masked_fill(empty, -1), propensities, course.inclusion)

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return self.course(ranked, picks).inclusion

    def course(self, ranked: Ranked, picks: int) -> Course:
        """Decides about the candidates of N pools in the order of their places, step by step."""
        present, k = ranked.present, ranked.present.shape[2]
        if self.count == "fixed" and self.candidates is None:
            # row K − n of the table of K candidates is for n candidates to come
            law, first = hazards("fixed", k), k - present.sum(2)
        else:
            law, first = (
                hazards(self.count, self.candidates),
                torch.zeros_like(ranked.groups[..., 0]),
            )
        places, steps = Places.new(law, picks, first), list[Course]()
        draws = ranked.scored.draws(Purpose.ORDER)
        candidates = ranked.index.low, ranked.index.high, present, draws
        for candidate in zip(*(part.unbind(2) for part in candidates), strict=True):
            places, step = self.step(places, *candidate)
            steps.append(step)
        return Course(*(torch.stack(parts, 2) for parts in zip(*steps, strict=True)))

    def step(
        self, places: Places, low: Tensor, high: Tensor, present: Tensor, draw: Tensor
    ) -> tuple[Places, Course]:
        """Decides about one further candidate of each of N openings.

        Args:
            places: the places before the candidate.
            low, high: the ends of the range of the candidate's index, (B, N) each.
            present: whether there is a candidate, (B, N) bool.
            draw: a uniform number in [0, 1) for the candidate, (B, N).

        Returns:
            The places after the candidate, and what happens to the candidate.
        """
        table, first, came, left, chance, _ = places
        row = (first + came).clamp(max=len(table.bars) - 1)
        c, expected = table.bars[row], table.expected[row]
        bars, best = self._bars(places, c, low.where(present, -torch.inf))
        bars = bars.where(c > 0, -torch.inf)
        reached = (high[..., None] >= bars).to(bars.dtype)
        number = torch.arange(1, bars.shape[2] + 1, device=bars.device)
        random = (number / expected[..., None]).clamp(max=1)
        take = (reached + self.epsilon * (random - reached)) * present[..., None]
        moved, chance = chance[..., 1:] * take, chance.clone()
        chance[..., 1:] -= moved
        chance[..., :-1] += moved
        current, is_open = (left - 1).clamp(min=0)[..., None], left > 0
        taken = is_open & (draw < take.gather(2, current)[..., 0])
        bar = bars.gather(2, current)[..., 0].where(is_open, torch.inf)
        after = Places(table, first, came + present, left - taken.to(left.dtype), chance, best)
        return after, Course(taken, moved.sum(2), bar, expected)

    def _bars(self, places: Places, c: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
        """The thresholds with j = 1 … m places left, and `Places.best` after the candidate.

        Args:
            places: the places before the candidate.
            c: c(j, i), (B, N, m). Where it is 0, each candidate is taken.
            low: the least index that the candidate may have, (B, N); −∞ at empty places.
        """
        return c, places.best


@register("selector", "secretary")
class Secretary(Rolling):
    """The secretary rule: observes the first candidates, then takes those who surpass them.

    The first r = ⌊n/e⌋ of n expected candidates are let go. After them, with j places left, a
    candidate is taken if and only if its index is at least the j-th greatest of the first r, or if
    the places left are enough for all who may come. For one place, the rule finds the best
    candidate with probability about 1/e for every continuous law of the index; for m places it is
    the optimistic algorithm of Babaioff et al. `Rolling` describes the rest.

    Args:
        count, candidates, epsilon: as for `rolling`.
    """

    reference = (
        "Babaioff, Immorlica, Kempe and Kleinberg, A Knapsack Secretary Problem with Applications, "
        "APPROX 2007; for one place: Dynkin, The optimum choice of the instant for stopping a "
        "Markov process, 1963"
    )

    def _bars(self, places: Places, c: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
        every = places.table.expected[places.first.clamp(max=len(places.table.bars) - 1)]
        observed = (places.came < (every / math.e).floor())[..., None]
        best = torch.cat([places.best, low[..., None].where(observed, -torch.inf)], 2)
        return places.best.where(~observed, torch.inf), best.topk(c.shape[2], 2).values
