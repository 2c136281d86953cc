"""Which decisions of a log train a policy, and which ones judge it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairbandit.errors import FairbanditError
from fairbandit.logs import Ints


class Part(NamedTuple):
    """Decisions that judge what others have trained, each (n,) ascending.

    Attributes:
        trained: on them the policy learns.
        modelled: on them the reward model of `dr` is fitted.
        judged: they are disjoint from both.
    """

    trained: Ints
    modelled: Ints
    judged: Ints


def plan(n: int, *, train: float, folds: int, seed: int, forward: bool) -> list[Part]:
    """Divides n decisions into parts that are judged once each.

    At random, each of the folds is judged by what is trained on `train`·n of the other decisions.
    Forward in time, the first `train`·n decisions only train; the others are cut into folds, and
    each is judged by what is trained on all decisions before it. So no summand depends on later
    data, and the errors of weighted estimators are martingale differences, whoever decided. With
    train=0 no policy is trained, and the first part has no reward model: its `dr` is `ips`.

    Raises:
        FairbanditError: a value out of range, or too few decisions for so many parts.
    """
    least = 1 if forward or not train else 2
    if not 0 <= train < 1 or folds < least or (not forward and train > 1 - 1 / folds):
        raise FairbanditError(
            f"train={train:g} and folds={folds}: expected train in [0, 1) and folds of at least "
            f"{least}; where decisions are dealt at random, train is at most 1 − 1/folds"
        )
    first = round(train * n) if forward else 0
    if n - first < 2 * folds or (train and not round(train * n)):
        raise FairbanditError(f"{n} decisions are too few for train={train:g} and folds={folds}")
    if forward:
        cuts = np.array_split(np.arange(first, n), folds)
        before = [np.arange(cut[0]) for cut in cuts]
        return [
            Part(early if train else early[:0], early, cut)
            for early, cut in zip(before, cuts, strict=True)
        ]
    draws = np.random.default_rng(seed)
    parts = []
    for cut in np.array_split(draws.permutation(n), folds):
        others = np.setdiff1d(np.arange(n), cut)
        chosen = draws.permutation(others)[: round(train * n)]
        parts.append(Part(np.sort(chosen), others, np.sort(cut)))
    return parts
