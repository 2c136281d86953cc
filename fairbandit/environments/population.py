"""Reads the members that a problem draws candidates from, and computes their ground truth.

D1 is the table whose means and standard deviations standardise the columns. D2 is the table whose
rows, the members, become candidates.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairbandit.environments.encoding import Encoding, StandardScaler
from fairbandit.environments.reading import Source, listed
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

_log = logging.getLogger("fairbandit")
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Request:
    """Which columns of a table to read, and which of its rows (members of groups) to keep.

    Attributes:
        group, reward: the columns of the groups and of the rewards.
        encoding: how columns become features.
        min_group_size: groups with fewer members are dropped.
        group_size: how many members of each group are sampled without replacement, if it has more;
            None samples all.
        thin: whether members that are not sampled are dropped. If not, all members are kept, for
            the fit of the true θ and for play, and only the true reward CDFs are of the sample.
        sample_seed: the seed of the sample.
    """

    group: str
    reward: str
    encoding: Encoding
    min_group_size: int
    group_size: int | None
    thin: bool
    sample_seed: int


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
    source, labels, codes = _opened(path, request)
    kept = _kept(source, labels, codes, request)
    codes = _relabelled(codes, labels, kept)
    sampled = _sample(codes, kept, request, table=2, path=path)
    groups = sampled if request.thin else codes
    contexts, rewards = _encode(source, groups, request)
    _require_distinct_rewards(source, rewards, request)
    if scaler_path is None:
        chunks = zip(contexts.split(_CHUNK), rewards.split(_CHUNK), strict=True)
        scaler, scaled_by = _fitted(chunks, request), source
    else:
        scaled_by, scaler = _fitted_to_scaler(scaler_path, kept, request)
    _require_spread(scaled_by, scaler, request)
    _standardise(contexts, rewards, scaler, request.encoding.bias)
    _require_range(source, contexts, rewards, groups, request)
    counted = sampled[groups >= 0] >= 0
    members, theta, cdf = _truth(contexts, rewards, groups[groups >= 0], counted, len(kept))
    return members, kept, theta, cdf


def _opened(path: Path, request: Request) -> tuple[Source, list[str], NDArray[np.int32]]:
    """A table, its group labels in order of appearance, and the index of each row's label."""
    source = Source(path)
    source.require([request.group, request.reward, *request.encoding.owners])
    known: dict[str, int] = {}
    pieces: list[NDArray[np.int32]] = []
    for block in source.blocks([request.group]):
        names, places = block.labels(request.group)
        codes = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int32)
        pieces.append(codes[places])
    if not pieces:
        raise FairbanditError(f"{path} has a header and no rows")
    return source, list(known), np.concatenate(pieces)


def _kept(
    source: Source, labels: list[str], codes: NDArray[np.int32], request: Request
) -> tuple[str, ...]:
    """The labels of the groups that are large enough, sorted; numbers come first, by value."""
    sizes = dict(zip(labels, np.bincount(codes).tolist(), strict=True))
    kept = sorted((name for name in labels if sizes[name] >= request.min_group_size), key=_by_value)
    if len(kept) < 2:
        largest = sorted(sizes, key=lambda name: -sizes[name])
        found = listed([f"{name!r}: {sizes[name]}" for name in largest])
        raise FairbanditError(
            f"{source.path}: {len(kept)} group(s) of column {request.group!r} have at least "
            f"environment.min_group_size={request.min_group_size} members, and a problem needs "
            f"two; the groups and their sizes are {found}"
        )
    return tuple(kept)


def _by_value(label: str) -> tuple[int, float, str]:
    number = re.fullmatch(r"[-+]?[0-9]+(\.[0-9]*)?", label)
    return (0, float(label), label) if number else (1, 0.0, label)


def _relabelled(
    codes: NDArray[np.int32], labels: list[str], kept: tuple[str, ...]
) -> NDArray[np.int32]:
    """The index of each row's label among the kept ones, −1 for a dropped group."""
    place = {name: index for index, name in enumerate(kept)}
    return np.array([place.get(name, -1) for name in labels], dtype=np.int32)[codes]


def _sample(
    codes: NDArray[np.int32], kept: tuple[str, ...], request: Request, table: int, path: Path
) -> NDArray[np.int32]:
    """The codes with −1 for the rows left out by sampling `group_size` members from each group."""
    if request.group_size is None:
        return codes
    sampled = codes.copy()
    short = []
    order = np.argsort(codes, kind="stable")  # rows of dropped groups, whose code is −1, first
    _, *members = np.split(order, np.searchsorted(codes[order], np.arange(len(kept))))
    for group, rows in enumerate(members):
        excess = len(rows) - request.group_size
        if excess < 0:
            short.append(f"{kept[group]!r}: {len(rows)}")
        if excess > 0:
            seeds = np.random.SeedSequence(request.sample_seed, spawn_key=(table, group))
            left_out = np.random.default_rng(seeds).choice(rows, excess, replace=False)
            sampled[left_out] = -1
    if short:
        problem = "%s has fewer members than environment.group_size=%d in the groups %s"
        _log.info(f"{problem}: all are taken", path, request.group_size, listed(short))
    return sampled


def _rows(
    source: Source, groups: NDArray[np.int32], request: Request
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Features and rewards of the rows whose group is not −1, block by block."""
    columns = [*request.encoding.owners, request.reward]
    start = 0
    for block in source.blocks(columns):
        keep = groups[start : start + len(block)] >= 0
        start += len(block)
        if start > len(groups):
            break
        yield request.encoding.encode(block)[keep], block.numbers(request.reward)[keep]
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
    source, labels, codes = _opened(path, request)
    groups = _relabelled(codes, labels, kept)
    if request.thin:
        groups = _sample(groups, kept, request, table=1, path=path)
    scaler = _fitted(_rows(source, groups, request), request)
    if not scaler.count:
        raise FairbanditError(
            f"{path} has no member of the groups {listed(list(map(repr, kept)))} in column "
            f"{request.group!r}, so it cannot standardise their features; it has the groups "
            f"{listed(list(map(repr, sorted(labels, key=_by_value))))}"
        )
    return source, scaler


def _require_distinct_rewards(source: Source, rewards: Tensor, request: Request) -> None:
    if bool((rewards == rewards[0]).all()):
        raise FairbanditError(
            f"{source.path}, column {request.reward!r}: all rewards of the groups in use are "
            f"{float(rewards[0])!r}, so there is nothing to learn and every regret would be 0"
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
