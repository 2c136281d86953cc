"""Makes the members from which a problem draws candidates, with their ground truth.

The rows of table D2 are the members. The means and deviations of table D1 standardise the columns.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.notices import listed, remark
from fairbandit.tables import cells
from fairbandit.tables.cells import name_of
from fairbandit.tables.columns import check_groups, resolve_columns, with_group
from fairbandit.tables.grouped_cdf import GroupedCdf
from fairbandit.tables.labels import NUMBER
from fairbandit.tables.least_squares import ridge_fit

if TYPE_CHECKING:
    import pandas as pd

REGULARIZATION = 1e-8
"""λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)."""

LEAK = 0.99
"""A feature with a larger correlation with the reward may be known only after it."""

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""How far apart two computations of one expected reward may be, relative to Σᵢ|xᵢθᵢ|."""


class Missing(Enum):
    """The treatment of missing cells."""

    error = "a missing cell is an error"
    drop = "a row that lacks its group, its reward or a feature is left out"
    mean = "a missing feature gets the mean of D1, which is 0 once it is standardised"


class Chosen(NamedTuple):
    """A table, and which of its columns become features; `left_out` has the reasons for others."""

    table: pd.DataFrame
    columns: dict[str, Any]
    left_out: dict[str, str]
    of_group: bool


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


def choose(
    table: pd.DataFrame,
    taken: Sequence[str],
    columns: Mapping[str, Any] | None,
    exclude: Sequence[str],
    group_feature: bool,
    unknown: Sequence[str] = (),
    remedy: str = "",
) -> Chosen:
    """Chooses the features of a table; `taken` are the columns of its group, and the reward."""
    cells.need(table, [*taken, *(columns or ())])
    specs, left_out = resolve_columns(table, columns, taken, exclude, remedy)
    specs, of_group = with_group(specs, table, taken, exclude, group_feature)
    return Chosen(cells.with_unknown(table, taken[:-1], unknown), specs, left_out, of_group)


def note_leaks(source: pd.DataFrame, columns: Mapping[str, Any], reward: str) -> None:
    """Notes the columns of numbers that nearly determine the reward, as later outcomes do."""
    import pandas as pd

    numbers = [name for name, spec in columns.items() if spec is None]
    table = pd.DataFrame({name: cells.numbers(source, name) for name in numbers})
    with np.errstate(invalid="ignore"):  # a constant column has no correlation
        alike = table.corrwith(pd.Series(cells.numbers(source, reward))).abs()
    if leaks := [repr(name) for name in numbers if alike[name] > LEAK]:
        remark(
            f"{name_of(source)}: the reward has a correlation above {LEAK:g} with {listed(leaks)}; "
            "exclude=[…] leaves out what is known only afterwards"
        )


def find_gaps(
    source: pd.DataFrame,
    taken: Sequence[str],
    columns: Iterable[str],
    missing: Missing,
    setting: str,
) -> tuple[pd.DataFrame, str]:
    """Returns whether each cell is missing, and which error the missing cells are.

    The error is "" if all missing cells are treated. Of `taken`, only `drop` leaves out missing
    cells of the group, and no mean can stand for a reward. `setting` is how the caller writes a
    treatment, such as `missing={}`.
    """
    *groups, reward = taken
    asked = [*columns, *(groups if missing is Missing.drop else ()), reward]
    gaps = source[list(dict.fromkeys(asked))].isna()
    drop, mean = (setting.format(way.name) for way in (Missing.drop, Missing.mean))
    lacking, every = gaps[reward], int(gaps.any(axis=1).sum())
    rows, problem = f"{len(source):,} rows", ""
    if missing is not Missing.drop and lacking.any():
        problem = f"{lacking.sum():,} of {rows} lack {reward!r}; only {drop} can be used, "
        problem += f"which leaves out {every:,} rows"
    elif missing is Missing.error and every:
        problem = f"{every:,} of {rows} lack a feature; {drop} leaves them out, and {mean} fills in"
        problem += " the mean"
    return gaps, problem


def usable(
    table: pd.DataFrame,
    columns: Mapping[str, Any],
    taken: Sequence[str],
    missing: Missing,
    setting: str = "environment.missing={}",
) -> pd.DataFrame:
    """Returns the rows of a table that are used, after checking its gaps; see `find_gaps`."""
    gaps, problem = find_gaps(table, taken, columns, missing, setting)
    if problem:
        first = next(name for name in (taken[-1], *gaps) if gaps[name].any())
        cells.require(table, first, ~gaps[first].to_numpy(), f"a value ({problem})")
    if gaps.any(axis=None):
        counts = listed([f"{count:,} of {name!r}" for name, count in gaps.sum().items() if count])
        remark(
            f"{cells.name_of(table)}: environment.missing={missing.name} concerns "
            f"{gaps.any(axis=1).sum():,} of {len(table):,} rows; missing are {counts}"
        )
    return table[~gaps.any(axis=1)] if missing is Missing.drop else table


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


class Part(NamedTuple):
    """The rows of a table whose groups are kept: their numbers, and which of them are sampled."""

    table: pd.DataFrame
    groups: NDArray[np.int64]
    sampled: NDArray[np.bool_]


class Sample(NamedTuple):
    """A sample of `most` rows of each group, or of all; if `thin`, other rows are left out."""

    most: int | None
    seed: int
    thin: bool

    def part(self, table: pd.DataFrame, number: int, group: str, kept: Sequence[str]) -> Part:
        """Returns the rows of the groups `kept` of a table; its number is 2 for D2, 1 for D1."""
        import pandas as pd  # here, since it takes a third of a second

        codes = pd.Index(kept).get_indexer(cells.labels(table, group)).astype(np.int64)
        sampled = codes >= 0
        for code in range(len(kept)):
            rows = np.flatnonzero(codes == code)
            excess = len(rows) - (self.most or len(rows))
            if excess > 0:
                seeds = np.random.SeedSequence(self.seed, spawn_key=(number, code))
                sampled[np.random.default_rng(seeds).choice(rows, excess, replace=False)] = False
        rows = sampled if self.thin else codes >= 0
        return Part(table[rows], codes[rows], sampled[rows])


def members_of(features: NDArray[np.float64], reward: NDArray[np.float64], own: Part) -> Members:
    """Returns the members of a table, from their features, rewards, groups and the sample."""
    arrays = map(torch.from_numpy, (features, reward, own.groups, own.sampled))
    contexts, rewards, groups, sampled = arrays
    theta = ridge_fit(contexts, rewards, REGULARIZATION)
    expected = contexts @ theta
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(1 << 16)])
    sizes = torch.bincount(groups)
    order = groups.sort(stable=True).indices
    by_group = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[sampled[rows]]] for rows in by_group])
    # members with equal features may be scored a few units in the last place apart
    upper = expected + ROUNDING * magnitudes
    ranks = torch.empty_like(expected)
    for group, rows in enumerate(by_group):
        ranks[rows] = cdf.share(group, upper[rows])
    starts = sizes.cumsum(0) - sizes
    truth = (expected, ranks, order, starts, sizes, theta, cdf)
    return Members(contexts, groups, rewards, *truth)
