"""Learning from rewards, and from rounds that another system decided, with notices of doubt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from fairbandit.agent.state import State, with_groups
from fairbandit.errors import FairbanditError
from fairbandit.history import History, Outcomes
from fairbandit.logs import Floats, Ints, Log
from fairbandit.logs.events import Observed
from fairbandit.logs.log import check_log, padded, pick_key, pieces
from fairbandit.notices import remark
from fairbandit.policy.policy import Policy
from fairbandit.selectors import Selection
from fairbandit.splits.base import refresh_numbers
from fairbandit.streams import CHUNK_ROUNDS
from fairbandit.tables.labels import Codes, coded, normal

PIECE = 16 * CHUNK_ROUNDS
"""The number of rounds that are processed at once."""

UNUSUAL, LARGE = 1e3, 1e6
"""Outcomes with a feature above UNUSUAL are tried before they are added. Estimators that refit are
tried only above LARGE, with all outcomes."""

FEW = 5
"""Fewer observed rounds are not compared with earlier ones."""

FAR = 3.29
"""With probability 0.001, a normal variable is more standard deviations away from its mean."""


def tell_checked(policy: Policy, history: History, outcomes: Outcomes) -> History:
    """Adds outcomes to the history; raises an error if a later call could not process them."""
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
    trained = np.arange(max(history.n_state, policy.n_train(t), int(outcomes.rounds[0])), t)
    if policy.refresh is not None:
        numbers = refresh_numbers(policy.refresh, t)
        trained = np.unique(numbers[numbers.searchsorted(trained)])
    for number in trained.tolist():
        plan = policy.plan(max(t, number + 1), 1)
        policy.estimator.models(history, plan._replace(n_train=np.array([number])))
    return history


def observed(policy: Policy, state: State, event: Observed) -> State:
    """Returns the state after rounds that another system decided, in pieces of similar pools."""
    pools, actions, rewards = event.contexts or [], np.array(event.actions), event.rewards
    sizes, received = np.array([len(pool) for pool in pools], np.int64), np.array(rewards)
    if not len(sizes) == len(event.groups) == len(actions) == len(received):
        raise FairbanditError("its rounds have different numbers of pools, actions and rewards")
    state, codes = with_groups(policy, state, [*chain(*event.groups)])
    none = np.zeros((0, state.history.problem.features))
    rows = np.concatenate([none, *pools]), codes
    state = _after_rounds(policy, state, sizes, *rows, actions[:, None], received[:, None])
    return state.learned_from(keys(event, state.groups))


def keys(event: Observed, groups: Codes) -> list[int]:
    """Returns the keys of the picks of observed rounds, whose decisions are without names.

    `groups` are the groups that the agent knows.
    """
    codes, every = coded([*chain(*event.groups)], groups)
    forms = map([*every].__getitem__, codes.tolist())
    labels = [[*islice(forms, len(pool))] for pool in event.groups]
    rows = zip(labels, event.contexts or [], event.actions, event.rewards, strict=True)
    return [pick_key("", *row) for row in rows]


def options_of(log: Log, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an agent that learns from a log."""
    check_log(log)
    if log.contexts is None:
        raise FairbanditError("an agent cannot learn from a log without contexts")
    if "log" in options:
        raise FairbanditError(
            "from_log cannot write a log: save the agent, and load it with log=..."
        )
    features = log.encoder or log.schema.names or log.schema.width
    return {"groups": log.labels, "features": features, "reward": log.reward, **options}


@torch.inference_mode()
def after_log(policy: Policy, state: State, log: Log) -> State:
    """Returns the state after the decisions of a log that numbers the groups like it."""
    assert log.contexts is not None
    rows = log.contexts, log.groups
    state = _after_rounds(policy, state, log.sizes, *rows, log.picks, log.rewards)
    return state.learned_from([key for key, _ in log.pick_keys])


def _after_rounds(
    policy: Policy,
    state: State,
    sizes: Ints,
    contexts: Floats,
    groups: Ints,
    picks: Ints,
    rewards: Floats,
) -> State:
    """Returns the state after n decided rounds, in pieces of similar pools.

    The pools of given sizes are rows, one pool after another. Picks and rewards are (n, m): −1 for
    an empty slot, and NaN for an unknown reward.
    """
    ends = np.append(0, sizes.cumsum())
    for cut in pieces(sizes, PIECE):
        rows, first = slice(ends[cut.start], ends[cut.stop]), state.history.rounds + 1
        x, g = padded(sizes[cut], contexts[rows], 0.0), padded(sizes[cut], groups[rows], -1)
        pools = torch.from_numpy(x)[None], torch.from_numpy(g)[None]
        history = policy.open(state.history, *pools)
        at, slots = np.nonzero(~np.isnan(rewards[cut]))
        if len(at):
            places, received = picks[cut][at, slots], rewards[cut][at, slots][None]
            parts = at + first, x[at, places][None], g[at, places][None], received
            history = tell_checked(policy, history, Outcomes(*map(torch.from_numpy, parts)))
        history = policy.close(history, Selection.of(torch.from_numpy(picks[cut])[None]))
        state = state.on(history, cut.stop - cut.start)
    return state


def probabilities(
    policy: Policy, state: State, contexts: Floats, groups: Ints, labels: Sequence[Any], picks: int
) -> Floats:
    """Returns the candidates' probabilities in n pools, (n, K), as if each pool came next."""
    state, codes = with_groups(policy, state, labels)
    groups = np.append(codes, -1)[groups]
    x, g = torch.from_numpy(contexts)[None], torch.from_numpy(groups)[None]
    cuts = [slice(low, low + 4 * CHUNK_ROUNDS) for low in range(0, len(groups), 4 * CHUNK_ROUNDS)]
    inclusion = [torch.zeros_like(x[:, :0, :, 0])]
    inclusion += [policy.probabilities(state.numbered, x[:, at], g[:, at], picks) for at in cuts]
    return torch.cat(inclusion, 1)[0].numpy()


def note_observed(policy: Policy, state: State, event: Observed) -> None:
    """Notes observed rounds that are sorted, or of which most equal rounds that were observed."""
    if all(len(pool) == 1 for pool in event.groups):
        _note_order(policy, [label for (label,) in event.groups], np.array(event.rewards))
    get, n = state.remembered.get, len(event.groups)
    if not state.learned:
        return
    known = sum(get(key) is not None for key in keys(event, state.groups))
    if n >= FEW and known > n / 2:
        remark(
            f"{known / n:.0%} of the observed rounds equal rounds that were observed before; if "
            "they are the same, they count again"
        )


def _note_order(policy: Policy, labels: Sequence[Any], rewards: Floats) -> None:
    """Notes n observed rounds of one candidate each that are sorted, by group or by reward.

    This matters to a policy that learns from early rounds and ranks among later candidates. Under a
    random order, the mean of the first h = n/2 values is √((1 − h/n)/h)·S away from the mean of
    all, where S is their standard deviation. The notice names the values that are farthest away, if
    this is beyond `FAR` times that distance: the rewards, or the indicators of a group.
    """
    n, h = len(rewards), len(rewards) // 2
    plan = policy.plan(n + 1, 1)
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
