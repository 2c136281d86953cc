"""Open Bandit Pipeline's dictionary of bandit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbandit.environments.reading import LARGEST
from fairbandit.logs.chain import of_line
from fairbandit.logs.log import Log
from fairbandit.logs.tables import Lines

NAME = "bandit feedback of obp"

MOST_ACTIONS = 10_000
"""More actions are refused: each is a candidate of every pool."""


def read_obp(feedback: Mapping[str, Any], groups: Sequence[Any] | None = None) -> Log:
    """The log of a dictionary with `context, action_context, action, position, reward, pscore`.

    The actions are the candidates of every pool. The features of action a in context x are its
    action context z, x itself and all products xᵢzⱼ, so that with one-hot action contexts a linear
    model has a θ of its own for each action.

    Args:
        feedback: n rounds; without `action_context`, the actions are one-hot. `pi_b`, where obp's
            synthetic data have it, gives the probabilities of all actions.
        groups: the label of each action's group; None makes each action a group of its own.

    Raises:
        FairbanditError: a key is missing, shapes do not match, or rounds of several positions.
    """
    rows = Lines(NAME, "round")
    with of_line(NAME):
        x, rewards, pscore = (
            np.asarray(feedback[key], dtype=np.float64) for key in ("context", "reward", "pscore")
        )
        actions = np.asarray(feedback["action"]).astype(np.int64, casting="safe")
        n, k = len(actions), int(feedback.get("n_actions", actions.max(initial=0) + 1))
        given, pi, position = map(feedback.get, ("action_context", "pi_b", "position"))
        if not 0 < k <= MOST_ACTIONS or (position is not None and np.unique(position).size > 1):
            raise ValueError(f"expected at most {MOST_ACTIONS:,} actions, and one position")
        z = np.eye(k) if given is None else np.asarray(given, dtype=np.float64)
        whole = np.zeros((n, k)) if pi is None else np.asarray(pi, np.float64).reshape(n, k).copy()
        if x.ndim != 2 or z.ndim != 2 or len(x) != n or len(z) != k:
            raise ValueError(f"expected {n} contexts and {k} action contexts")
        if not all((np.abs(part) <= LARGEST).all() for part in (x, z)):
            raise ValueError("a number of a context is missing or too large")
        whole[np.arange(n), actions] = pscore
        labels = list(range(k) if groups is None else groups)
        columns = actions.tolist(), rewards.tolist(), whole.tolist()
        for count, (action, reward, chances) in enumerate(zip(*columns, strict=True), 1):
            [row] = rows.add(count, count - 1, labels, [action], chances).values()
            rows.reward(row, reward)
    i, j = range(x.shape[1]), range(z.shape[1])
    products = (x[:, None, :, None] * z[None, :, None, :]).reshape(n * k, -1)
    return rows.log(
        np.hstack([np.tile(z, (n, 1)), x.repeat(k, 0), products]),
        [*(f"z{b}" for b in j), *(f"x{a}" for a in i), *(f"x{a}*z{b}" for a in i for b in j)],
    )
