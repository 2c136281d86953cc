"""An agent: a policy that decides for real pools, one at a time, as they arrive."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Self

import torch
from torch import Tensor

from fairbandit.agent import inputs, saving, truths
from fairbandit.agent.decisions import Decision, Explanation, explanation
from fairbandit.agent.groups import Groups
from fairbandit.agent.tickets import Tickets
from fairbandit.agent.undo import Guard
from fairbandit.building import build_policy
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.parts import Problem, Selection
from fairbandit.policy import Policy
from fairbandit.streams import GRID, Streams


class Agent:
    """A policy deciding online: `act` picks from a pool, `update` reports what the pick gave.

    Each `act` is one round, decided by the same parts as a simulated one: fed the pools and the
    rewards of replica 0 of an `Engine` with the same seed, the agent decides as it does. A round
    learns from those of its rounds whose rewards have come; every pool feeds the ranks at once.
    Before the first known reward, all candidates of a learning policy tie.

    With `refresh` the reward model changes only when the number of training rounds has grown by
    this factor; see `Split`. Between two changes it changes only by rewards of rounds it includes
    that come late. Where the estimator is a ridge and no part reads rewards, outcomes are then
    kept as sums. Together with a rank of bounded memory, such as `recent_cdf`, the agent's memory
    does not grow, except for the rewards it waits for, which `patience` bounds.

    Threads may share an agent: each call holds its `lock`, so that calls take effect one after the
    other. A call that raises, whatever it raises, has changed nothing.

    Args:
        policy: decides; bound here, and not to be used elsewhere.
        features: d.
        groups: the labels of the groups that are known, in the order of a truth's groups; a
            number G stands for 0 … G−1. Labels that appear later join them.
        seed: of all random numbers.
        exploration: of optimistic estimators that leave theirs unset.
        truth: the truth, for policies that need it.
        refresh: the `refresh` of the policy's split, above 1; None leaves the split's own.
        patience: a reward that has not come after so many further rounds is not waited for any
            more; None waits for ever.

    Raises:
        FairbanditError: a value out of range, or a policy that needs a truth without one.

    >>> agent = Agent.from_config("fair_greedy", features=2, groups=["a", "b"], seed=0)
    >>> decision = agent.act([[0.1, 0.9], [0.3, 0.2], [0.8, 0.5]], ["a", "b", "b"])
    >>> agent.update(1.5, decision.ticket)
    >>> decision.ticket, agent.rounds, agent.pending
    (1, 1, ())
    """

    def __init__(
        self,
        policy: Policy,
        *,
        features: int,
        groups: int | Sequence[Hashable] = (),
        seed: int = 0,
        exploration: float = 1.0,
        truth: Truth | None = None,
        refresh: float | None = None,
        patience: int | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            raise FairbanditError(
                f"policy: expected a fairbandit.Policy, got {shown(policy)}; "
                "Agent.from_config takes the name of one, or a mapping"
            )
        own = policy.split.refresh
        options = inputs.options(features, seed, exploration, refresh, patience, own)
        self._config, self._options = policy.describe(), options
        self._policy, self._groups = policy, Groups(groups)
        self._problem = Problem(
            features=options["features"],
            groups=len(self._groups),
            streams=Streams(options["seed"], [0]),
            exploration=options["exploration"],
            truth=None if truth is None else truths.checked(truth, options["features"]),
        )
        self._vetted = self._problem.truth if policy.rank.needs_truth else None
        truths.vet(self._vetted, self._groups.labels, 0)
        self._tickets = Tickets(options["features"], options["patience"])
        self._guard = Guard()
        parts = list(policy.parts.values())
        with self._guard.alone(), self._guard.undoing([policy, *parts], lambda: None):
            if refresh is not None:
                policy.split.refresh = options["refresh"]
            policy.bind(self._problem)
            self._history = policy.history()
        self._foreign = [part for part in parts if not part.own]
        self._held = [self, self._groups, self._tickets, *self._history.stores(), policy, *parts]

    @classmethod
    def from_config(cls, config: str | Mapping[str, Any], **options: Any) -> Self:
        """An agent from plain data.

        Args:
            config: a policy's name, or a mapping as `fairbandit.build` takes it.
            options: `features` and whatever else an `Agent` takes.

        Raises:
            FairbanditError: no such policy, or whatever an `Agent` raises.

        >>> parts = {"split": "full", "estimator": "ridge", "rank": "recent_cdf"}
        >>> Agent.from_config(parts, features=3).groups
        ()
        """
        return cls(build_policy(config), **options)

    @property
    def lock(self) -> RLock:
        """A re-entrant lock that every call holds.

        Hold it to make several calls one, such as a decision and its line in a log.
        """
        return self._guard.lock

    @property
    def rounds(self) -> int:
        """How many rounds there were, decided and observed."""
        with self.lock:
            return self._history.played

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of all groups so far, in the order of their codes."""
        with self.lock:
            return self._groups.labels

    @property
    def pending(self) -> tuple[int, ...]:
        """The tickets whose rewards have not come, oldest first."""
        with self.lock:
            return tuple(self._tickets)

    def act(self, contexts: Any, groups: Any) -> Decision:
        """Picks a candidate of a pool: the next round.

        Args:
            contexts: the candidates' features, (K, d), an array, a tensor or lists; K ≥ 1 may
                differ from round to round.
            groups: their groups' labels, K of them, known or new.

        Returns:
            The pick, and the ticket that its reward is reported by.

        Raises:
            FairbanditError: contexts of the wrong shape or not finite, labels that are too many,
                too few or not hashable, a group that the truth does not know. Nothing changes.
        """
        pool, labels = inputs.pool(contexts, groups, self._problem.features)
        with self._guard.alone(), self._undoing():
            codes, fresh = self._groups.coded(labels)
            x, g = torch.from_numpy(pool[None, None]), torch.from_numpy(codes[None, None])
            t = self._history.played + 1
            with self._policy.mode():
                self._welcome(fresh)
                selection = self._select(x, g)
                if t % GRID == 0:
                    self._policy.forget(self._history)
            place = int(selection.actions)
            self._tickets.add(t, x[:, :, place].clone(), int(codes[place]))
        return Decision(place, t, float(selection.propensities))

    def explain(self, contexts: Any, groups: Any) -> Explanation:
        """Says what `act` would decide about a pool now, and from what; nothing changes.

        The next `act`, if it is for the same pool, picks with exactly these probabilities.

        Args:
            contexts, groups: as for `act`.

        Raises:
            FairbanditError: as for `act`.
        """
        pool, given = inputs.pool(contexts, groups, self._problem.features)
        with self._guard.alone():
            codes, fresh = self._groups.coded(given)
            with self._undoing(always=bool(fresh)):  # nothing else is changed
                with self._policy.mode():
                    self._welcome(fresh)
                x, g = torch.from_numpy(pool[None, None]), torch.from_numpy(codes[None, None])
                return explanation(self._policy, x, g, self._groups.labels, self._history)

    def update(self, reward: Any, ticket: int | None = None) -> None:
        """Learns the reward of a decision, now or however late, in any order.

        Args:
            reward: the reward of the candidate that was picked.
            ticket: of the decision; None is the latest one.

        Raises:
            FairbanditError: a reward that is no finite number, a ticket that is not known or whose
                reward came already. Nothing changes.
        """
        value = inputs.number(reward, "reward")
        with self._guard.alone(), self._undoing():
            given = self._tickets.latest if ticket is None else ticket
            if given is None:
                raise FairbanditError("no decision was made yet that a reward could be of")
            t = self._tickets.find(given, self._history.played)
            with self._policy.mode():
                self._policy.learn(t, self._tickets.outcome(t, value), self._history)
            self._tickets.remove(t)

    def drop(self, ticket: int) -> None:
        """Waits no longer for the reward of a decision: it never comes.

        Raises:
            FairbanditError: a ticket that is not known or whose reward came already.
        """
        with self._guard.alone(), self._undoing():
            self._tickets.remove(self._tickets.find(ticket, self.rounds))

    def observe(self, contexts: Any, groups: Any, actions: Any, rewards: Any) -> None:
        """Takes in logged rounds, whoever decided them, as the next ones.

        Args:
            contexts: n pools, (n, K, d), or a list of n pools (Kᵢ, d).
            groups: their labels, (n, K), or a list of n lists of Kᵢ.
            actions: the places picked, (n,), from 0.
            rewards: what the picks gave, (n,).

        Raises:
            FairbanditError: shapes that do not match, values that are not finite, actions that are
                no candidate, a group that the truth does not know. Nothing changes.
        """
        log = inputs.Log(contexts, groups, actions, rewards, self._problem.features)
        with self._guard.alone(), self._undoing():
            codes, fresh = self._groups.coded(log.labels)
            with self._policy.mode():
                self._welcome(fresh)
                for pools, places, outcomes in log.pieces(codes):
                    self._history.add_pools(*pools, places=places)
                    self._policy.observe(self.rounds + 1, *pools, outcomes, self._history)
            self._tickets.give_up(self.rounds)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes all that is needed to go on; the file is whole, or as it was before.

        The truth is not part of it. Other threads go on while the file is written.

        Args:
            path: the file, which is replaced if there is one.

        Raises:
            FairbanditError: a label that no file can hold, or a file that cannot be written.
        """
        with ExitStack() as turn:
            with self._guard.alone():
                contents = saving.packed(self._state())
                turn.enter_context(self._guard.writing)
            saving.write(Path(path), contents)

    @classmethod
    def load(cls, path: str | PathLike[str], *, truth: Truth | None = None) -> Self:
        """The agent of a file, which continues as if it had never stopped.

        Args:
            path: a file that `save` wrote.
            truth: the truth, for policies that need it.

        Raises:
            FairbanditError: no such file, one that is cut short, damaged, of another kind or
                version, or whose policy has a part that is not registered here.
        """
        with saving.reading(Path(path)) as saved:
            policy, options = build_policy(saved["config"]), saved["options"]
            agent = cls(policy, truth=truth, **options)
            policy.load_state(saved["parts"])
            agent._history.load_state(saved["history"])
            agent._tickets.load_state(saved["pending"], saved["latest"])
        return agent

    def __getstate__(self) -> dict[str, Any]:
        """What copies are made of, as it is between two calls."""
        with self._guard.alone():
            return vars(self).copy()

    def _state(self) -> dict[str, Any]:
        return {
            "config": self._config,
            "options": {**self._options, "groups": self._groups.labels},
            "parts": self._policy.snapshot(),
            "history": self._history.state(),
            "pending": self._tickets.state(),
            "latest": self._tickets.latest,
        }

    @contextmanager
    def _undoing(self, always: bool = False) -> Iterator[None]:
        """Undoes what a call changes, always or if anything is raised.

        Parts of plugins, which may have written over what their attributes held, are then bound
        again and get their state back.
        """
        self._tickets.begin()
        states = [part.snapshot() for part in self._foreign]

        def recover() -> None:
            self._tickets.undo(self._history.played)
            # these two may have been left in the midst of something
            self._history.contexts.recover()
            self._problem.streams.restart()
            for part, state in zip(self._foreign, states, strict=True):
                part.bind(self._problem)
                part.load_state(state)

        with self._guard.undoing(self._held, recover, always):
            yield

    def _select(self, x: Tensor, g: Tensor) -> Selection:
        """Decides the next round, of a pool (1, 1, K, d) and its groups (1, 1, K)."""
        self._history.add_pools(x, g)
        return self._policy.decide(self._history.played + 1, x, g, self._history)

    def _welcome(self, labels: list[Hashable]) -> None:
        """Makes room for new groups."""
        if not labels:
            return
        truths.vet(self._vetted, labels, len(self._groups))
        self._groups.add(labels)
        self._problem = replace(self._problem, groups=len(self._groups))
        self._policy.grow(self._problem)
        self._history.grow(self._problem)
