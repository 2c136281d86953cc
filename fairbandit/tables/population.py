"""Makes the members from which a problem draws candidates, with their ground truth."""

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

REGULARIZATION = 1e-8  # λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)
ROUNDING = 8 * torch.finfo(torch.float64).eps  # of an expected reward, relative to Σᵢ|xᵢθᵢ|
CHUNK = 1 << 15  # the number of rows in one QR factorisation
Missing = Enum("Missing", ["error", "drop", "mean"])


class GroupedCdf:
    """F(v, g): the share of group g's sample, which is not empty, that is at most v.

    A share is the quotient of two whole numbers, correctly rounded, so that equal fractions of two
    groups are equal shares. `samples` are in ascending order.

    >>> cdf = GroupedCdf([torch.tensor([1.0, 2.0]), torch.tensor([5.0])])
    >>> cdf(torch.tensor([0, 0, 1]), torch.tensor([1.0, 9.0, 4.0]))
    tensor([0.5000, 1.0000, 0.0000])
    """

    def __init__(self, samples: Sequence[Tensor]) -> None:
        # NumPy sorts millions three times as fast as torch
        self.samples = [torch.from_numpy(np.sort(s.cpu().numpy())).to(s.device) for s in samples]

    def __call__(self, groups: Tensor, values: Tensor, rounds: Tensor | None = None) -> Tensor:
        """Returns the CDF of each group at its value, for any rounds; 0 where the group is −1."""
        shares, values = torch.zeros_like(values), values.contiguous()
        for group, sample in enumerate(self.samples):
            count = torch.searchsorted(sample, values, right=True)
            shares = torch.where(groups == group, count.to(values.dtype) / len(sample), shares)
        return shares

    def to(self, device: torch.device) -> GroupedCdf:
        """Returns the same CDF on another device."""
        moved = copy(self)
        moved.samples = [sample.to(device) for sample in self.samples]
        return moved


@dataclass(frozen=True)
class Members:
    """The n members of D2 with their ground truth; features and rewards are standardised.

    `expected` are the true rewards ⟨θ, x⟩, and `cdf` is their CDF. `order` has the positions of
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

    `taken` has the columns of the group and, at its end, of the reward. A row without a group is
    left out by `drop` alone, and a row without a reward is left out or refused, never filled in.
    """
    *groups, reward = taken
    needed = [*columns, *(groups if missing is Missing.drop else ()), reward]
    gaps = table[list(dict.fromkeys(needed))].isna()
    lacking = gaps.any(axis=1)
    if not lacking.any():
        return table
    drop, mean = (f"environment.missing={way.name}" for way in (Missing.drop, Missing.mean))
    refused, rows = "", f"of {len(table):,} rows"
    if missing is not Missing.drop and gaps[reward].any():
        left_out = table[[*gaps, *groups]].isna().any(axis=1).sum()
        refused, problem = (
            reward,
            f"{gaps[reward].sum():,} {rows} lack {reward!r}; only {drop} can ",
        )
        problem += f"be used, which leaves out {left_out:,} in all"
    elif missing is Missing.error:
        refused = next(name for name in gaps if gaps[name].any())
        problem = f"{lacking.sum():,} {rows} lack a feature; {drop} leaves them out, and {mean} "
        problem += "fills in the mean"
    if refused:
        cells.require(table, refused, ~gaps[refused].to_numpy(), f"a value ({problem})")
    counts = listed([f"{count:,} of {name!r}" for name, count in gaps.sum().items() if count])
    what = f"environment.missing={missing.name} concerns {lacking.sum():,} {rows}"
    remark(f"{cells.name_of(table)}: {what}; missing are {counts}")
    return table[~lacking] if missing is Missing.drop else table


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
    """Whether each row is in the sample of its group, which has `most` rows, or all if None.

    Rows of the code −1 are in no sample. The number of the table is 2 for D2 and 1 for D1.
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
    sizes = torch.bincount(groups)
    order = groups.sort(stable=True).indices
    by_group = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[sample[rows]]] for rows in by_group])
    # members with equal features may be scored a few units in the last place apart
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(1 << 16)])
    ranks = cdf(groups, expected + ROUNDING * magnitudes)
    starts = sizes.cumsum(0) - sizes
    truth = (expected, ranks, order, starts, sizes, theta, cdf)
    return Members(contexts, groups, rewards, *truth)


def ridge_fit(contexts: Tensor, rewards: Tensor, regularization: float) -> Tensor:
    """θ = argmin ‖Xθ − y‖² + λ‖θ‖²; as λ → 0, it tends to the solution of minimum norm.

    The triangular factor R of [X | y], with √λ·I as its first rows, is updated chunk by chunk.
    XᵀX, which would square the condition number, is never formed, so that the predictions Xθ stay
    accurate if columns are collinear.
    """
    d = contexts.shape[1]
    factor = torch.zeros(d, d + 1, dtype=contexts.dtype, device=contexts.device)
    factor.fill_diagonal_(math.sqrt(regularization))
    for rows, targets in zip(contexts.split(CHUNK), rewards.split(CHUNK), strict=True):
        stacked = torch.cat([factor, torch.cat([rows, targets[:, None]], dim=1)])
        factor = torch.linalg.qr(stacked, mode="r").R
    solved = torch.linalg.solve_triangular(factor[:d, :d], factor[:d, d:], upper=True)
    return solved[:, 0]
