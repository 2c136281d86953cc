"""Open Bandit Pipeline's dictionary of bandit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Log

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
    try:
        x, rewards, chances = (
            np.asarray(feedback[key], dtype=np.float64) for key in ("context", "reward", "pscore")
        )
        actions = np.asarray(feedback["action"]).astype(np.int64, casting="safe")
        n, k = len(actions), int(feedback.get("n_actions", actions.max(initial=0) + 1))
        if not 0 < k <= MOST_ACTIONS:
            raise ValueError(f"expected from 1 to {MOST_ACTIONS:,} actions, got {k}")
        given, pi, position = map(feedback.get, ("action_context", "pi_b", "position"))
        z = np.eye(k) if given is None else np.asarray(given, dtype=np.float64)
        labels = tuple(range(k) if groups is None else groups)
        codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
        whole = None if pi is None else np.asarray(pi, dtype=np.float64).reshape(n, k)
        several = np.unique(np.asarray(0 if position is None else position)).size > 1
    except (TypeError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise FairbanditError(f"bandit feedback of obp: {type(error).__name__}: {error}") from error
    good = n > 0 and x.ndim == z.ndim == 2 and len(x) == n and len(z) == len(labels) == k
    good = good and rewards.shape == chances.shape == actions.shape == (n,) and not several
    if not good or not ((actions >= 0) & (actions < k)).all():
        raise FairbanditError(
            f"bandit feedback of obp: expected n contexts, actions from 0 to {k - 1}, rewards and "
            f"pscores of one position, and {k} action contexts and groups; got shapes {x.shape}, "
            f"{actions.shape}, {rewards.shape}, {chances.shape}, {z.shape} and {len(labels)} groups"
        )
    if not all((np.abs(part) <= 1e50).all() for part in (x, z, rewards)):
        raise FairbanditError("bandit feedback of obp: a number is missing, or larger than 1e50")
    products = x[:, None, :, None] * z[None, :, None, :]
    parts = np.broadcast_to(z, (n, *z.shape)), np.broadcast_to(x[:, None], (n, k, x.shape[1]))
    contexts = np.concatenate([*parts, products.reshape(n, k, -1)], axis=2)
    at_picks = chances if whole is None else whole[np.arange(n), actions]
    sound = ((chances > 0) & (chances <= 1) & (np.abs(at_picks - chances) < 1e-6)).all()
    if whole is not None:
        sound &= (whole >= 0).all() and (np.abs(whole.sum(1) - 1) < 1e-6).all()
    if not sound:
        raise FairbanditError(
            "bandit feedback of obp: expected pscores above 0 and at most 1, and in pi_b "
            "probabilities that sum to 1 and agree with them"
        )
    first, second = range(z.shape[1]), range(x.shape[1])
    names = [*(f"z{j}" for j in first), *(f"x{i}" for i in second)]
    return Log(
        groups=np.tile([codes[label] for label in labels], (n, 1)),
        labels=tuple(codes),
        picks=actions[:, None],
        rewards=rewards[:, None],
        propensities=chances[:, None],
        contexts=contexts,
        probabilities=whole,
        features=(*names, *(f"x{i}*z{j}" for i in second for j in first)),
        names=range(n),
    )
