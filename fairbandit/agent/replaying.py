"""Replays of an agent's log, which verify every line, and explain a decision in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from fairbandit.agent import files, fold
from fairbandit.agent.explaining import Explanation, explanation
from fairbandit.agent.inputs import Pool
from fairbandit.agent.ledger import Ledger
from fairbandit.errors import FairbanditError, shown
from fairbandit.logs.chain import LoggedLine, of_line, own_lines
from fairbandit.logs.events import Closed, Decided, Header, Offered, Refreshed, Rewarded, tickets_of
from fairbandit.policy.build import build_saved
from fairbandit.policy.policy import Policy
from fairbandit.version import VERSION

Saved = Path | str | Sequence[Path | str]


class Receipt(NamedTuple):
    """The result of a replay: numbers of lines, and the last hash, which covers all lines."""

    lines: int
    decisions: int
    rewards: int
    sha256: str


def replay(path: Path | str, agent: Saved | None = None, policy: Policy | None = None) -> Receipt:
    """Replays a log from its first line, and verifies every decision, probability and hash.

    Probabilities are compared up to rounding.

    Args:
        path: a log that an agent wrote.
        agent: the file of the saved agent with which the log began, if there is one; or a list
            with the files, too, that the worker took up later.
        policy: the policy, if it has parts that were made in Python; see `Agent.load`.

    Raises:
        FairbanditError: a line that is damaged or differs in the replay, or a log that cannot be
            replayed; the message names the first such line.
    """
    kinds = Counter[type]()
    for _, last in _lines(Path(path), agent, policy):
        kinds[type(last.event)] += 1
    decisions = kinds[Decided] + kinds[Closed]
    return Receipt(last.at.line, decisions, kinds[Rewarded], last.at.sha256)


def explain(
    path: Path | str,
    ticket: int | str,
    agent: Saved | None = None,
    policy: Policy | None = None,
    *,
    candidate: int = 0,
) -> Explanation:
    """Explains a logged decision, by a replay of all lines before it, and says who was picked.

    Args:
        path: a log that an agent wrote, with contexts.
        ticket: the ticket of the decision, or the id that it was given.
        agent, policy: as for `replay`.
        candidate: for an opening, the number of the candidate whose offer is explained, from 0.

    Raises:
        FairbanditError: as for `replay`, or the log does not have this decision.
    """
    for ledger, line in _lines(Path(path), agent, policy):
        event = line.event
        if not isinstance(event, Decided | Offered) or ticket not in tickets_of(event):
            continue
        offers, picks = None, 1
        if isinstance(event, Decided):
            places, picks = event.picks, event.places or len(event.picks)
        else:
            places, offers = (0,) * event.taken, ledger.state.openings[event.ticket]
        if event.contexts is not None and (offers is None or offers.n == candidate):
            pool = Pool(event.contexts, event.groups, event.rows)
            with torch.inference_mode():
                found = explanation(ledger, pool, picks, offers)
            picked = torch.zeros(len(event.groups), dtype=torch.bool)
            picked[list(places)] = True
            return replace(found, picked=picked)
    raise FairbanditError(
        f"{path} lacks a decision of ticket {shown(ticket)}, or candidate {candidate} of an opening"
    )


def _lines(
    path: Path, saved: Saved | None, policy: Policy | None
) -> Iterator[tuple[Ledger, LoggedLine]]:
    """Yields the lines of a log, the header first, each with the agent before it; replays each."""
    lines = own_lines(path)
    first = next(lines)
    header = first.event
    assert isinstance(header, Header)
    if header.erased:
        *_, last = first, *lines
        raise FairbanditError(
            f"{path}: every hash is right, but decisions were erased from the log, so it cannot be "
            f"replayed; the last hash is {last.at.sha256}"
        )

    def load(digest: str) -> Ledger:
        found = list[str]()
        for file in [saved] if isinstance(saved, (str, Path)) else saved or ():
            ledger = Ledger.load(Path(file), policy, header.worker)
            if ledger.digest == digest:
                return ledger
            found.append(f"{file} of SHA-256 {ledger.digest}")
        raise FairbanditError(
            f"the log goes on from a saved agent whose file has the SHA-256 {digest}; "
            + (f"got {', '.join(found)}" if found else "give it as agent=FILE")
        )

    try:
        with of_line(first.where):
            if header.agent is None:
                ledger = Ledger(build_saved(header.config, policy), **files.options(header.options))
            else:
                ledger = load(header.agent)
        yield ledger, first
        for line in lines:
            yield ledger, line
            if isinstance(line.event, Refreshed):
                with of_line(line.where):
                    state = load(line.event.agent).state
                    ledger.state, _ = fold.after_lines(ledger.policy, state, path, line.at.line)
            ledger.state = fold.after_line(ledger.policy, ledger.state, line, check=True)
    except FairbanditError as error:
        if header.version == VERSION:
            raise
        raise FairbanditError(
            f"{error} (the log is of version {header.version}; this is {VERSION})"
        ) from error
