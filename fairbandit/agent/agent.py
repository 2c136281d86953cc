"""An agent: a policy that decides for real pools, one at a time, as they arrive."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.agent import groups as grouping
from fairbandit.agent import inputs, saving
from fairbandit.agent.decisions import Decision, Explanation, explanation
from fairbandit.agent.tickets import Tickets
from fairbandit.building import build_policy
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.part import Problem
from fairbandit.past import Outcomes
from fairbandit.policy import Knowledge, Policy
from fairbandit.streams import Streams

_agents: WeakSet[Agent] = WeakSet()

P = ParamSpec("P")
T = TypeVar("T")


class _Now(NamedTuple):
    """All that an agent is between two calls, as a value."""

    known: Knowledge
    groups: grouping.Codes
    tickets: Tickets


def _call(method: Callable[Concatenate[Agent, P], T]) -> Callable[Concatenate[Agent, P], T]:
    """A call that other threads wait for, without gradients, and on one core: pools are small."""

    @wraps(method)
    def call(self: Agent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            gradients, threads = torch.is_grad_enabled(), torch.get_num_threads()
            try:
                torch._C._set_grad_enabled(False)
                torch.set_num_threads(1)
                return method(self, *args, **kwargs)
            finally:
                torch._C._set_grad_enabled(gradients)  # in C, where no interrupt comes
                torch.set_num_threads(threads)

    return call


class Agent:
    """A policy deciding online: `act` picks from a pool, `update` reports what the pick gave.

    Each `act` is one round: fed the pools and the rewards of replica 0 of an `Engine` with the same
    seed, the agent decides as it does. A round learns from those of its rounds whose rewards have
    come; every pool feeds the ranks at once. Before the first known reward, all candidates of a
    learning policy tie.

    With `refresh` (see `Policy`), which keeps outcomes as sums, a rank of bounded memory, such as
    `recent_cdf`, and `patience`, the agent's memory does not grow.

    Threads may share an agent: calls take effect one after the other. All that it knows is one
    value, and a call ends by assigning the next one: a call that raises has changed nothing.

    Args:
        policy: decides.
        features: d.
        groups: the labels of the groups that are known, in the order of a truth's groups; a
            number G stands for 0 … G−1. Labels that appear later join them.
        seed: of all random numbers.
        exploration: of optimistic estimators that leave theirs unset.
        truth: the truth, for policies that need it.
        refresh: the policy's, in place of its own; None leaves it.
        patience: a reward that has not come after so many further rounds is not waited for any
            more; None waits for ever.

    Raises:
        FairbanditError: a value out of range, or a policy that needs a truth without one.

    Attributes:
        lock: a re-entrant lock that every call holds. Hold it to make several calls one, such as a
            decision and its line in a log.

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
                f"expected a fairbandit.Policy, got {shown(policy)}; see Agent.from_config"
            )
        refresh = policy.refresh if refresh is None else inputs.number(refresh, "refresh")
        self._policy = Policy(**policy.parts, refresh=refresh, name=policy.name)  # type: ignore[arg-type]
        d = inputs.whole(features, "features", 1, inputs.MOST)
        codes = grouping.initial(groups)
        problem = Problem(
            features=d,
            groups=len(codes),
            streams=Streams(inputs.whole(seed, "seed"), [0]),
            exploration=inputs.number(exploration, "exploration", least=0),
            truth=None if truth is None else inputs.truth(truth, d),
        )
        self._patience = None if patience is None else inputs.whole(patience, "patience")
        self._now = _Now(self._policy.init(problem), codes, Tickets({}, None))
        self._vetted = problem.truth if self._policy.rank.needs_truth else None
        inputs.check_known(self._vetted, codes, 0)
        self._renew_locks()

    @classmethod
    def from_config(cls, config: str | Mapping[str, Any], **options: Any) -> Self:
        """An agent from plain data.

        Args:
            config: a policy's name, or a mapping as `fairbandit.build` takes it.
            options: `features` and whatever else an `Agent` takes.

        >>> parts = {"split": "full", "estimator": "ridge", "rank": "recent_cdf"}
        >>> Agent.from_config(parts, features=3).groups
        ()
        """
        return cls(build_policy(config), **options)

    @property
    def rounds(self) -> int:
        """How many rounds there were, decided and observed."""
        return self._now.known.past.rounds

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of all groups so far, in the order of their codes."""
        return tuple(self._now.groups)

    @property
    def pending(self) -> tuple[int, ...]:
        """The tickets whose rewards have not come, oldest first."""
        return tuple(self._now.tickets.picks)

    @_call
    def act(self, contexts: Any, groups: Any) -> Decision:
        """Picks a candidate of a pool: the next round.

        Args:
            contexts: the candidates' features, (K, d), with a K ≥ 1 that may vary.
            groups: their groups' labels, K of them, known or new.

        Returns:
            The pick, and the ticket that its reward is reported by.

        Raises:
            FairbanditError: contexts or labels that are no pool, or a group that the truth does not
                know. Nothing changes.
        """
        before = self._now
        now, x, g = self._pool(contexts, groups)
        known = now.known._replace(past=now.known.past.with_pools(x, g))
        t = known.past.rounds
        selection = self._policy.propose(known, t, x, g)
        places = selection.actions[0]
        picked, codes = x[:, 0].index_select(1, places), g[:, 0].index_select(1, places)
        known = self._policy.advance(known, codes)
        tickets = now.tickets.add(t, picked, codes).give_up(t, self._patience)
        decision = Decision(int(places), t, float(selection.propensities))
        self._commit(before, _Now(known, now.groups, tickets))
        return decision

    @_call
    def explain(self, contexts: Any, groups: Any) -> Explanation:
        """Says what `act` would decide about a pool now, and from what; nothing changes.

        The next `act`, if it is for the same pool, picks with exactly these probabilities. The
        arguments and errors are those of `act`.
        """
        now, x, g = self._pool(contexts, groups)
        return explanation(self._policy, now.known, x, g, tuple(now.groups))

    @_call
    def update(self, reward: Any, ticket: int | None = None) -> None:
        """Learns the reward of a decision, now or however late, in any order.

        Args:
            reward: the reward of the candidate that was picked.
            ticket: of the decision; None is the latest one.

        Raises:
            FairbanditError: a reward that is no finite number or too large for the model, or a
                ticket that waits for none. Nothing changes.
        """
        value = inputs.number(reward, "reward")
        before = self._now
        t = before.tickets.find(before.tickets.latest if ticket is None else ticket)
        known = self._learned(before.known, before.tickets.outcomes(t, value))
        self._commit(before, _Now(known, before.groups, before.tickets.remove(t)))

    @_call
    def drop(self, ticket: int) -> None:
        """Waits no longer for the reward of a decision: it never comes.

        Raises:
            FairbanditError: a ticket that waits for none.
        """
        before = self._now
        t = before.tickets.find(ticket)
        self._commit(before, before._replace(tickets=before.tickets.remove(t)))

    @_call
    def observe(self, contexts: Any, groups: Any, actions: Any, rewards: Any) -> None:
        """Takes in logged rounds, whoever decided them, as the next ones.

        Args:
            contexts: n pools, (n, K, d), or a list of n pools (Kᵢ, d).
            groups: their labels, (n, K), or a list of n lists of Kᵢ.
            actions: the places picked, (n,), from 0.
            rewards: what the picks gave, (n,).

        Raises:
            FairbanditError: arguments that are no log, or a group that the truth does not know.
                Nothing changes.
        """
        before = now = self._now
        d = before.known.problem.features
        for pools, labels, places, values in inputs.log(contexts, groups, actions, rewards, d):
            first = now.known.past.rounds + 1
            now, codes = self._welcome(now, labels)
            x, g, outcomes = inputs.tensors(pools, codes, places, values, first)
            known = now.known._replace(past=now.known.past.with_pools(x, g))
            known = self._learned(self._policy.advance(known, outcomes.groups), outcomes)
            now = _Now(known, now.groups, now.tickets.give_up(known.past.rounds, self._patience))
        self._commit(before, now)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes all that is needed to go on; the file is whole, or as it was before.

        The truth is not part of it. Other threads go on while the file is written.

        Raises:
            FairbanditError: a label that no file can hold, or a file that cannot be written.
        """
        with self._writing:
            saving.write(Path(path), {"config": self._policy.describe(), **self._state()})

    @classmethod
    def load(cls, path: str | PathLike[str], *, truth: Truth | None = None) -> Self:
        """The agent of a file that `save` wrote, which continues as if it had never stopped.

        Raises:
            FairbanditError: no such file, one that is cut short, damaged, of another kind or
                version, or whose policy has a part that is not registered or needs a truth.
        """
        with saving.reading(Path(path)) as saved:
            agent = cls.__new__(cls)
            agent.__setstate__({**saved, "policy": build_policy(saved["config"]), "truth": truth})
        return agent

    def __getstate__(self) -> dict[str, Any]:
        """What copies are made of; they share no memory with this agent."""
        problem = self._now.known.problem
        return {**self._state(), "policy": self._policy, "truth": problem.truth}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Agent.__init__(self, state["policy"], truth=state["truth"], **state["options"])
        known = self._policy.restored(self._now.known, state["known"])
        self._now = _Now(known, self._now.groups, Tickets.restored(state["waiting"]))

    def _state(self) -> dict[str, Any]:
        """All that changes, and the options, as plain data."""
        now = self._now
        problem = now.known.problem
        options = {
            "features": problem.features,
            "seed": problem.streams.seed,
            "exploration": problem.exploration,
            "patience": self._patience,
            "groups": tuple(now.groups),
        }
        known, waiting = self._policy.state(now.known), now.tickets.state(problem.features)
        return {"options": options, "known": known, "waiting": waiting}

    def _commit(self, before: _Now, now: _Now) -> None:
        """Ends a call that began with one value by assigning the next one."""
        if self._now is not before:
            raise FairbanditError("the agent was called from within one of its own calls")
        self._now = now

    def _learned(self, known: Knowledge, outcomes: Outcomes) -> Knowledge:
        """What is known with further outcomes; one that a later call cannot take in is refused."""
        known = self._policy.tell(known, outcomes)
        (included, state), *_ = known.states
        if int(outcomes.rounds[-1]) > included:
            largest = max(float(part.abs().max()) for part in (outcomes.contexts, outcomes.rewards))
            if largest > inputs.ORDINARY:
                self._policy.estimator.advance(state, outcomes)
        return known

    def _pool(self, contexts: Any, groups: Any) -> tuple[_Now, Tensor, Tensor]:
        """The agent as it is once it knows a pool's groups; the pool, and its groups' numbers."""
        pool, labels = inputs.pool(contexts, groups, self._now.known.problem.features)
        now, codes = self._welcome(self._now, labels)
        return now, torch.from_numpy(pool[None, None]), torch.from_numpy(codes[None, None])

    def _welcome(self, now: _Now, labels: Sequence[Any]) -> tuple[_Now, NDArray[np.int64]]:
        """The agent as it is once it knows some labels, and their numbers."""
        codes, groups = grouping.coded(now.groups, labels)
        if groups is now.groups:
            return now, codes
        problem = replace(now.known.problem, groups=len(groups))
        inputs.check_known(self._vetted, groups, len(now.groups))
        return _Now(self._policy.grow(now.known, problem), groups, now.tickets), codes

    def _renew_locks(self) -> None:
        """Sets locks that nobody holds."""
        self.lock, self._writing = RLock(), RLock()
        _agents.add(self)


def _renew_all_locks() -> None:
    """A forked process has no thread that would give back what another one held."""
    for agent in list(_agents):
        agent._renew_locks()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all_locks)
