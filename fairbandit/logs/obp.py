"""Open Bandit Pipeline's dictionary of bandit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Floats, Log
from fairbandit.logs.tables import Pool, log_of_pools
from fairbandit.tables.cells import LARGEST

NAME = "bandit feedback of obp"

MOST_ACTIONS = 10_000
"""The largest number of one-hot actions, each of which is a candidate of every pool."""


def is_obp(source: Any) -> bool:
    """Whether a source is the dictionary of bandit feedback of obp."""
    return isinstance(source, Mapping) and not {"pscore", "n_rounds"}.isdisjoint(source)


def read_obp(
    feedback: Mapping[str, Any], group: Any, propensity: str | None, unknown: Sequence[str]
) -> Log:
    """Returns the log of `context, action_context, action, position, reward, pscore`.

    The actions are the candidates of every pool. The features of action a in context x are its
    action context z, x and all products xᵢzⱼ. Without `action_context`, z is one-hot, so that a
    linear model has a θ for each action. If there are several positions, x has an indicator for
    each. `pi_b` of obp's synthetic data holds the probabilities of all actions. A reward that is
    NaN is missing. See `read_log` for the arguments.
    """
    with of_line(NAME):
        x, rewards = _features(feedback, "context"), np.asarray(feedback["reward"], np.float64)
        actions = np.asarray(feedback["action"])
        if actions.dtype.kind not in "iu":
            raise FairbanditError(f"action: expected whole numbers; got the type {actions.dtype}")
        n, k = len(actions), int(feedback.get("n_actions", actions.max(initial=0) + 1))
        if n and not 0 <= actions.min() <= actions.max() < k:
            got = f"got {actions.min()} to {actions.max()}"
            raise FairbanditError(f"action: expected numbers from 0 to {k - 1}; {got}")
        position, pi, pscore = map(feedback.get, ("position", "pi_b", "pscore"))
        one_hot = feedback.get("action_context") is None
        z = np.eye(min(k, MOST_ACTIONS)) if one_hot else _features(feedback, "action_context")
        if x.ndim != 2 or z.ndim != 2 or (len(x), len(z)) != (n, k):
            raise FairbanditError(
                f"expected {n} contexts, {k} action contexts, at most {MOST_ACTIONS}"
            )
        labels = [*range(k)] if str(group) in ("None", "group") else group
        if isinstance(labels, (str, Mapping, Set)) or len(labels) != k:
            raise FairbanditError(f"group: expected a list of the {k} actions' labels; got {group}")
        if propensity and pscore is None:
            raise FairbanditError("pscore is missing; propensity=None reads a log without it")
        names = [f"x{a}" for a in range(x.shape[1])]
        seen, places = np.unique(np.zeros(n) if position is None else position, return_inverse=True)
        if len(seen) > 1:
            x = np.hstack([x, np.eye(len(seen))[places]])
            names += [f"position={value}" for value in seen]
        products = (x[:, None, :, None] * z[None, :, None, :]).reshape(n * k, -1)
        contexts = np.hstack([np.tile(z, (n, 1)), x.repeat(k, 0), products])
        chances = np.zeros((n, k))
        if propensity and pi is not None:
            pi = np.asarray(pi, dtype=np.float64).reshape(n, k, -1)
            chances[:] = pi[np.arange(n), :, 0 if pi.shape[2] == 1 else position]
        chances[np.arange(n), actions] = pscore if propensity else 1.0
        rounds = zip(actions.tolist(), rewards.tolist(), chances.tolist(), strict=True)
        pools = []
        for count, (action, reward, propensities) in enumerate(rounds):
            pools.append(Pool(NAME, count + 1, count, labels, [action], propensities))
            if not np.isnan(reward):
                pools[-1].reward(action, reward)
    of_actions = [f"z{b}" for b in range(z.shape[1])]
    features = (*of_actions, *names, *(f"{a}*{b}" for a in names for b in of_actions))
    further: Any = {"features": features, "unknown": unknown}
    log = log_of_pools(pools, NAME, contexts, unit="round", **further)
    lacking = np.full_like(log.propensities, np.nan)
    return log if propensity else replace(log, propensities=lacking, probabilities=None)


def _features(feedback: Mapping[str, Any], key: str) -> Floats:
    """Returns the rows of an array of features, which must be finite."""
    if hasattr(feedback[key], "toarray"):
        raise FairbanditError(f"{key}: expected an array; got a sparse matrix: use its toarray()")
    rows = np.asarray(feedback[key], np.float64)
    for row, *column in np.argwhere(~(np.abs(rows) <= LARGEST)):
        got = f"got {rows[row, *column]}"
        raise FairbanditError(f"{key}, row {row}: expected numbers of at most {LARGEST:g}; {got}")
    return rows
