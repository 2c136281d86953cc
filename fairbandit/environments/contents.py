"""The features and groups that the environment `table` makes of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairbandit.environments.table import PoolKind, Table, chosen_of, suited_pool, taken_of
from fairbandit.notices import listed
from fairbandit.registry import checked
from fairbandit.tables import cells
from fairbandit.tables.columns import check_groups, codes_and_reference
from fairbandit.tables.encoded import pairs_of
from fairbandit.tables.labels import JOINED
from fairbandit.tables.population import Missing, find_gaps, note_leaks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Contents:
    """The features and groups that `Table` makes of a file.

    Attributes:
        rows, columns: the size of the file.
        features: for each column and product that becomes features, the `column`, what it
            `becomes`, the number of `features`, and of `missing` cells; then the bias and the
            reward.
        left_out: the reason for each column that is not a feature.
        groups: the number of rows of each group, `n`, and the `mean` and `std` (with n − 1) of
            their rewards; the largest first.
        problem: why the environment cannot be made; "" if it can.
        dropped: the number of rows that `missing=drop` leaves out.
        one_per_group: whether each pool has one candidate of each group, unless `pool` is given.
        group_is_feature: whether the group is a feature.
    """

    rows: int
    columns: int
    features: pd.DataFrame
    left_out: Mapping[str, str]
    groups: pd.DataFrame
    problem: str
    dropped: int
    one_per_group: bool
    group_is_feature: bool


def contents(path: str, **parameters: Any) -> Contents:
    """Returns the features and groups that `table` makes of a file, also where a run would fail.

    Args:
        path: a file that ends in .csv or .parquet.
        parameters: the other parameters of `Table`.

    Raises:
        FairbanditError: the file or a parameter is invalid.
    """
    import pandas as pd

    spec = checked("environment", {"name": Table._name, "path": path, **parameters}).arguments
    source, columns, left_out, of_group = chosen_of(path, spec)
    taken = *names, reward = taken_of(spec)
    group = JOINED.join(names)
    gaps, problem = find_gaps(source, taken, columns, spec["missing"], "missing={}")
    dropped = gaps.any(axis=1) & (spec["missing"] is Missing.drop)
    played = source[~dropped]
    note_leaks(played, columns, reward)
    rewards = pd.Series(cells.numbers(played, reward)).groupby(cells.labels(played, group))
    groups = pd.DataFrame({"n": rewards.size(), "mean": rewards.mean(), "std": rewards.std()})
    name = cells.name_of(source)
    check_groups(f"{name}, column {group!r}", groups["n"].to_dict())
    rows = []
    for name, chosen in columns.items():
        codes, reference = codes_and_reference(chosen)
        kind = f"category: {listed([*map(str, codes)], 6)}" if codes else "number"
        kind += f"; without a feature: {listed([*map(str, reference)], 6)}" if reference else ""
        rows.append((name, kind, len(codes) or 1, cells.gaps(source, name).sum()))
    if of_group:
        kind = f"the group: {listed(sorted(groups.index), 6)}"
        rows.append((group, kind, len(groups), cells.gaps(source, group).sum()))
    widths = {name: count for name, _, count, _ in rows}
    for one, other in pairs_of(spec["products"], widths):
        name = JOINED.join((one, other))
        rows.append((name, "the products", widths[one] * widths[other], 0))
    rows += [("", "bias, always 1", 1, 0)] if spec["bias"] else []
    rows.append((reward, "the reward", 0, cells.gaps(source, reward).sum()))
    sizes = groups["n"][groups["n"] >= spec["min_group_size"]].to_dict()
    chosen_pool = spec["pool"] or spec["candidates"] or spec["group_size"]
    own_places = bool(sizes) and not chosen_pool and suited_pool(sizes) is PoolKind.one_per_group
    return Contents(
        rows=len(source),
        columns=len(cells.about(source).columns),
        features=pd.DataFrame(rows, columns=["column", "becomes", "features", "missing"]),
        left_out=left_out,
        groups=groups.sort_values("n", ascending=False, kind="stable"),
        problem=problem,
        dropped=int(dropped.sum()),
        one_per_group=own_places,
        group_is_feature=of_group or group in columns,
    )
