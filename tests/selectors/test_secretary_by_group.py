"""The secretary rule within groups beside a plain loop, and its success in the limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.registry import create
from fairbandit.selectors import SecretaryByGroup
from tests import support


def loop(index: list[float], groups: list[int], share: float, m: int) -> list[int]:
    """The rule as it is written, for the candidates who are there."""
    taken: list[int] = []
    best: dict[int, float] = {}
    for i, (value, group) in enumerate(zip(index, groups, strict=True)):
        record, left = value >= best.get(group, -np.inf), m - len(taken)
        if left and (left >= len(index) - i or (i >= int(len(index) * share) and record)):
            taken.append(i)
        best[group] = max(best.get(group, -np.inf), value)
    return taken


@pytest.mark.parametrize("picks", [1, 3])
def test_every_decision_is_that_of_a_plain_loop(picks: int) -> None:
    draws, pools = np.random.default_rng(picks), 300
    groups = draws.integers(-1, 3, (pools, 12))
    groups[:, 0] = 2  # there is a candidate, and the number of groups is three
    index = draws.normal(size=groups.shape)
    ranked = support.ranked(torch.from_numpy(index)[None], torch.from_numpy(groups)[None])
    selector: Any = create("selector", "secretary_by_group")
    found = selector.select(ranked, picks).actions[0].tolist()
    for i, actions in enumerate(found):
        here = np.flatnonzero(groups[i] >= 0)
        taken = loop(index[i, here].tolist(), groups[i, here].tolist(), 3 ** (-1 / 2), picks)
        assert [a for a in actions if a >= 0] == here[taken].tolist()


@pytest.mark.parametrize(("k", "success"), [(1, 0.368), (2, 0.5), (3, 0.577), (4, 0.63)])
def test_the_pick_is_the_best_of_its_group_as_often_as_in_the_paper(k: int, success: float) -> None:
    """Within 4 standard errors and 0.01, since 240 candidates are not infinitely many."""
    pools, n = 4000, 240
    draws = np.random.default_rng(k)
    groups = draws.permuted(np.tile(np.arange(n) % k, (pools, 1)), axis=1)
    index = draws.normal(size=groups.shape) * (1 + groups)  # groups cannot be compared
    ranked = support.ranked(torch.from_numpy(index)[None], torch.from_numpy(groups)[None])
    picks = SecretaryByGroup().select(ranked).actions[0, :, 0].numpy()
    at = np.arange(pools)
    best = np.where(groups == groups[at, picks][:, None], index, -np.inf).max(1)
    found = float((index[at, picks] == best).mean())
    assert abs(found - success) < 4 * (success * (1 - success) / pools) ** 0.5 + 0.01
