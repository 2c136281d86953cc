"""Bandit problems whose candidates are rows of a table with groups, rewards and features."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.columns import chosen_columns, columns_file
from fairbandit.environments.distribution import Distribution, of_sample
from fairbandit.environments.population import Missing, Request, load_population
from fairbandit.environments.reading import MEMORY, keep
from fairbandit.errors import FairbanditError
from fairbandit.files import data_hash
from fairbandit.registry import create, register
from fairbandit.streams import Purpose, Streams

CANDIDATES = 10
"""K of random pools where `candidates` is left unset, as in the paper."""

TABS = {"tab": "\t", "\\t": "\t"}
"""Other names of a separator."""


class PoolKind(Enum):
    """How a pool is drawn."""

    one_per_group = "one member of each group, place g being group g"
    random = "members of all groups, at their natural proportions"


class RewardSource(Enum):
    """The reward to which noise is added."""

    column = "the standardised reward column"
    model = "the true reward ⟨θ, x⟩"


@register("environment", "table")
class Table(Environment):
    """Candidates drawn from a CSV or Parquet table with a group, a reward and feature columns.

    Features and rewards are standardised with the mean and standard deviation of D1, a column
    that is constant there being centred alone. θ is the ridge fit (λ = 1e-8) of the standardised
    reward on all of D2. The true reward is ⟨θ, x⟩, its true CDF the ECDF over the group's members
    in D2, and a round's pool a fresh draw from D2. The guide is docs/data.md.

    Args:
        path: D2, a file that ends in .csv or .parquet.
        group: the column of the sensitive group.
        reward: the column of the reward; its values in D2 differ.
        columns: the feature columns, in order: null for a number; for a category a list of its
            codes, which makes one feature a code, or {codes: [...], reference: [...]}, codes of
            the reference being valid without a feature, or `category`, whose codes are the values
            in the table. The path of a YAML file stands for the mapping in it. null for all
            columns that are numbers, truth values, or texts that recur.
        group_feature: the group is a feature too, one for each of its labels, unless `columns`
            has it. Without it, true rewards miss what differs by group alone.
        scaler_path: D1; null for D2 itself.
        bias: adds a last feature that is always 1.
        pool: `one_per_group`, where K = G, or `random`.
        candidates: K of random pools; null for 10, and always null with one_per_group.
        rewards: the noisy reward is the `column`, or the `model`, plus noise·ξ.
        noise: standard deviation of the reward noise, at least 0.
        min_group_size: groups with fewer members in D2 are left out, of D1 too.
        group_size: at most so many members of a group, drawn without replacement, make its true
            CDF; with one_per_group they are also all there is of it, in D2 and likewise in D1.
            null for all.
        sample_seed: seed of the choice of members, the same for all replicas.
        missing: what becomes of missing cells: `error`; `drop` leaves out a row that lacks its
            group, its reward or a feature; `mean` sets the features of a missing cell to their
            means in D1.
        separator: what stands between the cells of a CSV file; `tab` for a tab.
        decimal: the decimal mark of numbers in a CSV file, `.` or `,`.

    Attributes:
        resolved_columns: the columns with the codes of each category, as `columns` takes them.
        feature_names: the name of each of the d features.

    Raises:
        FairbanditError: a value out of range, a file or cell that is not as it should be (with its
            column and row), or fewer than two groups.

    Reference:
        Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022,
        App. D.2 and E.1.
    """

    def __init__(
        self,
        *,
        path: str,
        group: str,
        reward: str,
        columns: Any = None,
        group_feature: bool = True,
        scaler_path: str | None = None,
        bias: bool = True,
        pool: PoolKind = PoolKind.one_per_group,
        candidates: int | None = None,
        rewards: RewardSource = RewardSource.column,
        noise: float = 0.0,
        min_group_size: int = 1,
        group_size: int | None = None,
        sample_seed: int = 0,
        missing: Missing = Missing.error,
        separator: str = ",",
        decimal: str = ".",
    ) -> None:
        least = {
            "candidates": (candidates, 1),
            "noise": (noise, 0),
            "sample_seed": (sample_seed, 0),
        }
        least |= {"min_group_size": (min_group_size, 1), "group_size": (group_size, 1)}
        for name, (value, low) in least.items():
            if value is not None and not low <= value < math.inf:
                raise FairbanditError(f"environment.{name} must be at least {low}, got {value}")
        mark = TABS.get(separator, separator)
        if len(mark) != 1 or mark in '"\r\n' or decimal not in (".", ","):
            raise FairbanditError(
                "environment.separator must be one character, or tab, and environment.decimal a "
                f"point or a comma; got {separator!r} and {decimal!r}"
            )
        if pool is PoolKind.one_per_group and candidates is not None:
            raise FairbanditError(
                f"environment.candidates={candidates} goes with environment.pool=random; with "
                "one_per_group there is one candidate a group, so leave it null"
            )
        self.path, self.scaler_path = path, scaler_path
        self.group, self.reward, self.columns = group, reward, columns
        self.bias, self.pool, self.candidates = bias, pool, candidates
        self.rewards, self.noise, self.sample_seed = rewards, noise, sample_seed
        self.min_group_size, self.group_size = min_group_size, group_size
        self.group_feature, self.missing = group_feature, missing
        self.separator, self.decimal = separator, decimal
        other = _other(path, scaler_path)
        found = load_population(
            Request(
                path,
                str(other) if other else None,
                group,
                reward,
                chosen_columns(columns),
                group_feature,
                bias,
                min_group_size,
                group_size,
                pool is PoolKind.one_per_group,
                sample_seed,
                missing,
                mark,
                decimal,
                tuple(data_hash(Path(file)) for file in (path, other) if file),
            )
        )
        self.resolved_columns, self.feature_names = found.columns, found.features
        self.members, self.group_names, self._cdf = found.members, found.groups, found.cdf
        self.features = len(self.feature_names)
        own_places = pool is PoolKind.one_per_group
        self.places = len(self.group_names) if own_places else candidates or CANDIDATES
        self.truth: Truth = Truth(found.theta, self._cdf)

    @classmethod
    def from_data(cls, data: Any, **parameters: Any) -> Table:
        """A problem from a table in memory, of which nothing is written to a file.

        Its `path` is `memory:` with a number. In this process it stands for the data as long as an
        environment of them is in use.

        Args:
            data: a pandas DataFrame, whose index is left out, a pyarrow Table, another object with
                Arrow's PyCapsule interface, or a mapping from names to columns.
            parameters: those of the constructor, but for `path`.

        Raises:
            FairbanditError: no such table, or see the constructor.
        """
        path, table = keep(data)
        made: Table = create("environment", {"name": cls.part_name, "path": path, **parameters})
        vars(made)["_data"] = table  # lives as long as the environment does
        return made

    @classmethod
    def data_files(cls, parameters: Mapping[str, Any]) -> list[Path]:
        """D2, D1 where it is another file, and the file that names the columns, if there is one."""
        if "path" not in parameters:  # a subclass of another constructor
            return super().data_files(parameters)
        path = parameters["path"]
        named = columns_file(parameters.get("columns"))
        files = [Path(path), _other(path, parameters.get("scaler_path")), named]
        return [file for file in files if file and not str(file).startswith(MEMORY)]

    def bind(self, streams: Streams) -> None:
        """Draws from the given streams, on their device."""
        super().bind(streams)
        self.members = self.members.to(streams.device)
        self._cdf = self._cdf.to(streams.device)
        self.truth = Truth(self.truth.linear_theta().to(streams.device), self._cdf)

    def reward_distribution(self, group: int) -> Distribution:
        """The ECDF of a group's members, and a kernel estimate of their density."""
        return of_sample(self._cdf.sample(group).cpu())

    def fingerprint(self) -> str:
        """A hash of the members and their ground truth; a run resumes only on the same data."""
        digest = hashlib.sha256()
        for part in (self.members.groups, self.members.rewards, self.members.expected):
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()

    def _pools(self, first: int, count: int) -> Pools:
        members, streams = self.members, self.streams
        rows = self._drawn(streams[Purpose.POOLS].uniform(first, count, self.places))
        expected = members.expected[rows]
        rewards = members.rewards[rows] if self.rewards is RewardSource.column else expected
        noise = streams[Purpose.REWARDS].normal(first, count, self.places)
        return Pools(
            members.contexts[rows],
            members.groups[rows],
            rewards + self.noise * noise,
            expected,
            members.ranks[rows],
        )

    def _drawn(self, uniforms: Tensor) -> Tensor:
        """The member of index ⌊u·n⌋ at each place with n members; ⌊u·n⌋ < n, as u ≤ 1 − 2⁻⁵³."""
        members = self.members
        if self.pool is PoolKind.one_per_group:
            return members.order[(uniforms * members.sizes).long() + members.starts]
        return (uniforms * len(members.groups)).to(torch.int64)


def _other(path: str, scaler_path: str | None) -> Path | None:
    """The file of D1, or None if it is the file of D2, which is then read once."""
    return Path(scaler_path) if scaler_path and Path(scaler_path) != Path(path) else None
