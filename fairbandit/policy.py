"""A policy: a split, an estimator, a rank and a selector, and nothing else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.errors import FairbanditError
from fairbandit.maths.picks import of_pick
from fairbandit.parts import (
    Candidates,
    Estimator,
    History,
    Outcomes,
    Part,
    Problem,
    Rank,
    RewardModel,
    Selection,
    Selector,
    Split,
    Unlearned,
)
from fairbandit.parts.base import KEYS_STAY
from fairbandit.streams import Purpose


class Proposal(NamedTuple):
    """What a policy decides about some rounds, given a past, part of which may be supposed.

    Attributes:
        selection: the picks.
        outcomes: those that the models of the last round were trained on; None before any.
    """

    selection: Selection
    outcomes: Outcomes | None


class Policy:
    """Decides rounds from the past, by composition of its four parts.

    Args:
        split: which past rounds feed what.
        estimator: turns the past into reward models.
        rank: turns scores into the index.
        selector: picks from the index.
        name: what results call it.

    Attributes:
        problem: what it is bound to. `bind` sets this attribute and the following ones.
        needs: what to keep of the past for the parts; a subset of `NEEDS`.
        reads_picks: whether a part reads how often groups were picked.
        absorbs: whether the estimator takes in outcomes as they come, so that none are kept: where
            reward models change rarely, they would have to be kept for long.
        can_suppose: whether `propose` can be asked about outcomes that are only supposed. It cannot
            if a part observes pools, which is not taken back, or if the estimator `absorbs`.
    """

    def __init__(
        self,
        split: Split,
        estimator: Estimator,
        rank: Rank,
        selector: Selector,
        name: str = "custom",
    ) -> None:
        self.split, self.estimator, self.rank, self.selector = split, estimator, rank, selector
        self.name = name

    @property
    def parts(self) -> dict[str, Part]:
        """The parts by kind."""
        return {kind: getattr(self, kind) for kind in registry.PART_KINDS}

    def mode(self) -> torch.inference_mode:
        """The context to decide and learn in: torch's inference mode, if no part differentiates."""
        return torch.inference_mode(self._inference)

    def bind(self, problem: Problem) -> None:
        """Prepares every part for a problem.

        Raises:
            FairbanditError: a part needs a truth that the problem lacks, or confidence bounds that
                another part does not have.
        """
        self.rank.check_bounds(self.estimator)
        self.selector.check_bounds(self.rank, self.estimator)
        self.problem, parts = problem, self.parts.values()
        self.needs = frozenset[str]().union(*(part.needs for part in parts))
        self._readers = {
            method: [p for p in parts if getattr(type(p), method) is not getattr(Part, method)]
            for method in ("last_reward_read", "last_pick_read")
        }  # the parts that read any; it is asked for each round
        self.reads_picks = bool(self._readers["last_pick_read"])
        sums = self.estimator.sums and "rewards" not in self.needs
        self.absorbs = self.split.refresh is not None and sums
        self.can_suppose = not self.absorbs and not any(part.observes for part in parts)
        self._inference = not any(part.autograd for part in parts)
        for part in parts:
            part.bind(problem)
        self._keys = self._state_keys()

    def grow(self, problem: Problem) -> None:
        """Continues in a problem with more groups."""
        self.problem = problem
        for part in self.parts.values():
            part.grow(problem)
        self._keys = self._state_keys()

    def state(self) -> dict[str, Any]:
        """What every part must remember, by kind.

        Raises:
            FairbanditError: a part whose state has other keys than it had when it was bound, so
                that it could not be loaded.
        """
        states = {kind: part.state() for kind, part in self.parts.items()}
        for kind, state in states.items():
            if set(state) != self._keys[kind]:
                raise FairbanditError(
                    f"the state of {kind} {self.parts[kind].part_name!r} had the keys "
                    f"{sorted(self._keys[kind])} after `bind` and has {sorted(state)} now: "
                    f"{KEYS_STAY}"
                )
        return states

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state that later changes of the parts do not affect."""
        return {kind: part.snapshot() for kind, part in self.parts.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Replaces the state of every part, so that it decides as the saved policy would have.

        Args:
            state: what `state` or `snapshot` of a policy with the same parts and hyperparameters
                returned. Both policies are bound to problems of equal sizes and seeds.

        Raises:
            FairbanditError: a state of other parts or sizes.
        """
        for kind, part in self.parts.items():
            part.load_state(state[kind])

    def _state_keys(self) -> dict[str, set[str]]:
        return {kind: set(part.state()) for kind, part in self.parts.items()}

    def history(self) -> History:
        """An empty history for the problem, which keeps what the parts need."""
        return History(
            self.problem,
            self.needs,
            outcomes=not self.absorbs,
            picks=self.reads_picks,
            memory=self.rank.memory,
        )

    def last_read(self, t: int) -> int:
        """The last round whose reward or pick the decision at round t depends on."""
        rewards = [part.last_reward_read(t) for part in self._readers["last_reward_read"]]
        return max(self._trained(t), self.last_pick_read(t), *rewards)

    def last_pick_read(self, t: int) -> int:
        """The last round whose pick a part reads at round t."""
        return max((p.last_pick_read(t) for p in self._readers["last_pick_read"]), default=0)

    def decide(self, first: int, contexts: Tensor, groups: Tensor, history: History) -> Selection:
        """Decides N consecutive rounds, none of which reads a reward that is not known yet.

        Args:
            first: the first of the rounds, from 1.
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 an empty place.
            history: past outcomes, and the pools up to the last of these rounds; the picks are
                counted there.

        Returns:
            The picks and their probabilities.
        """
        proposal = self.propose(first, contexts, groups, history)
        self.accept(first, contexts, groups, proposal, history)
        return proposal.selection

    def propose(self, first: int, contexts: Tensor, groups: Tensor, history: History) -> Proposal:
        """What `decide` would return, given a history; neither the policy nor it is changed.

        Args:
            first, contexts, groups: as for `decide`.
            history: past outcomes, and those supposed for the N rounds (`History.suppose`).

        Returns:
            The picks, and the outcomes that the last round's model was trained on.
        """
        n = groups.shape[1]
        blind = self._blind(first, n, history)
        if 0 < blind < n:
            one = self.propose(first, contexts[:, :blind], groups[:, :blind], history)
            two = self.propose(first + blind, contexts[:, blind:], groups[:, blind:], history)
            both = zip(one.selection, two.selection, strict=True)
            return Proposal(Selection(*(torch.cat(parts, 1) for parts in both)), two.outcomes)
        candidates, outcomes = self.candidates(first, contexts, groups, history)
        self.rank.set_index(candidates, learned=outcomes is not None)
        return Proposal(self.selector.select(candidates, candidates.index), outcomes)

    def accept(
        self, first: int, contexts: Tensor, groups: Tensor, proposal: Proposal, history: History
    ) -> None:
        """Moves on after N rounds that were decided as proposed.

        Args:
            first, contexts, groups, history: as for `decide`.
            proposal: of these rounds, or of the last of them.
        """
        n = groups.shape[1]
        self._show(first, contexts, groups)
        if proposal.outcomes is not None:
            self.commit(self._trained(first + n - 1), history, proposal.outcomes)
        history.add_rounds(n)
        if self.reads_picks:
            history.count_picks(of_pick(groups, proposal.selection.actions))

    def candidates(
        self, first: int, contexts: Tensor, groups: Tensor, history: History
    ) -> tuple[Candidates, Outcomes | None]:
        """The candidates of N rounds, and the outcomes that their models are trained on.

        These are None if the estimator has learned from no reward in the first of the rounds; the
        candidates are right up to the round in which it has. Arguments are those of `propose`.
        """
        n, problem = groups.shape[1], self.problem
        division, stream = self.split.block(first, first + n - 1), problem.streams[Purpose.RANK]
        if history.known < first + n:
            division = division._replace(n_train=division.n_train.clamp(max=history.known))
        model: RewardModel
        outcomes = None
        if self._blind(first, 1, history):
            model = Unlearned(problem.zeros(problem.replicas, 1, problem.features))
            of_round = torch.zeros_like(division.n_train)
        else:
            outcomes = self._outcomes(min(self._trained(first + n - 1), history.known), history)
            rounds = torch.arange(first, first + n, device=groups.device)
            model, of_round = self.estimator.models(rounds, division.n_train, outcomes)
        candidates = Candidates(first, division, contexts, groups, model, of_round, history, stream)
        if self.reads_picks:
            last = [self.last_pick_read(t) for t in range(first, first + n)]
            candidates.read_picks(torch.tensor(last, device=groups.device))
        return candidates, outcomes

    def _trained(self, t: int) -> int:
        """The number of rounds that train the estimator at round t; 0 if it does not learn."""
        return self.split.n_train(t) if self.estimator.learns else 0

    def _outcomes(self, n_train: int, history: History) -> Outcomes:
        """The outcomes that the estimator is given for models after so many training rounds."""
        start = 0 if "rewards" in self.estimator.needs else history.committed
        return history.outcomes(start, max(start, n_train))

    def commit(self, n: int, history: History, outcomes: Outcomes | None = None) -> None:
        """Lets the estimator take in the outcomes of the first n rounds for good.

        Args:
            n: the number of rounds.
            history: holds the outcomes, if none are given.
            outcomes: those that the estimator was given for its last models.
        """
        if n > history.committed:
            self.estimator.commit(n, outcomes or self._outcomes(n, history))
            history.committed = n

    def _blind(self, first: int, n: int, history: History) -> int:
        """The number of the n rounds in which a learning estimator has no reward to learn from."""
        known, earliest, n_train = history.known, history.earliest, self.split.n_train
        if not self.estimator.learns or min(n_train(first), known) >= earliest:
            return 0  # the usual case
        return bisect_left(range(first, first + n), earliest, key=lambda t: min(n_train(t), known))

    def take_in(self, first: int, outcomes: Outcomes, history: History) -> None:
        """Takes in the outcomes of N consecutive rounds, the latest decided.

        Args:
            first, history: as for `decide`.
            outcomes: their picks, groups and rewards, (B, N, …).
        """
        history.add_outcomes(first, outcomes)
        low, last = first - 1, first - 1 + outcomes.rewards.shape[1]
        while self.absorbs and low < last:
            n = self.split.refreshed(low + 1)
            some = slice(low + 1 - first, min(n, last) + 1 - first)
            self.estimator.absorb(n, Outcomes(*(part[:, some] for part in outcomes)))
            low = n

    def observe(
        self, first: int, contexts: Tensor, groups: Tensor, outcomes: Outcomes, history: History
    ) -> None:
        """Takes in N consecutive rounds that others decided.

        Args:
            first, contexts, groups: as for `decide`.
            outcomes: their picks, groups and rewards, (B, N, …).
            history: what is known of the past, with the pools of these rounds.
        """
        self._show(first, contexts, groups)
        history.add_rounds(outcomes.groups.shape[1])
        if self.reads_picks:
            history.count_picks(outcomes.groups)
        self.take_in(first, outcomes, history)
        n = self._trained(history.played)
        if n >= history.earliest:
            self.commit(n, history)
        self.forget(history)

    def _show(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        """Lets the parts that may keep a state of past pools see those of N rounds."""
        self.rank.observe(first, contexts, groups)
        self.selector.observe(first, contexts, groups)

    def learn(self, t: int, outcome: Outcomes, history: History) -> None:
        """Takes in the reward of a round that was decided before, whenever it comes.

        Args:
            t: the round.
            outcome: its pick, group and reward, (B, 1, …).
            history: what is known of the past; holds the round as unknown.

        Raises:
            FairbanditError: the estimator has learned from later rewards and has no `absorb`.
        """
        if t <= history.committed:
            self.estimator.absorb(history.committed, outcome)
        elif self.absorbs:
            self.estimator.absorb(self.split.refreshed(t), outcome)
        history.learn(t, outcome)

    def forget(self, history: History) -> None:
        """Forgets what no later round reads. All rounds played must have been decided."""
        played = history.played
        history.forget(
            outcomes=history.committed if self.estimator.learns else played,
            contexts=self.split.start(played + 1),
            picks=self.last_pick_read(played + 1),
        )

    def describe(self) -> dict[str, Any]:
        """Plain data from which `fairbandit.build` makes the same policy again."""
        return {"name": self.name} | {k: registry.describe(p) for k, p in self.parts.items()}
