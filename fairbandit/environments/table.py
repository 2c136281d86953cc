"""Bandit problems whose candidates are rows of a table with groups, rewards and features."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from fairbandit.environments.base import Distribution, Environment, Pools, Truth, of_sample
from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash
from fairbandit.notices import listed, remark
from fairbandit.registry import checked, register
from fairbandit.streams import Purpose, Streams
from fairbandit.tables import cells
from fairbandit.tables.columns import (
    chosen_columns,
    codes_and_reference,
    codes_of,
    columns_file,
    group_columns,
    resolve_columns,
)
from fairbandit.tables.encoded import scales
from fairbandit.tables.encoder import Encoder
from fairbandit.tables.labels import JOINED
from fairbandit.tables.population import Members, Missing, kept_groups, members_of, sampled, usable
from fairbandit.tables.reading import read_table, texts_of

if TYPE_CHECKING:
    import pandas as pd

CANDIDATES = 10  # the K of random pools if `candidates` is null, as in the paper
RARE = 0.1  # a group is rare if it has less than this share of the mean size of the groups
_REMEDY = (
    "environment.columns chooses the features, as in 'environment.columns={NAME: null, NAME: "
    "category}', or in a YAML file, environment.columns=FILE.yaml; null is a number"
)
PoolKind = Enum("PoolKind", ["one_per_group", "random"])
RewardSource = Enum("RewardSource", ["column", "model"])


@register("environment", "table")
class Table(Environment):
    """Candidates drawn from a CSV or Parquet table with a group, a reward and feature columns.

    Each round's pool is a new draw from the table D2. A table D1, by default D2 itself, gives the
    means and standard deviations by which features and rewards are standardised; a column that is
    constant in D1 is only centred. θ is the ridge fit (λ = 1e-8) of the standardised reward on D2
    (Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022,
    App. D.2 and E.1). True rewards are ⟨θ, x⟩; a group's true CDF is their ECDF over the members of
    the group in D2. The guide is docs/data.md.

    Args:
        path: D2, a file that ends in .csv or .parquet, or a folder of files of one kind.
        group: the column of the sensitive group, or a list of columns, whose labels together make
            an intersectional group, such as `f × A`.
        reward: the column of the reward.
        columns: a mapping from each feature column, in order, to its specification, or the path of
            a YAML file with it: null for a number; for a category `category`, which takes the
            values in the table as codes, the list of its codes, each of which becomes a feature, or
            {codes: [...], reference: [...]}, where the valid codes in `reference` get no feature.
            null: all columns of numbers, truth values or recurring texts.
        exclude: columns that are not features, such as ids and names, or columns of the group: then
            the other columns of the group are categories.
        group_feature: adds a feature for each group label, unless `columns` has the group. Without
            it, true rewards ignore differences between groups.
        scaler_path: D1; null for D2 itself.
        bias: adds a last feature that is always 1.
        pool: `one_per_group`, where place g is of group g and K = G, or `random`, with groups at
            their natural proportions. null takes `random` if `candidates` is given, or, without
            `group_size`, if a group has less than a tenth of the mean size of the groups, since its
            few members would otherwise be in every pool; else null takes `one_per_group`.
        candidates: K of random pools; null for 10, and always null with one_per_group.
        rewards: the reward before noise: the reward `column`, or `model`, the true reward ⟨θ, x⟩.
        noise: standard deviation of the Gaussian reward noise, at least 0.
        min_group_size: groups with fewer members in D2 are left out of D2 and of D1.
        group_size: the most members of a group, drawn without replacement, that make its true CDF;
            with one_per_group, D2 and D1 keep only these members. null for all.
        sample_seed: seed of the choice of members, the same for all replicas.
        missing: the treatment of missing cells: `error`; `drop` leaves out a row that lacks its
            group, its reward or a feature; `mean` sets the features of a missing cell to their
            means in D1.
        products: the pairs of columns whose products are further features, such as `[[age, hours],
            [job, hours]]`, or `all`, with the squares of numbers; null for none.
        separator: the separator of the cells of a CSV file; `tab` for a tab.
        decimal: the decimal mark of numbers in a CSV file, `.` or `,`.
        thousands: the mark of thousands in a CSV file, `,` or `.`; null if there is none.
        missing_values: the texts that are missing cells, beside NaN and empty cells. null: in a CSV
            file the texts of `pandas.read_csv`, such as `NA`, and nothing elsewhere.
        unknown: labels of people whose group is unknown, such as `[undisclosed]`, beside missing
            cells; null for none. These people are the group `unknown`.

    Attributes:
        resolved_columns: the mapping `columns` with the codes of each category.
        left_out: the reason for each column that is not a feature.
        missing_cells: the number of missing cells of each column that was read.
        feature_names: the name of each of the d features.
        labels: the labels of the groups, by number, as in a log.
        unit: the `name` of the reward's column, and its `std` and `mean` in D1.
        encoder: the encoder of rows; an `Agent` with `features=encoder` takes raw rows.

    Raises:
        FairbanditError: a value is out of range, a file or a cell (with its column and row) is
            invalid, or there are fewer than two groups.
    """

    def __init__(
        self,
        *,
        path: Any,
        group: Any,
        reward: str,
        columns: Any = None,
        exclude: list[str] | None = None,
        group_feature: bool = True,
        scaler_path: str | None = None,
        bias: bool = True,
        pool: PoolKind | None = None,
        candidates: int | None = None,
        rewards: RewardSource = RewardSource.column,
        noise: float = 0.0,
        min_group_size: int = 1,
        group_size: int | None = None,
        sample_seed: int = 0,
        missing: Missing = Missing.error,
        products: Any = None,
        separator: str = ",",
        decimal: str = ".",
        thousands: str | None = None,
        missing_values: list[str] | None = None,
        unknown: list[str] | None = None,
    ) -> None:
        self.scaler_path = scaler_path
        self.group, self.reward, self.columns, self.exclude = group, reward, columns, exclude
        self.bias, self.candidates = bias, candidates
        self.rewards, self.noise, self.sample_seed = rewards, noise, sample_seed
        self.min_group_size, self.group_size = min_group_size, group_size
        self.group_feature, self.missing, self.products = group_feature, missing, products
        self.separator, self.decimal, self.thousands = separator, decimal, thousands
        self.missing_values, self.unknown = missing_values, unknown
        lows = {"candidates": 1, "noise": 0, "sample_seed": 0, "min_group_size": 1, "group_size": 1}
        for name, low in lows.items():
            value = getattr(self, name)
            if value is not None and not low <= value < math.inf:
                raise FairbanditError(f"environment.{name} must be at least {low}, got {value}")
        if pool is PoolKind.one_per_group and candidates is not None:
            raise FairbanditError(
                f"environment.candidates={candidates} goes with environment.pool=random; with "
                "one_per_group there is one candidate a group, so leave it null"
            )
        if pool is None and (candidates or group_size):
            pool = PoolKind.random if candidates else PoolKind.one_per_group
        self._make(path, scaler_path, pool is PoolKind.one_per_group)
        sizes = dict(zip(self.labels, self.members.sizes.tolist(), strict=True))
        self.pool = pool or _suited_pool(sizes)
        self.feature_names, self.group_names = self.encoder.names, self.labels
        self.features, of_each = len(self.feature_names), self.pool is PoolKind.one_per_group
        self.places = len(self.group_names) if of_each else candidates or CANDIDATES
        self.bind(Streams(0, []))

    def _make(self, path: Any, scaler_path: Any, of_each: bool) -> None:
        import pandas as pd  # here, since it takes a third of a second

        *groups, reward = taken = (*group_columns(self.group), self.reward)
        group, chosen = JOINED.join(groups), chosen_columns(self.columns)
        exclude, unknown = texts_of("exclude", self.exclude), texts_of("unknown", self.unknown)
        marks = "separator", "decimal", "thousands", "missing_values"
        reading = {key: getattr(self, key) for key in marks}
        wanted = None if chosen is None else [*taken, *chosen]
        source = read_table(path, columns=wanted, **reading)
        self.path = cells.about(source).name
        cells.need(source, wanted or taken)
        columns, self.left_out = resolve_columns(source, chosen, taken, exclude, _REMEDY)
        if reward in exclude:
            remark(f"exclude: {self.path}, column {reward!r} remains the reward")
        of_group = self.group_feature and group not in columns
        if of_group and not {*groups}.isdisjoint(exclude):  # then its other columns are categories
            left = [name for name in groups if name not in {*exclude, *columns}]
            columns |= {name: codes_of(source, name) for name in left}
            of_group = False
        tables, wanted = [source], [*taken, *columns]
        if scaler_path and Path(scaler_path) != Path(self.path):  # else D2 is D1
            tables.append(read_table(scaler_path, columns=wanted, **reading))
            cells.need(tables[1], wanted)
        tables = [cells.with_unknown(table, groups, unknown) for table in tables]
        self.missing_cells = {str(name): int(n) for name, n in tables[0].isna().sum().items()}
        tables = [usable(table, columns, taken, self.missing) for table in tables]
        kept = kept_groups(tables[0], group, self.min_group_size)
        size, seed = self.group_size, self.sample_seed
        labels = [cells.labels(table, group) for table in tables]
        codes = [pd.Index(kept).get_indexer(own).astype(np.int64) for own in labels]
        samples = [sampled(own, size, seed, at) for at, own in zip((2, 1), codes, strict=False)]
        rows = samples if size is not None and of_each else [own >= 0 for own in codes]
        second, first = tables[0][rows[0]], tables[-1][rows[-1]]
        features = {**columns, **({group: list(kept)} if of_group else {})}
        fitting: dict[str, Any] = {"fill": self.missing is Missing.mean, "bias": self.bias}
        if of_group or features.keys() >= {*groups}:
            fitting |= {"groups": groups, "unknown": unknown, "labels": kept}
        marked = [group] if of_group else []
        self.encoder = Encoder.fitted(features, first, marked, self.products, **fitting)
        (mean,), (deviation,) = scales(cells.numbers(first, reward)[:, None])
        self.unit: dict[str, Any] = {"name": reward, "std": deviation, "mean": mean}
        self.members: Members = members_of(
            self.encoder.encode_table(second),
            (cells.numbers(second, reward) - mean) / deviation,
            codes[0][rows[0]],
            samples[0][rows[0]],
        )
        self.resolved_columns, self.labels = columns, kept

    @classmethod
    def from_data(cls, data: Any, **parameters: Any) -> Table:
        """Makes an environment from a table in memory, without writing a file.

        Args:
            data: a table in memory, as for `fairbandit.read_table`.
            parameters: the parameters of the constructor except `path`.

        Raises:
            FairbanditError: as for the constructor, or Arrow cannot hold `data`.
        """
        spec = checked("environment", {"name": cls._name, "path": "the table", **parameters})
        return cls(**{**spec.arguments, "path": data})

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """Returns a hash of the files of D2, of D1 and of `columns`."""
        named = columns_file(parameters.get("columns"))
        sources = [parameters.get("path"), parameters.get("scaler_path"), named]
        paths = [Path(path) for path in sources if path]
        folders = [sorted(path.iterdir()) if path.is_dir() else [path] for path in paths]
        return data_hash(file for files in folders for file in files)

    def bind(self, streams: Streams) -> None:
        """Sets the streams, and moves the members and their ground truth to the streams' device."""
        super().bind(streams)
        self.members = self.members.to(streams.device)
        self.truth: Truth = Truth(self.members.theta, self.members.cdf)

    def reward_distribution(self, group: int) -> Distribution:
        """Returns the ECDF of a group's true rewards, and a kernel density estimate."""
        return of_sample(self.members.cdf.samples[group].cpu())

    def _pools(self, first: int, count: int) -> Pools:
        members, streams = self.members, self.streams
        rows = self._drawn(streams[Purpose.POOLS].uniform(first, count, self.places))
        expected = members.expected[rows]
        rewards = members.rewards[rows] if self.rewards is RewardSource.column else expected
        noise = streams[Purpose.REWARDS].normal(first, count, self.places)
        rewards = rewards + self.noise * noise
        x, groups, ranks = members.contexts[rows], members.groups[rows], members.ranks[rows]
        return Pools(x, groups, rewards, expected, ranks)

    def _drawn(self, uniforms: Tensor) -> Tensor:
        """Returns the member at each place, the number ⌊u·n⌋ < n of n eligible members."""
        members = self.members
        if self.pool is PoolKind.one_per_group:
            return members.order[(uniforms * members.sizes).long() + members.starts]
        return (uniforms * len(members.groups)).long()


def _suited_pool(sizes: Mapping[str, int]) -> PoolKind:
    mean = sum(sizes.values()) / len(sizes)
    rare = [f"{group!r} ({size:,})" for group, size in sizes.items() if size < RARE * mean]
    if not rare:
        return PoolKind.one_per_group
    remark(
        f"each pool has {CANDIDATES} random candidates, since one of each group would put the few "
        f"members of {listed(rare)} into every pool; environment.pool=one_per_group does so, and "
        "environment.min_group_size leaves small groups out"
    )
    return PoolKind.random


def contents(path: str, **parameters: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the features and the groups that `table` makes of a file.

    Args:
        path: a file that ends in .csv or .parquet.
        parameters: the other parameters of `Table`, whose errors are raised.

    Returns:
        A table of each column and product: the `column`, what it `becomes`, the number of
        `features`, and of `missing` cells; and a table of each group, the largest first: its
        members, `n`, and the `mean` and `std` (with n − 1) of their rewards.
    """
    import pandas as pd

    spec = checked("environment", {"name": Table._name, "path": path, **parameters})
    world = Table(**spec.arguments)
    group, encoder, rows = JOINED.join(group_columns(world.group)), world.encoder, list[Any]()
    for name, count in Counter(encoder.sources).items():  # in the order of the features
        codes, reference = codes_and_reference(world.resolved_columns.get(name))
        kind = f"category: {listed([*map(str, codes)], 6)}" if codes else "number"
        kind += f"; without a feature: {listed([*map(str, reference)], 6)}" if reference else ""
        if name == group and not codes:
            kind = f"the group: {listed(world.labels, 6)}"
        kind = "the products" if name in encoder.products else kind
        rows.append((name, kind, count))
    if world.bias:
        rows[-1] = ("", "bias, always 1", 1)
    rows.append((world.reward, "the reward", 0))
    rows += [(name, f"left out: {reason}", 0) for name, reason in world.left_out.items()]
    features = pd.DataFrame(rows, columns=["column", "becomes", "features"])
    gaps = features["column"].map(world.missing_cells).fillna(0).astype(int)
    labels = np.array(world.labels, dtype=object)[world.members.groups]
    rewards = pd.Series(world.members.rewards * world.unit["std"] + world.unit["mean"])
    groups = rewards.groupby(labels).agg(["size", "mean", "std"]).rename(columns={"size": "n"})
    return features.assign(missing=gaps), groups.sort_values("n", ascending=False, kind="stable")
