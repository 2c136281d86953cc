"""Chooses the rows of a table that become members: whole rows of groups that are large enough."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairbandit.environments.encoding import Encoding
from fairbandit.environments.reading import Block, Source, listed
from fairbandit.environments.remarks import remark
from fairbandit.errors import FairbanditError

_log = logging.getLogger("fairbandit")


class Missing(Enum):
    """What is done with missing cells."""

    error = "a missing cell is an error"
    drop = "a row that lacks its group, its reward or a feature is left out"
    mean = "a feature that is missing gets the mean of D1, which is 0 once it is standardised"


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
        missing: what is done with missing cells.
    """

    group: str
    reward: str
    encoding: Encoding
    min_group_size: int
    group_size: int | None
    thin: bool
    sample_seed: int
    missing: Missing


def opened(path: Path, request: Request) -> tuple[Source, list[str], NDArray[np.int32]]:
    """A table, its group labels in order of appearance, and the index of each row's label.

    The index is −1 where a row is left out because a cell is missing.
    """
    source = Source(path)
    columns = [request.group, *request.encoding.owners, request.reward]
    source.require(columns)
    drop = request.missing is Missing.drop
    known: dict[str, int] = {}
    pieces: list[NDArray[np.int32]] = []
    lacking: Counter[str] = Counter()
    for block in source.blocks(columns if drop else [request.group], gaps=drop):
        names, places = block.labels(request.group)
        codes = np.array([*(known.setdefault(name, len(known)) for name in names), -1], np.int32)
        pieces.append(codes[places])  # the index −1 takes the last entry
        if drop:
            gaps = {**_gaps(block, request), request.group: places < 0}
            lacking.update({name: int(rows.sum()) for name, rows in gaps.items()})
            pieces[-1][np.logical_or.reduce([*gaps.values()])] = -1
    if not pieces:
        raise FairbanditError(f"{path} has a header and no rows")
    rows = np.concatenate(pieces)
    if left_out := int((rows < 0).sum()):
        done = f"leaves out {left_out:,} of {len(rows):,} rows"
        remark(f"{path}: environment.missing=drop {done}; missing are {listed_counts(lacking)}")
    return source, list(known), rows


def _gaps(block: Block, request: Request) -> dict[str, NDArray[np.bool_]]:
    """Which rows of a block lack a feature, and which the reward, by column."""
    features = np.isnan(request.encoding.encode(block))
    gaps = {name: features[:, at] for at, name in enumerate(request.encoding.owners)}
    return {**gaps, request.reward: np.isnan(block.numbers(request.reward))}


def listed_counts(cells: Mapping[str, int]) -> str:
    """How many cells of each column there are, in words, without the columns of none."""
    return listed([f"{count:,} of {name!r}" for name, count in cells.items() if count])


def kept_groups(
    source: Source, labels: list[str], codes: NDArray[np.int32], request: Request
) -> tuple[str, ...]:
    """The labels of the groups that are large enough, sorted; numbers come first, by value."""
    sizes = dict(
        zip(labels, np.bincount(codes[codes >= 0], minlength=len(labels)).tolist(), strict=True)
    )
    kept = sorted((name for name in labels if sizes[name] >= request.min_group_size), key=by_value)
    if len(kept) < 2:
        largest = sorted(sizes, key=lambda name: -sizes[name])
        found = listed([f"{name!r}: {sizes[name]}" for name in largest])
        raise FairbanditError(
            f"{source.path}: {len(kept)} group(s) of column {request.group!r} have at least "
            f"environment.min_group_size={request.min_group_size} members, and a problem needs "
            f"two; the groups and their sizes are {found or 'none'}; environment.group names "
            "another column"
        )
    return tuple(kept)


def by_value(label: str) -> tuple[int, float, str]:
    """A key that sorts labels: numbers first and by value, then texts."""
    number = re.fullmatch(r"[-+]?[0-9]+(\.[0-9]*)?", label)
    return (0, float(label), label) if number else (1, 0.0, label)


def relabelled(
    codes: NDArray[np.int32], labels: list[str], kept: tuple[str, ...]
) -> NDArray[np.int32]:
    """The index of each row's label among the kept ones, −1 for a dropped group."""
    place = {name: index for index, name in enumerate(kept)}
    places = np.array([*(place.get(name, -1) for name in labels), -1], dtype=np.int32)
    return places[codes]  # the index −1 of a row that is left out takes the last entry


def sample(
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
