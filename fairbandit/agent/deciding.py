"""Decisions about pools that come next."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch

from fairbandit.agent.inputs import Pool, check_known, of_pool
from fairbandit.agent.state import State, Waiting, grown, key
from fairbandit.logs import Floats, Ints
from fairbandit.logs.events import Decided
from fairbandit.logs.log import padded, pieces
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.streams import CHUNK_ROUNDS
from fairbandit.tables.labels import Codes, coded

BLOCK = CHUNK_ROUNDS // 2
"""The most pools that are decided together. Larger blocks share more work, but the rank windows of
their rounds differ more, which costs masks."""


def opened(policy: Policy, state: State, pools: Sequence[Floats], codes: Sequence[Ints]) -> State:
    """Returns a state whose history has N pools (Kᵢ, d) with known groups as its open block."""
    if len(pools) == 1:
        x, g = pools[0][None], codes[0][None]
    else:
        sizes = np.array([len(pool) for pool in pools])
        x, g = padded(sizes, np.concatenate(pools), 0.0), padded(sizes, np.concatenate(codes), -1)
    history = policy.open(state.history, torch.from_numpy(x)[None], torch.from_numpy(g)[None])
    return state._replace(history=history._replace(rewards_pending=len(pools) > 1))


def decide(
    policy: Policy, state: State, pools: Sequence[Pool], codes: Sequence[Ints], picks: int
) -> tuple[State, list[Decided]]:
    """Decides N pools as the next rounds; returns them as the open block, and the decisions."""
    first = state.next_ticket
    at = opened(policy, state, [pool.contexts for pool in pools], codes)
    selection = policy.propose(at.numbered if state.openings else at.history, picks)
    [actions], [chances] = selection.actions.tolist(), selection.inclusion.tolist()
    names, m = [group.spelling for group in state.groups.values()], len(actions[0])
    events = []
    rows = zip(pools, codes, actions, chances, strict=True)
    for ticket, (pool, numbers, places, shares) in enumerate(rows, first):
        if places[-1] < 0:  # empty slots come last
            places = places[: places.index(-1)]
        event = Decided(
            ticket=ticket,
            contexts=pool.contexts,
            rows=pool.rows,
            groups=[names[code] for code in numbers.tolist()],
            probabilities=shares[: len(numbers)],
            picks=tuple(places),
            places=m if round(math.fsum(shares) - m, 6) else None,  # some may stay open
        )
        events.append(event)
    return at, events


def moved(policy: Policy, state: State, events: Sequence[Decided]) -> State:
    """Returns the state after the decisions about the pools of its open block."""
    n, m, ids = len(events), 1, dict[int, int]()
    for event in events:
        m = max(m, len(event.picks))
        if event.id is not None:
            ids[key("id", event.id)] = event.ticket
    actions, waiting = np.full((1, n, m), -1), dict[int, Waiting]()
    block, turn = state.history.block, state.workers[state.worker].rounds
    codes = block.groups[0].numpy()
    for at, event in enumerate(events):
        if picks := event.picks:
            assert event.contexts is not None
            own = codes[at, : len(event.contexts)]
            own = own if n == 1 else own.copy()  # a view keeps the block in memory
            pool = block.first + at, turn + at + 1, event.contexts, own, picks
            if state.shadow:
                waiting[event.ticket] = Waiting(*pool, (), picks)
            else:
                waiting[event.ticket] = Waiting(*pool, picks)
                actions[0, at, : len(picks)] = picks
    if ids:
        state = state._replace(remembered=state.remembered.plus(ids))
    history = policy.close(state.history, Selection.of(torch.from_numpy(actions)))
    return state.on(history, n, waiting, events[-1].ticket)


def decide_many(
    policy: Policy, state: State, pools: Sequence[Pool], picks: int
) -> tuple[State, list[Decided]]:
    """Decides N pools like N calls between which no reward comes; returns the later state."""
    codes, groups_at = list[Ints](), list[Codes]()
    groups, truth = state.groups, state.history.problem.truth
    for at, pool in enumerate(pools):
        with of_pool(at):
            numbers, more = coded(pool.labels, groups)
            if more is not groups:
                check_known(policy, truth, more, len(groups))
        groups = more
        codes.append(numbers)
        groups_at.append(groups)
    sizes, events = np.array([*map(len, codes)], np.int64), list[Decided]()
    for cut in _blocks(policy, state.history.rounds, sizes, groups_at, picks):
        if (groups := groups_at[cut.start]) is not state.groups:
            state = grown(policy, state, groups)
        m = min(picks, int(sizes[cut.start]))
        state, decided = decide(policy, state, pools[cut], codes[cut], m)
        state = moved(policy, state, decided)
        events += decided
    return state, events


def _blocks(
    policy: Policy, played: int, sizes: Ints, groups_at: Sequence[Codes], picks: int
) -> Iterator[slice]:
    """Cuts N pools into consecutive ones that can be decided together, as if one by one.

    Pools of a block have the same number of picks and of known groups, and a similar size. No
    decision reads the pick of another. A block ends with a chunk of rounds, after which contexts
    may be forgotten.
    """
    alike = np.stack([sizes.clip(max=picks), [*map(len, groups_at)]])
    stops = {*(np.flatnonzero(np.diff(alike).any(0)) + 1).tolist(), len(sizes)}
    stops |= {*range(-played % CHUNK_ROUNDS, len(sizes), CHUNK_ROUNDS)}
    for low, high in pairwise(sorted({0} | stops)):
        step = 1 if policy.reads_picks else high - low
        for first in range(low, high, step):
            yield from pieces(sizes[first : first + step], BLOCK, first)
