"""Learning from rewards and logs, and the probabilities of picks for many pools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairbandit.agent import blocks, inputs
from fairbandit.agent.calls import Now
from fairbandit.environments.base import Truth
from fairbandit.history import History, Outcomes
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.log import PIECE, pieces
from fairbandit.logs.schema import pick_hashes, pool_key
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.tables.labels import Codes, coded, normal

UNUSUAL, LARGE = 1e3, 1e6
"""Outcomes with a feature above UNUSUAL are tried before they are added. Estimators that refit are
tried only above LARGE, with all outcomes."""

FAR = 3.29
"""With probability 0.001, a normal variable is more standard deviations away from its mean."""


def tell_checked(policy: Policy, history: History, outcomes: Outcomes) -> History:
    """Adds outcomes to the knowledge; raises an error if a later call could not process them."""
    history = policy.tell(history, outcomes)
    refits = "rewards" in policy.estimator.needs
    tried = history.outcomes if refits else outcomes
    largest = float(torch.linalg.vector_norm(tried.contexts, torch.inf))
    if largest <= (LARGE if refits else UNUSUAL) or not policy.learns:
        return history
    if not refits:  # a trial of outcomes that wait
        policy.estimator.advance(history.state, outcomes)
        return history
    # a trial of the models of later rounds, as if no further reward came, one round at a time
    t = history.rounds + 1
    trained = range(max(history.n_state, policy.n_train(t), int(outcomes.rounds[0])), t)
    for number in sorted(set(map(policy.schedule.refreshed, trained))):
        plan = policy.schedule.plan(max(t, number + 1), 1)
        policy.estimator.models(history, plan._replace(n_train=np.array([number])))
    return history


def after_rewards(policy: Policy, now: Now, ticket: int, rewards: Mapping[int, float]) -> Now:
    """Returns the agent's state after rewards of a decision by place; see `tell_checked`.

    Rewards of an opening that is not closed are held until it is.
    """
    if (offers := now.openings.get(ticket)) is not None:
        offers = offers._replace(held={**offers.held, **rewards})
        now = now._replace(openings={**now.openings, ticket: offers})
        after_opening(policy, now, ticket, None)  # a trial
        return now
    tickets, waiting = now.tickets, now.tickets.picks[ticket]
    history = tell_checked(policy, now.history, tickets.outcomes(ticket, rewards))
    learned = now.learned.add(waiting.hashes(ticket, rewards))
    return now._replace(history=history, tickets=tickets.remove(ticket, rewards), learned=learned)


def after_opening(policy: Policy, now: Now, ticket: int, patience: int | None) -> Now:
    """Returns the agent's state with an opening as its next round, and with its early rewards."""
    offers = now.openings[ticket]
    now = now._replace(openings={t: opening for t, opening in now.openings.items() if t != ticket})
    if not offers.n:
        return now
    pool = offers.pool(now.groups)
    history = policy.open(now.history, *pool.tensors)
    picks = torch.tensor(offers.picks, dtype=torch.int64)
    closed = policy.close(history, Selection.of(picks[None, None]))
    waiting = offers.waiting(now.groups, closed.rounds)
    tickets = now.tickets.add([ticket], [waiting]).give_up(closed.rounds, patience)
    now = now._replace(history=closed, tickets=tickets)
    return after_rewards(policy, now, ticket, offers.held) if offers.held else now


def after_log(policy: Policy, now: Now, log: Log) -> Now:
    """Returns the agent's state after the decisions of a log that numbers the groups like it."""
    history = now.history
    for cut in pieces(log.sizes, PIECE):
        piece, first = log[cut], history.rounds + 1
        flat = piece.candidates
        assert flat.contexts is not None
        padded = piece.padded(flat.contexts, 0.0), piece.groups
        x, g = (torch.from_numpy(values)[None] for values in padded)
        history = policy.open(history, x, g)
        groups = np.where(piece.picks >= 0, piece.at_picks(flat.groups), -1)
        rewarded = ~np.isnan(piece.rewards)
        if rewarded.any():
            rounds = torch.from_numpy(np.nonzero(rewarded)[0] + first)
            contexts = piece.at_picks(flat.contexts)
            parts = (part[rewarded] for part in (contexts, groups, piece.rewards))
            outcomes = Outcomes(rounds, *(torch.from_numpy(part)[None] for part in parts))
            history = tell_checked(policy, history, outcomes)
        history = policy.close(history, Selection.of(torch.from_numpy(piece.picks)[None]))
    return now._replace(history=history, learned=now.learned.add(log.pick_hashes))


def after_rounds(
    policy: Policy,
    truth: Truth | None,
    now: Now,
    pools: list[Floats],
    labels: Sequence[Any],
    places: Ints,
    rewards: Floats,
    patience: int | None,
) -> tuple[Now, list[tuple[int, int, int]]]:
    """Returns the agent's state after logged rounds, which `blocks.log` has checked.

    The hashes of their picks are returned, too.
    """
    first = now.history.rounds + 1
    now, codes = with_groups(policy, truth, now, labels)
    x, g, outcomes = blocks.tensors(pools, codes, places, rewards, first)
    history = tell_checked(policy, policy.open(now.history, x, g), outcomes)
    history = policy.close(history, Selection.of(torch.from_numpy(places)[None, :, None]))
    tickets, hashes, at = now.tickets.give_up(history.rounds, patience), [], 0
    forms = [*now.groups]
    for pool, place, reward in zip(pools, places.tolist(), rewards.tolist(), strict=True):
        key = pool_key(forms[code] for code in codes[at : at + len(pool)])
        hashes.append(pick_hashes("", key, place, reward, pool[place]))
        at += len(pool)
    return now._replace(history=history, tickets=tickets, learned=now.learned.add(hashes)), hashes


def note_order(policy: Policy, labels: Sequence[Any], rewards: Floats) -> None:
    """Notes n observed rounds of one candidate each that are sorted, by group or by reward.

    This matters to a policy that learns from early rounds and ranks among later candidates. Under a
    random order, the mean of the first h = n/2 values is √((1 − h/n)/h)·S away from the mean of
    all, where S is their standard deviation. The notice names the values that are farthest away, if
    this is beyond `FAR` times that distance: the rewards, or the indicators of a group.
    """
    n, h = len(rewards), len(rewards) // 2
    plan = policy.schedule.plan(n + 1, 1)
    if not h or not policy.learns or plan.n_train[0] == n == plan.rank_stop[0] - plan.rank_start[0]:
        return
    names, values = [normal(label) for label in labels], {"mean reward": rewards}
    for name in dict.fromkeys(names):
        values[f"share of group {name!r}"] = np.array([float(label == name) for label in names])
    farthest, what = FAR, ""
    for name, series in values.items():
        early, mean, deviation = series[:h].mean(), series.mean(), series.std(ddof=1)
        distance = abs(early - mean) / (deviation * math.sqrt((1 - h / n) / h) or 1)
        if distance > farthest:
            farthest = distance
            what = f"the {name} is {early:.3g} in their first half, and {mean:.3g} in all"
    if what:
        remark(
            f"the observed rounds seem sorted: {what}; this policy learns from early rounds and "
            "ranks among later ones, so shuffle them, as by table.sample(frac=1, random_state=0)"
        )


def probabilities_of(
    policy: Policy, history: History, contexts: Floats, groups: NDArray[np.int64], picks: int
) -> Floats:
    """Returns the candidates' probabilities in n pools, (n, K), as if each pool came next."""
    x, g = torch.from_numpy(contexts)[None], torch.from_numpy(groups)[None]
    cuts = [slice(low, low + PIECE) for low in range(0, len(groups), PIECE)]
    inclusion = [torch.zeros_like(x[:, :0, :, 0])]
    inclusion += [policy.probabilities(history, x[:, at], g[:, at], picks) for at in cuts]
    return torch.cat(inclusion, 1)[0].numpy()


def with_groups(
    policy: Policy, truth: Truth | None, now: Now, labels: Sequence[Any]
) -> tuple[Now, NDArray[np.int64]]:
    """Adds new labels to the agent's groups; returns its state and the labels' group numbers.

    Raises:
        FairbanditError: an invalid label, or a group that the truth does not know.
    """
    codes, groups = coded(labels, now.groups)
    if groups is now.groups:
        return now, codes
    inputs.check_known(truth, groups, len(now.groups))
    return grown(policy, now, groups), codes


def grown(policy: Policy, now: Now, groups: Codes) -> Now:
    """Returns the agent's state with room for new groups."""
    problem = replace(now.history.problem, groups=len(groups))
    return now._replace(history=policy.grow(now.history, problem), groups=groups)


def coded_pools(
    truth: Truth | None, groups: Codes, labels: Sequence[Sequence[Any]]
) -> tuple[list[Ints], list[Codes]]:
    """Returns the group numbers in each pool, and the groups that are known at each pool.

    Raises:
        FairbanditError: an invalid label, or a group that the truth does not know.
    """
    codes, groups_at = list[Ints](), list[Codes]()
    for at, pool in enumerate(labels):
        with blocks.of_pool(at):
            numbers, more = coded(pool, groups)
            if more is not groups:
                inputs.check_known(truth, more, len(groups))
        groups = more
        codes.append(numbers)
        groups_at.append(groups)
    return codes, groups_at
