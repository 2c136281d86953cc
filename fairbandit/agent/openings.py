"""Openings: places that an agent fills from candidates who come one at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self, cast

from fairbandit.agent import inputs, learning
from fairbandit.agent.blocks import LabelledPools
from fairbandit.agent.calls import Committing, Now, call
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.offers import Offer, Offers
from fairbandit.errors import FairbanditError, shown
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Rolling
from fairbandit.selectors.stopping import hazards

_log = logging.getLogger("fairbandit")


class Opening:
    """Places of an agent that are filled from candidates who come one at a time.

    An opening is part of the agent's state: it is saved, logged and replayed with it, and
    `agent.round(name)` goes on with it, also in another process. As a context manager, an opening
    is closed at the end of a block that raises no error.

    Attributes:
        name: the name of the opening; an agent may have several at once.
        ticket: the ticket for the rewards of its picks.
    """

    def __init__(self, agent: Openings, name: str, ticket: int) -> None:
        self._agent, self.name, self.ticket = agent, name, ticket

    def offer(self, context: Any, group: Hashable) -> Offer:
        """Decides about the next candidate, who is taken or let go for good.

        Args:
            context: the candidate's features, (d,), or a raw row, a mapping.
            group: the label of the candidate's group, known or new.

        Raises:
            FairbanditError: an invalid candidate, or the opening is closed.
        """
        return self._agent._offer(self.ticket, context, group)

    def explain(self, context: Any, group: Hashable) -> Explanation:
        """Explains how `offer` would decide about a candidate now, without changing anything."""
        return self._agent._explain(self.ticket, context, group)

    def close(self) -> None:
        """Ends the opening: its candidates become one round, and feed the ranks of later rounds."""
        self._agent._close(self.ticket)

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
    _pool: Callable[..., tuple[Now, LabelledPools, int]]

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
        before, selector = self._now, cast(Rolling, self._policy.selector)
        if not selector.sequential:
            raise FairbanditError(
                f"{selector} picks from whole pools; candidates who come one at a time need the "
                "selector rolling or secretary, as in the policy fair_rolling"
            )
        begins = any(argument is not None for argument in (places, candidates, count))
        if not isinstance(name, str) or (begins and name in self.openings):
            raise FairbanditError(
                f"expected the name of a new opening, got {shown(name)}; agent.round(name) alone "
                "goes on with an open one"
            )
        if not begins:
            return Opening(self, name, self._offers(name)[0])
        places = inputs.whole(places, "places", 1, inputs.MOST)
        count = selector.count if count is None else count
        if not isinstance(count, str):
            count = inputs.numbers(count, "count").tolist()
        elif candidates is None:
            candidates = selector.candidates
        if candidates is not None:
            candidates = inputs.whole(candidates, "candidates")
        offers = Offers.new(before.history.problem, name, places, count, candidates)
        ticket = before.next_ticket
        now = before._replace(
            openings={**before.openings, ticket: offers},
            tickets=before.tickets._replace(latest=ticket),
        )
        law = {"places": places, "count": count, "candidates": candidates}
        self._commit(before, now, {"kind": "opened", "ticket": ticket, "name": name, **law})
        return Opening(self, name, ticket)

    @property
    @call
    def openings(self) -> tuple[str, ...]:
        """The names of the openings that are not closed."""
        return tuple(offers.name for offers in self._now.openings.values())

    @call
    def _offer(self, ticket: int, context: Any, group: Hashable) -> Offer:
        before, (_, offers) = self._now, self._offers(ticket)
        now, pool, _ = self._pool([context], [group], 1)
        ranked = self._policy.considered(now.numbered(now.history), *pool.tensors)
        place, law = offers.n, hazards(offers.law, offers.candidates)
        if place == len(law) and law[-1] == 0:
            _log.warning(
                "opening %r: more candidates come than the %d of its law; they are taken while "
                "places are left",
                offers.name,
                place,
            )
        offers, course = offers.offered(cast(Rolling, self._policy.selector), ranked)
        taken, probability, threshold, to_come = (part.item() for part in course)
        rank = float(ranked.index.value)
        offer = Offer(
            bool(taken), place, ticket if taken else None, probability, rank, threshold, to_come
        )
        entry = {
            "kind": "offer",
            "ticket": ticket,
            "contexts": pool.contexts[0, 0].tolist(),
            "groups": pool.labels[0],
            "probabilities": [probability],
            "picks": [0] * offer.taken,
        }
        self._commit(before, now._replace(openings={**now.openings, ticket: offers}), entry)
        return offer

    @call
    def _explain(self, ticket: int, context: Any, group: Hashable) -> Explanation:
        (_, offers), (now, pool, _) = self._offers(ticket), self._pool([context], [group], 1)
        return explanation(self, now.numbered(now.history), pool, 1, offers)

    @call
    def _close(self, ticket: int) -> None:
        before, (_, offers) = self._now, self._offers(ticket)
        now = learning.after_opening(self._policy, before, ticket, self._patience)
        if open_ := offers.places - len(offers.picks):
            _log.warning(
                "opening %r: %d of %d places stay open after %d candidates",
                *(offers.name, open_, offers.places, offers.n),
            )
        self._commit(before, now, {"kind": "closed", "ticket": ticket})

    def _offers(self, key: int | str) -> tuple[int, Offers]:
        """Returns an opening by its ticket or its name, with its ticket."""
        for ticket, offers in self._now.openings.items():
            if key in (ticket, offers.name):
                return ticket, offers
        names = ", ".join(map(repr, self.openings)) or "none"
        what = shown(key) if isinstance(key, str) else f"of ticket {key}"
        raise FairbanditError(
            f"the opening {what} is not open; open ones: {names}; "
            "agent.round(name, places=…, candidates=…) begins one"
        )


def restored(state: Sequence[Mapping[str, Any]], now: Now) -> Now:
    """Returns the state of a loaded agent with its openings.

    Raises:
        ValueError: the openings do not fit the tickets.
    """
    openings = {o["ticket"]: Offers.restored(o, now.history.problem) for o in state}
    names, latest = {offers.name for offers in openings.values()}, now.tickets.latest or 0
    late = max(openings, default=0) > latest or not openings.keys().isdisjoint(now.tickets.picks)
    if len(names) < len(state) or late:
        raise ValueError("its openings do not fit its tickets")
    return now._replace(openings=openings)
