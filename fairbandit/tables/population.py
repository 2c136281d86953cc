"""Makes the members from which a problem draws candidates, with their ground truth.

The rows of table D2 are the members. The means and deviations of table D1 standardise the columns.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.notices import listed, remark
from fairbandit.tables.columns import check_groups, resolve_columns, with_group
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.grouped_cdf import GroupedCdf
from fairbandit.tables.labels import NUMBER
from fairbandit.tables.least_squares import ridge_fit
from fairbandit.tables.reading import MEMORY, read_table
from fairbandit.tables.scaling import scales
from fairbandit.tables.source import Source

if TYPE_CHECKING:
    import pandas as pd

REGULARIZATION = 1e-8
"""λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)."""

_REMEDY = (
    "environment.columns chooses the features, as in 'environment.columns={NAME: null, NAME: "
    "category}', or in a YAML file, environment.columns=FILE.yaml; null is a number"
)

LEAK = 0.99
"""A feature with a larger correlation with the reward may be known only after it."""

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""How far apart two computations of one expected reward may be, relative to Σᵢ|xᵢθᵢ|."""


class Missing(Enum):
    """The treatment of missing cells."""

    error = "a missing cell is an error"
    drop = "a row that lacks its group, its reward or a feature is left out"
    mean = "a missing feature gets the mean of D1, which is 0 once it is standardised"


@dataclass(frozen=True)
class Request:
    """The arguments of `Table` that determine its population, and a hash of its files.

    `group` joins the names of `groups`. If `thin`, only the sampled members are kept; otherwise the
    sample makes the true reward CDFs alone, and all members the true θ and the pools.
    """

    path: str
    scaler_path: str | None
    groups: tuple[str, ...]
    group: str
    reward: str
    columns: Mapping[str, Any] | None = field(hash=False)
    exclude: tuple[str, ...]
    group_feature: bool
    bias: bool
    min_group_size: int
    group_size: int | None
    thin: bool
    sample_seed: int
    missing: Missing
    products: Any
    separator: str
    decimal: str
    missing_values: tuple[str, ...] | None
    unknown: tuple[str, ...]
    fingerprint: str | None

    @property
    def taken(self) -> tuple[str, ...]:
        """The columns of the group and of the reward."""
        return (*self.groups, self.reward)

    @property
    def marks(self) -> tuple[str, str, tuple[str, ...] | None]:
        """How cells are separated and read."""
        return self.separator, self.decimal, self.missing_values


class Chosen(NamedTuple):
    """A table, and which of its columns become features.

    Attributes:
        source: the table; a further column joins several columns of the group.
        columns: the specification of each column that becomes a feature.
        left_out: the reason for each column that does not.
        of_group: whether the group is a feature beside them.
    """

    source: Source
    columns: dict[str, Any]
    left_out: dict[str, str]
    of_group: bool


@dataclass(frozen=True)
class Members:
    """The n members of D2 with their ground truth.

    Attributes:
        contexts: standardised features, (n, d) float64.
        groups: (n,) int64.
        rewards: the standardised reward column, (n,).
        expected: the true rewards ⟨θ, x⟩, (n,).
        ranks: the true relative ranks, (n,).
        order: the members' positions, sorted by group, (n,) int64.
        starts: the position in `order` at which each group begins, (G,) int64.
        sizes: the number of members of each group, (G,) int64.
        theta: the ridge fit of the standardised reward, (d,).
        cdf: the CDF of each group's true rewards.
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


@dataclass(frozen=True)
class Population:
    """The members, their groups' labels, the encoder, and the columns with all codes.

    The reward was standardised with `mean` and `deviation`.
    """

    members: Members
    groups: tuple[str, ...]
    encoder: Encoder
    columns: Mapping[str, Any]
    mean: float
    deviation: float


@lru_cache(1)
def load_population(request: Request) -> Population:
    """Reads D2, and D1 if it is another file; the last population is cached for the next job."""
    table, columns, _, of_group = read_chosen(request, _REMEDY)
    sources = [table]
    if request.scaler_path:
        wanted = [*request.taken, *columns]
        first = read_table(request.scaler_path, wanted, False, *request.marks)
        sources.append(first.with_unknown(request.groups, request.unknown))
    sources = [_usable(source, columns, request) for source in sources]
    kept = _kept_groups(sources[0], request)
    parts = [_part(*pair, kept, request) for pair in zip(sources, (2, 1), strict=False)]
    (second, *of_second), (first, *_) = parts[0], parts[-1]
    rewards = Encoder.fitted({request.reward: None}, first)(second)[:, 0]
    group = request.group if of_group else None
    features = {**columns, **({group: list(kept)} if group else {})}
    listed_group = features.keys() >= {*request.groups}
    fill, groups = request.missing is Missing.mean, request.groups if group or listed_group else ()
    marked = [group] if group else []
    fitting: dict[str, Any] = {"fill": fill, "bias": request.bias, "groups": groups}
    fitting |= {"labels": kept} if listed_group else {}
    fitting |= {"unknown": request.unknown} if groups else {}
    encoder = Encoder.fitted(features, first, marked, request.products, **fitting)
    note_leaks(second, columns, request.reward)
    members = _members(encoder(second), rewards, *of_second, count=len(kept))
    (mean,), (deviation,) = scales(first.numbers(request.reward)[:, None])
    return Population(members, kept, encoder, columns, mean, deviation)


def read_chosen(request: Request, remedy: str = "") -> Chosen:
    """Reads D2 and chooses its features; `remedy` is as for `resolve_columns`."""
    taken, chosen = request.taken, request.columns
    wanted = [*taken, *(chosen or ())]
    source = read_table(request.path, wanted, chosen is None, *request.marks)
    columns, left_out = resolve_columns(source, chosen, taken, request.exclude, remedy)
    options = request.exclude, request.group_feature
    columns, of_group = with_group(columns, source, taken, *options)
    source = source.with_unknown(request.groups, request.unknown)
    return Chosen(source, columns, left_out, of_group)


def note_leaks(source: Source, columns: Mapping[str, Any], reward: str) -> None:
    """Notes the columns of numbers that nearly determine the reward, as later outcomes do."""
    import pandas as pd

    numbers = [name for name, spec in columns.items() if spec is None]
    table = pd.DataFrame({name: source.numbers(name) for name in numbers})
    with np.errstate(invalid="ignore"):  # a constant column has no correlation
        alike = table.corrwith(pd.Series(source.numbers(reward))).abs()
    if leaks := [repr(name) for name in numbers if alike[name] > LEAK]:
        remark(
            f"{source.name}: the reward has a correlation above {LEAK:g} with {listed(leaks)}; "
            "exclude=[…] leaves out what is known only afterwards"
        )


def find_gaps(
    source: Source, taken: Sequence[str], columns: Iterable[str], missing: Missing, setting: str
) -> tuple[pd.DataFrame, str]:
    """Returns whether each cell is missing, and which error the missing cells are.

    Args:
        source: the table.
        taken: the columns of the group, whose missing cells only `drop` leaves out, and last of
            the reward, for whose cells no mean can stand.
        columns: the columns that are features.
        missing: the treatment of missing cells; if it treats all of them, the error is "".
        setting: how the caller writes a treatment, such as `missing={}`.
    """
    *groups, reward = taken
    asked = [*columns, *(groups if missing is Missing.drop else ()), reward]
    gaps = source.frame[list(dict.fromkeys(asked))].isna()
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


def _usable(source: Source, columns: Mapping[str, Any], request: Request) -> Source:
    frame, taken = source.frame, request.taken
    setting = 'missing="{}"' if request.path.startswith(MEMORY) else "environment.missing={}"
    gaps, problem = find_gaps(source, taken, columns, request.missing, setting)
    if problem:
        first = next(name for name in (request.reward, *gaps) if gaps[name].any())
        source.require(first, ~gaps[first].to_numpy(), f"a value ({problem})")
    if request.missing is Missing.drop:
        frame = frame[~gaps.any(axis=1)]
    if gaps.any(axis=None):
        counts = listed([f"{count:,} of {name!r}" for name, count in gaps.sum().items() if count])
        remark(
            f"{source.name}: environment.missing={request.missing.name} concerns "
            f"{gaps.any(axis=1).sum():,} of {len(source):,} rows; missing are {counts}"
        )
    return replace(source, frame=frame)


def _kept_groups(source: Source, request: Request) -> tuple[str, ...]:
    """Returns the labels of groups that are large enough, numbers first and by value."""
    sizes = Counter(source.labels(request.group).tolist())
    kept = [group for group, size in sizes.items() if size >= request.min_group_size]
    if len(kept) < 2:
        every = listed([f"{group!r}: {size}" for group, size in sizes.most_common()])
        raise FairbanditError(
            f"{source.name}: {len(kept)} group(s) of column {request.group!r} have at least "
            f"environment.min_group_size={request.min_group_size} members, and a problem needs "
            f"two; the groups and their sizes are {every or 'none'}"
        )
    where = f"{source.name}, column {request.group!r}"
    check_groups(where, {label: sizes[label] for label in kept})
    numbers = {label: float(label) for label in kept if re.fullmatch(NUMBER, label)}
    return tuple(sorted(kept, key=lambda label: (numbers.get(label, math.inf), label)))


def _part(
    source: Source, table: int, kept: Sequence[str], request: Request
) -> tuple[Source, NDArray[np.int64], NDArray[np.bool_]]:
    """Returns the rows of D2 (`table` 2) or D1 (1), their groups, and whether they are sampled."""
    import pandas as pd  # here, since it takes a third of a second

    codes = pd.Index(kept).get_indexer(source.labels(request.group)).astype(np.int64)
    sampled = codes >= 0
    for group in range(len(kept)):
        rows = np.flatnonzero(codes == group)
        excess = len(rows) - (request.group_size or len(rows))
        if excess > 0:
            seeds = np.random.SeedSequence(request.sample_seed, spawn_key=(table, group))
            sampled[np.random.default_rng(seeds).choice(rows, excess, replace=False)] = False
    rows = sampled if request.thin else codes >= 0
    return replace(source, frame=source.frame[rows]), codes[rows], sampled[rows]


def _members(*arrays: NDArray[Any], count: int) -> Members:
    """Returns the members of `count` groups, from features, rewards, groups and the sample."""
    contexts, rewards, groups, sampled = map(torch.from_numpy, arrays)
    theta = ridge_fit(contexts, rewards, REGULARIZATION)
    expected = contexts @ theta
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(1 << 16)])
    sizes = torch.bincount(groups, minlength=count)
    order = groups.sort(stable=True).indices
    members_of = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[sampled[rows]]] for rows in members_of])
    # members with equal features may be scored a few units in the last place apart
    upper = expected + ROUNDING * magnitudes
    ranks = torch.empty_like(expected)
    for group, rows in enumerate(members_of):
        ranks[rows] = cdf.share(group, upper[rows])
    starts = sizes.cumsum(0) - sizes
    truth = (expected, ranks, order, starts, sizes, theta, cdf)
    return Members(contexts, groups, rewards, *truth)
