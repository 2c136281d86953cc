"""Selection of candidates in turn: each is taken or let go before the next is seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from fairbandit.registry import Share, register
from fairbandit.selectors.base import Ranked, Selection, Selector
from fairbandit.selectors.stopping import hazards, thresholds
from fairbandit.streams import Purpose


class Course(NamedTuple):
    """Decisions about the K candidates of N openings, (B, N, K) each; (B, N) for one step.

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


class Candidates(NamedTuple):
    """The candidates of N openings, (B, N, K) each; (B, N) for one step.

    Attributes:
        present: whether there is a candidate.
        low, high: the ends of the range of the candidate's index; low is −∞ at empty places.
        draw: a uniform number in [0, 1).
        groups, kinds: the candidate's group, −1 at empty places, and the number of groups, int64.
        before: how many candidates came before, int64.
        total: how many candidates are expected in all.
        bars: c(j, i) for j = 1 … m places left, (…, m); −∞ where the places are enough for all who
            may come.
        expected: how many candidates are expected from this candidate on, with itself.
        shares: min(1, j/expected) for j = 1 … m, (…, m).
    """

    present: Tensor
    low: Tensor
    high: Tensor
    draw: Tensor
    groups: Tensor
    kinds: Tensor
    before: Tensor
    total: Tensor
    bars: Tensor
    expected: Tensor
    shares: Tensor

    @classmethod
    def of(
        cls, ranked: Ranked, picks: int, law: tuple[float, ...], before: Tensor, skipped: Tensor
    ) -> Self:
        """The candidates of N pools, in order of arrival.

        `law` is the law of their number, as `hazards` returns it; the opening skips its first rows,
        `skipped` (B, N, 1). `before` is the number of earlier candidates of each, (B, N, K).
        """
        present, (bars, every, _) = ranked.present, thresholds(law, picks)
        bars, every, last = bars.to(present.device), every.to(present.device), len(bars) - 1
        row = (skipped + before).clamp(max=last)
        bars, expected = bars[row], every[row]
        number = torch.arange(1, picks + 1, device=bars.device)
        return cls(
            present,
            ranked.index.low.where(present, -torch.inf),
            ranked.index.high,
            ranked.scored.draws(Purpose.ORDER),
            ranked.groups,
            torch.full_like(before, ranked.problem.groups),
            before,
            every[skipped.clamp(max=last)].expand(before.shape),
            bars.where(bars > 0, -torch.inf),
            expected,
            (number / expected[..., None]).clamp(max=1),
        )

    def in_turn(self) -> Iterator[Self]:
        """Yields the candidates of each place in order, (B, N) each."""
        return map(type(self), *(part.unbind(2) for part in self))


class Places(NamedTuple):
    """The m places of N openings between two candidates, which a step takes and returns.

    Attributes:
        left: the number of places left, (B, N) int64.
        chance: the probabilities that 0 … m places are left, before the openings' own draws,
            (B, N, m + 1).
        best: the m greatest indices among the candidates that `secretary` has observed, in
            descending order, (B, N, m), filled up with −∞; the greatest index of each group among
            all candidates under `secretary_by_group`; −∞ under `rolling`.
    """

    left: Tensor
    chance: Tensor
    best: Tensor

    @classmethod
    def all_left(cls, picks: int, like: Tensor) -> Self:
        """The places before the first candidate, for N openings like a tensor (B, N)."""
        best = like.new_full((*like.shape, picks), -torch.inf, dtype=torch.float64)
        chance = torch.nn.functional.pad(torch.zeros_like(best), (0, 1), value=1.0)
        return cls(torch.full_like(like, picks, dtype=torch.int64), chance, best)


@register("selector", "rolling")
@dataclass(kw_only=True, eq=False)
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
    """

    reference = (
        "Moser, On a problem of Cayley, Scripta Mathematica 1956; Gilbert and Mosteller, "
        "Recognizing the maximum of a sequence, JASA 1966; relative ranks in the place of values "
        "are ours"
    )
    sequential = True

    count: Any = "fixed"
    candidates: int | None = None
    epsilon: Share = 0.0

    def __post_init__(self) -> None:
        if self.count != "fixed" or self.candidates is not None:
            hazards(self.count, self.candidates)

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
        skipped = torch.zeros_like(ranked.groups[..., :1])
        if self.count == "fixed" and self.candidates is None:  # each pool has a law of its own
            law, skipped = hazards("fixed", k), k - present.sum(2, keepdim=True)
        else:
            law = hazards(self.count, self.candidates)
        before = present.cumsum(2) - present.to(torch.int64)
        candidates = Candidates.of(ranked, picks, law, before, skipped)
        places, steps = Places.all_left(picks, present[..., 0]), list[Course]()
        for candidate in candidates.in_turn():
            places, step = self.step(places, candidate)
            steps.append(step)
        return Course(*(torch.stack(parts, 2) for parts in zip(*steps, strict=True)))

    def step(self, places: Places, candidate: Candidates) -> tuple[Places, Course]:
        """Decides about one candidate of each of N openings; returns the places after it."""
        left, chance, bars = places.left, places.chance.clone(), candidate.bars
        reached = (candidate.high[..., None] >= bars).to(bars.dtype)
        take = reached + self.epsilon * (candidate.shares - reached)
        take = take * candidate.present[..., None]
        moved = chance[..., 1:] * take
        chance[..., 1:] -= moved
        chance[..., :-1] += moved
        at, is_open = (left - 1).clamp(min=0)[..., None], left > 0
        taken = is_open & (candidate.draw < take.gather(2, at)[..., 0])
        bar = bars.gather(2, at)[..., 0].where(is_open, torch.inf)
        after = places._replace(left=left - taken.to(left.dtype), chance=chance)
        return after, Course(taken, moved.sum(2), bar, candidate.expected)


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

    def step(self, places: Places, candidate: Candidates) -> tuple[Places, Course]:
        """Observes a candidate, or compares it with the observed ones; see `Rolling.step`."""
        observed = (candidate.before < (candidate.total / math.e).floor())[..., None]
        bars = places.best.where(~observed, torch.inf)
        bars = bars.where(candidate.bars > -torch.inf, -torch.inf)
        after, course = super().step(places, candidate._replace(bars=bars))
        best = torch.cat([places.best, candidate.low[..., None].where(observed, -torch.inf)], 2)
        return after._replace(best=best.topk(bars.shape[2], 2).values), course


def observed_share(groups: int) -> float:
    """The share of the candidates that are only observed, with k groups of equal sizes.

    Suppose that candidates of k groups arrive at independent uniform times in [0, 1], and that the
    rule observes until t. No candidate is taken in (t, τ) if in each group the best candidate up to
    τ came before t, which has the probability (t/τ)^k. A best candidate of its whole group that
    comes at τ is then taken, so that the pick is the best of its group with the probability

        k ∫_t^1 (t/τ)^k dτ = k(t − t^k)/(k − 1),

    whose maximum is at t = k^(−1/(k − 1)), and equals t. For one group both are 1/e.

    >>> [round(observed_share(k), 3) for k in (1, 2, 3, 4)]
    [0.368, 0.5, 0.577, 0.63]
    """
    return math.exp(-1) if groups == 1 else groups ** (-1 / (groups - 1))


@register("selector", "secretary_by_group")
class SecretaryByGroup(Rolling):
    """Observes the first candidates, then takes the first that surpasses all of its own group.

    Of n expected candidates the first ⌊n·t⌋ are let go, with t = k^(−1/(k − 1)) for the k groups of
    the problem; see `observed_share`. After them a candidate is taken if and only if no earlier
    candidate of its group in this pool has a greater index, or if the places left are enough for
    all who may come. The rule needs no past and no comparison between groups. For one
    place and groups of equal sizes that arrive in random order, the pick is the best of its group
    with the probability t in the limit of many candidates, for each continuous law of each group's
    index, and this is optimal. Unequal groups would need a threshold each. For several places the
    rule is the same, without a guarantee. `Rolling` describes the rest.

    Args:
        count, candidates, epsilon: as for `rolling`.
    """

    reference = (
        "Correa, Cristi, Duetting and Norouzi-Fard, Fairness and Bias in Online Selection, ICML "
        "2021 (the multi-color secretary problem)"
    )

    def step(self, places: Places, candidate: Candidates) -> tuple[Places, Course]:
        """Compares a candidate with the earlier candidates of its group; see `Rolling.step`."""
        k = int(candidate.kinds.max())
        group = candidate.groups.clamp(min=0)[..., None]
        best = pad(places.best, (0, max(k - places.best.shape[-1], 0)), value=-torch.inf)
        earlier = best.gather(-1, group)
        observed = candidate.before < (candidate.total * observed_share(k)).floor()
        bars = earlier.where(~observed[..., None], torch.inf).expand_as(candidate.bars)
        bars = bars.where(candidate.bars > -torch.inf, -torch.inf)
        after, course = super().step(places, candidate._replace(bars=bars))
        best = best.scatter(-1, group, earlier.maximum(candidate.low[..., None]))
        return after._replace(best=best), course
