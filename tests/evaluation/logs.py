"""Random logs, in which uniform exploration and a linear reward are known."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbandit import logs
from fairbandit.logs import Floats, Log

read_log: Any = logs.read_log
"""Without its type: a test knows whether its log has contexts."""

LABELS = ("a", "b", "c")

THETA = np.array([1.0, -2.0, 0.5])


def random_log(n: int, seed: int = 0, *, k: int = 5, noise: float = 1.0, **changed: Any) -> Any:
    """n decisions from pools of 2 to k candidates, with random positive propensities."""
    draw = np.random.default_rng(seed)
    groups = draw.integers(0, len(LABELS), (n, k))
    groups[np.arange(k) >= draw.integers(2, k + 1, n)[:, None]] = -1
    contexts = draw.normal(size=(n, k, len(THETA))) * (groups >= 0)[..., None]
    chances = softmax(draw.normal(size=(n, k)) / 2, groups >= 0)
    picks = (chances.cumsum(1) > draw.random((n, 1))).argmax(1)[:, None]
    mean = np.take_along_axis(contexts @ THETA, picks, 1)
    parts: dict[str, Any] = {
        "groups": groups,
        "labels": LABELS,
        "picks": picks,
        "rewards": mean + noise * draw.normal(size=(n, 1)),
        "propensities": np.take_along_axis(chances, picks, 1),
        "contexts": contexts,
        "probabilities": chances,
        "features": ("age", "years", "test"),
        "names": range(n),
    }
    return Log(**rows(**{**parts, **changed}))


def rows(groups: Any, **parts: Any) -> dict[str, Any]:
    """The arguments of a log from values of candidates by pool, (n, K, …); groups of −1 are empty.

    Values that are rows stay.
    """
    present = groups >= 0
    for name, values in parts.items():
        if name in ("contexts", "probabilities") and np.shape(values)[:2] == groups.shape:
            parts[name] = values[present]
    return {"sizes": present.sum(1), "groups": groups[present], **parts}


def softmax(values: Floats, present: NDArray[np.bool_]) -> Floats:
    """Probabilities of the present places, (n, K)."""
    weights = np.exp(values) * present
    share: Floats = weights / weights.sum(1, keepdims=True)
    return share


def span_of(log: Any) -> tuple[float, float]:
    """The least and the greatest known reward."""
    return float(np.nanmin(log.rewards)), float(np.nanmax(log.rewards))


def target(log: Log, seed: int = 1) -> Floats:
    """Probabilities of another policy, (R,)."""
    draw, present = np.random.default_rng(seed), log.padded(log.groups, -1) >= 0
    return softmax(draw.normal(size=present.shape), present)[present]
