"""The fold of events: the next state of an agent.

`apply` returns the state after an event. A call of an agent makes an event, applies it, appends it
to the log and only then assigns the new state; a replay applies the logged events in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import torch

from fairbandit.agent.inputs import Pool, number, whole
from fairbandit.agent.offers import Offer, Offers
from fairbandit.agent.rounds import decide, moved, observed, opened, tell_checked
from fairbandit.agent.state import State, Told, Waiting, key, with_groups
from fairbandit.errors import FairbanditError, shown
from fairbandit.estimators.ties import SUMS
from fairbandit.history import Outcomes
from fairbandit.logs import Floats, Ints
from fairbandit.logs import events as logged
from fairbandit.logs.chain import LoggedLine, of_line
from fairbandit.logs.log import pick_key
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection


def apply(policy: Policy, state: State, event: logged.Event, *, check: bool = False) -> State:
    """Returns the state after an event; with `check`, every decision is made again and compared."""
    if isinstance(event, Told):
        return _told(policy, state, event)
    if isinstance(event, logged.Closed):
        return _closed(policy, state, event.ticket)
    if isinstance(event, logged.Opened):
        _check("ticket", state.next_ticket, event.ticket)
        problem, law = state.history.problem, (event.places, event.count, event.candidates)
        openings = {**state.openings, event.ticket: Offers.new(problem, event.name, *law)}
        return state._replace(openings=openings).with_own(latest=event.ticket)
    assert not isinstance(event, logged.Refreshed)
    if event.contexts is None:
        raise FairbanditError("contexts are left out, so the line cannot be replayed")
    if isinstance(event, logged.Observed):
        return observed(policy, state, event)
    state, codes = with_groups(policy, state, event.groups)
    if isinstance(event, logged.Offered):
        state, would = offered(policy, state, event.ticket, event.contexts, codes)
        _check("taken", would.taken, event.taken)
        _check("probability", would.probability, event.probability)
        return state
    _check("ticket", state.next_ticket, event.ticket)
    if check:
        pool, picks = Pool(event.contexts, event.groups), event.places or len(event.picks)
        state, (decided,) = decide(policy, state, [pool], [codes], picks)
        _check("picks", decided.picks, event.picks)
        _check("probabilities", decided.probabilities, event.probabilities)
    else:
        state = opened(policy, state, [len(codes)], event.contexts, codes)
    state = moved(policy, state, [event])
    early = dict(state.early)
    for told in early.pop(event.ticket, ()):
        state = _fitting(policy, state._replace(early=early), told, f"worker {state.worker}")
    return state


def after_line(policy: Policy, state: State, line: LoggedLine, check: bool = False) -> State:
    """Returns the state after a line of its worker's log; a header or a `Refreshed` is skipped."""
    with of_line(line.where), torch.inference_mode():
        if not isinstance(line.event, logged.Header | logged.Refreshed):
            state = _fitting(policy, state, line.event, line.where, check)
    return state.with_own(log=line.at)


def _fitting(policy: Policy, state: State, event: Any, where: str, check: bool = False) -> State:
    """Returns the state after an event of a log, beside other workers.

    A worker does not know what others reported about its decisions. An event about a decision that
    no longer fits is therefore left out, with a notice, if there are other workers.
    """
    try:
        return apply(policy, state, event, check=check)
    except FairbanditError as error:
        if len(state.workers) == 1 or not isinstance(event, Told):
            raise
        remark(f"{where}: the event is left out: {error}")
        return state


def _check(name: str, value: Any, written: Any) -> None:
    """Raises an error for a value that differs in the replay, where floats may be rounded.

    Pools that were decided together are decided one by one in the replay.
    """
    same = value == written
    if not same and name.startswith("probabilit"):
        parts = np.atleast_1d(value), np.atleast_1d(written)
        same = len(parts[0]) == len(parts[1]) and np.abs(parts[0] - parts[1]).max() <= SUMS
    if not same:
        raise FairbanditError(f"{name} is {value} in the replay, and {written} in the log")


def _told(policy: Policy, state: State, event: Told) -> State:
    """Returns the state after an event about an earlier decision."""
    ticket = event.ticket
    decision = state.waits(ticket)
    if decision is None and state.is_early(ticket):  # the decision is not known yet
        plain: Told = msgspec.structs.replace(event, time=None, previous=None)
        events = *state.early.get(ticket, ()), plain
        return state._replace(early={**state.early, ticket: events})
    decision = decision or state.find(ticket)
    if isinstance(event, logged.Rewarded):
        return _rewarded(policy, state, decision, event)
    if ticket in state.openings:
        raise FairbanditError(f"ticket {ticket} is of an open opening: close it first")
    if isinstance(event, logged.Taken):
        return _taken(state, decision, event)
    return state.with_waiting({ticket: None})


def _rewarded(policy: Policy, state: State, decision: Waiting, event: logged.Rewarded) -> State:
    """Returns the state after rewards; rewards of an open opening are held until it is closed."""
    ticket, rewards = event.ticket, event.rewards
    if not isinstance(rewards, dict):
        if len(decision.places) > 1:
            raise FairbanditError(f"ticket {ticket} has several picks, and one reward was reported")
        rewards = {decision.places[0]: rewards}
    places = [*rewards]
    if not {*places} <= {*decision.open}:
        raise FairbanditError(f"candidates {places} do not all wait for a reward")
    if (offers := state.openings.get(ticket)) is not None:
        offers = offers._replace(held={**offers.held, **rewards})
        state = state._replace(openings={**state.openings, ticket: offers})
        _closed(policy, state, ticket)  # a trial: later, the opening can be closed
        return state
    received = np.array([[*rewards.values()]], np.float64)
    x, codes = decision.contexts[places], decision.codes[places]
    parts = np.full(len(places), decision.round), x[None], codes[None], received
    history = tell_checked(policy, state.history, Outcomes(*map(torch.from_numpy, parts)))
    forms, items, left = [*state.groups], dict[int, int](), list(decision.open)
    labels = [*map(forms.__getitem__, decision.codes.tolist())]
    for place, bits in zip(places, received.view(np.int64)[0].tolist(), strict=True):
        items[pick_key(ticket, labels, decision.contexts, place, rewards[place])] = 0
        items[key(ticket, "place", place)] = bits
        items[key(ticket, "slot", decision.places.index(place))] = bits
        left.remove(place)
    state = state._replace(
        history=history,
        learned=state.learned + len(places),
        remembered=state.remembered.plus(items),
    )
    waits = left or decision.recommended
    return state.with_waiting({ticket: decision._replace(open=tuple(left)) if waits else None})


def _taken(state: State, decision: Waiting, event: logged.Taken) -> State:
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
    return state._replace(history=history).with_waiting({ticket: decision})


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
    openings = dict(state.openings)
    offers = openings.pop(ticket)
    state = state._replace(openings=openings)
    if not offers.n:
        return state
    (x, codes), picks = offers.rows, offers.picks
    at = opened(policy, state, [len(codes)], x, codes)
    actions = torch.tensor(picks, dtype=torch.int64)[None, None]
    history, waiting = policy.close(at.history, Selection.of(actions)), dict[int, Waiting]()
    if picks:
        turn = state.own.rounds + 1
        waiting[ticket] = Waiting(history.rounds, turn, x, codes, picks, picks)
    state = state.after(history, 1, waiting, ticket)
    if not offers.held:
        return state
    held = logged.Rewarded(ticket=ticket, rewards=dict(offers.held))
    return _rewarded(policy, state, waiting[ticket], held)


def named(state: State, event: logged.Decided, id: Any, about: Any) -> logged.Decided:
    """Returns a new decision with the caller's id and remarks."""
    if id is not None and (not isinstance(id, str) or not id):
        raise FairbanditError(f"id: expected a text, as in str(id), got {shown(id)}")
    if id is not None and state.remembered.get(key("id", id)) is not None:
        raise FairbanditError(f"the id {shown(id)} belongs to an earlier decision")
    try:
        about = msgspec.convert(about, dict[str, logged.Cell] | None)
    except msgspec.ValidationError as error:
        raise FairbanditError(f"about: {error}; got {shown(about)}") from error
    return msgspec.structs.replace(event, id=id, about=about)


def reward_event(state: State, reward: Any, ticket: Any, candidate: Any) -> logged.Rewarded | None:
    """Returns the event of a report; None if the report repeats an earlier report."""
    if ticket is None and not (ticket := state.own.latest % logged.TICKETS and state.own.latest):
        raise FairbanditError("no decision waits for a reward: none was made so far")
    t = state.number_of(ticket)
    decision = state.waits(t)
    rewards = reward.tolist() if hasattr(reward, "tolist") else reward
    if candidate is not None:
        rewards = {whole(candidate, "candidate"): rewards}
    complete = decision is not None and decision.open == decision.places
    if not complete and _repeats(state, t, decision, rewards):
        remark(f"the reward of ticket {t} was reported before, and changes nothing")
        return None
    if decision is not None or not state.is_early(t):
        decision = decision or state.find(t)
        places, open_places = decision.places, decision.open
        if decision.recommended and not open_places:
            raise FairbanditError(
                f"ticket {t}: say first who was taken, by agent.taken({t}, candidate)"
            )
        if isinstance(rewards, (list, tuple)) and len(rewards) == len(places) > 1:
            rewards = dict(zip(places, rewards, strict=True))
        if rewards == {} or (len(places) > 1 and not isinstance(rewards, Mapping)):
            raise FairbanditError(
                f"ticket {t} has {len(places)} picks: name the candidate of a reward, "
                f"update(reward, ticket, candidate={places[0]}), or give a list with all rewards "
                f"in the order of decision.picks; got {shown(reward)}"
            )
        if isinstance(rewards, Mapping):
            for place in rewards:
                if place not in open_places:
                    raise FairbanditError(
                        f"candidate {shown(place)} of ticket {t} does not wait for a reward; "
                        f"waiting candidates: {', '.join(map(str, open_places))}"
                    )
    if isinstance(rewards, Mapping):
        rewards = {whole(place, "candidate"): _reward(r, t) for place, r in rewards.items()}
        return logged.Rewarded(ticket=t, rewards=rewards)
    return logged.Rewarded(ticket=t, rewards=_reward(rewards, t))


def _repeats(state: State, ticket: int, decision: Waiting | None, rewards: Any) -> bool:
    """Whether rewards of a decision that no longer waits for them are those it had."""
    what = "place" if isinstance(rewards, Mapping) else "slot"
    if decision is not None and (what == "slot" or not {*decision.open}.isdisjoint(rewards)):
        return False
    if not isinstance(rewards, Mapping):
        rewards = dict(enumerate(rewards if isinstance(rewards, (list, tuple)) else [rewards]))
    bits = [state.remembered.get(key(ticket, what, place)) for place in rewards]
    if not bits or None in bits:
        return False
    known = np.array(bits, np.int64).view(np.float64).tolist()
    for before, value in zip(known, rewards.values(), strict=True):
        if number(value, "reward") != before:
            raise FairbanditError(
                f"ticket {ticket} does not wait for a reward: its reward was reported, and was "
                f"{before:g}; got {shown(value)}"
            )
    return True


def _reward(given: Any, ticket: int) -> float:
    try:
        return number(given, "reward")
    except FairbanditError as error:
        raise FairbanditError(
            f"{error}; a ticket whose reward is not known waits until agent.drop({ticket})"
        ) from error


def taken_event(
    state: State, ticket: Any, candidate: Any, instead: Any, by: Any, why: Any
) -> logged.Taken:
    """Returns the event that a candidate was taken; see `Agent.taken`."""
    for what, text in (("by", by), ("why", why)):
        if text is not None and not isinstance(text, str):
            raise FairbanditError(f"{what}: expected a text, got {shown(text)}")
    t, place = state.number_of(ticket), whole(candidate, "candidate")
    if instead is None:
        places = state.find(t).places
        instead = place if place in places or len(places) > 1 else places[0]
    return logged.Taken(
        ticket=t, candidate=place, instead=whole(instead, "instead"), by=by, why=why
    )
