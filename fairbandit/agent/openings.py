"""Openings: places that an agent fills from candidates who come one at a time."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from typing import Any, Self

from fairbandit.agent import inputs, steps
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.inputs import Pool
from fairbandit.agent.ledger import Ledger, call
from fairbandit.agent.offers import Offer, Offers
from fairbandit.agent.state import with_groups
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs.events import Closed, Offered, Opened
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

    def __init__(self, ledger: Ledger, name: str, ticket: int) -> None:
        self._ledger, self.name, self.ticket = ledger, name, ticket

    @call
    def offer(self, context: Any, group: Hashable = None) -> Offer:
        """Decides about the next candidate, who is taken or let go for good.

        Args:
            context: the candidate's features, (d,), or a raw row, a mapping.
            group: the label of the candidate's group, known or new; None reads it from a raw row,
                as in `Agent.act`.

        Raises:
            FairbanditError: an invalid candidate, or the opening is closed.
        """
        ledger, before, offers = self._ledger, self._ledger.state, self._offers()
        x, labels, rows = self._pool(context, group)
        state, codes = with_groups(ledger.policy, before, labels)
        law = hazards(offers.law, offers.candidates)
        if offers.n == len(law) and law[-1] == 0:
            text = "opening %r: more candidates come than the %d of its law; they are taken while "
            _log.warning(text + "places are left", self.name, offers.n)
        state, offer = steps.offered(ledger.policy, state, self.ticket, x, codes)
        event = Offered(
            ticket=self.ticket,
            contexts=x,
            rows=rows,
            groups=[state.groups.spellings[codes[0]]],
            probability=offer.probability,
            taken=offer.taken,
        )
        ledger.commit(before, state, event)
        return offer

    @call
    def explain(self, context: Any, group: Hashable = None) -> Explanation:
        """Explains how `offer` would decide about a candidate now, without changing anything."""
        return explanation(self._ledger, self._pool(context, group), 1, self._offers())

    @call
    def close(self) -> None:
        """Ends the opening: its candidates become one round, and feed the ranks of later rounds."""
        offers = self._offers()
        self._ledger.apply(Closed(ticket=self.ticket))
        if left := offers.places - len(offers.picks):
            text = "opening %r: %d of %d places stay open after %d candidates"
            _log.warning(text, self.name, left, offers.places, offers.n)

    def _pool(self, context: Any, group: Hashable) -> Pool:
        labels = None if group is None and isinstance(context, Mapping) else [group]
        return self._ledger.reader.pool([context], labels)

    def _offers(self) -> Offers:
        openings = self._ledger.state.openings
        if self.ticket not in openings:
            raise _not_open(f"of ticket {self.ticket}", openings)
        return openings[self.ticket]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()


def _not_open(what: str, openings: Mapping[int, Offers]) -> FairbanditError:
    return FairbanditError(
        f"the opening {what} is not open; open ones: "
        f"{', '.join(repr(offers.name) for offers in openings.values()) or 'none'}; "
        "agent.round(name, places=…, candidates=…) begins one"
    )


def begun(ledger: Ledger, name: str, places: Any, candidates: Any, count: Any) -> Opening:
    """Begins an opening, or goes on with an open one; see `Agent.round`."""
    state, selector = ledger.state, ledger.policy.selector
    if not isinstance(selector, Rolling):
        raise FairbanditError(
            f"{selector} picks from whole pools; candidates who come one at a time need the "
            "selector rolling, secretary or secretary_by_group, as in the policy fair_rolling"
        )
    begins = any(argument is not None for argument in (places, candidates, count))
    tickets = {offers.name: ticket for ticket, offers in state.openings.items()}
    if not isinstance(name, str) or (begins and name in tickets):
        raise FairbanditError(
            f"expected the name of a new opening, got {shown(name)}; agent.round(name) alone "
            "goes on with an open one"
        )
    if not begins:
        if name not in tickets:
            raise _not_open(repr(name), state.openings)
        return Opening(ledger, name, tickets[name])
    if state.shadow or state.worker or len(state.workers) > 1:
        raise FairbanditError(
            "an opening needs an agent alone: not in the shadow, and without other workers"
        )
    law: Any = selector.count if count is None else count
    if not isinstance(law, str):
        law = inputs.numbers(law, "count").tolist()
    elif candidates is None:
        candidates = selector.candidates
    n = None if candidates is None else inputs.whole(candidates, "candidates")
    m, ticket = inputs.whole(places, "places", 1, inputs.MOST), state.next_ticket
    ledger.apply(Opened(ticket=ticket, name=name, places=m, count=law, candidates=n))
    return Opening(ledger, name, ticket)
