"""Open Bandit Pipeline's dictionary of bandit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Log
from fairbandit.logs.tables import Pool, log_of_pools

NAME = "bandit feedback of obp"

MOST_ACTIONS = 10_000
"""More one-hot actions are refused: each is a candidate of every pool."""


def read_obp(feedback: Mapping[str, Any], groups: Sequence[Any] | None = None) -> Log:
    """The log of a dictionary with `context, action_context, action, position, reward, pscore`.

    The actions are the candidates of every pool. The features of action a in context x are its
    action context z, x itself and all products xᵢzⱼ, so that with one-hot action contexts a linear
    model has a θ of its own for each action; so they are without `action_context`. `pi_b`, where
    obp's synthetic data have it, gives the probabilities of all actions. Without labels of their
    groups, each action is a group of its own.
    """
    with of_line(NAME):
        x, rewards, pscore = (
            np.asarray(feedback[key], dtype=np.float64) for key in ("context", "reward", "pscore")
        )
        actions = np.asarray(feedback["action"]).astype(np.int64, casting="safe")
        n, k = len(actions), int(feedback.get("n_actions", actions.max(initial=0) + 1))
        given, pi, position = map(feedback.get, ("action_context", "pi_b", "position"))
        z = np.eye(min(k, MOST_ACTIONS)) if given is None else np.asarray(given, dtype=np.float64)
        several = position is not None and np.unique(position).size > 1
        if several or x.ndim != 2 or z.ndim != 2 or (len(x), len(z)) != (n, k):
            raise ValueError(
                f"expected {n} contexts, {k} action contexts (at most {MOST_ACTIONS:,}), and "
                "rounds of one position"
            )
        chances = np.zeros((n, k)) if pi is None else np.array(pi, np.float64).reshape(n, k)
        chances[np.arange(n), actions] = pscore
        i, j = range(x.shape[1]), range(z.shape[1])
        products = (x[:, None, :, None] * z[None, :, None, :]).reshape(n * k, -1)
        contexts = np.hstack([np.tile(z, (n, 1)), x.repeat(k, 0), products])
        labels = list(range(k) if groups is None else groups)
        rounds = zip(actions.tolist(), rewards.tolist(), chances.tolist(), strict=True)
        pools = []
        for count, (action, reward, propensities) in enumerate(rounds):
            pools.append(Pool(NAME, count + 1, count, labels, [action], propensities))
            pools[-1].reward(action, reward)
    features = [*(f"z{b}" for b in j), *(f"x{a}" for a in i), *(f"x{a}*z{b}" for a in i for b in j)]
    return log_of_pools(pools, NAME, contexts, unit="round", features=tuple(features))
