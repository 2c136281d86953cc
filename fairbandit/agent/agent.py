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

from fairbandit.agent import inputs, saving, truths
from fairbandit.agent.decisions import Decision, Explanation, explanation
from fairbandit.agent.groups import Groups
from fairbandit.agent.tickets import Tickets
from fairbandit.building import build_policy
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.logs import Log
from fairbandit.maths.checks import shown
from fairbandit.part import Problem
from fairbandit.past import Outcomes
from fairbandit.policy import Knowledge, Policy
from fairbandit.streams import Streams

_agents: WeakSet[Agent] = WeakSet()

FROZEN = 1 << 10

P = ParamSpec("P")
T = TypeVar("T")


class _Now(NamedTuple):
    """All that an agent is between two calls, as a value."""

    known: Knowledge
    groups: Groups
    tickets: Tickets


def _call(
    method: Callable[Concatenate[Agent, P], T],
) -> Callable[Concatenate[Agent, P], T]:
    """A call that other threads wait for, on one core and without gradients.

    Pools are small, so that a second core costs more than it saves, most of all where others use
    it. The caller's settings are restored.
    """

    @wraps(method)
    def call(self: Agent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.lock:
            gradients, threads = torch.is_grad_enabled(), torch.get_num_threads()
            try:
                torch.set_grad_enabled(False)
                if threads > 1:
                    torch.set_num_threads(1)
                return method(self, *args, **kwargs)
            finally:  # of functions in C, which no interrupt keeps from being called
                try:
                    torch._C._set_grad_enabled(gradients)
                finally:
                    torch.set_num_threads(threads)

    return call


class Agent:
    """A policy deciding online: `act` picks from a pool, `update` reports what the pick gave.

    Each `act` is one round, decided by the same parts as a simulated one: fed the pools and the
    rewards of replica 0 of an `Engine` with the same seed, the agent decides as it does. A round
    learns from those of its rounds whose rewards have come; every pool feeds the ranks at once.
    Before the first known reward, all candidates of a learning policy tie.

    With `refresh` the reward model changes only when the number of training rounds has grown by
    this factor; see `Policy`. Between two changes it changes only by rewards of rounds it includes
    that come late. Unless a part reads all rewards, outcomes are then kept as sums. Together with a
    rank of bounded memory, such as `recent_cdf`, the agent's memory does not grow, except for the
    rewards it waits for, which `patience` bounds.

    Threads may share an agent: each call holds its `lock`, so that calls take effect one after the
    other. What the agent knows is one value; a call computes the next one and ends by assigning it.
    So a call that raises, whatever it raises, has changed nothing.

    Args:
        policy: decides.
        features: d.
        groups: the labels of the groups that are known, in the order of a truth's groups; a
            number G stands for 0 … G−1. Labels that appear later join them.
        seed: of all random numbers.
        exploration: of optimistic estimators that leave theirs unset.
        truth: the truth, for policies that need it.
        refresh: the `refresh` of the policy, above 1; None leaves the policy's own.
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
        options = inputs.options(features, seed, exploration, patience)
        refresh = inputs.refresh(refresh, policy.refresh)
        self._policy = Policy(**policy.parts, refresh=refresh, name=policy.name)  # type: ignore[arg-type]
        self._options, labels = options, Groups.of(groups)
        problem = Problem(
            features=options["features"],
            groups=len(labels),
            streams=Streams(options["seed"], [0]),
            exploration=options["exploration"],
            truth=None if truth is None else truths.checked(truth, options["features"]),
        )
        truths.vet(self._vetted(problem), labels.labels, 0)
        known = self._policy.init(problem)
        self._now = _Now(known, labels, Tickets(options["patience"]))
        self._renew_locks()

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
        return self._lock

    @property
    def rounds(self) -> int:
        """How many rounds there were, decided and observed."""
        return self._now.known.past.rounds

    @property
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of all groups so far, in the order of their codes."""
        return self._now.groups.labels

    @property
    def pending(self) -> tuple[int, ...]:
        """The tickets whose rewards have not come, oldest first."""
        return tuple(self._now.tickets.picks)

    @_call
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
        before = self._now
        pool, labels = inputs.pool(contexts, groups, self._options["features"])
        now, codes = self._welcome(before, labels)
        x, g = torch.from_numpy(pool[None, None]), torch.from_numpy(codes[None, None])
        known = now.known._replace(past=now.known.past.with_pools(x, g))
        t = known.past.rounds
        selection = self._policy.propose(known, t, x, g)
        place = int(selection.actions)
        known = self._policy.advance(known, g[:, :, place])
        tickets = now.tickets.add(t, x[:, :, place].clone(), int(codes[place]))
        decision = Decision(place, t, float(selection.propensities))
        self._commit(before, _Now(known, now.groups, tickets))
        return decision

    @_call
    def explain(self, contexts: Any, groups: Any) -> Explanation:
        """Says what `act` would decide about a pool now, and from what; nothing changes.

        The next `act`, if it is for the same pool, picks with exactly these probabilities.

        Args:
            contexts, groups: as for `act`.

        Raises:
            FairbanditError: as for `act`.
        """
        pool, given = inputs.pool(contexts, groups, self._options["features"])
        now, codes = self._welcome(self._now, given)
        x, g = torch.from_numpy(pool[None, None]), torch.from_numpy(codes[None, None])
        return explanation(self._policy, now.known, x, g, now.groups.labels)

    @classmethod
    def from_log(cls, policy: Any, log: Log, **options: Any) -> Self:
        """An agent that has learned from logged decisions, whoever made them, and can go on.

        Args:
            policy: a policy, or what `from_config` takes.
            log: with contexts; rewards that are missing never come.
            options: whatever an `Agent` takes beside `features` and `groups`.

        Raises:
            FairbanditError: a log without contexts, or whatever an `Agent` raises.
        """
        if log.contexts is None:
            raise FairbanditError("nothing is learned from a log that leaves out the contexts")
        made = policy if isinstance(policy, Policy) else build_policy(policy)
        features = log.contexts.shape[2]
        agent = cls(made, features=features, groups=log.labels, **options)
        agent._learn(log)
        return agent

    @_call
    def _learn(self, log: Log) -> None:
        assert log.contexts is not None
        before = self._now
        known, size = before.known, inputs.PIECE // max(log.contexts[0].size, 1) + 1
        for low in range(0, len(log), size):
            some = log[low : low + size]
            assert some.contexts is not None
            x, g = torch.from_numpy(some.contexts)[None], torch.from_numpy(some.groups)[None]
            known = known._replace(past=known.past.with_pools(x, g))
            picked = some.at_picks(some.groups)[:, 0]
            known = self._policy.advance(known, torch.from_numpy(picked)[None])
            seen = ~np.isnan(some.rewards[:, 0])
            if seen.any():
                rounds = torch.from_numpy(np.flatnonzero(seen) + low + 1)
                parts = some.at_picks(some.contexts)[seen, 0], picked[seen], some.rewards[seen, 0]
                outcomes = Outcomes(rounds, *(torch.from_numpy(part)[None] for part in parts))
                known = self._told(known, outcomes)
        self._commit(before, before._replace(known=known))

    @_call
    def probabilities(self, contexts: Any, groups: Any, labels: Sequence[Hashable]) -> Any:
        """The probability of each candidate in n pools, each as if it were the next one.

        Args:
            contexts: (n, K, d).
            groups: the place of each candidate's label in `labels`, (n, K); −1 where it is empty.
            labels: of groups, known or new.

        Returns:
            (n, K).
        """
        now, codes = self._welcome(self._now, list(labels))
        numbers = np.append(codes, -1)[groups]
        found = []
        for low in range(0, len(numbers), FROZEN):
            x = torch.from_numpy(contexts[None, low : low + FROZEN])
            g = torch.from_numpy(numbers[None, low : low + FROZEN])
            found.append(self._policy.frozen(now.known, x, g)[0].numpy())
        return np.concatenate(found)

    @property
    def log_hash(self) -> str | None:
        return None

    @_call
    def update(self, reward: Any, ticket: int | None = None) -> None:
        """Learns the reward of a decision, now or however late, in any order.

        Args:
            reward: the reward of the candidate that was picked.
            ticket: of the decision; None is the latest one.

        Raises:
            FairbanditError: a reward that is no finite number, a ticket that is not known or whose
                reward came already, an outcome that is too large for the model. Nothing changes.
        """
        value = inputs.number(reward, "reward")
        before = self._now
        given = before.tickets.latest if ticket is None else ticket
        if given is None:
            raise FairbanditError("no decision was made yet that a reward could be of")
        t = before.tickets.find(given, self.rounds)
        known = self._told(before.known, before.tickets.outcome(t, value))
        self._commit(before, before._replace(known=known, tickets=before.tickets.remove(t)))

    @_call
    def drop(self, ticket: int) -> None:
        """Waits no longer for the reward of a decision: it never comes.

        Raises:
            FairbanditError: a ticket that is not known or whose reward came already.
        """
        before = self._now
        t = before.tickets.find(ticket, self.rounds)
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
            FairbanditError: shapes that do not match, values that are not finite, actions that are
                no candidate, a group that the truth does not know. Nothing changes.
        """
        before = self._now
        log = inputs.Log(contexts, groups, actions, rewards, self._options["features"])
        now, codes = self._welcome(before, log.labels)
        known = now.known
        for x, g, outcomes in log.pieces(codes, first=self.rounds + 1):
            known = known._replace(past=known.past.with_pools(x, g))
            known = self._told(self._policy.advance(known, outcomes.groups), outcomes)
        tickets = now.tickets.give_up(known.past.rounds)
        self._commit(before, _Now(known, now.groups, tickets))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes all that is needed to go on; the file is whole, or as it was before.

        The truth is not part of it. Other threads go on while the file is written.

        Args:
            path: the file, which is replaced if there is one.

        Raises:
            FairbanditError: a label that no file can hold, or a file that cannot be written.
        """
        with self._writing:
            saving.write(Path(path), saving.packed(self._state()))

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
            agent = cls(build_policy(saved["config"]), truth=truth, **saved["options"])
            agent._restore(saved)
        return agent

    def __getstate__(self) -> dict[str, Any]:
        """What copies are made of; they share no memory with this agent."""
        truth = self._now.known.problem.truth
        return {**self._state(), "policy": self._policy, "truth": truth}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        Agent.__init__(self, state["policy"], truth=state["truth"], **state["options"])
        self._restore(state)

    def _state(self) -> dict[str, Any]:
        now = self._now
        return {
            "config": self._policy.describe(),
            "options": {**self._options, "groups": now.groups.labels},
            "known": self._policy.state(now.known),
            "waiting": now.tickets.state(self._options["features"]),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        known = self._policy.restored(self._now.known, state["known"])
        tickets = self._now.tickets.restored(state["waiting"])
        self._now = self._now._replace(known=known, tickets=tickets)

    def _commit(self, before: _Now, now: _Now) -> None:
        """Ends a call that began with one value by assigning the next one."""
        if self._now is not before:
            raise FairbanditError(
                "the agent was called from within one of its own calls; wait until that one has "
                "returned"
            )
        self._now = now

    def _told(self, known: Knowledge, outcomes: Outcomes) -> Knowledge:
        """What is known with further outcomes, if the estimator can take them in.

        Some are taken in by a later call, which could not refuse them any more.
        """
        known = self._policy.tell(known, outcomes)
        (included, state), *_ = known.states
        if int(outcomes.rounds[-1]) > included:
            self._policy.estimator.advance(state, outcomes)
        return known

    def _welcome(self, now: _Now, labels: Sequence[Any]) -> tuple[_Now, inputs.Codes]:
        """The codes of labels, and the agent as it is once it knows those that are new."""
        codes, fresh = now.groups.coded(labels)
        if not fresh:
            return now, codes
        truths.vet(self._vetted(now.known.problem), fresh, len(now.groups))
        groups = now.groups.joined_by(fresh)
        problem = replace(now.known.problem, groups=len(groups))
        return _Now(self._policy.grow(now.known, problem), groups, now.tickets), codes

    def _vetted(self, problem: Problem) -> Truth | None:
        """The truth, if it must know every group."""
        return problem.truth if self._policy.rank.needs_truth else None

    def _renew_locks(self) -> None:
        """Sets locks that nobody holds."""
        self._lock, self._writing = RLock(), RLock()
        _agents.add(self)


def _renew_all_locks() -> None:
    """A forked process has no thread that would give back what another one held."""
    for agent in list(_agents):
        agent._renew_locks()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_all_locks)
