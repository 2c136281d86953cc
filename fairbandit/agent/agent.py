"""The online agent: a policy that decides for real pools, one at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np

from fairbandit.agent import files, fold, inputs, openings, rounds, steps
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.ledger import Ledger, call
from fairbandit.agent.openings import Opening
from fairbandit.agent.steps import Decision
from fairbandit.environments import Encoder
from fairbandit.errors import FairbanditError
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.events import Dropped
from fairbandit.logs.schema import Schema
from fairbandit.policy.build import build_policy
from fairbandit.policy.policy import Policy
from fairbandit.tables.labels import coded

File = str | PathLike[str]


class Agent:
    """A policy that decides online: `act` picks from a pool, and `update` reports the reward.

    Each pool is one round, decided like a round of replica 0 of an `Engine` with the same seed,
    pools and rewards. The reward model is trained on training rounds whose rewards are known; until
    there are any, all candidates of a learning policy tie. Contexts feed the ranks immediately.

    An agent is thread-safe. Every call raises a `FairbanditError` for invalid input and for files
    that cannot be read or written; such a call leaves the agent unchanged. An agent sets torch's
    number of threads to one. As a context manager, it is closed at the end of the block.

    Args:
        policy: the policy that decides.
        features: the number d of features, their names, or an `Encoder` for pools of raw rows.
        groups: the labels of the known groups; a number G stands for the labels 0 … G−1. New labels
            are added when they first appear.
        seed, exploration: the seed of all random numbers, and the exploration of optimistic
            estimators that do not set their own.
        reward: the name of the reward, which is compared with the reward of a log.
        patience: for how many further rounds a decision waits for its reward; None waits forever.
        log: a file to which each event is appended before it takes effect, or a folder for a new
            file. The events in the log of an agent with the same settings are applied first.
        unknown: labels of the group `unknown`, such as `["undisclosed"]`, beside None, NaN, an
            empty text, `unknown` and the words of an encoder.
        log_contexts, log_rows, fsync: whether to log contexts, which a replay needs, and the raw
            rows that an encoder read, and whether to wait until each line is on the disk.
        save_every: the agent saves itself to the file LOG.agent whenever the log is longer by this
            number of lines, and the next start goes on from this file; None never does.
        shadow: whether a person decides: the agent learns only from candidates who are `taken`.

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
        reward: str | None = None,
        patience: int | None = None,
        log: File | None = None,
        log_contexts: bool = True,
        log_rows: bool = True,
        fsync: bool = False,
        save_every: int | None = None,
        unknown: Sequence[Hashable] = (),
        shadow: bool = False,
    ) -> None:
        problem = features, groups, seed, exploration, reward, patience, unknown, shadow
        self._ledger = Ledger(policy, *problem)
        self._ledger.attach(log, log_contexts, log_rows, fsync, save_every)

    @classmethod
    def from_config(cls, config: str | Mapping[str, Any], **options: Any) -> Self:
        """Builds an agent from a policy's name or config, and the other arguments of `Agent`."""
        return cls(build_policy(config), **options)

    @classmethod
    def from_log(cls, policy: Policy | str | Mapping[str, Any], log: Log, **options: Any) -> Self:
        """Builds an agent that has learned from a log of any policy; options: as for `Agent`."""
        policy = policy if isinstance(policy, Policy) else build_policy(policy)
        agent = cls(policy, **{**rounds.options_of(log), **options})
        agent._ledger.state = rounds.after_log(agent.policy, agent._ledger.state, log)
        return agent

    @property
    def policy(self) -> Policy:
        """The policy that decides."""
        return self._ledger.policy

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of raw rows, if there is one."""
        return self._ledger.reader.encoder

    @property
    def lock(self) -> RLock:
        """A re-entrant lock that every call holds. Hold it to make several calls atomic."""
        return self._ledger.lock

    @property
    @call
    def rounds(self) -> int:
        """The number of rounds so far, decided and observed."""
        return self._ledger.state.history.rounds

    @property
    @call
    def groups(self) -> tuple[Hashable, ...]:
        """The labels of all groups so far, in the order of their codes."""
        return self._ledger.state.groups.spellings

    @property
    @call
    def pending(self) -> tuple[int, ...]:
        """The tickets that wait for rewards, oldest first."""
        return self._ledger.state.pending

    @property
    @call
    def openings(self) -> tuple[str, ...]:
        """The names of the openings that are not closed."""
        return tuple(offers.name for offers in self._ledger.state.openings.values())

    @property
    @call
    def schema(self) -> Schema:
        """The features, groups, reward and, if rewards are read, decisions that a log may share."""
        (d, encoder, names, reward), state = self._ledger.reader, self._ledger.state
        learned = state.remembered.get if self.policy.reads_rewards else None
        return Schema(d, names, encoder, tuple(state.groups), reward, learned)

    @property
    def log_hash(self) -> str | None:
        """The hash of the last line of the log; None without a log."""
        return (log := self._ledger.state.own.log) and log.sha256

    @call
    def act(
        self,
        contexts: Any,
        groups: Any = None,
        picks: int = 1,
        *,
        id: str | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Decides the next round: picks one or more candidates from a pool.

        Args:
            contexts: the candidates' features, (K, d), or raw rows; K may vary.
            groups: the labels of the K candidates' groups, known or new. None reads them from raw
                rows, if the group is a feature of the encoder.
            picks: the number of picks; a pool of fewer candidates is picked whole.
            id, about: your own id of the decision, a text that no other decision has, which is a
                ticket, too; and a small mapping of texts, numbers and truth values, for the log.
        """
        ledger, before, policy = self._ledger, self._ledger.state, self._ledger.policy
        pool, m = ledger.reader.pool(contexts, groups), inputs.whole(picks, "picks", 1)
        codes, known = coded(pool.labels, before.groups)
        state, (event,) = steps.decide(policy, before, known, [pool], [codes], m)
        if id is not None or about is not None:
            event = inputs.named(before, event, id, about)
        ledger.commit(before, steps.moved(policy, state, [event]), event)
        return Decision.of(event)

    @call
    def act_many(
        self, contexts: Any, groups: Any = None, picks: int = 1, *, pools: Any = None
    ) -> list[Decision]:
        """Decides the next N rounds, as N calls of `act` between which no reward comes.

        Probabilities are the same up to rounding. If a pool is invalid, none is decided.

        Args:
            contexts, groups: an array (N, K, d) or a list of pools, and their labels. With `pools`,
                the candidates of all pools: a table or an array (R, d), and their labels or column.
            picks: the number of picks from each pool.
            pools: the column, or the R values, that say the pool of each row. Pools are decided in
                the order of their first rows.
        """
        ledger, before, m = self._ledger, self._ledger.state, inputs.whole(picks, "picks", 1)
        read = rounds.read(ledger.reader, contexts, groups, pools)
        state, events = rounds.decide_many(ledger.policy, before, read, m)
        ledger.commit(before, state, *events)
        return [Decision.of(event) for event in events]

    @call
    def update(self, reward: Any, ticket: Any = None, candidate: int | None = None) -> None:
        """Learns the reward of a decision, which may come late and in any order, but only once.

        A repeated report changes nothing, and is noted; another reward is an error.

        Args:
            reward: the reward of the picked candidate; for several picks, a list of their rewards
                in the order of `decision.picks`, or a mapping from candidates to rewards.
            ticket: the ticket or the id of the decision; None stands for the latest decision.
            candidate: for a single reward of several picks, the candidate's place in the pool.
        """
        ledger, before = self._ledger, self._ledger.state
        event, decision = inputs.rewarded(before, reward, ticket, candidate)
        if event is not None:
            ledger.commit(before, steps.told(ledger.policy, before, event, decision), event)

    @call
    def taken(
        self, ticket: Any, candidate: int, instead: Any = None, *, by: str = "", why: str = ""
    ) -> None:
        """Says that a person took a candidate in place of a pick, or confirmed the pick.

        The reward then belongs to this candidate, whose group is counted in place of the pick's.

        Args:
            ticket, candidate: the ticket or the id of the decision, and the candidate's place.
            instead, by, why: for several picks, the place of the pick; the person and the reason.
        """
        given = ticket, candidate, instead, by or None, why or None
        self._ledger.apply(inputs.taken(self._ledger.state, *given))

    @call
    def drop(self, ticket: int | str) -> None:
        """Stops waiting for the rewards of a decision."""
        self._ledger.apply(Dropped(ticket=self._ledger.state.waits(ticket)[0]))

    @call
    def observe(
        self, contexts: Any, groups: Any = None, actions: Any = None, rewards: Any = None
    ) -> None:
        """Learns from logged rounds of any policy, which count as the agent's next rounds.

        Args:
            contexts, groups: n pools and their labels, as for `act_many`; or a table of n rows,
                each of which is a pool of one candidate, and n labels.
            actions: the place of each round's pick, (n,), from 0. None for pools of one candidate.
            rewards: the rewards of the picks, (n,).
        """
        ledger, observed = self._ledger, (contexts, groups, actions, rewards)
        if (event := rounds.observation(ledger.reader, *observed)).groups:
            if all(len(pool) == 1 for pool in event.groups):
                labels = [label for (label,) in event.groups]
                rounds.note_order(ledger.policy, labels, np.array(event.rewards))
            ledger.apply(event)

    @call
    def round(
        self, name: str = "", *, places: Any = None, candidates: Any = None, count: Any = None
    ) -> Opening:
        """Begins an opening, or goes on with an open one.

        Args:
            name, places: its name, and the number of places of a new one; None goes on.
            candidates, count: the law of the number of candidates, as for the policy's selector.
        """
        return openings.begun(self._ledger, name, places, candidates, count)

    @call
    def explain(self, contexts: Any, groups: Any = None, picks: int = 1) -> Explanation:
        """Explains how `act` would decide about a pool now, without changing the agent."""
        return explanation(self._ledger, self._ledger.reader.pool(contexts, groups), picks)

    @call
    def probabilities(
        self, contexts: Floats, groups: Ints, labels: Sequence[Hashable], picks: int = 1
    ) -> Floats:
        """The probability of each candidate, (n, K), if its pool is next; groups index labels."""
        now = self._ledger.policy, self._ledger.state
        return rounds.probabilities(*now, contexts, groups, labels, picks)

    def save(self, path: File) -> None:
        """Writes the agent to a file; a failed write leaves an existing file."""
        with self._ledger.writing:
            self._ledger.save(Path(path), self._saved())

    @call
    def refresh(self, path: File) -> None:
        """Takes up a saved agent that `merge` made, and repeats the later lines of its own log."""
        self._ledger.refresh(Path(path))

    @classmethod
    def merge(cls, path: File, logs: Sequence[Any], **options: Any) -> Self:
        """Loads an agent, and applies the lines that it lacks of several workers' logs.

        The lines are applied in the order of time; the order of each log is kept. `path` is the
        file that the workers loaded, or of an earlier merge. Option: `policy`.
        """
        agent = cls.load(path, **options)
        ledger = agent._ledger
        ledger.state = fold.merged(ledger.policy, ledger.state, logs, ledger.header())
        return agent

    @classmethod
    def load(
        cls,
        path: File,
        *,
        policy: Policy | None = None,
        log: File | None = None,
        worker: int | None = None,
        **logging: Any,
    ) -> Self:
        """Loads an agent and applies later events of its log; parts made by code need `policy`.

        Several workers load one file, each with a number and a log of its own: `worker` is 1, 2, …
        `logging` has any of `log_contexts`, `log_rows`, `fsync` and `save_every`.
        """
        agent = cls.__new__(cls)
        agent._ledger = Ledger.load(Path(path), policy, worker)
        agent._ledger.attach(log, **logging)
        return agent

    def close(self) -> None:
        """Closes the log and releases its lock. An agent with a closed log decides no more."""
        self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> Any:
        """Refuses copies, which would share the log."""
        raise FairbanditError("an agent cannot be copied or pickled: save it, and load the file")

    @call
    def _saved(self) -> dict[str, Any]:
        return files.plain(self._ledger.state, self._ledger.reader)
