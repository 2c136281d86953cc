"""The calls of an agent that decide about whole pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from fairbandit.agent import blocks, inputs, journal, learning
from fairbandit.agent.calls import Now, call
from fairbandit.agent.decisions import Decision
from fairbandit.agent.openings import Openings
from fairbandit.agent.tickets import Waiting
from fairbandit.environments import Encoder
from fairbandit.environments.base import Truth
from fairbandit.errors import did_you_mean
from fairbandit.logs import Ints
from fairbandit.logs.log import pieces
from fairbandit.notices import listed, remark
from fairbandit.policy.policy import Policy
from fairbandit.streams import CHUNK_ROUNDS
from fairbandit.tables.labels import Codes, is_unknown

BLOCK = CHUNK_ROUNDS // 2
"""The most pools that are decided together. Larger blocks share more work, but the rank windows of
their rounds differ more, which costs masks."""


class Deciding(Openings):
    """The calls of an agent that decide about whole pools, one or many."""

    encoder: Encoder | None
    _names: tuple[str, ...] | None
    _vetted: Truth | None

    @call
    def act(self, contexts: Any, groups: Any = None, picks: int = 1) -> Decision:
        """Decides the next round: picks one or more candidates from a pool.

        Args:
            contexts: the candidates' features, (K, d), or raw rows; K may vary.
            groups: the labels of the K candidates' groups, known or new. None reads them from raw
                rows, if the group is a feature of the encoder.
            picks: the number of picks, which may vary; a pool of fewer candidates is picked whole.

        Returns:
            The picks, and the ticket for their rewards.

        Raises:
            FairbanditError: an invalid pool, or a group that the truth does not know.
        """
        before = self._now
        now, pool, m = self._pool(contexts, groups, picks)
        now, (decision,), entries = self._decided(now, pool, m)
        self._commit(before, now, *entries)
        return decision

    @call
    def act_many(
        self, contexts: Any, groups: Any = None, picks: int = 1, *, pools: Any = None
    ) -> list[Decision]:
        """Decides the next N rounds, as N calls of `act` between which no reward comes.

        The picks and the later state are the same, and probabilities are the same up to rounding,
        while pools of a similar size are decided together. If a pool is invalid, none is decided.

        Args:
            contexts: N pools: an array (N, K, d), or a list of pools as `act` takes them. With
                `pools`, the candidates of all pools: a table, or an array (R, d).
            groups: the labels of each pool's candidates, (N, K), or a list of N lists. With
                `pools`, the labels of all R candidates, or of a table the column that holds them.
                None reads them from raw rows, as in `act`.
            picks: the number of picks from each pool.
            pools: the column of the table that says the pool of each row, or the R candidates'
                pools. Pools are decided in the order of their first rows.

        Returns:
            The decision about each pool; candidates are places among the rows of their pool.

        Raises:
            FairbanditError: an invalid pool, which the message names, or a group that the truth
                does not know.
        """
        before = now = self._now
        m, d = inputs.whole(picks, "picks", 1), now.history.problem.features
        if pools is not None:
            contexts, groups = blocks.split(contexts, groups, pools, self.encoder, self._names)
        contexts, groups = blocks.encoded(contexts, groups, self.encoder, self._names, 3)
        arrays, labels = blocks.pools(contexts, groups, d, self.encoder)
        codes, groups_at = learning.coded_pools(self._vetted, now.groups, labels)
        self._note_new(groups_at[-1] if groups_at else now.groups)
        sizes = np.array([len(array) for array in arrays], np.int64)
        decisions, entries = list[Decision](), list[journal.Entry]()
        for cut in _blocks(self._policy, now.history.rounds, sizes, groups_at, m):
            if (groups := groups_at[cut.start]) is not now.groups:
                now = learning.grown(self._policy, now, groups)
            block = blocks.LabelledPools.padded(arrays[cut], codes[cut], now.groups)
            now, more, lines = self._decided(now, block, min(m, int(sizes[cut.start])))
            decisions += more
            entries += lines
        self._commit(before, now, *entries)
        return decisions

    def _decided(
        self, now: Now, pools: blocks.LabelledPools, picks: int
    ) -> tuple[Now, list[Decision], list[journal.Entry]]:
        """Decides N pools as the next rounds; returns the state, decisions and entries of a log."""
        history = self._policy.open(now.history, *pools.tensors)
        history = history._replace(rewards_pending=pools.groups.shape[1] > 1)
        selection = self._policy.propose(now.numbered(history), picks)
        decisions = Decision.each(now.next_ticket, selection)
        waiting = Waiting.picked(pools, selection.actions, decisions, history.block.first)
        closed = self._policy.close(history, selection)
        tickets = now.tickets.add([decision.ticket for decision in decisions], waiting)
        tickets = tickets.give_up(closed.rounds, self._patience)
        entries = journal.decision_entries(decisions, pools, selection) if self._journal else []
        return now._replace(history=closed, tickets=tickets), decisions, entries

    def _pool(
        self, contexts: Any, groups: Any, picks: Any
    ) -> tuple[Now, blocks.LabelledPools, int]:
        """Returns the state with the pool's groups, the pool, and the number m of picks."""
        contexts, groups = blocks.encoded(contexts, groups, self.encoder, self._names)
        d = self._now.history.problem.features
        x, labels = blocks.pool(contexts, groups, d, self.encoder)
        now, codes = learning.with_groups(self._policy, self._vetted, self._now, labels)
        self._note_new(now.groups)
        tensors = torch.from_numpy(x[None, None]), torch.from_numpy(codes[None, None])
        m = min(inputs.whole(picks, "picks", 1), x.shape[0])
        return now, blocks.LabelledPools(*tensors, now.groups), m

    def _note_new(self, groups: Codes, first: int | None = None) -> None:
        """Notes groups that the table of the encoder lacks, from number `first` on.

        None begins with the groups that are new to the agent.
        """
        labels = self.encoder.labels if self.encoder else ()
        first = len(self._now.groups) if first is None else first
        if any(map(is_unknown, [*groups][first:])):
            remark(
                "people whose group is unknown are one more group, and are ranked among themselves "
                "(docs/unknown.md); an audit of the log gives their selection rate"
            )
        for label in [*groups][first:] if labels else ():
            if label not in labels:
                guess = did_you_mean(label, labels)
                remark(f"new group {label!r}{guess}: the encoder's table has {listed(labels)}")


def _blocks(
    policy: Policy, played: int, sizes: Ints, groups_at: Sequence[Codes], picks: int
) -> Iterator[slice]:
    """Cuts N pools into consecutive ones that can be decided together, as if one by one.

    Pools of a block have the same number of picks and of known groups, and a similar size. No
    decision reads the pick of another. A block ends with a chunk of rounds, after which contexts
    may be forgotten.

    Args:
        policy: the policy that decides.
        played: the number of rounds before.
        sizes: the numbers of candidates, (N,).
        groups_at: the groups that are known at each pool.
        picks: m.
    """
    alike = np.stack([sizes.clip(max=picks), [*map(len, groups_at)]])
    stops = {*(np.flatnonzero(np.diff(alike).any(0)) + 1).tolist(), len(sizes)}
    stops |= {*range(-played % CHUNK_ROUNDS, len(sizes), CHUNK_ROUNDS)}
    for low, high in pairwise(sorted({0} | stops)):
        step = 1 if policy.reads_picks else high - low
        for first in range(low, high, step):
            yield from pieces(sizes[first : first + step], BLOCK, first)
