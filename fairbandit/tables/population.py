"""Makes the members from which a problem draws candidates, with their ground truth.

The rows of table D2 are the members. The means and deviations of table D1 standardise the columns.
The true θ is a ridge fit, and true ranks are values of an empirical CDF for each group.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.columns import check_groups
from fairbandit.tables.labels import NUMBER

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]

REGULARIZATION = 1e-8
"""λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)."""

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""How far apart two computations of one expected reward may be, relative to Σᵢ|xᵢθᵢ|."""


CHUNK = 1 << 15
"""The number of rows in one QR factorisation."""


class Missing(Enum):
    """The treatment of missing cells."""

    error = "a missing cell is an error"
    drop = "a row that lacks its group, its reward or a feature is left out"
    mean = "a missing feature gets the mean of D1, which is 0 once it is standardised"


class GroupedCdf:
    """F(v, g): the share of group g's sample, which is not empty, that is at most v.

    A share is the quotient of two whole numbers in the dtype of the values, correctly rounded. The
    shares of two groups are therefore equal if the fractions are equal.

    >>> cdf = GroupedCdf([torch.tensor([1.0, 2.0]), torch.tensor([5.0])])
    >>> cdf(torch.tensor([0, 0, 1]), torch.tensor([1.0, 9.0, 4.0]))
    tensor([0.5000, 1.0000, 0.0000])
    """

    def __init__(self, samples: Sequence[Tensor]) -> None:
        # NumPy sorts millions three times as fast as torch
        self._sorted = [torch.from_numpy(np.sort(s.cpu().numpy())).to(s.device) for s in samples]

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """The CDF of each group at its value, in the values' dtype; 0 where the group is −1.

        It does not depend on `rounds`.
        """
        shares = torch.zeros_like(values)
        for group in range(len(self._sorted)):
            shares = torch.where(groups == group, self.share(group, values), shares)
        return shares

    def share(self, group: int, values: Tensor) -> Tensor:
        """The CDF of one group at values of any shape."""
        ordered = self._sorted[group]
        count = torch.searchsorted(ordered, values.contiguous(), right=True)
        return count.to(values.dtype) / len(ordered)

    def sample(self, group: int) -> Tensor:
        """A group's sample in ascending order."""
        return self._sorted[group]

    def to(self, device: torch.device) -> GroupedCdf:
        """The same CDF on another device."""
        moved = copy(self)
        moved._sorted = [ordered.to(device) for ordered in self._sorted]
        return moved


@dataclass(frozen=True)
class Members:
    """The n members of D2 with their ground truth; features and rewards are standardised.

    `expected` are the true rewards ⟨θ, x⟩, and `cdf` is of these. `order` has the positions of
    members sorted by group, in which each group begins at its position in `starts`, (G,).
    """

    contexts: Tensor
    groups: Tensor
    rewards: Tensor
    expected: Tensor
    ranks: Tensor
    order: Tensor
    starts: Tensor
    sizes: Tensor
    theta: Tensor
    cdf: GroupedCdf

    def to(self, device: torch.device) -> Members:
        """Returns the members on another device."""
        return Members(*(values.to(device) for values in vars(self).values()))


def usable(
    table: pd.DataFrame, columns: Iterable[str], taken: Sequence[str], missing: Missing
) -> pd.DataFrame:
    """Returns the rows of a table that are used, or refuses its missing cells.

    Of `taken`, the columns of the group and the reward, only `drop` leaves out missing cells of the
    group, and no mean can stand for a reward.
    """
    *groups, reward = taken
    asked = [*columns, *(groups if missing is Missing.drop else ()), reward]
    gaps = table[list(dict.fromkeys(asked))].isna()
    every, lacking = gaps.any(axis=1), int(gaps[reward].sum())
    if not every.any():
        return table
    drop, mean = (f"environment.missing={way.name}" for way in (Missing.drop, Missing.mean))
    problem = ""
    if missing is not Missing.drop and lacking:
        first, problem = reward, f"{lacking:,} of {len(table):,} rows lack {reward!r}; only {drop} "
        left_out = table[[*gaps, *groups]].isna().any(axis=1).sum()
        problem += f"can be used, which leaves out {left_out:,} in all"
    elif missing is Missing.error:
        first = next(name for name in gaps if gaps[name].any())
        problem = f"{every.sum():,} of {len(table):,} rows lack a feature; {drop} leaves them out, "
        problem += f"and {mean} fills in the mean"
    if problem:
        cells.require(table, first, ~gaps[first].to_numpy(), f"a value ({problem})")
    counts = listed([f"{count:,} of {name!r}" for name, count in gaps.sum().items() if count])
    remark(
        f"{cells.name_of(table)}: environment.missing={missing.name} concerns {every.sum():,} of "
        f"{len(table):,} rows; missing are {counts}"
    )
    return table[~every] if missing is Missing.drop else table


def kept_groups(table: pd.DataFrame, group: str, least: int) -> tuple[str, ...]:
    """Returns the labels of groups with `least` members or more, numbers first and by value."""
    name, sizes = cells.name_of(table), Counter(cells.labels(table, group).tolist())
    kept = [label for label, size in sizes.items() if size >= least]
    if len(kept) < 2:
        every = listed([f"{label!r}: {size}" for label, size in sizes.most_common()])
        raise FairbanditError(
            f"{name}: {len(kept)} group(s) of column {group!r} have at least "
            f"environment.min_group_size={least} members, and a problem needs two; the groups and "
            f"their sizes are {every or 'none'}"
        )
    check_groups(f"{name}, column {group!r}", {label: sizes[label] for label in kept})
    numbers = {label: float(label) for label in kept if re.fullmatch(NUMBER, label)}
    return tuple(sorted(kept, key=lambda label: (numbers.get(label, math.inf), label)))


def sampled(codes: Ints, most: int | None, seed: int, number: int) -> NDArray[np.bool_]:
    """Whether each row, of the group with this code or −1, is in the sample of its group.

    A sample has `most` rows, or all if `most` is None. The number of the table is 2 for D2 and 1
    for D1.
    """
    chosen = codes >= 0
    for code in range(codes.max(initial=-1) + 1):
        rows = np.flatnonzero(codes == code)
        if most is not None and len(rows) > most:
            draw = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, code)))
            chosen[draw.choice(rows, len(rows) - most, replace=False)] = False
    return chosen


def members_of(
    features: NDArray[np.float64],
    reward: NDArray[np.float64],
    codes: Ints,
    in_sample: NDArray[np.bool_],
) -> Members:
    """Returns the members of a table; the CDF of a group is of its members in the sample."""
    arrays = map(torch.from_numpy, (features, reward, codes, in_sample))
    contexts, rewards, groups, sample = arrays
    theta = ridge_fit(contexts, rewards, REGULARIZATION)
    expected = contexts @ theta
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(1 << 16)])
    sizes = torch.bincount(groups)
    order = groups.sort(stable=True).indices
    by_group = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[sample[rows]]] for rows in by_group])
    # members with equal features may be scored a few units in the last place apart
    upper = expected + ROUNDING * magnitudes
    ranks = torch.empty_like(expected)
    for group, rows in enumerate(by_group):
        ranks[rows] = cdf.share(group, upper[rows])
    starts = sizes.cumsum(0) - sizes
    truth = (expected, ranks, order, starts, sizes, theta, cdf)
    return Members(contexts, groups, rewards, *truth)


def ridge_fit(contexts: Tensor, rewards: Tensor, regularization: float) -> Tensor:
    """θ = argmin ‖Xθ − y‖² + λ‖θ‖², by orthogonal factors of chunks of rows.

    The triangular factor R of [X | y], with √λ·I as its first rows, is updated chunk by chunk.
    XᵀX, which would square the condition number, is never formed, so that the predictions Xθ stay
    accurate if columns are collinear. As λ → 0, θ tends to the solution of minimum norm.

    >>> ridge_fit(torch.eye(2), torch.tensor([2.0, 4.0]), 1.0).round(decimals=4)
    tensor([1., 2.])
    """
    d = contexts.shape[1]
    factor = torch.zeros(d, d + 1, dtype=contexts.dtype, device=contexts.device)
    factor.fill_diagonal_(math.sqrt(regularization))
    for rows, targets in zip(contexts.split(CHUNK), rewards.split(CHUNK), strict=True):
        stacked = torch.cat([factor, torch.cat([rows, targets[:, None]], dim=1)])
        factor = torch.linalg.qr(stacked, mode="r").R
    solved = torch.linalg.solve_triangular(factor[:d, :d], factor[:d, d:], upper=True)
    return solved[:, 0]
