"""The steps of an agent's state: decisions, reports about them, and the candidates of openings.

A call of an agent takes such a step, appends its event to the log and only then assigns the new
state; a replay takes the same steps for the logged events, by `fold.apply`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from msgspec.structs import replace

from fairbandit.agent.inputs import Pool
from fairbandit.agent.offers import Offer
from fairbandit.agent.state import State, Told, Waiting, grown, hashed
from fairbandit.errors import FairbanditError
from fairbandit.history import History, Outcomes
from fairbandit.logs import Floats, Ints
from fairbandit.logs.events import Decided, Dropped, Rewarded, Taken
from fairbandit.logs.log import padded, pick_key
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.splits.base import refresh_numbers
from fairbandit.tables.labels import Codes

TRIED_SIZE, TRIED_SIZE_OF_REFITS = 1e3, 1e6
"""Outcomes with a larger feature are tried before they are added. Estimators that refit have the
second limit, and are tried with all outcomes."""


class Decision(NamedTuple):
    """The picks of an agent in one round.

    Attributes:
        candidate: the index of the pick, or of the first pick, in its pool, from 0; −1 if the
            selector picked no candidate, as `rolling` may.
        ticket: the round's number, from 1, by which its reward is reported.
        propensity: the probability of the pick, given the past and the round's draws of the
            estimator and the rank.
        picks: all picks, in order of preference.
        propensities: the probability of each pick to be among the picks.
    """

    candidate: int
    ticket: int
    propensity: float
    picks: tuple[int, ...]
    propensities: tuple[float, ...]

    @classmethod
    def of(cls, event: Decided) -> Self:
        """Returns the decision of an event."""
        picks, ticket = event.picks, event.ticket
        if not picks:
            return cls(-1, ticket, math.nan, (), ())
        shares = tuple(map(event.probabilities.__getitem__, picks))
        return cls(picks[0], ticket, shares[0], picks, shares)


def opened(
    policy: Policy, state: State, sizes: Sequence[int] | Ints, contexts: Floats, codes: Ints
) -> State:
    """Returns a state with n pools as the open block; candidates are rows, pool after pool."""
    if len(sizes) == 1:
        x, g = contexts[None], codes[None]
    else:
        x, g = (padded(np.array(sizes), *rows) for rows in ((contexts, 0.0), (codes, -1)))
    history = policy.open(state.history, torch.from_numpy(x)[None], torch.from_numpy(g)[None])
    return state._replace(history=history)


def decide(
    policy: Policy,
    state: State,
    groups: Codes,
    pools: Sequence[Pool],
    codes: Sequence[Ints],
    picks: int,
) -> tuple[State, list[Decided]]:
    """Decides N pools as the next rounds; returns them as the open block, and the decisions.

    `codes` are the numbers of the candidates' groups among all `groups` so far.
    """
    if groups is not state.groups:
        state = grown(policy, state, groups)
    sizes, rows = [len(codes[0])], (pools[0].contexts, codes[0])
    if len(pools) > 1:
        contexts, _, _ = zip(*pools, strict=True)
        sizes, rows = [*map(len, codes)], (np.concatenate(contexts), np.concatenate(codes))
    at = opened(policy, state, sizes, *rows)
    if len(pools) > 1:
        at = at._replace(history=at.history._replace(rewards_pending=True))
    m = min(picks, sizes[0])
    selection = policy.propose(at.numbered if state.openings else at.history, m)
    [actions], [chances] = selection.actions.tolist(), selection.inclusion.tolist()
    spellings, events = groups.spellings, list[Decided]()
    decided = zip(pools, codes, actions, chances, strict=True)
    for ticket, (pool, numbers, places, shares) in enumerate(decided, state.next_ticket):
        if places[-1] < 0:  # empty slots come last
            places = places[: places.index(-1)]
        event = Decided(
            ticket=ticket,
            contexts=pool.contexts,
            rows=pool.rows,
            groups=[*map(spellings.__getitem__, numbers.tolist())],
            probabilities=shares[: len(numbers)],
            picks=tuple(places),
            places=m if round(math.fsum(shares) - m, 6) else None,  # some may stay open
        )
        events.append(event)
    return at, events


def moved(policy: Policy, state: State, events: Sequence[Decided]) -> State:
    """Returns the state after the decisions about the pools of its open block."""
    block, n, m, ids = state.history.block, len(events), 1, dict[int, int]()
    for event in events:
        m = max(m, len(event.picks))
        if event.id is not None:
            ids[hashed(("id", event.id))[0]] = event.ticket
    actions, waiting = np.full((1, n, m), -1), dict[int, Waiting]()
    codes, turn = block.groups[0].numpy(), state.workers[state.worker].rounds
    for at, event in enumerate(events):
        if picks := event.picks:
            assert event.contexts is not None
            pool = event.contexts, codes[at, : len(event.contexts)]
            if n > 1:  # views keep the block in memory
                pool = pool[0].copy(), pool[1].copy()
            taken, recommended = ((), picks) if state.shadow else (picks, ())
            actions[0, at, : len(taken)] = taken
            rounds = block.first + at, turn + at + 1
            waiting[event.ticket] = Waiting(*rounds, *pool, picks, taken, recommended)
    history = policy.close(state.history, Selection.of(torch.from_numpy(actions)))
    state = state.after(waiting, rounds=n, latest=events[-1].ticket, history=history)
    return state._replace(remembered=state.remembered.plus(ids)) if ids else state


def tell_checked(policy: Policy, history: History, outcomes: Outcomes) -> History:
    """Adds outcomes to the history; raises an error if a later call could not process them."""
    history = policy.tell(history, outcomes)
    refits = "rewards" in policy.estimator.needs
    tried = history.outcomes if refits else outcomes
    largest = float(torch.linalg.vector_norm(tried.contexts, torch.inf))
    if largest <= (TRIED_SIZE_OF_REFITS if refits else TRIED_SIZE) or not policy.learns:
        return history
    if not refits:  # a trial of outcomes that wait
        policy.estimator.advance(history.state, outcomes)
        return history
    # a trial of the models of later rounds, as if no further reward came, one round at a time
    t = history.rounds + 1
    trained = np.arange(max(history.n_state, policy.n_train(t), int(outcomes.rounds[0])), t)
    if policy.refresh is not None:
        numbers = refresh_numbers(policy.refresh, t)
        trained = np.unique(numbers[numbers.searchsorted(trained)])
    for number in trained.tolist():
        plan = policy.plan(max(t, number + 1), 1)
        policy.estimator.models(history, plan._replace(n_train=np.array([number])))
    return history


def told(policy: Policy, state: State, event: Told, decision: Waiting | None) -> State:
    """Returns the state after an event about a decision, which is given if it waits for rewards.

    Rewards of an open opening are held until it is closed.
    """
    ticket = event.ticket
    if decision is None and state.is_early(ticket):
        return state._replace(early=(*state.early, replace(event, time=None, previous=None)))
    decision = decision or state.find(ticket)
    if not isinstance(event, Rewarded) and ticket in state.openings:
        raise FairbanditError(f"ticket {ticket} is of an open opening: close it first")
    if isinstance(event, Dropped):
        return state.after({ticket: None})
    if isinstance(event, Taken):
        return _taken(state, decision, event)
    rewards, left = event.rewards, list(decision.open)
    if not left:
        raise FairbanditError(
            f"ticket {ticket}: say first who was taken, by agent.taken({ticket}, candidate)"
        )
    if not isinstance(rewards, dict):
        if len(decision.places) > 1:
            raise FairbanditError(f"ticket {ticket} has several picks, and one reward was reported")
        rewards = {decision.places[0]: rewards}
    for place in rewards:
        if place not in left:
            raise FairbanditError(
                f"candidate {place} of ticket {ticket} does not wait for a reward; waiting "
                f"candidates: {', '.join(map(str, decision.open))}"
            )
        left.remove(place)
    if (offers := state.openings.get(ticket)) is not None:
        offers = offers._replace(held={**offers.held, **rewards})
        state = state._replace(openings={**state.openings, ticket: offers})
        closed(policy, state, ticket)  # a trial: later, the opening can be closed
        return state
    places, received = [*rewards], np.array([[*rewards.values()]], np.float64)
    x, codes = decision.contexts[places], decision.codes[places]
    parts = np.full(len(places), decision.round), x[None], codes[None], received
    history = tell_checked(policy, state.history, Outcomes(*map(torch.from_numpy, parts)))
    forms, items = [*state.groups], dict[int, int]()
    labels = [*map(forms.__getitem__, decision.codes.tolist())]
    for place, bits in zip(places, received.view(np.int64)[0].tolist(), strict=True):
        items[pick_key(ticket, labels, decision.contexts, place, rewards[place])] = 0
        slot = decision.places.index(place)
        items |= dict.fromkeys(hashed((ticket, "place", place), (ticket, "slot", slot)), bits)
    waits = left or decision.recommended
    return state.after(
        {ticket: decision._replace(open=tuple(left)) if waits else None},
        history=history,
        learned=state.learned + len(places),
        remembered=state.remembered.plus(items),
    )


def _taken(state: State, decision: Waiting, event: Taken) -> State:
    """Returns the state after a person took a candidate in place of a pick."""
    ticket, new, old = event.ticket, event.candidate, event.instead
    places, k = (*decision.open, *decision.recommended), len(decision.codes)
    if old not in places:
        raise FairbanditError(
            f"candidate {old} of ticket {ticket} was not picked, or has a reward already; instead: "
            f"expected one of {', '.join(map(str, places))}"
        )
    if new >= k or (new != old and new in decision.places):
        raise FairbanditError(
            f"candidate {new} of ticket {ticket} is picked already, or is not one of the {k} in "
            "the pool"
        )
    group, before = int(decision.codes[new]), int(decision.codes[old])
    history = state.history.with_other_pick(group, before if old in decision.open else None)
    held = {*decision.open, new} - ({old} - {new})
    order = tuple(new if place == old else place for place in decision.places)
    decision = decision._replace(
        places=order,
        open=tuple(place for place in order if place in held),
        recommended=tuple(place for place in decision.recommended if place != old),
    )
    return state.after({ticket: decision}, history=history)


def offered(
    policy: Policy, state: State, ticket: int, contexts: Floats, codes: Ints
) -> tuple[State, Offer]:
    """Decides about the next candidate of an opening, (1, d) and (1,)."""
    pool = torch.from_numpy(contexts)[None, None], torch.from_numpy(codes)[None, None]
    ranked = policy.considered(state.numbered, *pool)
    offers, offer = state.openings[ticket].offered(policy.selector, ranked, ticket)
    return state._replace(openings={**state.openings, ticket: offers}), offer


def closed(policy: Policy, state: State, ticket: int) -> State:
    """Returns the state with an opening as its next round, and with its early rewards."""
    openings = dict(state.openings)
    offers = openings.pop(ticket)
    state = state._replace(openings=openings)
    if not offers.n:
        return state
    (x, codes), picks = offers.rows, offers.picks
    history = opened(policy, state, [len(codes)], x, codes).history
    actions = torch.tensor(picks, dtype=torch.int64)[None, None]
    history, decision = policy.close(history, Selection.of(actions)), None
    if picks:
        decision = Waiting(history.rounds, state.own.rounds + 1, x, codes, picks, picks)
    waiting = {ticket: decision} if decision else {}
    state = state.after(waiting, rounds=1, latest=ticket, history=history)
    if not offers.held:
        return state
    return told(policy, state, Rewarded(ticket=ticket, rewards=dict(offers.held)), decision)
