"""The features and groups that the environment `table` makes of a file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.environments.table import Table
from fairbandit.notices import listed
from fairbandit.registry import checked
from fairbandit.tables.columns import codes_and_reference, group_columns
from fairbandit.tables.labels import JOINED

if TYPE_CHECKING:
    import pandas as pd


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
