"""Openings: places that an agent fills from candidates who come one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import torch

from fairbandit.agent import inputs, learning
from fairbandit.agent.calls import Committing, Now, call
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.offers import Offer, Offers
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import shown
from fairbandit.maths.stopping import hazards
from fairbandit.policy import Policy
from fairbandit.selectors import Rolling

_log = logging.getLogger("fairbandit")


class Opening:
    """Places of an agent that are filled from candidates who come one at a time.

    An opening is part of the agent's state: it is saved, logged and replayed with it, and
    `agent.round(name)` goes on with it, also in another process. As a context manager, an opening
    is closed at the end of a block that raises no error.

    Attributes:
        name: the name of the opening; an agent may have several at once.
    """

    def __init__(self, agent: Openings, name: str) -> None:
        self._agent, self.name = agent, name

    def offer(self, context: Any, group: Hashable) -> Offer:
        """Decides about the next candidate, who is taken or let go for good.

        Args:
            context: the candidate's features, (d,), or a raw row, a mapping.
            group: the label of the candidate's group, known or new.

        Raises:
            FairbanditError: an invalid candidate, or the opening is closed.
        """
        return self._agent._offer(self.name, context, group)

    def explain(self, context: Any, group: Hashable) -> Explanation:
        """Explains how `offer` would decide about a candidate now, without changing anything."""
        return self._agent._explain(self.name, context, group)

    def close(self) -> None:
        """Ends the opening: its candidates become one round, and feed the ranks of later rounds."""
        self._agent._close(self.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()


class Openings(Committing):
    """The calls of an agent that concern openings.

    An opening is one round, which takes place when it is closed. Until then its candidates do not
    feed the ranks, not even of each other: all candidates of an opening are compared with earlier
    rounds, as in a simulation, where an opening is a pool in order of arrival. A reward that is
    reported before counts from the closing on. Each candidate is ranked by the knowledge at
    its arrival.
    """

    _policy: Policy
    _patience: int | None
    _pool: Callable[..., tuple[Now, inputs.Pools, int]]

    @call
    def round(
        self,
        name: str = "",
        *,
        places: int | None = None,
        candidates: int | None = None,
        count: Any = None,
    ) -> Opening:
        """Begins an opening, or goes on with an open one.

        Args:
            name: the name of the opening.
            places: the number of places of a new opening; None goes on with an open one.
            candidates, count: the law of the number of candidates, as for the selector `rolling`;
                None takes the parameters of the policy's selector.

        Raises:
            FairbanditError: an unknown opening or law, a name that is taken, or a policy that does
                not decide about candidates one at a time.
        """
        before, selector = self._now, self._policy.selector
        if not isinstance(selector, Rolling):
            raise FairbanditError(
                f"{selector} picks from whole pools; candidates who come one at a time need the "
                "selector rolling or secretary, as in the policy fair_rolling"
            )
        if places is None and candidates is None and count is None:
            self._offers(name)
            return Opening(self, name)
        if not isinstance(name, str) or name in before.openings:
            raise FairbanditError(
                f"expected the name of a new opening, got {shown(name)}; agent.round(name) alone "
                "goes on with an open one"
            )
        places = inputs.whole(places, "places", 1, inputs.MOST)
        count = selector.count if count is None else count
        count = count if isinstance(count, str) else inputs.listed(count, "count")
        if candidates is None and isinstance(count, str):
            candidates = selector.candidates
        ticket = before.next_ticket
        offers = Offers.new(ticket, places, count, candidates, before.known.problem)
        openings = {**before.openings, name: offers}
        now = before._replace(openings=openings, tickets=before.tickets._replace(latest=ticket))
        law = {"places": places, "count": count, "candidates": candidates}
        self._commit(before, now, {"kind": "opened", "ticket": ticket, "name": name, **law})
        return Opening(self, name)

    @property
    @call
    def openings(self) -> tuple[str, ...]:
        """The names of the openings that are not closed."""
        return tuple(self._now.openings)

    @call
    def _offer(self, name: str, context: Any, group: Hashable) -> Offer:
        before, offers = self._now, self._offers(name)
        now, pool, _ = self._pool([context], [group], 1)
        selector, t = self._policy.selector, now.known.past.rounds + 1
        assert isinstance(selector, Rolling)
        offers = offers.offered(
            selector, self._policy.ranked(now.numbered(now.known), t, pool.tensors)
        )
        last = [float(part[0, 0, -1]) for part in offers.course(selector)]
        taken, place, tickets = last[0] > 0, offers.n - 1, now.tickets
        law = hazards(offers.law, offers.candidates)
        if place == len(law) and law[-1] == 0:
            _log.warning(
                "opening %r: more candidates come than the %d of its law; they are taken while "
                "places are left",
                name,
                place,
            )
        if taken:
            tickets = tickets.take(offers.ticket, place, pool)
        rank = float(offers.ranks[0, -1])
        offer = Offer(taken, place, offers.ticket if taken else None, last[1], rank, *last[2:])
        entry = {
            "kind": "offer",
            "ticket": offers.ticket,
            "contexts": pool.contexts[0, 0].tolist(),
            "groups": pool.labels[0],
            "probabilities": [offer.probability],
            "picks": [0] * taken,
        }
        openings = {**now.openings, name: offers}
        self._commit(before, now._replace(openings=openings, tickets=tickets), entry)
        return offer

    @call
    def _explain(self, name: str, context: Any, group: Hashable) -> Explanation:
        offers, (now, pool, _) = self._offers(name), self._pool([context], [group], 1)
        return explanation(self, now.numbered(now.known), pool, 1, offers)

    @call
    def _close(self, name: str) -> None:
        before, offers = self._now, self._offers(name)
        openings = {key: other for key, other in before.openings.items() if key != name}
        now = before._replace(openings=openings)
        if offers.n:
            taken = offers.taken(self._policy)
            if open_ := offers.places - len(taken):
                _log.warning(
                    "opening %r: %d of %d places stay open after %d candidates; its law expected "
                    "others",
                    *(name, open_, offers.places, offers.n),
                )
            now = _closed(self._policy, now, offers, taken, self._patience)
        self._commit(before, now, {"kind": "closed", "ticket": offers.ticket})

    def _offers(self, name: str) -> Offers:
        if name not in self._now.openings:
            known = ", ".join(map(repr, self._now.openings)) or "none"
            raise FairbanditError(
                f"the opening {shown(name)} is not open; open ones: {known}; "
                "agent.round(name, places=…, candidates=…) begins one"
            )
        return self._now.openings[name]


def restored(state: Sequence[Mapping[str, Any]], now: Now) -> Now:
    """Returns the state of a loaded agent with its openings.

    Raises:
        ValueError: the openings do not fit the tickets.
    """
    openings = {o["name"]: Offers.restored(o, now.known.problem) for o in state}
    tickets = [offers.ticket for offers in openings.values()]
    waiting = {t for t, picks in now.tickets.picks.items() if not picks.round}
    if len({*tickets}) < len(state) or not waiting <= {*tickets}:
        raise ValueError("its openings do not fit its tickets")
    return now._replace(openings=openings)


def _closed(
    policy: Policy, now: Now, offers: Offers, taken: tuple[int, ...], patience: int | None
) -> Now:
    """Returns the agent's state with an opening as its next round, and with its early rewards."""
    pool = inputs.Pools(offers.contexts[:, None], offers.groups[:, None], now.groups)
    known = now.known._replace(past=now.known.past.with_pools(*pool.tensors))
    t = known.past.rounds
    known = policy.advance(known, pool.groups[..., torch.tensor(taken, dtype=torch.int64)])
    tickets, held = now.tickets.closed(offers.ticket, t, pool.keys[0])
    now = now._replace(known=known, tickets=tickets.give_up(t, patience))
    return learning.after_rewards(policy, now, offers.ticket, held) if held else now
