"""A policy: a split, an estimator, a rank and a selector, composed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.candidates import Candidates
from fairbandit.errors import FairbanditError
from fairbandit.estimators import Estimator, State
from fairbandit.estimators.base import learns
from fairbandit.formats import fitted
from fairbandit.part import NEEDS, Part, Problem
from fairbandit.past import Outcomes, Past
from fairbandit.ranks import Rank
from fairbandit.selectors import Selection, Selector
from fairbandit.splits import Schedule, Split
from fairbandit.streams import CHUNK_ROUNDS

LATE = 1 << 30
"""A round so late that each part that reads earlier rewards or picks reads some."""


class Knowledge(NamedTuple):
    """All that a policy knows, as a value: each step of a policy returns a new one.

    Attributes:
        problem: what is played.
        states: of the estimator, each with the number of first rounds of which it includes all
            outcomes known so far, ascending. The first one is what the next round's model begins
            with; there are others only where outcomes are taken in ahead of a lazy refresh.
        past: the pools, picks and rewards so far.
    """

    problem: Problem
    states: tuple[tuple[int, State], ...]
    past: Past


class Policy:
    """Decides rounds from the past, by composition of its four parts.

    It holds nothing of a run: `init` gives the knowledge before the first round, `propose` decides
    rounds, `advance` moves on after decided rounds, and `tell` takes in rewards.

    Args:
        split: which past rounds feed what.
        estimator: turns the past into reward models.
        rank: turns scores into the index.
        selector: picks from the index.
        refresh: the reward model changes only when n_train has grown by this factor, above 1; see
            `Schedule`. None changes it with each n_train.
        name: what results call it.

    Raises:
        FairbanditError: a refresh out of range, or none where the estimator needs one; a need that
            does not exist.

    Attributes:
        needs: what the parts need; a subset of `part.NEEDS`.
        learns: whether the reward models depend on rewards.
        sums_ahead: whether outcomes are summed as they come, and none are kept: where reward models
            change rarely, outcomes would have to wait for long.
    """

    def __init__(
        self,
        split: Split,
        estimator: Estimator,
        rank: Rank,
        selector: Selector,
        refresh: float | None = None,
        name: str = "custom",
    ) -> None:
        self.split, self.estimator, self.rank, self.selector = split, estimator, rank, selector
        self.refresh, self.name = refresh, name
        self.schedule = Schedule(split, refresh)
        parts = self.parts.values()
        self.needs = frozenset[str]().union(*(part.needs for part in parts))
        for part in parts:
            if unknown := part.needs - NEEDS:
                raise FairbanditError(
                    f"{part} needs {sorted(unknown)}; expected some of {sorted(NEEDS)}"
                )
        if "refresh" in estimator.needs and refresh is None:
            raise FairbanditError(
                f"{estimator} is fitted anew each time the reward model changes, and "
                "needs policy.refresh, a number above 1 such as 1.2; got none"
            )
        self._pick_readers = [part for part in parts if part.last_pick_read(LATE)]
        self._reward_readers = [part for part in parts if part.last_reward_read(LATE)]
        self.learns = learns(type(estimator))
        self.sums_ahead = refresh is not None and self.learns and "rewards" not in self.needs

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by kind."""
        return {kind: getattr(self, kind) for kind in registry.PART_KINDS}

    @property
    def reads_past(self) -> bool:
        """Whether a pick may depend on earlier rounds."""
        readers = [*self._reward_readers, *self._pick_readers]
        return self.learns or "contexts" in self.needs or bool(readers)

    def init(self, problem: Problem) -> Knowledge:
        """What is known before the first round of a problem.

        Raises:
            FairbanditError: a part needs a truth, and the problem has none.
        """
        for part in self.parts.values():
            if "truth" in part.needs and problem.truth is None:
                raise FairbanditError(f"{part} needs a truth: true rewards and their CDFs")
        past = Past.empty(
            problem,
            contexts="contexts" in self.needs,
            picks=bool(self._pick_readers),
            max_contexts=self.rank.max_contexts,
        )
        return Knowledge(problem, ((0, self.estimator.init(problem)),), past)

    def grow(self, known: Knowledge, problem: Problem) -> Knowledge:
        """The same knowledge in a problem with more groups."""
        states = tuple((n, self.estimator.grow(state, problem)) for n, state in known.states)
        return Knowledge(problem, states, known.past.grow(problem.groups))

    def propose(
        self, known: Knowledge, first: int, contexts: Tensor, groups: Tensor, picks: int = 1
    ) -> Selection:
        """Decides N consecutive rounds.

        Args:
            known: what is known before them and, if there are several, their pools. Outcomes of
                some of them may be supposed.
            first: the first of the rounds, from 1.
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 an empty place.
            picks: m, how many are picked of each pool.

        Returns:
            The picks and their probabilities.
        """
        candidates = self.candidates(known, first, contexts, groups)
        return self.selector.select(candidates, candidates.index, picks)

    def frozen(self, known: Knowledge, contexts: Tensor, groups: Tensor, picks: int = 1) -> Tensor:
        """The probabilities of all places of N pools, each decided as if it were the next round.

        Each has draws of its own; nothing is learned from one for another. The arguments are those
        of `propose`, and probabilities are (B, N, K).
        """
        first = known.past.rounds + 1
        candidates = self.candidates(known, first, contexts, groups, frozen=True)
        return self.selector.select(candidates, candidates.index, picks).probabilities

    def advance(self, known: Knowledge, groups: Tensor) -> Knowledge:
        """Moves on after N rounds were decided, whose pools are in the past already.

        Outcomes that no later round reads separately are summed up, and what no later round reads
        is forgotten.

        Args:
            known: what was known before.
            groups: of the picks, (B, N) int64, or (B, N, m), −1 in empty slots.
        """
        problem, states, past = known
        past, rounds = past.with_picks(groups), past.rounds
        n = self.n_train(rounds + 1)
        start, state = states[0]
        if n > start:
            if self.sums_ahead:
                number = sum(m <= n for m, _ in states) - 1
                states = ((n, states[number][1]), *states[number + 1 :])
            else:
                outcomes = past.outcomes_of(start, n)
                states = ((n, self.estimator.advance(state, outcomes)),)
                if "rewards" not in self.needs:
                    past = past.forget(outcomes=outcomes.n)
        if (rounds - groups.shape[1]) // CHUNK_ROUNDS < rounds // CHUNK_ROUNDS:
            contexts, picks = self.schedule.rank_start(rounds + 1), self.last_pick_read(rounds + 1)
            past = past.forget(contexts=contexts, picks=picks)
        return Knowledge(problem, states, past)

    def tell(self, known: Knowledge, outcomes: Outcomes) -> Knowledge:
        """Takes in rewards of decided rounds, now or late.

        Args:
            known: what was known before.
            outcomes: of any decided rounds, in order of round.
        """
        problem, states, past = known
        summed = outcomes.n  # those that no later round reads separately
        if self.sums_ahead:
            states = self._summed(states, outcomes)
        elif self.learns:
            n, state = states[0]
            (summed,) = outcomes.counts([n])
            states = ((n, self.estimator.advance(state, outcomes.rows(0, summed))),)
        skipped = 0 if "rewards" in self.needs else summed
        return Knowledge(problem, states, past.with_outcomes(outcomes, skipped))

    def n_ready(self, played: int, last: int) -> int:
        """How many rounds after those played, up to a last one, need no guess.

        Raises:
            FairbanditError: a part whose decision at round t reads round t or later.
        """
        end, step = played, 1  # most blocks are of one round, or of very many
        while end < last and self._is_ready(min(end + step, last), played):
            end = min(end + step, last)
            step = 2 * (end - played)
        low, high = end, min(end + step, last + 1)  # `end` is ready, `high` is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_ready(middle, played) else (low, middle)
        if low == played:
            raise FairbanditError(
                f"round {played + 1} cannot be decided: policy {self.name!r} says that it reads "
                f"the reward or the pick of round {self.last_read(played + 1)}"
            )
        return low - played

    def last_read(self, t: int) -> int:
        """The last round whose reward or pick the decision at round t depends on."""
        rewards = [part.last_reward_read(t) for part in self._reward_readers]
        return max(self.n_train(t), self.last_pick_read(t), *rewards)

    def last_pick_read(self, t: int) -> int:
        """The last round whose pick a part reads at round t."""
        return max((part.last_pick_read(t) for part in self._pick_readers), default=0)

    def n_train(self, t: int) -> int:
        """How many first rounds train the estimator at round t; 0 if it does not learn."""
        return self.schedule.n_train(t) if self.learns else 0

    def candidates(
        self,
        known: Knowledge,
        first: int,
        contexts: Tensor,
        groups: Tensor,
        frozen: bool = False,
    ) -> Candidates:
        """The candidates of N rounds, as `propose` shows them to the rank and the selector.

        If they are frozen, all of them read of the past what the first one does.
        """
        problem, ((start, state), *_), past = known
        n, supposed = groups.shape[1], past.supposed
        last = first if frozen else first + n - 1
        division = self.schedule.block(first, last)
        if frozen:
            division = division.repeat(n, 1)
        # a first guess is made with the models of the rounds that are played
        played = first - 1 if supposed is None else int(supposed.rounds[-1])
        n_train = np.minimum(division[0], played).tolist() if self.learns else [0] * n
        if "rewards" in self.estimator.needs:
            start = 0
        outcomes = past.outcomes_of(start, n_train[-1])
        rounds = range(first, first + n)
        models, model_of_round = self.estimator.models(problem, state, rounds, n_train, outcomes)
        one_each = len(models) == n
        informed = None
        if self.learns and n_train[0] < past.first_reward:
            trained = torch.tensor(n_train, device=groups.device)
            informed = trained >= past.first_reward
        return Candidates(
            problem=problem,
            contexts=contexts,
            groups=groups,
            _model=models if one_each else models.take(model_of_round),
            _rank=self.rank,
            _informed=informed,
            _shared=(models, model_of_round),
            _first=first,
            _window=division[1:],
            _past=past,
            _last_pick=(lambda _: self.last_pick_read(first)) if frozen else self.last_pick_read,
        )

    def describe(self) -> dict[str, Any]:
        """Plain data from which `fairbandit.build` makes the same policy again."""
        parts = {kind: registry.describe(part) for kind, part in self.parts.items()}
        return {"name": self.name, "refresh": self.refresh, **parts}

    def state(self, known: Knowledge) -> dict[str, Any]:
        """Knowledge as plain tensors and numbers."""
        return {
            "states": [(n, _plain(state)) for n, state in known.states],
            "past": known.past.state(),
        }

    def restored(self, known: Knowledge, state: Mapping[str, Any]) -> Knowledge:
        """The knowledge whose `state` this is; `known` is any of the same problem."""
        states = tuple(fitted(one, known.states[0]) for one in state["states"])
        past = known.past.restored(state["past"], known.problem.groups)
        t, picks = past.rounds, past.picks
        read = picks is None or picks.start <= self.last_pick_read(t + 1) < picks.stop == t + 1
        if not states or not read:
            raise ValueError("it lacks sums, or picks of some rounds")
        return Knowledge(known.problem, states, past)

    def _is_ready(self, t: int, played: int) -> bool:
        """Whether round t can be decided now; if outcomes are summed ahead, by the next model."""
        if self.sums_ahead and self.n_train(t) > self.n_train(played + 1):
            return False
        return self.last_read(t) <= played

    def _summed(
        self, states: tuple[tuple[int, State], ...], outcomes: Outcomes
    ) -> tuple[tuple[int, State], ...]:
        """The states, with outcomes in all those that include their rounds."""
        start = states[0][0]
        including = [max(start, self.schedule.refreshed(t)) for t in outcomes.rounds.tolist()]
        for n in sorted(set(including)):
            some = outcomes.rows(including.index(n), including.index(n) + including.count(n))
            before = [pair for pair in states if pair[0] <= n]
            if before[-1][0] < n:
                before.append((n, before[-1][1]))
            after = [pair for pair in states if pair[0] > n]
            *same, (_, state) = before
            more = [(m, self.estimator.advance(state, some)) for m, state in [(n, state), *after]]
            states = (*same, *more)
        return states


def _plain(state: Any) -> Any:
    """A state without the names of its tuples."""
    return tuple(map(_plain, state)) if isinstance(state, tuple) else state
