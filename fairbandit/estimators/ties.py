"""Ties: which scores and indices are equal but for rounding, by four rules.

Two scores that are equal in exact arithmetic may differ in floating-point arithmetic, by the order
of a sum, the kernel of a product, or the company in which a model was solved. Policies must treat
such scores as equal, and must not treat scores as equal that differ. Four rules do this:

1. *Equal candidates score alike.* Candidates of one pool with the same features and group get the
   score that was computed for the first of them (`twins`). They tie by construction.
2. *A score is off by at most its slack* τ·Σⱼ|xⱼθⱼ|, where τ is `NOISY` if the estimator injects
   noise and `PLAIN` if it does not. A bonus adds `PLAIN` times itself, and other models have the
   slack `PLAIN`·|score|. The slack depends on the model and x alone, so that it is the same in
   blocks and in single rounds, alone and in company.
3. *Two numbers tie if their ranges [value − slack, value + slack] overlap.* Scores and indices are
   such numbers (`Approximate`). The slack of a plain tensor is 0.
4. *A past score has the slack of the candidate's own score*, regardless of the terms of the past
   score. The two scores therefore tie up to a distance of twice this slack
   (`Approximate.least_tie` and `greatest_tie`).

Why these τ. Measured on four ways to sum and to solve, with 5 to 5,000 rows of 17 features, scores
that are equal in exact arithmetic differ by at most 7e-15 of Σ|xθ| on categories and whole numbers,
for a regularization from 0.1 to 1e-8; by 2e-15 on normal features, by 2e-11 where the offset of
features is a thousand times their spread, and by 1e-13 where the scales of features differ by 1e6.
So exact ties are ties, by a wide margin where they are common. With injected noise two scores
are almost never equal, and a wider slack would undo the parity that the noise is injected for; the
slack then covers the last product alone. Offsets beyond a thousand spreads make the problem itself
ill-conditioned: decisions follow the scores as computed, and a notice says to standardise.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""The relative error of a few operations, such as a sum and a division that compute a share."""

NOISY, PLAIN = ROUNDING, 1e-9
"""τ: a score is off by at most τ·Σⱼ|xⱼθⱼ|, with injected noise and without."""

SUMS = 1e-9
"""The error of a sum of probabilities or of shares of a pool."""


class Approximate(NamedTuple):
    """Numbers, and how far rounding may have moved each of them.

    Attributes:
        value: the numbers as computed, (B, N, K).
        slack: the most by which each is off, (B, N, K), at least 0; or a number for all.

    >>> index = Approximate(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]))
    >>> index.low, index.high
    (tensor([0.5000, 2.0000]), tensor([1.5000, 2.0000]))
    """

    value: Tensor
    slack: Tensor | float = 0.0

    @property
    def low(self) -> Tensor:
        """The least number that each may be."""
        exact = not isinstance(self.slack, Tensor) and self.slack == 0
        return self.value if exact else self.value - self.slack

    @property
    def high(self) -> Tensor:
        """The greatest number that each may be."""
        exact = not isinstance(self.slack, Tensor) and self.slack == 0
        return self.value if exact else self.value + self.slack

    @property
    def least_tie(self) -> Tensor:
        """The least number, itself off by the same slack, that ties with each."""
        return self.value - 2 * self.slack

    @property
    def greatest_tie(self) -> Tensor:
        """The greatest number, itself off by the same slack, that ties with each."""
        return self.value + 2 * self.slack


def twins(scores: Approximate, contexts: Tensor, groups: Tensor) -> Tensor | None:
    """Finds equal candidates of a pool whose scores differ.

    Candidates are compared only if their scores are near each other and not all of them are equal,
    which is rare.

    Args:
        scores: as the model computes them, (B, N, K), with a slack.
        contexts: (B, N, K, d).
        groups: (B, N, K) int64, −1 an empty place.

    Returns:
        The first place of the same pool that holds an equal candidate, (B, N, K) int64; None if no
        scores need care.
    """
    value, slack = scores
    assert isinstance(slack, Tensor)
    ordered, order = value.sort(2)
    gap = ordered.diff(dim=2)
    near = gap <= 2 * slack.amax(2, keepdim=True)
    if not (bool(near.any()) and bool((near & (gap != 0)).any())):
        return None
    k = groups.shape[2]
    beside = torch.zeros_like(groups, dtype=torch.bool)
    beside[..., 1:] |= near
    beside[..., :-1] |= near
    at = torch.zeros_like(beside).scatter_(2, order, beside) & (groups >= 0)
    pool, place = at.flatten(0, 1).nonzero().unbind(1)
    keys = [pool[:, None].to(contexts.dtype), groups[at][:, None].to(contexts.dtype), contexts[at]]
    _, number = torch.unique(torch.cat(keys, 1), dim=0, return_inverse=True)
    first = place.new_full((len(number),), k).scatter_reduce_(0, number, place, "amin")[number]
    places = torch.arange(k, device=groups.device).expand(groups.shape).clone()
    places[at] = first
    return places


def alike(scores: Approximate, first: Tensor) -> Approximate:
    """Gives equal candidates the score of the first of them; `first` is what `twins` returns."""
    value, slack = scores
    assert isinstance(slack, Tensor)
    return Approximate(value.gather(2, first), slack.gather(2, first))
