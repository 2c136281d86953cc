"""Makes the members that a problem draws candidates from, and computes their ground truth.

D1 is the table whose means and standard deviations standardise the columns. D2 is the table whose
rows, the members, become candidates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments.columns import codes_and_reference, resolve_columns
from fairbandit.environments.reading import NUMBER, Source, canonical, listed, read_table
from fairbandit.environments.remarks import remark
from fairbandit.errors import FairbanditError
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.maths.roots import ridge_fit
from fairbandit.maths.ties import upper_score

REGULARIZATION = 1e-8
"""λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)."""

RESOLUTION = 1e-8
"""The least relative deviation of a column; rounding errors of 1.1e-16 then leave eight digits."""

MOST_FEATURES = 5_000
"""The greatest d; a policy keeps matrices of d×d numbers for each replica."""

GAP = 0.1
"""The difference of two groups' mean rewards, in standard deviations, that calls for a notice."""

_CHUNK = 1 << 16


class Missing(Enum):
    """What is done with missing cells."""

    error = "a missing cell is an error"
    drop = "a row that lacks its group, its reward or a feature is left out"
    mean = "a feature that is missing gets the mean of D1, which is 0 once it is standardised"


@dataclass(frozen=True)
class Request:
    """The arguments of `Table` that decide on its population, some of which are changed.

    Attributes:
        columns: the mapping that was chosen, or None.
        thin: whether members that are not sampled are dropped. If not, all members are kept, for
            the fit of the true θ and for play, and only the true reward CDFs are of the sample.
        versions: the sizes and times of the files.
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
    versions: tuple[Any, ...]


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
    """All that is known of a table's members.

    Attributes:
        members: the members.
        groups: the labels of their groups.
        features: the names of the features.
        columns: the columns with the codes of each category.
        theta: θ, the ridge fit (λ = 1e-8) of the standardised reward on D2, (d,).
        cdf: the CDF of each group's true rewards.
    """

    members: Members
    groups: tuple[str, ...]
    features: tuple[str, ...]
    columns: Mapping[str, Any]
    theta: Tensor
    cdf: GroupedCdf


@dataclass(frozen=True)
class _Part:
    """The rows of D1 or of D2 that are used, (n,), and the index of each one's group, (n,)."""

    source: Source
    rows: NDArray[np.int64]
    groups: NDArray[np.int64]


@lru_cache(1)
def load_population(request: Request) -> Population:
    """Reads D2, and D1 where it is another file; the last population is kept for the next job.

    Raises:
        FairbanditError: a file or a cell cannot be used, or fewer than two groups are left.
    """
    paths = [request.path, *([request.scaler_path] if request.scaler_path else [])]
    taken = (request.group, request.reward)
    sources = [
        read_table(
            path,
            [*taken, *(request.columns or ())],
            every=request.columns is None,
            separator=request.separator,
            decimal=request.decimal,
        )
        for path in paths
    ]
    columns = resolve_columns(sources, request.columns, taken)
    members, in_cdf, kept = _used(sources[0], columns, request)
    first = members if len(sources) == 1 else _used(sources[1], columns, request, kept)[0]
    features = dict(columns)
    if request.group_feature and request.group not in columns:
        features[request.group] = list(kept)
    names = _names(features, request.bias)
    contexts = np.ones((len(members.rows), len(names)))
    filled, at = {}, 0
    for column, spec in features.items():
        block = _scaled(column, spec, members, first, of_groups=column not in columns)
        gaps = np.isnan(block)
        if gaps.any():
            filled[column] = int(gaps[:, 0].sum())
        contexts[:, at : at + block.shape[1]] = np.where(gaps, 0.0, block)
        at += block.shape[1]
    if filled:
        cells = f"fills in {sum(filled.values()):,} cells: {_counts(filled)}"
        remark(f"{members.source.name}: environment.missing=mean {cells}")
    rewards = _scaled(request.reward, None, members, first)[:, 0]
    if (rewards == rewards[0]).all():
        problem = "all rewards of the groups in use are one number, so there is nothing to learn "
        problem += "and every regret would be 0"
        raise members.source.error(request.reward, None, problem)
    if request.group not in features:
        _notice_gap(request, rewards, members.groups, kept)
    x, y, groups, counted = map(torch.from_numpy, (contexts, rewards, members.groups, in_cdf))
    theta, made, cdf = _truth(x, y, groups, counted, len(kept))
    return Population(made, kept, names, columns, theta, cdf)


def _used(
    source: Source, columns: Mapping[str, Any], request: Request, kept: tuple[str, ...] = ()
) -> tuple[_Part, NDArray[np.bool_], tuple[str, ...]]:
    """The rows that are used, whether each is counted in a true CDF, and the groups' labels.

    The groups of D1 are those that are kept of D2.
    """
    table = 1 if kept else 2
    labels, codes = _labels(source, columns, request)
    kept = kept or _kept_groups(source, labels, codes, request)
    place = {name: index for index, name in enumerate(kept)}
    # the index −1 of a row that is left out takes the last entry
    codes = np.array([*(place.get(name, -1) for name in labels), -1])[codes]
    sampled = _sample(codes, request, table)
    rows = np.flatnonzero((sampled if request.thin else codes) >= 0)
    if not len(rows):
        raise FairbanditError(
            f"{source.name} has no member of the groups {listed(list(map(repr, kept)))} in column "
            f"{request.group!r}, so it cannot standardise their features; it has the groups "
            f"{listed(list(map(repr, sorted(labels, key=_by_value))))}"
        )
    return _Part(source, rows, codes[rows]), sampled[rows] >= 0, kept


def _names(features: Mapping[str, Any], bias: bool) -> tuple[str, ...]:
    """The names of the features: `age`, `job=1`, `job=2`, …, `sex=f`, `sex=m`, `bias`."""
    names: list[str] = []
    for column, spec in features.items():
        names += [f"{column}={code}" for code in codes_and_reference(spec)[0]] or [column]
    names += ["bias"] * bias
    if len(names) > MOST_FEATURES:
        raise FairbanditError(
            f"the columns make {len(names):,} features, and a problem has at most "
            f"{MOST_FEATURES:,}; environment.columns chooses fewer columns or codes, and "
            "environment.group_feature=false leaves out those of the groups"
        )
    return tuple(names)


def _labels(
    source: Source, columns: Mapping[str, Any], request: Request
) -> tuple[list[str], NDArray[np.int64]]:
    """The group labels, and the index of each row's label; −1 where the row is left out."""
    if not len(source):
        raise FairbanditError(f"{source.name} has a header and no rows")
    labels, codes = source.labels(request.group)
    gaps = {name: source.gaps(name, _valid(spec)) for name, spec in columns.items()}
    gaps |= {request.group: codes < 0, request.reward: source.gaps(request.reward)}
    if request.missing is Missing.drop:
        codes = np.where(np.logical_or.reduce([*gaps.values()]), -1, codes)
        if left_out := int((codes < 0).sum()):
            done = f"leaves out {left_out:,} of {len(codes):,} rows"
            counts = _counts({name: int(rows.sum()) for name, rows in gaps.items()})
            remark(f"{source.name}: environment.missing=drop {done}; missing are {counts}")
        return labels, codes
    for name, rows in gaps.items():
        if request.missing is Missing.error or name in (request.group, request.reward):
            source.require_cells(name, rows)
    return labels, codes


def _valid(spec: Any) -> list[str]:
    """The codes that are texts, of which one may spell a missing value."""
    codes, reference = codes_and_reference(spec)
    return [code for code in [*codes, *reference] if isinstance(code, str)]


def _counts(cells: Mapping[str, int]) -> str:
    """How many cells of each column there are, in words, without the columns of none."""
    return listed([f"{count:,} of {name!r}" for name, count in cells.items() if count])


def _kept_groups(
    source: Source, labels: list[str], codes: NDArray[np.int64], request: Request
) -> tuple[str, ...]:
    """The labels of the groups that are large enough, sorted; numbers come first, by value."""
    counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
    sizes = dict(zip(labels, counts, strict=True))
    kept = [name for name in labels if sizes[name] >= request.min_group_size]
    if len(kept) < 2:
        largest = sorted(sizes, key=lambda name: -sizes[name])
        found = listed([f"{name!r}: {sizes[name]}" for name in largest])
        raise FairbanditError(
            f"{source.name}: {len(kept)} group(s) of column {request.group!r} have at least "
            f"environment.min_group_size={request.min_group_size} members, and a problem needs "
            f"two; the groups and their sizes are {found or 'none'}; environment.group names "
            "another column"
        )
    return tuple(sorted(kept, key=_by_value))


def _by_value(label: str) -> tuple[int, float, str]:
    """A key that sorts labels: numbers first and by value, then texts."""
    return (0, float(label), label) if re.fullmatch(NUMBER, label) else (1, 0.0, label)


def _sample(codes: NDArray[np.int64], request: Request, table: int) -> NDArray[np.int64]:
    """The codes with −1 for the rows left out by sampling `group_size` members from each group."""
    if request.group_size is None:
        return codes
    sampled = codes.copy()
    order = np.argsort(codes, kind="stable")  # rows of dropped groups, whose code is −1, first
    edges = np.searchsorted(codes[order], np.arange(codes.max() + 1))
    for group, rows in enumerate(np.split(order, edges)[1:]):
        excess = len(rows) - request.group_size
        if excess > 0:
            seeds = np.random.SeedSequence(request.sample_seed, spawn_key=(table, group))
            left_out = np.random.default_rng(seeds).choice(rows, excess, replace=False)
            sampled[left_out] = -1
    return sampled


def _encoded(part: _Part, column: str, spec: Any, of_groups: bool) -> NDArray[np.float64]:
    """The features of a column before they are standardised, (n, width); NaN if missing."""
    source, rows = part.source, part.rows
    codes, reference = codes_and_reference(spec)
    if not codes:
        return source.numbers(column)[rows, None]
    each = np.arange(len(codes))
    if of_groups:
        return (part.groups[:, None] == each).astype(np.float64)
    known: dict[Any, int]
    cells: list[Any]
    if isinstance(codes[0], str):
        known = {canonical(code): place for place, code in enumerate([*codes, *reference])}
        cells, indices = source.texts(column, _valid(spec))
    else:
        known = {float(code): place for place, code in enumerate([*codes, *reference])}
        values = source.numbers(column)
        distinct, indices = np.unique(values, return_inverse=True)
        cells, indices = distinct.tolist(), np.where(np.isnan(values), -1, indices)
    unknown, missing = -1, -2
    # the index −1 of a missing cell takes the last entry
    places = np.array([*(known.get(cell, unknown) for cell in cells), missing])[indices]
    if (places == unknown).any():
        row = int((places == unknown).argmax())
        given = listed([repr(code) for code in [*codes, *reference]])
        problem = f"expected one of the codes {given}; got {cells[indices[row]]!r}"
        raise source.error(column, row, problem)
    features = (places[rows, None] == each).astype(np.float64)
    features[places[rows] == missing] = np.nan
    return features


def _scaled(
    column: str, spec: Any, members: _Part, first: _Part, *, of_groups: bool = False
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
    least = np.maximum(RESOLUTION * np.maximum(np.abs(low), np.abs(high)), np.finfo(float).tiny)
    lost = ~constant & (scale < least)
    if lost.any():
        at = int(lost.argmax())
        problem = f"the values lie between {low[at]:g} and {high[at]:g} with a standard deviation "
        problem += f"of {scale[at]:.2g}; it must be at least {RESOLUTION:g} of the largest "
        problem += "magnitude; subtract a constant, or choose another unit"
        raise first.source.error(column, None, problem)
    return (block - centre) / scale


def _notice_gap(
    request: Request, rewards: NDArray[np.float64], codes: NDArray[np.int64], kept: Sequence[str]
) -> None:
    """Says so where mean rewards differ by group, and no feature tells the groups apart."""
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
    contexts: Tensor, rewards: Tensor, groups: Tensor, counted: Tensor, count: int
) -> tuple[Tensor, Members, GroupedCdf]:
    """θ, the members of `count` groups, and the CDFs of the true rewards of those counted."""
    theta = ridge_fit(contexts, rewards, REGULARIZATION)
    expected = contexts @ theta
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(_CHUNK)])
    sizes = torch.bincount(groups, minlength=count)
    order = groups.sort(stable=True).indices
    members_of = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[counted[rows]]] for rows in members_of])
    upper, ranks = upper_score(expected, magnitudes), torch.empty_like(expected)
    for group, rows in enumerate(members_of):
        ranks[rows] = cdf.share(group, upper[rows])
    starts = sizes.cumsum(0) - sizes
    return theta, Members(contexts, groups, rewards, expected, ranks, order, starts, sizes), cdf
