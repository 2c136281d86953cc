"""Selectors asked directly, about pools that are plain lists."""

from __future__ import annotations

from collections.abc import Sequence

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
    index: Sequence[Sequence[float]],
    groups: Sequence[Sequence[int]],
    picks: Sequence[int] = (),
    upper: Tensor | None = None,
) -> Selection:
    """The picks of the next rounds of one replica, each decided after the same past.

    Args:
        selector: not bound yet.
        index: of each place, (N, K).
        groups: (N, K), −1 an empty place.
        picks: the groups picked in the rounds before.
        upper: the upper index, if it is not the index.
    """
    shown, own = torch.tensor([index], dtype=torch.float64), torch.tensor([groups])
    problem = Problem(1, int(own.max()) + 1, Streams(5, [0]))
    selector.bind(problem)
    history = History(problem, (), picks=True)
    if picks:
        history.count_picks(torch.tensor([picks]))
    n, first = own.shape[1], len(picks) + 1
    past = torch.zeros(n, dtype=torch.int64)
    candidates = Candidates(
        first,
        Division(past, past, past),
        problem.zeros(*own.shape, 1),
        own,
        LinearModel(problem.zeros(1, 1, 1)),
        past,
        history,
        problem.streams[Purpose.RANK],
    )
    candidates.read_picks(torch.full((n,), len(picks)))
    candidates.set_index(shown, shown if upper is None else upper, Candidates.bounds)
    return selector.select(candidates, shown)
