"""Open Bandit Pipeline's dictionary of bandit feedback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.logs.log import Log


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
    needed = {"context", "action", "reward", "pscore"}
    if lacking := sorted(needed - feedback.keys()):
        raise FairbanditError(f"expected bandit feedback of obp; it lacks {', '.join(lacking)}")
    try:
        x = np.asarray(feedback["context"], dtype=np.float64)
        actions = np.asarray(feedback["action"]).astype(np.int64, casting="safe")
        rewards, chances = (np.asarray(feedback[k], dtype=np.float64) for k in ("reward", "pscore"))
        k = int(feedback.get("n_actions", actions.max(initial=0) + 1))
        given = feedback.get("action_context")
        z = np.eye(k) if given is None else np.asarray(given, dtype=np.float64)
        position, pi = feedback.get("position"), feedback.get("pi_b")
    except (TypeError, ValueError) as error:
        raise FairbanditError(f"bandit feedback of obp: {error}") from error
    n = len(actions)
    labels = tuple(range(k)) if groups is None else tuple(groups)
    shapes = [x.ndim == 2, z.ndim == 2, len(x) == n, len(z) == len(labels) == k]
    shapes += [rewards.shape == chances.shape == actions.shape == (n,), n > 0]
    if not all(shapes) or not ((actions >= 0) & (actions < k)).all():
        raise FairbanditError(
            f"bandit feedback of obp: expected n contexts, actions from 0 to {k - 1}, rewards and "
            f"pscores, and {k} action contexts and groups; got shapes {x.shape}, {actions.shape}, "
            f"{rewards.shape}, {chances.shape}, {z.shape} and {len(labels)} groups"
        )
    if position is not None and np.unique(position).size > 1:
        raise FairbanditError("bandit feedback of several positions is no log of single picks")
    finite = all(np.isfinite(part).all() for part in (x, z, rewards))
    if not finite or not ((chances > 0) & (chances <= 1)).all():
        raise FairbanditError(
            "bandit feedback of obp: expected finite contexts and rewards, and pscores above 0 and "
            "at most 1"
        )
    whole = None if pi is None else np.asarray(pi, dtype=np.float64).reshape(n, k, -1)[..., 0]
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    products = x[:, None, :, None] * z[None, :, None, :]
    parts = [
        np.broadcast_to(z, (n, *z.shape)),
        np.broadcast_to(x[:, None], (n, k, x.shape[1])),
        products.reshape(n, k, -1),
    ]
    first, second = range(z.shape[1]), range(x.shape[1])
    names = [*(f"z{j}" for j in first), *(f"x{i}" for i in second)]
    return Log(
        groups=np.tile([codes[label] for label in labels], (n, 1)),
        labels=tuple(codes),
        picks=actions[:, None],
        rewards=rewards[:, None],
        propensities=chances[:, None],
        contexts=np.concatenate(parts, axis=2),
        probabilities=whole,
        features=(*names, *(f"x{i}*z{j}" for i in second for j in first)),
        names=range(n),
    )
