"""Reads the members that a problem draws candidates from, and computes their ground truth.

D1 is the table whose means and standard deviations standardise the columns. D2 is the table whose
rows, the members, become candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments.cells import MissingCellError
from fairbandit.environments.encoding import StandardScaler
from fairbandit.environments.reading import Source, listed
from fairbandit.environments.remarks import remark
from fairbandit.environments.selection import (
    Missing,
    Request,
    by_value,
    kept_groups,
    listed_counts,
    opened,
    relabelled,
    sample,
)
from fairbandit.errors import FairbanditError
from fairbandit.maths.grouped_cdf import GroupedCdf
from fairbandit.maths.roots import ridge_fit
from fairbandit.maths.ties import upper_score

REGULARIZATION = 1e-8
"""λ of the ridge regression on D2 that makes θ, as in the paper (App. D.2)."""

RESOLUTION = 1e-8
"""The least relative deviation of a column; rounding errors of 1.1e-16 then leave eight digits."""

LEAST_DEVIATION = 1e-290
"""The least standard deviation of a column that varies; below it float64 loses digits."""

FARTHEST = 1e8
"""The largest magnitude of a standardised value."""

_CHUNK = 1 << 16


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


def load_population(
    path: Path, scaler_path: Path | None, request: Request
) -> tuple[Members, tuple[str, ...], Tensor, GroupedCdf]:
    """Reads D2, and D1 where it is another file, and computes the members' ground truth.

    Features and rewards are standardised with the means and standard deviations of D1, which is D2
    if there is no `scaler_path`. θ is the ridge fit (λ = 1e-8) of the standardised reward on D2.

    Returns:
        The members, the labels of their groups, θ (d,), and the CDF of each group's true rewards.

    Raises:
        FairbanditError: a file or a cell cannot be used, or fewer than two groups are left.
    """
    try:
        return _population(path, scaler_path, request)
    except MissingCellError as error:
        raise FairbanditError(
            f"{error}; environment.missing=drop leaves out rows with missing cells, and "
            "environment.missing=mean fills in the mean of a feature"
        ) from None


def _population(
    path: Path, scaler_path: Path | None, request: Request
) -> tuple[Members, tuple[str, ...], Tensor, GroupedCdf]:
    source, labels, codes = opened(path, request)
    kept = kept_groups(source, labels, codes, request)
    codes = relabelled(codes, labels, kept)
    sampled = sample(codes, kept, request, table=2, path=path)
    groups = sampled if request.thin else codes
    contexts, rewards = _encode(source, groups, request)
    _require_distinct_rewards(source, rewards, request)
    if scaler_path is None:
        chunks = zip(contexts.split(_CHUNK), rewards.split(_CHUNK), strict=True)
        scaler, scaled_by = _fitted(chunks, request), source
    else:
        scaled_by, scaler = _fitted_to_scaler(scaler_path, kept, request)
    _require_means(scaled_by, scaler, request)
    _require_spread(scaled_by, scaler, request)
    _standardise(contexts, rewards, scaler, request.encoding.bias)
    if request.missing is Missing.mean:
        contexts.nan_to_num_(nan=0.0)
    _require_range(source, contexts, rewards, groups, request)
    counted = sampled[groups >= 0] >= 0
    members, theta, cdf = _truth(contexts, rewards, groups[groups >= 0], counted, len(kept))
    return members, kept, theta, cdf


def _rows(
    source: Source, groups: NDArray[np.int32], request: Request
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Features and rewards of the rows whose group is not −1, block by block."""
    columns = [*request.encoding.owners, request.reward]
    start = 0
    for block in source.blocks(columns, gaps=request.missing is not Missing.error):
        keep = groups[start : start + len(block)] >= 0
        start += len(block)
        if start > len(groups):
            break
        rewards = replace(block, gaps=request.missing is Missing.drop).numbers(request.reward)
        yield request.encoding.encode(block)[keep], rewards[keep]
    if start != len(groups):
        raise FairbanditError(f"{source.path} changed while it was read; run again")


def _encode(source: Source, groups: NDArray[np.int32], request: Request) -> tuple[Tensor, Tensor]:
    """The features and rewards of the kept rows, written block by block into whole tensors."""
    count = int((groups >= 0).sum())
    contexts = torch.empty(count, len(request.encoding.names), dtype=torch.float64)
    rewards = torch.empty(count, dtype=torch.float64)
    at = 0
    for features, values in _rows(source, groups, request):
        contexts[at : at + len(values)] = torch.from_numpy(features)
        rewards[at : at + len(values)] = torch.tensor(values)
        at += len(values)
    if request.missing is Missing.mean:
        found = contexts.isnan().sum(0).tolist()  # as many in each feature of a column
        filled = dict(zip(request.encoding.owners, found, strict=False))
        if any(found):
            cells = f"fills in {sum(filled.values()):,} cells: {listed_counts(filled)}"
            remark(f"{source.path}: environment.missing=mean {cells}")
    return contexts, rewards


def _fitted(blocks: Iterable[tuple[Any, Any]], request: Request) -> StandardScaler:
    """A scaler fitted to blocks of features and, as a last column, rewards."""
    scaler = StandardScaler(len(request.encoding.names) + 1)
    for features, rewards in blocks:
        scaler.add(np.column_stack([features, rewards]))
    return scaler


def _fitted_to_scaler(
    path: Path, kept: tuple[str, ...], request: Request
) -> tuple[Source, StandardScaler]:
    """D1, and a scaler fitted to its features and, as a last column, its rewards."""
    source, labels, codes = opened(path, request)
    groups = relabelled(codes, labels, kept)
    if request.thin:
        groups = sample(groups, kept, request, table=1, path=path)
    scaler = _fitted(_rows(source, groups, request), request)
    if not scaler.count:
        raise FairbanditError(
            f"{path} has no member of the groups {listed(list(map(repr, kept)))} in column "
            f"{request.group!r}, so it cannot standardise their features; it has the groups "
            f"{listed(list(map(repr, sorted(labels, key=by_value))))}"
        )
    return source, scaler


def _require_distinct_rewards(source: Source, rewards: Tensor, request: Request) -> None:
    if bool((rewards == rewards[0]).all()):
        raise FairbanditError(
            f"{source.path}, column {request.reward!r}: all rewards of the groups in use are "
            f"{float(rewards[0])!r}, so there is nothing to learn and every regret would be 0"
        )


def _require_means(source: Source, scaler: StandardScaler, request: Request) -> None:
    """Checks that each column has a value, so that there is a mean to fill in."""
    if not scaler.present.all():
        name = request.encoding.owners[int(scaler.present.argmin())]
        raise FairbanditError(
            f"{source.path}, column {name!r}: all cells of the groups in use are missing, so that "
            "there is no mean to fill in; leave the column out of environment.columns"
        )


def _require_spread(source: Source, scaler: StandardScaler, request: Request) -> None:
    """Checks that the standard deviation of each column is well above its rounding error."""
    least = np.maximum(RESOLUTION * scaler.magnitude, LEAST_DEVIATION)
    lost = ~scaler.constant & (scaler.scale < least)
    if lost.any():
        at = int(lost.argmax())
        name = [*request.encoding.names, request.reward][at]
        low, high, scale = (float(v[at]) for v in (scaler.low, scaler.high, scaler.scale))
        raise FairbanditError(
            f"{source.path}, column {name!r}: the values lie between {low!r} and {high!r} "
            f"with a standard deviation of {scale:.2g}; it must be at least {RESOLUTION:g} of the "
            f"largest magnitude and {LEAST_DEVIATION:g}, so that float64 can tell them apart; "
            "subtract a constant from the column, or choose another unit"
        )


def _standardise(contexts: Tensor, rewards: Tensor, scaler: StandardScaler, bias: bool) -> None:
    """Centres and scales in place, all columns but the bias."""
    centre, scale = torch.from_numpy(scaler.centre), torch.from_numpy(scaler.scale)
    d = contexts.shape[1] - int(bias)
    contexts[:, :d].sub_(centre[:d]).div_(scale[:d])
    rewards.sub_(centre[-1]).div_(scale[-1])


def _require_range(
    source: Source, contexts: Tensor, rewards: Tensor, groups: NDArray[np.int32], request: Request
) -> None:
    """Checks that the members of D2 are not too large when they are standardised by D1."""
    for values in (contexts, rewards[:, None]):
        far = ~(values.abs() <= FARTHEST)
        if bool(far.any()):
            member, at = far.nonzero()[0].tolist()
            row = int(np.flatnonzero(groups >= 0)[member])
            column = request.reward if values is not contexts else request.encoding.owners[at]
            problem = f"standardised with environment.scaler_path it is {values[member, at]:.3g}; "
            problem += f"expected at most {FARTHEST:g} in magnitude"
            raise source.error(column, row, problem)


def _truth(
    contexts: Tensor,
    rewards: Tensor,
    codes: NDArray[np.int32],
    in_cdf: NDArray[np.bool_],
    count: int,
) -> tuple[Members, Tensor, GroupedCdf]:
    """The members of `count` groups, with θ and the CDFs of the true rewards."""
    theta = ridge_fit(contexts, rewards, REGULARIZATION)
    expected = contexts @ theta
    magnitudes = torch.cat([rows.abs() @ theta.abs() for rows in contexts.split(_CHUNK)])
    groups, counted = torch.from_numpy(codes.astype(np.int64)), torch.from_numpy(in_cdf)
    sizes = torch.bincount(groups, minlength=count)
    order = groups.sort(stable=True).indices
    starts = sizes.cumsum(0) - sizes
    members_of = order.split(sizes.tolist())
    cdf = GroupedCdf([expected[rows[counted[rows]]] for rows in members_of])
    upper, ranks = upper_score(expected, magnitudes), torch.empty_like(expected)
    for group, rows in enumerate(members_of):
        ranks[rows] = cdf.share(group, upper[rows])
    members = Members(contexts, groups, rewards, expected, ranks, order, starts, sizes)
    return members, theta, cdf
