"""The features and groups that the environment `table` makes of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.environments.table import PoolKind, Table
from fairbandit.notices import listed
from fairbandit.registry import checked
from fairbandit.tables.columns import codes_and_reference, group_columns
from fairbandit.tables.labels import JOINED

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Contents:
    """The features and groups that `Table` makes of a file.

    Attributes:
        features: for each column and product that becomes features, the `column`, what it
            `becomes`, the number of `features`, and of `missing` cells; then the bias and the
            reward.
        left_out: the reason for each column that is not a feature.
        groups: the number of members of each group, `n`, and the `mean` and `std` (with n − 1) of
            their rewards; the largest first.
        one_per_group: whether each pool has one candidate of each group.
        group_is_feature: whether the group is a feature.
    """

    features: pd.DataFrame
    left_out: Mapping[str, str]
    groups: pd.DataFrame
    one_per_group: bool
    group_is_feature: bool


def contents(path: str, **parameters: Any) -> Contents:
    """Returns the features and groups that `table` makes of a file.

    Args:
        path: a file that ends in .csv or .parquet.
        parameters: the other parameters of `Table`.

    Raises:
        FairbanditError: `Table` would raise it.
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
        rows.append((name, kind, count, world.missing_cells.get(name, 0)))
    if world.bias:
        rows[-1] = ("", "bias, always 1", 1, 0)
    rows.append((world.reward, "the reward", 0, world.missing_cells[world.reward]))
    labels = np.array(world.labels, dtype=object)[world.members.groups]
    rewards = pd.Series(world.members.rewards * world.unit["std"] + world.unit["mean"])
    found = rewards.groupby(labels).agg(["size", "mean", "std"]).rename(columns={"size": "n"})
    return Contents(
        features=pd.DataFrame(rows, columns=["column", "becomes", "features", "missing"]),
        left_out=world.left_out,
        groups=found.sort_values("n", ascending=False, kind="stable"),
        one_per_group=world.pool is PoolKind.one_per_group,
        group_is_feature=bool(encoder.labels),
    )
