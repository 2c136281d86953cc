"""Decisions and events: the next state of an agent.

`decide` proposes the decision about pools that come next, and `apply` returns the state after an
event. A call of an agent decides, applies the event, appends it to the log and only then assigns
the new state; a replay applies the logged events in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import torch

from fairbandit.agent.inputs import check_known
from fairbandit.agent.learning import observed, tell_checked
from fairbandit.agent.offers import Offer, Offers
from fairbandit.agent.pools import of_pool
from fairbandit.agent.reports import after_taken
from fairbandit.agent.state import State, Told, Waiting, grown, key, with_groups
from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import SUMS
from fairbandit.history import Outcomes
from fairbandit.logs import Floats, Ints
from fairbandit.logs.events import (
    Closed,
    Decided,
    Event,
    Line,
    Observed,
    Offered,
    Opened,
    Refreshed,
    Rewarded,
    Taken,
)
from fairbandit.logs.log import padded, pick_key, pieces
from fairbandit.notices import remark
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
    policy: Policy, state: State, pools: Sequence[Floats], codes: Sequence[Ints], picks: int
) -> tuple[State, list[Decided]]:
    """Decides N pools as the next rounds; returns them as the open block, and the decisions."""
    first, at = state.next_ticket, opened(policy, state, pools, codes)
    selection = policy.propose(at.numbered, picks)
    [actions], [chances] = selection.actions.tolist(), selection.inclusion.tolist()
    names, m = [group.spelling for group in state.groups.values()], len(actions[0])
    events = []
    rows = zip(pools, codes, actions, chances, strict=True)
    for ticket, (x, numbers, places, shares) in enumerate(rows, first):
        if places[-1] < 0:  # empty slots come last
            places = places[: places.index(-1)]
        event = Decided(
            ticket=ticket,
            contexts=x,
            groups=[names[code] for code in numbers.tolist()],
            probabilities=shares[: len(x)],
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
    actions, waiting = np.full((1, n, m), -1), dict(state.waiting)
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
    return state.on(history, waiting, n, events[-1].ticket)


def decide_many(
    policy: Policy,
    state: State,
    pools: Sequence[Floats],
    labels: Sequence[Sequence[Any]],
    picks: int,
) -> tuple[State, list[Decided]]:
    """Decides N pools like N calls between which no reward comes; returns the later state."""
    codes, groups_at = list[Ints](), list[Codes]()
    groups, truth = state.groups, state.history.problem.truth
    for at, pool in enumerate(labels):
        with of_pool(at):
            numbers, more = coded(pool, groups)
            if more is not groups:
                check_known(policy, truth, more, len(groups))
        groups = more
        codes.append(numbers)
        groups_at.append(groups)
    sizes, events = np.array([len(pool) for pool in pools], np.int64), list[Decided]()
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


def apply(policy: Policy, state: State, event: Event, *, check: bool = False) -> State:
    """Returns the state after an event; with `check`, every decision is made again and compared."""
    if isinstance(event, Told):
        return _told(policy, state, event)
    assert not isinstance(event, Refreshed)
    if isinstance(event, Closed):
        return _closed(policy, state, event.ticket)
    if isinstance(event, Opened):
        _check("ticket", state.next_ticket, event.ticket)
        problem, law = state.history.problem, (event.places, event.count, event.candidates)
        openings = {**state.openings, event.ticket: Offers.new(problem, event.name, *law)}
        return state._replace(openings=openings).with_own(latest=event.ticket)
    if event.contexts is None:
        raise FairbanditError("contexts are left out, so the line cannot be replayed")
    if isinstance(event, Observed):
        return observed(policy, state, event)
    state, codes = with_groups(policy, state, event.groups)
    x = event.contexts
    if isinstance(event, Offered):
        state, would = offered(policy, state, event.ticket, x, codes)
        _check("taken", would.taken, event.taken)
        _check("probability", would.probability, event.probability)
        return state
    _check("ticket", state.next_ticket, event.ticket)
    if check:
        picks = event.places or len(event.picks)
        state, (decided,) = decide(policy, state, [x], [codes], picks)
        _check("picks", decided.picks, event.picks)
        _check("probabilities", decided.probabilities, event.probabilities)
    else:
        state = opened(policy, state, [x], [codes])
    state = moved(policy, state, [event])
    if early := state.early.get(event.ticket):
        state = state._replace(early=_without(state.early, event.ticket))
        for told in early:
            state = applied(policy, state, told, f"worker {state.worker}")
    return state


def applied(policy: Policy, state: State, event: Line, where: str, check: bool = False) -> State:
    """Returns the state after an event of a log, beside other workers.

    A worker does not know what others reported about its decisions. An event about a decision that
    no longer fits is therefore left out, with a notice, if there are other workers.
    """
    try:
        return apply(policy, state, event, check=check)  # type: ignore[arg-type]
    except FairbanditError as error:
        if len(state.workers) == 1 or not isinstance(event, Told):
            raise
        remark(f"{where}: the event is left out: {error}")
        return state


def _check(name: str, value: Any, logged: Any) -> None:
    """Raises an error for a value that differs in the replay, where floats may be rounded.

    Pools that were decided together are decided one by one in the replay.
    """
    same = value == logged
    if not same and name.startswith("probabilit"):
        parts = np.atleast_1d(value), np.atleast_1d(logged)
        same = len(parts[0]) == len(parts[1]) and np.abs(parts[0] - parts[1]).max() <= SUMS
    if not same:
        raise FairbanditError(f"{name} is {value} in the replay, and {logged} in the log")


def _without(values: Mapping[int, Any], ticket: int) -> dict[int, Any]:
    rest = dict(values)
    rest.pop(ticket, None)
    return rest


def _told(policy: Policy, state: State, event: Told) -> State:
    """Returns the state after an event about an earlier decision.

    The event is kept for later if another worker made the decision, and this state lacks it.
    """
    ticket = event.ticket
    if ticket not in state.waiting and state.is_early(ticket):
        plain: Told = msgspec.structs.replace(event, time=None, previous=None)
        return state._replace(early={**state.early, ticket: (*state.early.get(ticket, ()), plain)})
    if isinstance(event, Rewarded):
        return _rewarded(policy, state, event)
    waiting = state.find(ticket)
    if ticket in state.openings:
        raise FairbanditError(f"ticket {ticket} is of an open opening: close it first")
    if isinstance(event, Taken):
        return after_taken(state, waiting, event)
    return state._replace(waiting=_without(state.waiting, ticket))


def _rewarded(policy: Policy, state: State, event: Rewarded) -> State:
    """Returns the state after rewards; rewards of an open opening are held until it is closed."""
    ticket, waiting, rewards = event.ticket, state.find(event.ticket), event.rewards
    if not isinstance(rewards, dict):
        if len(waiting.places) > 1:
            raise FairbanditError(f"ticket {ticket} has several picks, and one reward was reported")
        rewards = {waiting.places[0]: rewards}
    left = waiting.without(rewards)
    if (offers := state.openings.get(ticket)) is not None:
        offers = offers._replace(held={**offers.held, **rewards})
        state = state._replace(openings={**state.openings, ticket: offers})
        _closed(policy, state, ticket)  # a trial: later, the opening can be closed
        return state
    places, received = [*rewards], np.array([[*rewards.values()]], np.float64)
    x, codes = waiting.contexts[places], waiting.codes[places]
    parts = np.full(len(places), waiting.round), x[None], codes[None], received
    history = tell_checked(policy, state.history, Outcomes(*map(torch.from_numpy, parts)))
    forms = [*state.groups]
    pool = ticket, [forms[code] for code in waiting.codes.tolist()], waiting.contexts
    picks = zip(places, received[0].tolist(), strict=True)
    items = dict[int, int]()
    for place, bits in zip(places, received.view(np.int64)[0].tolist(), strict=True):
        items[key(ticket, "place", place)] = bits
        items[key(ticket, "slot", waiting.places.index(place))] = bits
    state = state.learned_from([pick_key(*pool, *pick) for pick in picks], items)
    rest = dict(state.waiting)
    if left or waiting.recommended:
        rest[ticket] = waiting._replace(open=left)
    else:
        del rest[ticket]
    return state._replace(history=history, waiting=rest)


def offered(
    policy: Policy, state: State, ticket: int, contexts: Floats, codes: Ints
) -> tuple[State, Offer]:
    """Decides about the next candidate of an opening, (1, d) and (1,)."""
    pool = torch.from_numpy(contexts)[None, None], torch.from_numpy(codes)[None, None]
    ranked = policy.considered(state.numbered, *pool)
    offers, offer = state.openings[ticket].offered(policy.selector, ranked, ticket)
    return state._replace(openings={**state.openings, ticket: offers}), offer


def _closed(policy: Policy, state: State, ticket: int) -> State:
    """Returns the state with an opening as its next round, and with its early rewards."""
    offers = state.openings[ticket]
    state = state._replace(openings=_without(state.openings, ticket))
    if not offers.n:
        return state
    (x, codes), picks = offers.rows, offers.picks
    at = opened(policy, state, [x], [codes])
    actions = torch.tensor(picks, dtype=torch.int64)[None, None]
    history, waiting = policy.close(at.history, Selection.of(actions)), dict(state.waiting)
    if picks:
        waiting[ticket] = Waiting(history.rounds, state.own.rounds + 1, x, codes, picks, picks)
    state = state.on(history, waiting, 1, ticket)
    held = dict(offers.held)
    return _rewarded(policy, state, Rewarded(ticket=ticket, rewards=held)) if held else state
