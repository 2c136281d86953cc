"""Selectors asked directly, about pools that are plain lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fairbandit.parts import (
    Candidates,
    Division,
    History,
    LinearModel,
    Problem,
    Selection,
    Selector,
)
from fairbandit.streams import Purpose, Streams


def select(
    selector: Selector,
    index: Tensor,
    groups: Tensor | None = None,
    picks: Sequence[int] | None = None,
    upper: Tensor | None = None,
    bounds: Callable[[Candidates], tuple[Tensor, Tensor]] = Candidates.bounds,
) -> Selection:
    """The picks of the next rounds, each decided after the same past.

    Args:
        selector: not bound yet.
        index: of each place, (B, N, K).
        groups: (B, N, K), −1 an empty place; by default all are of one.
        picks: the groups picked in the rounds before, for a selector that reads them.
        upper: the upper index, if it is not the index.
        bounds: of the index.
    """
    b, n, k = index.shape
    groups = torch.zeros(b, n, k, dtype=torch.int64) if groups is None else groups.expand(b, n, k)
    problem = Problem(1, max(int(groups.max()), 0) + 1, Streams(5, range(b)))
    selector.bind(problem)
    history, before = History(problem, (), picks=picks is not None), len(picks or ())
    if picks:
        history.count_picks(torch.tensor([picks]))
    past = torch.zeros(n, dtype=torch.int64)
    candidates = Candidates(
        before + 1,
        Division(past, past, past),
        problem.zeros(b, n, k, 1),
        groups,
        LinearModel(problem.zeros(b, 1, 1)),
        past,
        history,
        problem.streams[Purpose.RANK],
    )
    if picks is not None:
        candidates.read_picks(torch.full((n,), before))
    candidates.set_index(index, index if upper is None else upper, bounds)
    return selector.select(candidates, index)
