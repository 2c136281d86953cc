"""What an agent learns from logs, and what it would do with many pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.agent import inputs
from fairbandit.agent.calls import Now
from fairbandit.environments.base import Truth
from fairbandit.labels import coded, normal
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.schema import pick_hashes, pool_key
from fairbandit.past import Knowledge, Outcomes
from fairbandit.policy import Policy
from fairbandit.streams import CHUNK_ROUNDS

UNUSUAL, LARGE = 1e3, 1e6
"""A context with a number above the first is tried before it is taken in; with one above the
second, together with all outcomes that wait before it, or that a model is fitted to."""

PIECE = 4 * CHUNK_ROUNDS
"""So many pools are taken in, or judged, at once."""


def taken_in(policy: Policy, known: Knowledge, outcomes: Outcomes) -> Knowledge:
    """What is known with further outcomes; one that a later call cannot take in is refused."""
    known = policy.tell(known, outcomes)
    included, state = known.trained, known.state
    anew = "rewards" in policy.estimator.needs
    seen = known.past.outcomes if anew else outcomes
    largest = float(torch.linalg.vector_norm(seen.contexts, torch.inf))
    if largest <= (LARGE if anew else UNUSUAL) or not policy.learns:
        return known
    # trials, whose results are not used: later rounds take in the first n of all that wait
    if int(outcomes.rounds[-1]) > included:
        policy.estimator.advance(state, outcomes)
        if largest > LARGE:
            waiting = known.past.outcomes
            (before,) = waiting.counts([int(outcomes.rounds[0]) - 1])
            for n in range(before + 1, waiting.n + 1):
                policy.estimator.advance(state, waiting.rows(0, n))
    # and the models of later rounds if no further reward came, each as for a single round
    t = known.past.rounds + 1
    trained = range(max(included, policy.n_train(t), int(outcomes.rounds[0])), t)
    ends = {trained[0], trained[-1]}
    later = sorted({policy.schedule.refreshed(n) for n in (trained if anew else ends)})
    numbers = later if known.ahead is None else [included, *known.ahead]
    for number in numbers:
        plan = policy.schedule.plan(max(t, number + 1), 1)
        policy.estimator.models(known, plan._replace(n_train=np.array([number])))
    return known


def learned(policy: Policy, now: Now, log: Log) -> Now:
    """Returns an agent after the decisions of a log, whose groups have the same numbers."""
    known = now.known
    for low in range(0, len(log), PIECE):
        some = log[low : low + PIECE]
        assert some.contexts is not None
        first = known.past.rounds + 1
        x, g = torch.from_numpy(some.contexts)[None], torch.from_numpy(some.groups)[None]
        known = known._replace(past=known.past.with_pools(x, g))
        groups = np.where(some.picks >= 0, some.at_picks(some.groups), -1)
        seen = ~np.isnan(some.rewards)
        if seen.any():
            rounds = torch.from_numpy(np.nonzero(seen)[0] + first)
            contexts = some.at_picks(some.contexts)
            parts = (part[seen] for part in (contexts, groups, some.rewards))
            outcomes = Outcomes(rounds, *(torch.from_numpy(part)[None] for part in parts))
            known = taken_in(policy, known, outcomes)
        known = policy.advance(known, torch.from_numpy(groups)[None, :, None])
    return now._replace(known=known, learned=now.learned.add(log.pick_hashes))


def watched(
    policy: Policy,
    truth: Truth | None,
    now: Now,
    pools: list[Floats],
    labels: Sequence[Any],
    places: Ints,
    rewards: Floats,
    patience: int | None,
) -> Now:
    """Returns an agent after rounds that others decided, as `inputs.log` yields them."""
    first = now.known.past.rounds + 1
    now, codes = welcomed(policy, truth, now, labels)
    x, g, outcomes = inputs.tensors(pools, codes, places, rewards, first)
    known = now.known._replace(past=now.known.past.with_pools(x, g))
    known = policy.advance(taken_in(policy, known, outcomes), outcomes.groups[..., None])
    tickets, hashes, at = now.tickets.give_up(known.past.rounds, patience), [], 0
    for pool, place, reward in zip(pools, places.tolist(), rewards.tolist(), strict=True):
        key = pool_key(map(normal, labels[at : at + len(pool)]))
        hashes.append(pick_hashes("", key, place, reward, pool[place]))
        at += len(pool)
    return now._replace(known=known, tickets=tickets, learned=now.learned.add(hashes))


def frozen(
    policy: Policy, known: Knowledge, contexts: Floats, groups: NDArray[np.int64], picks: int
) -> Floats:
    """The probabilities of all candidates of n pools, (n, K), each as if it were the next one."""
    x, g = torch.from_numpy(contexts)[None], torch.from_numpy(groups)[None]
    first = known.past.rounds + 1
    inclusion = [torch.zeros_like(x[:, :0, :, 0])] + [
        policy.propose(known, first, (x[:, at], g[:, at]), picks, frozen=True).inclusion
        for at in (slice(low, low + PIECE) for low in range(0, len(groups), PIECE))
    ]
    return torch.cat(inclusion, 1)[0].numpy()


def welcomed(
    policy: Policy, truth: Truth | None, now: Now, labels: Sequence[Any]
) -> tuple[Now, NDArray[np.int64]]:
    """What an agent is once it knows some labels, and their numbers.

    Raises:
        FairbanditError: labels that are none, or a group that the truth does not know.
    """
    codes, groups = coded(labels, now.groups)
    if groups is now.groups:
        return now, codes
    problem = replace(now.known.problem, groups=len(groups))
    inputs.check_known(truth, groups, len(now.groups))
    return now._replace(known=policy.grow(now.known, problem), groups=groups), codes
