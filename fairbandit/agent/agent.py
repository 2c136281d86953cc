"""The online agent: a policy that decides for real pools, one at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from fairbandit.agent import blocks, inputs, journal, learning, openings, saving
from fairbandit.agent.calls import Now, call
from fairbandit.agent.deciding import Deciding
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.tickets import Tickets
from fairbandit.environments import Encoder
from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError, shown
from fairbandit.history.problem import Problem
from fairbandit.logs import Floats, Ints, Log, Position
from fairbandit.logs.log import check_log
from fairbandit.logs.schema import Learned, Schema, described
from fairbandit.notices import remark
from fairbandit.policy.build import build_policy
from fairbandit.policy.policy import Policy
from fairbandit.streams import Streams
from fairbandit.tables.labels import spellings


class Agent(Deciding):
    """A policy that decides online: `act` picks from a pool, and `update` reports the reward.

    Each pool is one round, decided like a round of replica 0 of an `Engine` with the same seed,
    pools and rewards. The reward model is trained on training rounds whose rewards are known; until
    there are any, all candidates of a learning policy tie. Contexts feed the ranks immediately.

    An agent is thread-safe, and a call that raises an error leaves it unchanged. Its memory is
    bounded if `refresh` keeps outcomes as sums (see `Policy`), the rank keeps a bounded past, as
    `recent_cdf` does, and `patience` is set.

    Args:
        policy: the policy that decides.
        features: the number d of features, their names, or an `Encoder` for pools of raw rows.
        groups: the labels of the known groups, in the order of the truth's groups; a number G
            stands for the labels 0 … G−1. New labels are added when they first appear.
        seed: the seed of all random numbers.
        exploration: the exploration of optimistic estimators that do not set their own.
        truth: the ground truth, for policies that need it.
        refresh: replaces the policy's `refresh`, unless it is None.
        reward: the name of the reward, which is compared with the reward of a log.
        patience: for how many further rounds a decision waits for its reward; None waits forever.
        log: a file to which each decision and reward is appended before it takes effect, or a
            folder for a new file. The log of an agent with the same settings is replayed first.
        log_contexts, fsync: whether to log contexts, and whether to sync each line to the disk.
        unknown: labels of people whose group is unknown, such as `["undisclosed"]`, beside None,
            NaN, an empty text and `unknown`, and beside the words of an encoder. All of them are
            the group `unknown`.

    Raises:
        FairbanditError: a value out of range, a missing truth, or the log of another agent.

    An agent sets torch's number of threads to one, since its tensors are small.

    Attributes:
        digest: the SHA-256 of the file that the agent was loaded from; None without a file.
        encoder: the encoder of raw rows; None without an encoder.

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
        unknown: Sequence[Hashable] = (),
    ) -> None:
        if not isinstance(policy, Policy):
            raise FairbanditError(
                f"expected a fairbandit.Policy, got {shown(policy)}; see Agent.from_config"
            )
        refresh = policy.refresh if refresh is None else inputs.number(refresh, "refresh")
        self._policy = Policy(**policy.parts, refresh=refresh, name=policy.name)  # type: ignore[arg-type]
        self._features, self._reward = inputs.features(features), reward
        self.encoder, self._names, d = described(self._features)
        words = inputs.listed(unknown, "unknown")
        codes = inputs.groups(groups, [*words, *(self.encoder.unknown if self.encoder else ())])
        problem = Problem(
            features=d,
            groups=len(codes),
            streams=Streams(inputs.whole(seed, "seed"), [0]),
            exploration=inputs.number(exploration, "exploration", least=0),
            truth=None if truth is None else inputs.truth(truth, d),
        )
        self._patience = None if patience is None else inputs.whole(patience, "patience")
        self._now = Now(self._policy.init(problem), codes, Tickets({}, None), Learned())
        self._note_new(codes, 0)
        self._vetted = problem.truth if "truth" in self._policy.rank.needs else None
        inputs.check_known(self._vetted, codes, 0)
        self.digest: str | None = None
        torch.set_num_threads(1)  # pools are small
        self._renew_locks()
        if log is not None:
            journal.attach(self, log, contexts=log_contexts, fsync=fsync)

    @classmethod
    def from_config(cls, config: str | Mapping[str, Any], **options: Any) -> Self:
        """Builds an agent from plain data.

        Args:
            config: a policy's name, or a mapping for `fairbandit.build`.
            options: `features` and other arguments of `Agent`.

        >>> parts = {"split": "full", "estimator": "ridge", "rank": "recent_cdf"}
        >>> Agent.from_config(parts, features=3).groups
        ()
        """
        return cls(build_policy(config), **options)

    @property
    def policy(self) -> Policy:
        """The policy that decides."""
        return self._policy

    @property
    @call
    def rounds(self) -> int:
        """The number of rounds so far, decided and observed."""
        return self._now.history.rounds

    @property
    @call
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of all groups so far, in the order of their codes."""
        return spellings(self._now.groups)

    @property
    @call
    def schema(self) -> Schema:
        """The features, groups, reward and learned decisions, to be compared with a log.

        The decisions are None if the policy does not read rewards.
        """
        now, labels = self._now, tuple(self._now.groups)
        d = now.history.problem.features
        learned = now.learned if self._policy.reads_rewards else None
        return Schema(d, self._names, self.encoder, labels, self._reward, learned)

    @property
    @call
    def pending(self) -> tuple[int, ...]:
        """The tickets that wait for rewards, oldest first."""
        return tuple(self._now.waiting.picks)

    @call
    def explain(self, contexts: Any, groups: Any = None, picks: int = 1) -> Explanation:
        """Explains how `act` would decide about a pool now, without changing the agent.

        If the next `act` has the same pool, it has the same probabilities. Arguments: see `act`.
        """
        now, pool, m = self._pool(contexts, groups, picks)
        return explanation(self, now.numbered(now.history), pool, m)

    @classmethod
    def from_log(cls, policy: Policy | str | Mapping[str, Any], log: Log, **options: Any) -> Self:
        """Builds an agent that has learned from the logged decisions of any policy.

        Args:
            policy: a policy, or its config as in `from_config`.
            log: a log with contexts. Its missing rewards cannot be reported later.
            options: other arguments of `Agent`, except `groups` and `log`.

        Raises:
            FairbanditError: a log without contexts, or an argument that `Agent` refuses.
        """
        check_log(log)
        if log.candidates.contexts is None:
            raise FairbanditError("an agent cannot learn from a log without contexts")
        policy = policy if isinstance(policy, Policy) else build_policy(policy)
        if "log" in options:
            raise FairbanditError(
                "from_log cannot write a log: save the agent, and load it with log=..."
            )
        features = log.encoder or log.schema.names or log.schema.width
        options = {"features": features, "reward": log.reward, **options}
        agent = cls(policy, groups=log.labels, **options)
        with torch.inference_mode():
            agent._now = learning.after_log(agent._policy, agent._now, log)
        return agent

    @call
    def probabilities(
        self, contexts: Floats, groups: Ints, labels: Sequence[Hashable], picks: int = 1
    ) -> Floats:
        """The probability that each candidate is picked if its pool comes next, for n pools.

        Contexts are (n, K, d), and groups are indices into `labels`, (n, K), −1 for an empty place.
        """
        now, codes = learning.with_groups(self._policy, self._vetted, self._now, labels)
        codes = np.append(codes, -1)[groups]
        return learning.probabilities_of(
            self._policy, now.numbered(now.history), contexts, codes, picks
        )

    @call
    def update(self, reward: Any, ticket: int | None = None, candidate: int | None = None) -> None:
        """Learns the reward of a decision, which may come late and in any order.

        Args:
            reward: the reward of the picked candidate; for several picks, a list of their rewards
                in the order of `decision.picks`, or a mapping from candidates to rewards.
            ticket: the ticket of the decision; None stands for the latest decision.
            candidate: for a single reward of several picks, the candidate's place in the pool.

        Raises:
            FairbanditError: a reward that is not finite or too large for the model, a ticket or a
                candidate that does not wait for a reward, or a missing candidate.
        """
        before, tickets = self._now, self._now.waiting
        t = tickets.find(tickets.latest if ticket is None else ticket)
        rewards = tickets.rewards(t, reward, candidate)
        now = learning.after_rewards(self._policy, before, t, rewards)
        self._commit(before, now, journal.reward_entry(t, rewards, tickets.picks[t]))

    @call
    def drop(self, ticket: int) -> None:
        """Stops waiting for the rewards of a decision.

        Raises:
            FairbanditError: a ticket that does not wait for a reward, or of an open opening.
        """
        before = self._now
        t = before.waiting.find(ticket)
        if t in before.openings:
            raise FairbanditError(f"ticket {t} is of an open opening: close it first")
        now = before._replace(tickets=before.tickets.remove(t))
        self._commit(before, now, {"kind": "drop", "ticket": t})

    @call
    def observe(
        self, contexts: Any, groups: Any = None, actions: Any = None, rewards: Any = None
    ) -> None:
        """Learns from logged rounds of any policy, which count as the agent's next rounds.

        Args:
            contexts: n pools, (n, K, d), or a list of n pools (Kᵢ, d); or a table, each of whose
                n rows is a pool of one candidate.
            groups: the candidates' labels, (n, K), or a list of n lists of Kᵢ labels; for a table
                (n,). None reads them from raw rows, as in `act`.
            actions: the place of each round's pick in its pool, (n,), from 0. None for pools of
                one candidate.
            rewards: the rewards of the picks, (n,).

        Raises:
            FairbanditError: an invalid log, or a group that the truth does not know.
        """
        before = now = self._now
        contexts, groups, actions = blocks.observed(
            contexts, groups, actions, rewards, self.encoder, self._names
        )
        d, hashes = before.history.problem.features, list[tuple[int, int, int]]()
        for piece in blocks.log(contexts, groups, actions, rewards, d, self.encoder):
            now, more = learning.after_rounds(
                self._policy, self._vetted, now, *piece, self._patience
            )
            hashes += more
        self._note_new(now.groups)
        if all(len(pool) == 1 for pool in contexts):
            labels = [label for (label,) in blocks.labels_by_pool(groups, len(contexts))]
            learning.note_order(self._policy, labels, inputs.numbers(rewards, "rewards"))
        if (share := before.learned.repeated(hashes)) > 0.5:
            remark(f"{share:.0%} of the observed rounds were learned before, and now count again")
        entries = [blocks.entry(contexts, groups, actions, rewards)] if self._journal else []
        self._commit(before, now, *entries)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the agent to a file; a failed write leaves an existing file as it was.

        The file includes the encoder, but not the truth. Other threads go on while it is written.

        Raises:
            FairbanditError: a label that cannot be saved, or a file that cannot be written.
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
        """Loads an agent that `save` wrote; it continues as if it had never stopped.

        The calls that its log records after the save are replayed. For the arguments, see `Agent`.

        Raises:
            FairbanditError: a file that is missing, damaged or of another kind or version, a policy
                with an unregistered part, a missing truth, or the log of another agent.
        """
        with saving.reading(Path(path)) as saved:
            agent = cls.__new__(cls)
            agent.__setstate__({**saved, "policy": build_policy(saved["config"]), "truth": truth})
            agent.digest = saved["digest"]
        if log is not None:
            journal.attach(agent, log, contexts=log_contexts, fsync=fsync)
        return agent

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state of a copy, which shares no memory and no log with this agent."""
        return {**self._state(), "policy": self._policy, "truth": self._now.history.problem.truth}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        options = saving.options(state["options"])
        Agent.__init__(self, state["policy"], truth=state["truth"], **options)
        history = self._now.history.restored(state["known"])
        tickets = Tickets.restored(state["waiting"], history.problem)
        learned, log = Learned.restored(state["learned"]), state["log"] and Position(*state["log"])
        now = Now(history, self._now.groups, tickets, learned, log)
        self._now = openings.restored(state["openings"], now)

    def _state(self) -> dict[str, Any]:
        """Returns the options and the changing state as plain data."""
        return saving.plain(self._policy, self._now, self._patience, self._features, self._reward)
