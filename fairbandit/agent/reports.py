"""Reports about earlier decisions: rewards, and the people who were taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbandit.agent.inputs import number, whole
from fairbandit.agent.state import State, Waiting, key
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs.events import TICKETS, Rewarded, Taken
from fairbandit.notices import remark


def reward_event(state: State, reward: Any, ticket: Any, candidate: Any) -> Rewarded | None:
    """Returns the event of a report, or None if it repeats an earlier one."""
    if ticket is None and not (ticket := state.own.latest % TICKETS and state.own.latest):
        raise FairbanditError("no decision waits for a reward: none was made so far")
    t = state.number_of(ticket)
    if _repeats(state, t, reward, candidate):
        remark(f"the reward of ticket {t} was reported before, and changes nothing")
        return None
    if t not in state.waiting and state.is_early(t):
        rewards = reward if candidate is None else {candidate: reward}
        if not isinstance(rewards, Mapping):
            return Rewarded(ticket=t, rewards=_reward(rewards, t))
        placed = {whole(place, "candidate"): _reward(one, t) for place, one in rewards.items()}
        return Rewarded(ticket=t, rewards=placed)
    waiting = state.find(t)
    if waiting.recommended and not waiting.open:
        raise FairbanditError(
            f"ticket {t}: say first who was taken, by agent.taken({t}, candidate)"
        )
    return Rewarded(ticket=t, rewards=_placed(waiting.places, waiting.open, t, reward, candidate))


def taken_event(
    state: State, ticket: Any, candidate: Any, instead: Any, by: Any, why: Any
) -> Taken:
    """Returns the event that a candidate was taken; see `Agent.taken`."""
    for what, text in (("by", by), ("why", why)):
        if text is not None and not isinstance(text, str):
            raise FairbanditError(f"{what}: expected a text, got {shown(text)}")
    t, place = state.number_of(ticket), whole(candidate, "candidate")
    if instead is None:
        places = state.find(t).places
        instead = place if place in places or len(places) > 1 else places[0]
    return Taken(ticket=t, candidate=place, instead=whole(instead, "instead"), by=by, why=why)


def after_taken(state: State, waiting: Waiting, event: Taken) -> State:
    """Returns the state after a person took a candidate in place of a pick."""
    ticket, new, old = event.ticket, event.candidate, event.instead
    places, k = (*waiting.open, *waiting.recommended), len(waiting.codes)
    if old not in places:
        raise FairbanditError(
            f"candidate {old} of ticket {ticket} was not picked, or has a reward already; instead: "
            f"expected one of {', '.join(map(str, places))}"
        )
    if new >= k or (new != old and new in waiting.places):
        raise FairbanditError(
            f"candidate {new} of ticket {ticket} is picked already, or is not one of the {k} in "
            "the pool"
        )
    group, before = int(waiting.codes[new]), int(waiting.codes[old])
    history = state.history.with_other_pick(group, before if old in waiting.open else None)
    held = {*waiting.open, new} - ({old} - {new})
    order = tuple(new if place == old else place for place in waiting.places)
    waiting = waiting._replace(
        places=order,
        open=tuple(place for place in order if place in held),
        recommended=tuple(place for place in waiting.recommended if place != old),
    )
    return state._replace(history=history, waiting={**state.waiting, ticket: waiting})


def _repeats(state: State, ticket: int, reward: Any, candidate: Any) -> bool:
    """Whether rewards of a decision that no longer waits for them are those it had."""
    waiting = state.waiting.get(ticket)
    if waiting is not None and waiting.open == waiting.places:
        return False
    rewards = reward.tolist() if hasattr(reward, "tolist") else reward
    rewards = {candidate: rewards} if candidate is not None else rewards
    what = "place" if isinstance(rewards, Mapping) else "slot"
    if waiting is not None and (what == "slot" or not {*waiting.open}.isdisjoint(rewards)):
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


def _placed(
    places: Sequence[int], waiting: Sequence[int], ticket: int, reward: Any, candidate: Any
) -> float | dict[int, float]:
    """Returns the reward of a single pick, or rewards by place."""
    if len(places) == 1 and candidate is None and not isinstance(reward, Mapping):
        return _reward(reward, ticket)
    rewards = reward.tolist() if hasattr(reward, "tolist") else reward
    if candidate is not None:
        rewards = {whole(candidate, "candidate"): reward}
    elif isinstance(rewards, (list, tuple)) and len(rewards) == len(places):
        rewards = dict(zip(places, rewards, strict=True))
    if not isinstance(rewards, Mapping) or not rewards:
        raise FairbanditError(
            f"ticket {ticket} has {len(places)} picks: name the candidate of a reward, "
            f"update(reward, ticket, candidate={places[0]}), or give a list with all rewards "
            f"in the order of decision.picks; got {shown(reward)}"
        )
    if wrong := [place for place in rewards if place not in waiting]:
        raise FairbanditError(
            f"candidate {shown(wrong[0])} of ticket {ticket} does not wait for a reward; "
            f"waiting candidates: {', '.join(map(str, waiting))}"
        )
    return {int(place): _reward(given, ticket) for place, given in rewards.items()}


def _reward(given: Any, ticket: int) -> float:
    try:
        return number(given, "reward")
    except FairbanditError as error:
        raise FairbanditError(
            f"{error}; a ticket whose reward is not known waits until agent.drop({ticket})"
        ) from error
