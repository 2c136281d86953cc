"""Makes the members that a problem draws candidates from, and computes their ground truth.

D1 is the table whose means and standard deviations standardise the columns. D2 is the table whose
rows, the members, become candidates.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments.columns import CHOOSE, codes_and_reference, resolve_columns
from fairbandit.environments.reading import MOST_COLUMNS, NUMBER, Source, listed, read_table, remark
from fairbandit.errors import FairbanditError
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.maths.least_squares import ridge_fit

REGULARIZATION = 1e-8
"""λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)."""

GAP = 0.1
"""The difference of two groups' mean rewards, in standard deviations, that calls for a notice."""

_CHUNK = 1 << 16

ROUNDING = 8 * torch.finfo(torch.float64).eps
"""How far apart two computations of one expected reward may be, relative to Σᵢ|xᵢθᵢ|."""


class Missing(Enum):
    """What is done with missing cells."""

    error = "a missing cell is an error"
    drop = "a row that lacks its group, its reward or a feature is left out"
    mean = "a feature that is missing gets the mean of D1, which is 0 once it is standardised"


@dataclass(frozen=True)
class Request:
    """The arguments of `Table` that decide on its population, and the hashes of its files.

    `columns` is the mapping that was chosen, or None. If `thin`, members that are not sampled are
    dropped. If not, all are kept, for the fit of the true θ and for play, and only the true reward
    CDFs are of the sample.
    """

    path: str
    scaler_path: str | None
    group: str
    reward: str
    columns: Mapping[str, Any] | None = field(hash=False)
    group_feature: bool
    bias: bool
    min_group_size: int
    group_size: int | None
    thin: bool
    sample_seed: int
    missing: Missing
    separator: str
    decimal: str
    hashes: tuple[str | None, ...]


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
    """

    contexts: Tensor
    groups: Tensor
    rewards: Tensor
    expected: Tensor
    ranks: Tensor
    order: Tensor
    starts: Tensor
    sizes: Tensor

    def to(self, device: torch.device) -> Members:
        """The same members on another device."""
        return Members(*(values.to(device) for values in vars(self).values()))


@dataclass(frozen=True)
class Population:
    """The members, with their groups' labels and what their columns became.

    `theta`, (d,), is the ridge fit of the standardised reward on D2, and `cdf` that of each group's
    true rewards. `columns` has the codes of each category.
    """

    members: Members
    groups: tuple[str, ...]
    features: tuple[str, ...]
    columns: Mapping[str, Any]
    theta: Tensor
    cdf: GroupedCdf


@dataclass(frozen=True)
class _Part:
    """The rows of D1 or of D2 that are used, (n,), each one's group, and if a CDF counts it."""

    source: Source
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]
    counted: NDArray[np.bool_]


@lru_cache(1)
def load_population(request: Request) -> Population:
    """Reads D2, and D1 where it is another file; the last population is kept for the next job.

    Raises:
        FairbanditError: a file or a cell cannot be used, or fewer than two groups are left.
    """
    taken, every = (request.group, request.reward), request.columns is None
    wanted, marks = [*taken, *(request.columns or ())], (request.separator, request.decimal)
    paths = filter(None, (request.path, request.scaler_path))
    sources = [read_table(path, wanted, every, *marks) for path in paths]
    columns, left_out = resolve_columns(sources, request.columns, taken)
    if left_out:
        text = listed([f"{name!r} ({reason})" for name, reason in left_out.items()])
        remark(f"{request.path}: these columns are no features: {text}. {CHOOSE}")
    labels = [_labels(source, columns, request) for source in sources]
    kept = _kept_groups(sources[0].name, labels[0], request)
    parts = [_part(*own, kept, request) for own in zip(sources, labels, (2, 1), strict=False)]
    members, first = parts[0], parts[-1]
    features = dict(columns)
    if request.group_feature and request.group not in columns:
        features[request.group] = list(kept)
    names = _names(features, request.bias)
    contexts = np.ones((len(members.rows), len(names)))
    filled, at = {}, 0
    for column, spec in features.items():
        block = _scaled(column, spec, members, first, column not in columns)
        gaps = np.isnan(block)
        if gaps.any():
            filled[column] = int(gaps[:, 0].sum())
        contexts[:, at : at + block.shape[1]] = np.where(gaps, 0.0, block)
        at += block.shape[1]
    if filled:
        _remark_gaps(members.source, f"mean fills in {sum(filled.values()):,} cells:", filled)
    rewards = _scaled(request.reward, None, members, first)[:, 0]
    if (rewards == rewards[0]).all():
        problem = "all rewards of the groups in use are one number, so there is nothing to learn "
        problem += "and every regret would be 0"
        raise members.source.error(request.reward, None, problem)
    if request.group not in features:
        _notice_gap(request, rewards, members.groups, kept)
    theta, made, cdf = _truth(contexts, rewards, members, len(kept))
    return Population(made, kept, names, columns, theta, cdf)


def _names(features: Mapping[str, Any], bias: bool) -> tuple[str, ...]:
    """The names of the features: `age`, `job=1`, `job=2`, …, `sex=f`, `sex=m`, `bias`."""
    names: list[str] = []
    for column, spec in features.items():
        names += [f"{column}={code}" for code in codes_and_reference(spec)[0]] or [column]
    names += ["bias"] * bias
    if len(names) > MOST_COLUMNS:
        raise FairbanditError(
            f"the columns make {len(names):,} features, and a problem has at most "
            f"{MOST_COLUMNS:,}; environment.columns chooses fewer columns or codes, and "
            "environment.group_feature=false leaves out those of the groups"
        )
    return tuple(names)


def _labels(source: Source, columns: Mapping[str, Any], request: Request) -> NDArray[Any]:
    """The group label of each row; None where the row is left out."""
    labels = source.labels(request.group)
    gaps = {name: source.gaps(name) for name in (*columns, request.group, request.reward)}
    if request.missing is Missing.drop:
        left_out = np.logical_or.reduce([*gaps.values()])
        labels[left_out] = None
        if left_out.any():
            done = f"leaves out {left_out.sum():,} of {len(labels):,} rows; missing are"
            _remark_gaps(source, f"drop {done}", {name: rows.sum() for name, rows in gaps.items()})
        return labels
    for name, rows in gaps.items():
        if request.missing is Missing.error or name in (request.group, request.reward):
            source.require_cells(name, rows)
    return labels


def _remark_gaps(source: Source, done: str, cells: Mapping[str, int]) -> None:
    counts = listed([f"{count:,} of {name!r}" for name, count in cells.items() if count])
    remark(f"{source.name}: environment.missing={done} {counts}")


def _kept_groups(name: str, labels: NDArray[Any], request: Request) -> tuple[str, ...]:
    """The labels of the groups that are large enough, sorted; numbers come first, by value."""
    sizes = Counter(filter(None, labels))
    kept = [group for group, size in sizes.items() if size >= request.min_group_size]
    if len(kept) < 2:
        found = listed([f"{group!r}: {size}" for group, size in sizes.most_common()])
        raise FairbanditError(
            f"{name}: {len(kept)} group(s) of column {request.group!r} have at least "
            f"environment.min_group_size={request.min_group_size} members, and a problem needs "
            f"two; the groups and their sizes are {found or 'none'}; environment.group names "
            "another column"
        )
    return tuple(sorted(kept, key=_by_value))


def _by_value(label: str) -> tuple[int, float, str]:
    """A key that sorts labels: numbers first and by value, then texts."""
    return (0, float(label), label) if re.fullmatch(NUMBER, label) else (1, 0.0, label)


def _places(cells: Any, values: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each cell among the values; −1 if it is none of them."""
    import pandas as pd  # here, since it takes a third of a second

    return np.asarray(pd.Index(values).get_indexer(cells), dtype=np.int64)


def _part(
    source: Source, labels: NDArray[Any], table: int, kept: Sequence[str], request: Request
) -> _Part:
    codes = _places(labels, kept)
    if (codes < 0).all():
        raise FairbanditError(
            f"{source.name} has no member of the groups {listed(list(map(repr, kept)))} in column "
            f"{request.group!r}, so it cannot standardise their features"
        )
    used, size = codes >= 0, request.group_size or len(codes)
    counted = used.copy()
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(kept)))
    for group, rows in enumerate(np.split(order, edges)[1:]):
        if len(rows) > size:
            seeds = np.random.SeedSequence(request.sample_seed, spawn_key=(table, group))
            excess = len(rows) - size
            counted[np.random.default_rng(seeds).choice(rows, excess, replace=False)] = False
    rows = np.flatnonzero(counted if request.thin else used)
    return _Part(source, rows, codes[rows], counted[rows])


def _encoded(part: _Part, column: str, spec: Any, of_groups: bool) -> NDArray[np.float64]:
    """The features of a column before they are standardised, (n, width); NaN if missing."""
    source, rows = part.source, part.rows
    codes, reference = codes_and_reference(spec)
    if not codes:
        return source.numbers(column)[rows, None]
    each = np.arange(len(codes))
    if of_groups:
        return (part.groups[:, None] == each).astype(np.float64)
    texts = isinstance(codes[0], str)
    cells = source.cells(column) if texts else source.numbers(column)
    known = [normalize("NFC", code) if texts else float(code) for code in [*codes, *reference]]
    places, missing = _places(cells, known), source.gaps(column)
    unknown = (places < 0) & ~missing
    if unknown.any():
        row, given = int(unknown.argmax()), listed([repr(code) for code in [*codes, *reference]])
        problem = f"expected one of the codes {given}; got {str(cells[row])!r}"
        raise source.error(column, row, problem)
    features = (places[rows, None] == each).astype(np.float64)
    features[missing[rows]] = np.nan
    return features


def _scaled(
    column: str, spec: Any, members: _Part, first: _Part, of_groups: bool = False
) -> NDArray[np.float64]:
    """The features of a column by the means and standard deviations of D1, (n, width).

    Missing cells, which are NaN, count in neither. What is constant in D1 is centred alone.
    """
    block = _encoded(members, column, spec, of_groups)
    fit = block if first is members else _encoded(first, column, spec, of_groups)
    if np.isnan(fit).all(axis=0).any():
        problem = "all cells of the groups in use are missing, so that there is no mean to fill in"
        raise first.source.error(column, None, f"{problem}; leave it out of environment.columns")
    low, high = np.nanmin(fit, axis=0), np.nanmax(fit, axis=0)
    constant = low == high
    centre = np.where(constant, low, np.nanmean(fit, axis=0))
    scale = np.where(constant, 1.0, np.nanstd(fit, axis=0))
    return (block - centre) / scale


def _notice_gap(
    request: Request, rewards: NDArray[np.float64], codes: NDArray[np.int64], kept: Sequence[str]
) -> None:
    sizes = np.bincount(codes, minlength=len(kept))
    means = np.bincount(codes, rewards, minlength=len(kept)) / sizes
    top, bottom = int(means.argmax()), int(means.argmin())
    gap = float(means[top] - means[bottom])
    if gap > max(GAP, 3 * math.sqrt(1 / sizes[top] + 1 / sizes[bottom])):  # not by chance
        remark(
            f"{request.path}: the mean {request.reward!r} of {request.group!r} {kept[top]!r} is "
            f"{gap:.2g} standard deviations above that of {kept[bottom]!r}, and with "
            "environment.group_feature=false the true rewards miss what differs by group alone"
        )


def _truth(
    features: NDArray[np.float64], column: NDArray[np.float64], part: _Part, count: int
) -> tuple[Tensor, Members, GroupedCdf]:
    """θ, the members of `count` groups, and the CDFs of the true rewards of those counted."""
    contexts, rewards = torch.from_numpy(features), torch.from_numpy(column)
    groups, counted = torch.from_numpy(part.groups), torch.from_numpy(part.counted)
    theta = ridge_fit(contexts, rewards, REGULARIZATION)
    expected = contexts @ theta
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(_CHUNK)])
    sizes = torch.bincount(groups, minlength=count)
    order = groups.sort(stable=True).indices
    members_of = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[counted[rows]]] for rows in members_of])
    # members with equal features may be scored a few units in the last place apart
    upper = expected + ROUNDING * magnitudes
    ranks = torch.empty_like(expected)
    for group, rows in enumerate(members_of):
        ranks[rows] = cdf.share(group, upper[rows])
    starts = sizes.cumsum(0) - sizes
    return theta, Members(contexts, groups, rewards, expected, ranks, order, starts, sizes), cdf
