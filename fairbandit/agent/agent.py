"""An agent: a policy that decides for real pools, one at a time, as they arrive."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.agent import inputs, saving
from fairbandit.agent.calls import Committing, Now, call
from fairbandit.agent.decisions import Decision, Explanation, explanation
from fairbandit.agent.journal import attach, decided, rewarded
from fairbandit.agent.learning import frozen, learned, taken_in, watched, welcomed
from fairbandit.agent.tickets import Tickets
from fairbandit.building import build_policy
from fairbandit.environments import Encoder
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.labels import spellings
from fairbandit.logs import Floats, Log, Position
from fairbandit.logs.schema import Learned, Schema, described, pool_key
from fairbandit.maths.checks import shown
from fairbandit.modes import inferring
from fairbandit.part import Problem
from fairbandit.policy import Policy
from fairbandit.streams import Streams


class Agent(Committing):
    """A policy deciding online: `act` picks from a pool, `update` reports what the pick gave.

    Each `act` is one round: fed the pools and the rewards of replica 0 of an `Engine` with the same
    seed, the agent decides as it does. The model of a round is trained on those of its training
    rounds whose rewards are known; while there are none, all candidates of a learning policy tie.
    Every pool feeds the ranks at once.

    With `refresh` (see `Policy`), which keeps outcomes as sums, a rank of bounded memory, such as
    `recent_cdf`, and `patience`, the agent's memory does not grow.

    Threads may share an agent: calls take effect one after the other. All that it knows is one
    value, and a call ends by assigning the next one: a call that raises has changed nothing.

    Args:
        policy: decides.
        features: d; or the names of the d features; or an `Encoder`, which the agent's files hold,
            and pools may then be raw rows.
        groups: the labels of the groups that are known, in the order of a truth's groups; a
            number G stands for 0 … G−1. Labels that appear later join them.
        seed: of all random numbers.
        exploration: of optimistic estimators that leave theirs unset.
        truth: the truth, for policies that need it.
        refresh: the policy's, in place of its own; None leaves it.
        reward: the name of the reward, which is compared with the reward of a log.
        patience: a reward that has not come after so many further rounds is not waited for any
            more; None waits for ever.
        log: a file to which each decision and reward is appended before it takes effect, or a
            folder for a new one. An agent of the same settings first does what a file says again.
        log_contexts, fsync: whether the log holds contexts, and waits for the disk at each line.

    Raises:
        FairbanditError: a value out of range, a policy that needs a truth without one, or the log
            of another agent.

    Attributes:
        digest: the SHA-256 of the file that the agent was loaded from; None if it was not.
        encoder: of raw rows, or None.

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
        features: int | Sequence[str] | Encoder,
        groups: int | Sequence[Hashable] = (),
        seed: int = 0,
        exploration: float = 1.0,
        truth: Truth | None = None,
        refresh: float | None = None,
        reward: str | None = None,
        patience: int | None = None,
        log: str | PathLike[str] | None = None,
        log_contexts: bool = True,
        fsync: bool = False,
    ) -> None:
        if not isinstance(policy, Policy):
            raise FairbanditError(
                f"expected a fairbandit.Policy, got {shown(policy)}; see Agent.from_config"
            )
        refresh = policy.refresh if refresh is None else inputs.number(refresh, "refresh")
        self._policy = Policy(**policy.parts, refresh=refresh, name=policy.name)  # type: ignore[arg-type]
        self._features, self._reward = inputs.features(features), reward
        self.encoder, self._names, d = described(self._features)
        codes = inputs.groups(groups)
        problem = Problem(
            features=d,
            groups=len(codes),
            streams=Streams(inputs.whole(seed, "seed"), [0]),
            exploration=inputs.number(exploration, "exploration", least=0),
            truth=None if truth is None else inputs.truth(truth, d),
        )
        self._patience = None if patience is None else inputs.whole(patience, "patience")
        self._now = Now(self._policy.init(problem), codes, Tickets({}, None), Learned())
        self._vetted = problem.truth if "truth" in self._policy.rank.needs else None
        inputs.check_known(self._vetted, codes, 0)
        self.digest: str | None = None
        self._renew_locks()
        if log is not None:
            attach(self, log, contexts=log_contexts, fsync=fsync)

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
    @call
    def rounds(self) -> int:
        """How many rounds there were, decided and observed."""
        return self._now.known.past.rounds

    @property
    @call
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of all groups so far, in the order of their codes."""
        return spellings(self._now.groups)

    @property
    @call
    def schema(self) -> Schema:
        """The features, groups, reward and decisions by which a log is compared with the agent."""
        now, labels = self._now, tuple(self._now.groups)
        d = now.known.problem.features
        return Schema(d, self._names, self.encoder, labels, self._reward, now.learned)

    @property
    @call
    def pending(self) -> tuple[int, ...]:
        """The tickets whose rewards have not come, oldest first."""
        return tuple(self._now.tickets.picks)

    @call
    def act(self, contexts: Any, groups: Any, picks: int = 1) -> Decision:
        """Picks a candidate of a pool, or several: the next round.

        Args:
            contexts: the candidates' features, (K, d), with a K ≥ 1 that may vary; or raw rows.
            groups: their groups' labels, K of them, known or new.
            picks: how many are picked, which may vary; a smaller pool is taken whole.

        Returns:
            The picks, and the ticket of their rewards.

        Raises:
            FairbanditError: contexts or labels that are no pool, or a group that the truth does not
                know. Nothing changes.
        """
        before = self._now
        now, x, g = self._pool(contexts, groups)
        m = min(inputs.whole(picks, "picks", 1), x.shape[2])
        known = now.known._replace(past=now.known.past.with_pools(x, g))
        t = known.past.rounds
        selection = self._policy.propose(known, t, (x, g), m)
        decision, places = Decision.of(t, selection), selection.actions.flatten()
        picked, codes = x[:, 0].index_select(1, places), g[:, 0].index_select(1, places)
        known = self._policy.advance(known, codes[:, None])
        forms = list(now.groups)
        key = pool_key([forms[code] for code in g[0, 0].tolist()])
        tickets = now.tickets.add(t, decision.picks, picked, codes, key)
        tickets = tickets.give_up(t, self._patience)
        entry = None
        if self._journal:
            entry = decided(decision, x, g, spellings(now.groups), selection)
        self._commit(before, now._replace(known=known, tickets=tickets), entry)
        return decision

    @call
    def explain(self, contexts: Any, groups: Any, picks: int = 1) -> Explanation:
        """Says what `act` would decide about a pool now, and from what; nothing changes.

        The next `act`, if it is for the same pool, picks with exactly these probabilities. The
        arguments and errors are those of `act`.
        """
        now, x, g = self._pool(contexts, groups)
        m = min(inputs.whole(picks, "picks", 1), x.shape[2])
        return explanation(self._policy, now.known, x, g, spellings(now.groups), m)

    @classmethod
    def from_log(cls, policy: Policy | str | Mapping[str, Any], log: Log, **options: Any) -> Self:
        """An agent that has learned from logged decisions, whoever made them, and can go on.

        Args:
            policy: a policy, or what `from_config` takes.
            log: with contexts. Rewards that are missing never come.
            options: whatever an `Agent` takes beside `features` and `groups`.

        A log without contexts, or what an `Agent` refuses, raises `FairbanditError`.
        """
        if log.contexts is None:
            raise FairbanditError("nothing is learned from a log that leaves out the contexts")
        made = policy if isinstance(policy, Policy) else build_policy(policy)
        if "log" in options:
            raise FairbanditError("save an agent made from a log; load it with a log of its own")
        features = log.encoder or log.schema.names or log.schema.width
        options = {"features": features, "reward": log.reward, **options}
        agent = cls(made, groups=log.labels, **options)
        agent._now = inferring(True, learned, agent._policy, agent._now, log)
        return agent

    @call
    def probabilities(
        self,
        contexts: Floats,
        groups: NDArray[np.int64],
        labels: Sequence[Hashable],
        picks: int = 1,
    ) -> Floats:
        """The probability of each candidate in n pools to be picked, each as if it came next.

        Contexts are (n, K, d), and groups the places of the candidates' labels in `labels`, (n, K),
        −1 for an empty place.
        """
        now, codes = welcomed(self._policy, self._vetted, self._now, labels)
        return frozen(self._policy, now.known, contexts, np.append(codes, -1)[groups], picks)

    @call
    def update(self, reward: Any, ticket: int | None = None, candidate: int | None = None) -> None:
        """Learns the reward of a decision, now or however late, in any order.

        Args:
            reward: the reward of the candidate that was picked; or, of several picks, a list with
                that of each in the order of `decision.picks`, or a mapping from candidates.
            ticket: of the decision; None is the latest one.
            candidate: which of several picks the reward is of, by its place in the pool.

        Raises:
            FairbanditError: a reward that is no finite number or too large for the model, a ticket
                or a candidate that waits for none, or several picks of which none is named.
                Nothing changes.
        """
        before, tickets = self._now, self._now.tickets
        t = tickets.find(tickets.latest if ticket is None else ticket)
        rewards = tickets.rewards(t, reward, candidate)
        known = taken_in(self._policy, before.known, tickets.outcomes(t, rewards))
        seen = before.learned.add(tickets.picks[t].hashes(t, rewards))
        now = before._replace(known=known, tickets=tickets.remove(t, rewards), learned=seen)
        self._commit(before, now, rewarded(t, rewards, tickets.picks[t].places))

    @call
    def drop(self, ticket: int) -> None:
        """Waits no longer for the rewards of a decision: they never come.

        Raises:
            FairbanditError: a ticket that waits for none.
        """
        before = self._now
        t = before.tickets.find(ticket)
        now = before._replace(tickets=before.tickets.remove(t))
        self._commit(before, now, {"kind": "drop", "ticket": t})

    @call
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
        contexts = inputs.encoded(contexts, self.encoder, self._names, 3)
        d = before.known.problem.features
        for piece in inputs.log(contexts, groups, actions, rewards, d):
            now = watched(self._policy, self._vetted, now, *piece, self._patience)
        entry = inputs.entry(contexts, groups, actions, rewards) if self._journal else None
        self._commit(before, now, entry)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes all that is needed to go on; the file is whole, or as it was before.

        The truth is not part of it. Other threads go on while the file is written.

        Raises:
            FairbanditError: a label that no file can hold, or a file that cannot be written.
        """
        with self._writing:
            saving.write(Path(path), {"config": self._policy.describe(), **self._state()})

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        truth: Truth | None = None,
        log: str | PathLike[str] | None = None,
        log_contexts: bool = True,
        fsync: bool = False,
    ) -> Self:
        """The agent of a file that `save` wrote, which continues as if it had never stopped.

        What its log has beyond the file is done again first. The arguments are those of an `Agent`.

        Raises:
            FairbanditError: no such file, one that is cut short, damaged, of another kind or
                version, or whose policy has a part that is not registered or needs a truth; or the
                log of another agent.
        """
        with saving.reading(Path(path)) as saved:
            agent = cls.__new__(cls)
            agent.__setstate__({**saved, "policy": build_policy(saved["config"]), "truth": truth})
            agent.digest = saved["digest"]
        if log is not None:
            attach(agent, log, contexts=log_contexts, fsync=fsync)
        return agent

    def __getstate__(self) -> dict[str, Any]:
        """What copies are made of; they share no memory and no log with this agent."""
        return {**self._state(), "policy": self._policy, "truth": self._now.known.problem.truth}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        given = saving.options(state["options"])
        Agent.__init__(self, state["policy"], truth=state["truth"], **given)
        known = self._policy.restored(self._now.known, state["known"])
        tickets = Tickets.restored(state["waiting"], known.problem)
        seen, log = Learned.restored(state["learned"]), state["log"] and Position(*state["log"])
        self._now = Now(known, self._now.groups, tickets, seen, log)

    def _state(self) -> dict[str, Any]:
        """All that changes, and the options, as plain data."""
        features, reward = self._features, self._reward
        return saving.plain(self._policy, self._now, self._patience, features, reward)

    def _pool(self, contexts: Any, groups: Any) -> tuple[Now, Tensor, Tensor]:
        """The agent as it is once it knows a pool's groups; the pool, and its groups' numbers."""
        contexts = inputs.encoded(contexts, self.encoder, self._names)
        pool, labels = inputs.pool(contexts, groups, self._now.known.problem.features)
        now, codes = welcomed(self._policy, self._vetted, self._now, labels)
        return now, torch.from_numpy(pool[None, None]), torch.from_numpy(codes[None, None])
