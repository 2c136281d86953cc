"""A policy: a split, an estimator, a rank and a selector, composed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.estimators import Estimator
from fairbandit.files.formats import fitted
from fairbandit.history import Knowledge, Outcomes, Past, State
from fairbandit.history.problem import UNDECLARED, Problem
from fairbandit.ranks import Rank
from fairbandit.ranks.scored import Scored
from fairbandit.registry.part import NEEDS, Part
from fairbandit.selectors import Rolling, Selection, Selector
from fairbandit.selectors.ranked import Ranked
from fairbandit.splits import Plan, Schedule, Split
from fairbandit.streams import CHUNK_ROUNDS

LATE = 1 << 30
"""A round so late that every part that reads the past reads something."""


class Policy:
    """Decides rounds from the past, by composition of its four parts.

    Values go one way through a decision: plan (split), reward models (estimator), `Scored`, index
    (rank), `Ranked`, selection (selector).

    A policy holds nothing of a run: `init` returns the knowledge before the first round, `propose`
    decides rounds, `advance` moves on after decided rounds, and `tell` takes in rewards.

    Args:
        split: says which past rounds train the estimator and which feed the rank.
        estimator: turns the past into reward models.
        rank: turns scores into the index.
        selector: picks from the index.
        refresh: the reward model changes only when n_train has grown by this factor, above 1; see
            `Schedule`. None changes it with each n_train. If the estimator keeps sums, the model
            is fixed between two refreshes: a late reward counts from the next refresh on.
        name: the name of the policy in results.

    Raises:
        FairbanditError: a refresh out of range, a missing refresh if the estimator needs one, an
            unknown need, or a rank that needs the pool beside a selector that is rolling.

    Attributes:
        needs: the needs of all parts, a subset of `part.NEEDS`.
        learns: whether the reward models depend on rewards.
        sums_ahead: whether outcomes are summed as they come, so that none have to be kept until the
            next refresh.
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
        fitted_anew = [part for part in parts if "refresh" in part.needs]
        if fitted_anew and refresh is None:
            raise FairbanditError(
                f"{fitted_anew[0]} is fitted anew each time the reward model changes, and "
                "needs policy.refresh, a number above 1 such as 1.2; got none"
            )
        if "pool" in rank.needs and isinstance(selector, Rolling):
            raise FairbanditError(
                f"{rank} compares a candidate with its whole pool, and {selector} decides before "
                "the later candidates are seen; expected a rank that reads the past alone"
            )
        self._pick_readers = [part for part in parts if part.last_pick_read(LATE)]
        self._reward_readers = [part for part in parts if part.last_reward_read(LATE)]
        self.learns = estimator.learns
        self.sums_ahead = refresh is not None and self.learns and "rewards" not in self.needs

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by kind."""
        return {kind: getattr(self, kind) for kind in registry.PART_KINDS}

    @property
    def reads_rewards(self) -> bool:
        """Whether a pick may depend on earlier rewards."""
        return self.learns or bool(self._reward_readers)

    @property
    def reads_past(self) -> bool:
        """Whether a pick may depend on earlier rounds."""
        return self.reads_rewards or "contexts" in self.needs or bool(self._pick_readers)

    def init(self, problem: Problem) -> Knowledge:
        """The knowledge before the first round of a problem, without a truth that no part needs.

        Raises:
            FairbanditError: a part needs a truth, and the problem has none.
        """
        for part in self.parts.values():
            if "truth" in part.needs and problem.truth is None:
                raise FairbanditError(f"{part} needs a truth: true rewards and their CDFs")
        if "truth" not in self.needs and problem.truth is not None:
            problem = replace(problem, truth=UNDECLARED)
        past = Past.empty(
            problem,
            contexts="contexts" in self.needs,
            picks=bool(self._pick_readers),
            max_contexts=self.rank.max_contexts,
        )
        ahead = dict[int, State]() if self.sums_ahead else None
        return Knowledge(problem, past, self.estimator.init(problem), ahead=ahead)

    def grow(self, known: Knowledge, problem: Problem) -> Knowledge:
        """The same knowledge in a problem with more groups."""
        grow = self.estimator.grow
        ahead = known.ahead and {n: grow(state, problem) for n, state in known.ahead.items()}
        past, state = known.past.grow(problem.groups), grow(known.state, problem)
        return Knowledge(problem, past, state, known.trained, ahead)

    def propose(
        self,
        known: Knowledge,
        first: int,
        pools: tuple[Tensor, Tensor],
        picks: int = 1,
        frozen: bool = False,
    ) -> Selection:
        """Decides N consecutive rounds.

        Args:
            known: the knowledge before the rounds. It includes the pools of the rounds, unless
                there is one round or `frozen`; it may include supposed outcomes of the rounds.
            first: the first of the rounds, from 1.
            pools: contexts (B, N, K, d), and groups (B, N, K) int64, −1 for an empty place.
            picks: m, the number of picks from each pool.
            frozen: whether each pool is decided as if it were that of the first round. Nothing is
                learned from one pool for another, but each has its own draws.

        Returns:
            The picks and their probabilities.
        """
        return self.selector.select(self.ranked(known, first, pools, frozen), picks)

    def ranked(
        self, known: Knowledge, first: int, pools: tuple[Tensor, Tensor], frozen: bool = False
    ) -> Ranked:
        """The candidates of N consecutive rounds as the selector sees them; see `propose`."""
        plan = self.schedule.plan(first, pools[1].shape[1], frozen)
        models = self.estimator.models(known, plan)
        scored = Scored(known, plan, pools, models)
        index = self.rank.index(scored)
        bounds = self.rank.bounds(scored, index) if "bounds" in self.needs else None
        counts = None if known.past.picks is None else self._pick_counts(known.past, plan)
        return Ranked(scored, index, bounds, counts)

    def advance(self, known: Knowledge, groups: Tensor, stepwise: bool = False) -> Knowledge:
        """Moves on after N decided rounds, whose pools are in the past already.

        Outcomes are summed up if later rounds read only their sums. Contexts, outcomes and picks
        are forgotten if no later round reads them.

        Args:
            known: the knowledge before.
            groups: the groups of the picks, (B, N, m) int64, −1 in empty slots.
            stepwise: whether outcomes are added round by round, with the rounding of N calls. To
                add all at once is faster.
        """
        problem, past, state, trained, ahead = known
        past, rounds = past.with_picks(groups), past.rounds
        n = self.n_train(rounds + 1)
        if ahead is not None:  # from now on, the model of the decided rounds is fixed
            trained, state = known.state_at(self.n_train(rounds))
            ahead = {m: later for m, later in ahead.items() if m > trained}
        elif n > trained:
            outcomes = past.outcomes_of(trained, n)
            count = groups.shape[1]
            for some in self._by_round(outcomes, rounds, count) if stepwise else (outcomes,):
                state = self.estimator.advance(state, some)
            trained = n
            if outcomes.n and "rewards" not in self.needs:
                past = past.forget(outcomes=outcomes.n)
        if (rounds - groups.shape[1]) // CHUNK_ROUNDS < rounds // CHUNK_ROUNDS:
            start, read = self.schedule.rank_start(rounds + 1), self.last_pick_read(rounds + 1)
            past = past.forget(contexts=start, picks=read)
        return Knowledge(problem, past, state, trained, ahead)

    def tell(self, known: Knowledge, outcomes: Outcomes) -> Knowledge:
        """Takes in rewards of decided rounds, now or late.

        Args:
            known: the knowledge before.
            outcomes: of any decided rounds, in order of round.
        """
        problem, past, state, trained, ahead = known
        summed = outcomes.n  # the number of outcomes that no later round reads separately
        if ahead is not None:
            ahead = self._summed_ahead(known, outcomes)
        elif self.learns:
            (summed,) = outcomes.counts([trained])
            state = self.estimator.advance(state, outcomes.rows(0, summed))
        skipped = 0 if "rewards" in self.needs else summed
        past = past.with_outcomes(outcomes, skipped)
        return Knowledge(problem, past, state, trained, ahead)

    def n_ready(self, played: int, last: int, rewards: bool = True) -> int:
        """The number of next rounds, up to round `last`, that can be decided without a guess.

        Args:
            played: the number of rounds played.
            last: the last round that is asked about.
            rewards: whether rewards come between these rounds. Without rewards, a round waits only
                for picks.

        Raises:
            FairbanditError: a part whose decision at round t reads round t or later.
        """
        end, step = played, 1  # most blocks are of one round, or of very many
        while end < last and self._is_ready(min(end + step, last), played, rewards):
            end = min(end + step, last)
            step = 2 * (end - played)
        low, high = end, min(end + step, last + 1)  # `end` is ready, `high` is not
        while high - low > 1:
            middle = (low + high) // 2
            ready = self._is_ready(middle, played, rewards)
            low, high = (middle, high) if ready else (low, middle)
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
        """The number of first rounds that train the estimator at round t; 0 without learning."""
        return self.schedule.n_train(t) if self.learns else 0

    def describe(self) -> dict[str, Any]:
        """Plain data from which `fairbandit.build` makes the same policy again."""
        parts = {kind: registry.describe(part) for kind, part in self.parts.items()}
        return {"name": self.name, "refresh": self.refresh, **parts}

    def state(self, known: Knowledge) -> dict[str, Any]:
        """Knowledge as plain tensors and numbers."""
        states = {known.trained: known.state, **(known.ahead or {})}
        return {
            "states": [(n, _plain(state)) for n, state in states.items()],
            "past": known.past.state(),
        }

    def restored(self, known: Knowledge, state: Mapping[str, Any]) -> Knowledge:
        """The knowledge whose `state` this is; `known` is any of the same problem."""
        pattern = known.trained, known.state
        states = [fitted(pair, pattern) for pair in state["states"]]
        past = known.past.restored(state["past"], known.problem.groups)
        t, picks = past.rounds, past.picks
        read = picks is None or picks.start <= self.last_pick_read(t + 1) < picks.stop == t + 1
        numbers = [n for n, _ in states]
        apart = len(set(numbers)) == len(numbers) and numbers[:1] == sorted(numbers)[:1]
        if not states or not read or not apart or (known.ahead is None and len(states) > 1):
            raise ValueError("it lacks sums or picks of some rounds, or has sums twice")
        (trained, first), *others = states
        ahead = None if known.ahead is None else dict(others)
        return Knowledge(known.problem, past, first, trained, ahead)

    def _is_ready(self, t: int, played: int, rewards: bool) -> bool:
        """Whether round t can be decided now; rounds of sums ahead must share a model."""
        if self.sums_ahead and self.n_train(t) > self.n_train(played + 1):
            return False
        return (self.last_read(t) if rewards else self.last_pick_read(t)) <= played

    def _by_round(self, outcomes: Outcomes, last: int, count: int) -> Iterator[Outcomes]:
        """Yields the outcomes that each of `count` rounds up to `last` adds to the model."""
        numbers = self.schedule.plan(last + 2 - count, count).n_train
        for low, high in pairwise([0, *outcomes.counts(numbers.tolist())]):
            if low < high:
                yield outcomes.rows(low, high)

    def _pick_counts(self, past: Past, plan: Plan) -> Tensor:
        """The number of picks of each group before each round, (B, N, G); see `Ranked`."""
        assert past.picks is not None
        counted = past.picks.stop - 1
        last = [min(self.last_pick_read(t), counted) for t in plan.times.tolist()]
        return past.pick_counts(torch.tensor(last, device=past.nothing.rewards.device))

    def _summed_ahead(self, known: Knowledge, outcomes: Outcomes) -> Mapping[int, State]:
        """The states ahead of the next refreshes, with further outcomes.

        An outcome of round t belongs to all states that include round t. The state in use does not
        change until it is replaced.
        """
        ahead, start = dict(known.ahead or {}), 0
        following = self.schedule.refreshed(known.trained + 1)
        including = [max(following, self.schedule.refreshed(t)) for t in outcomes.rounds.tolist()]
        for n, same in groupby(including):
            stop = start + len(list(same))
            new, start = outcomes.rows(start, stop), stop
            before = max((m for m in ahead if m <= n), default=None)
            ahead[n] = known.state if before is None else ahead[before]
            for m in ahead:
                if m >= n:
                    ahead[m] = self.estimator.advance(ahead[m], new)
        return ahead


def _plain(state: Any) -> Any:
    """A state without the names of its tuples."""
    return tuple(map(_plain, state)) if isinstance(state, tuple) else state
