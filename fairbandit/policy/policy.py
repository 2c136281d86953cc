"""A policy: a split, an estimator, a rank and a selector, composed."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from torch import Tensor

from fairbandit import registry
from fairbandit.errors import FairbanditError, shown
from fairbandit.estimators import Estimator
from fairbandit.history import Block, History, Outcomes, Problem
from fairbandit.history.outcomes import gather_picks
from fairbandit.ranks import Rank, Scored
from fairbandit.registry import NEEDS, Part
from fairbandit.selectors import Ranked, Selection, Selector
from fairbandit.splits import Plan, Split
from fairbandit.splits.base import LARGEST_REFRESH
from fairbandit.streams import CHUNK_ROUNDS


class Policy:
    """Decides rounds from the past, by composition of its four parts.

    Values go one way through a decision: plan (split), reward models (estimator), `Scored`, index
    (rank), `Ranked`, selection (selector).

    A policy holds nothing of a run: `init` returns the history before the first round, `open`
    takes in pools, `propose` decides them, `close` moves on, and `tell` takes in rewards.

    Args:
        split: says which past rounds train the estimator and which feed the rank.
        estimator: turns the past into reward models.
        rank: turns scores into the index.
        selector: picks from the index.
        refresh: the reward model changes only when n_train has grown by this factor, above 1; see
            `splits.base.refresh_numbers`. None changes it with each n_train.
        name: the name of the policy in results.

    Raises:
        FairbanditError: a refresh out of range, a missing refresh if the estimator needs one, an
            unknown need, or a rank that needs the pool beside a selector that is rolling.

    Attributes:
        needs: the needs of all parts, a subset of `registry.NEEDS`.
        learns: whether the reward models depend on rewards.
        reads_rewards, reads_picks: whether a pick may depend on earlier rewards, or on picks.
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
        if refresh is not None and not 1 < refresh <= LARGEST_REFRESH:
            raise FairbanditError(
                f"refresh: expected a factor above 1 and at most {LARGEST_REFRESH:g}, "
                f"got {refresh!s:.50}"
            )
        self.split, self.estimator, self.rank, self.selector = split, estimator, rank, selector
        self.refresh, self.name = refresh, name
        parts = self.parts.values()
        for part in parts:
            if not isinstance(part.needs, AbstractSet) or not part.needs <= NEEDS:
                raise FairbanditError(
                    f"{part} declares needs = {shown(part.needs)}; expected a set of words, such "
                    f'as frozenset({{"contexts"}}), of {", ".join(sorted(NEEDS))}'
                )
        self.needs = frozenset[str]().union(*(part.needs for part in parts))
        fitted_anew = [part for part in parts if "refresh" in part.needs]
        if fitted_anew and refresh is None:
            raise FairbanditError(
                f"{fitted_anew[0]} is fitted anew each time the reward model changes, and "
                "needs policy.refresh, a number above 1 such as 1.2; got none"
            )
        if "pool" in rank.needs and selector.sequential:
            raise FairbanditError(
                f"{rank} compares a candidate with its whole pool, and {selector} decides before "
                "the later candidates are seen; expected a rank that reads the past alone"
            )
        self.reads_picks, self.learns = "picks" in self.needs, estimator.learns
        reads_last_reward = "rewards" in rank.needs | selector.needs
        self.reads_rewards = self.learns or reads_last_reward
        self._reads_last = self.reads_picks or reads_last_reward

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by kind."""
        return {kind: getattr(self, kind) for kind in registry.PART_KINDS}

    def plan(self, first: int, n: int, *, next_each: bool = False) -> Plan:
        """The past that N rounds read; if `next_each`, all read the past of the first round."""
        rounds = np.full(n, first) if next_each else np.arange(first, first + n)
        return self.split.plan(
            rounds, self.refresh, learns=self.learns, reads_last=self._reads_last
        )

    def init(self, problem: Problem) -> History:
        """The history before the first round of a problem, whose truth a part may need."""
        for part in self.parts.values():
            if "truth" in part.needs and problem.truth is None:
                raise FairbanditError(f"{part} needs a truth: true rewards and their CDFs")
        if "truth" not in self.needs and problem.truth is not None:
            problem = replace(problem, truth=None)
        return History.empty(
            problem,
            self.estimator.init(problem),
            contexts="contexts" in self.needs,
            picks=self.reads_picks,
            max_contexts=self.rank.max_contexts,
        )

    def grow(self, history: History, problem: Problem) -> History:
        """The same history in a problem with more groups."""
        return history.grow(problem, self.estimator.grow(history.state, problem))

    def open(self, history: History, contexts: Tensor, groups: Tensor) -> History:
        """Takes in the pools of the next N rounds, (B, N, K, d) and (B, N, K), to decide."""
        return history.with_pools(contexts, groups)

    def propose(self, history: History, picks: int = 1) -> Selection:
        """Decides the rounds of the open block: `picks` candidates of each pool."""
        return self.selector.select(self.ranked(history), picks)

    def ranked(self, history: History, *, next_each: bool = False) -> Ranked:
        """The candidates of the open block as the selector sees them; see `plan`."""
        block = history.block
        plan = self.plan(block.first, block.groups.shape[1], next_each=next_each)
        scored = Scored(history, plan, self.estimator.models(history, plan))
        index = self.rank.index(scored)
        bounds = self.rank.bounds(scored, index) if "bounds" in self.needs else None
        counts = None
        if history.picks is not None:  # picks that are not decided yet count from the next block on
            counts = history.pick_counts((plan.rounds - 1).clip(max=history.picks.stop - 1))
        return Ranked(scored, index, bounds, counts)

    def considered(self, history: History, contexts: Tensor, groups: Tensor) -> Ranked:
        """The candidates of N pools as the selector sees them if each pool came next.

        Nothing is learned from one pool for another, but each has its own draws.
        """
        block = Block.of(history.rounds + 1, contexts, groups)
        candidates = history.candidates + block.sizes.sum(1)
        return self.ranked(history._replace(candidates=candidates, open=block), next_each=True)

    def probabilities(
        self, history: History, contexts: Tensor, groups: Tensor, picks: int = 1
    ) -> Tensor:
        """The probability of each candidate to be picked, (B, N, K), if each pool came next."""
        ranked = self.considered(history, contexts, groups)
        return self.selector.select(ranked, picks).inclusion

    def close(self, history: History, selection: Selection) -> History:
        """Moves on after the picks of the open block are decided.

        Outcomes are summed up if later rounds read only their sums: round by round, with the
        rounding of N blocks, if `rewards_pending`, and else all at once, which is faster. Contexts,
        outcomes and picks are forgotten if no later round reads them.
        """
        stepwise, rounds, count = history.rewards_pending, history.rounds, len(selection.actions[0])
        if history.picks is not None:
            groups = gather_picks(history.block.groups, selection.actions, -1)
            history = history.with_picks(groups)
        history = history._replace(open=None, rewards_pending=False)
        plan = self.plan(rounds + 1, 1)
        if (n := int(plan.n_train[0])) > history.n_state:
            outcomes, state = history.outcomes_of(history.n_state, n), history.state
            for new in self._by_round(outcomes, rounds, count) if stepwise else (outcomes,):
                state = self.estimator.advance(state, new)
            history = history._replace(state=state, n_state=n)
            if outcomes.n and "rewards" not in self.needs:
                history = history.forget(outcomes=outcomes.n)
        if (rounds - count) // CHUNK_ROUNDS < rounds // CHUNK_ROUNDS:
            history = history.forget(contexts=int(plan.rank_start[0]), picks=rounds)
        return history

    def tell(self, history: History, outcomes: Outcomes) -> History:
        """Takes in rewards of any rounds so far, now or late, in order of round."""
        state, summed = history.state, len(outcomes.rounds)
        if self.learns:  # later outcomes wait, since some rounds still to come read them apart
            (summed,) = outcomes.counts([history.n_state])
            if summed:
                state = self.estimator.advance(state, outcomes.rows(0, summed))
        skipped = 0 if "rewards" in self.needs else summed
        return history.with_outcomes(outcomes, skipped)._replace(state=state)

    def n_ready(self, history: History, last: int) -> int:
        """The number of next rounds, up to round `last`, that can be decided without a guess."""
        plan = self.plan(history.rounds + 1, last - history.rounds)
        return int(plan.reads.searchsorted(history.rounds, "right"))

    def n_train(self, t: int) -> int:
        """The number of first rounds that train the estimator at round t; 0 without learning."""
        return int(self.plan(t, 1).n_train[0])

    def describe(self) -> dict[str, Any]:
        """Plain data from which `fairbandit.build` makes the same policy again."""
        parts = {kind: registry.describe(part) for kind, part in self.parts.items()}
        return {"name": self.name, "refresh": self.refresh, **parts}

    def _by_round(self, outcomes: Outcomes, last: int, count: int) -> Iterator[Outcomes]:
        """Yields the outcomes that each of `count` rounds up to `last` adds to the model."""
        numbers = self.plan(last + 2 - count, count).n_train
        for low, high in pairwise([0, *outcomes.counts(numbers.tolist())]):
            if low < high:
                yield outcomes.rows(low, high)
