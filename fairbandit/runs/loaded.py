"""Saved runs in pandas: tables, pooled tables, curves, single rounds and paired comparisons."""

from __future__ import annotations

from collections import UserList
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from fairbandit.errors import FairbanditError, check_known
from fairbandit.runs.differences import differences
from fairbandit.runs.moments import interval
from fairbandit.runs.naming import chosen, union
from fairbandit.runs.overview import labelled, tidy
from fairbandit.runs.pooling import PooledRuns, paired_difference, pool
from fairbandit.runs.reading import logs
from fairbandit.runs.saved import FOLDER, KEYS, SavedRun, read_runs
from fairbandit.runs.scenes import scenes_of

if TYPE_CHECKING:
    import pandas as pd


def load(*folders: str | PathLike[str], where: Mapping[str, Sequence[Any]] | None = None) -> Runs:
    """Loads every finished run below some folders.

    Args:
        folders: the folders to search, at any depth.
        where: only runs with one of these values, by settings, such as
            `{"policy": ["greedy", "oful"], "noise": [0.1]}`; a key may be the end of its name.

    Returns:
        The runs, whose methods return pandas tables.

    Raises:
        FairbanditError: a folder does not exist, a summary is not valid, or no such run was found.

    Example:
        runs = fairbandit.load("outputs/sweeps/ranks")
        runs.pooled()[["label", "fair_regret_mean", "fair_regret_low"]]
        for label, curve in runs.curves("fair_regret").groupby("label"):
            plt.plot(curve["round"], curve["mean"], label=label)
    """
    if not folders:
        raise FairbanditError("load needs a folder, as in fairbandit.load('outputs')")
    return Runs(chosen(read_runs([Path(folder) for folder in folders]), where or {}))


class Runs(UserList[SavedRun]):
    """A list of finished runs, with tables of their results; `load` returns it.

    `pooled`, `curves` and `compare` pool the replicas of runs that differ only in their seeds.
    Means, standard deviations (ddof 1) and intervals are over replicas; intervals are Student's,
    at 95 %, and NaN where all replicas are equal. A `metric` is a column of the round log, such as
    `fair_regret`. A metric or setting that all runs lack, and a damaged file, raise
    `FairbanditError`.
    """

    def __repr__(self) -> str:
        names = [key for key in KEYS[:2] if len({run.summary[key] for run in self}) > 1]
        names += union([one.name for one in row.varied] for row in pool(self, each=True))
        return f"<{len(self)} runs; they differ in {', '.join(names)}>"

    @property
    def table(self) -> pd.DataFrame:
        """One row per run: its settings, `mean` and `std` of its results, and its `folder`."""
        return tidy(pool(self, each=True)).to_pandas()

    def pooled(
        self,
        *,
        by: Literal["group"] | None = None,
        columns: Sequence[str] | None = None,
        sort: str | None = None,
    ) -> pd.DataFrame:
        """Returns one row per setting, which pools the replicas of its runs.

        Args:
            by: "group" adds columns for each group's picks, from the round logs.
            columns: the results; None returns all.
            sort: a result, of which the best comes first, or a setting; None sorts named policies
                first, in their order.

        Returns:
            `label`, which no two settings share; the settings in which the rows differ; `runs`,
            the number of pooled runs; and for each metric and each group's selection rate the mean,
            the standard deviation, the number n of replicas and the interval of the mean:
            `fair_regret_mean`, `_std`, `_n`, `_low` and `_high`. By group, `share:GROUP` is
            its part of the picks, and `reward:`, `rank:` and `fair_regret:` are means over its
            picks, as in `evaluate`. For tables, `raw_reward:` and `cost_per_pick:` are means of the
            reward and of the loss against the best candidate of the pool, in the unit of the
            reward's column.
        """
        if by not in (None, "group"):
            raise FairbanditError(f"by: expected 'group' or None, got {by!r}")
        rows = [run for scene in scenes_of(self) for run in scene.runs]
        choice: Any = {"groups": by == "group", "columns": columns, "sort": sort}
        return labelled(rows, **choice).to_pandas()

    def curves(self, metric: str) -> pd.DataFrame:
        """Returns a metric over rounds 1 … t in long form, with one row per setting and round t.

        Returns:
            `label`; the settings in which the rows differ; `round`, log-spaced at the beginning
            and then evenly spaced; and `mean`, `std`, `n`, `low`, `high`. Settings without the
            metric are left out.
        """
        import pandas as pd

        check_known("metric", [metric], union(run.summary["metrics"] for run in self))
        rows = [run for scene in scenes_of(self) for run in scene.runs if metric in run.metrics]
        curves = (run.curves[metric] for run in rows)
        parts = [{"round": c.rounds, "mean": c.mean, "std": c.std, "n": c.count} for c in curves]
        table = pd.concat(map(pd.DataFrame, parts), keys=range(len(rows))).droplevel(1)
        low, high = interval(table["n"], table["mean"], table["std"])
        numbers = table.assign(n=table["n"].astype(np.int64), low=low, high=high)
        return _apart(rows).join(numbers).reset_index(drop=True)

    def rounds(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Returns the round logs of all runs, with one row per round and replica.

        Args:
            columns: the columns of the round log to read; None reads all.

        Returns:
            These columns, with the group's label in `group`, and the column `folder` of `table`.
        """
        import pandas as pd

        frames = []
        for run in self:
            log = pa.concat_tables(logs(run.folder, run.summary, columns))
            frames.append(log.to_pandas().assign(**{FOLDER: run.place}))
            if "group" in log.column_names:
                codes, labels = frames[-1]["group"], pd.CategoricalDtype(list(run.groups))
                frames[-1]["group"] = pd.Categorical.from_codes(codes, dtype=labels)
        return pd.concat(frames, ignore_index=True)

    def compare(
        self, baseline: str | Mapping[str, Any], metric: str = "fair_regret"
    ) -> pd.DataFrame:
        """Compares each setting with a baseline by paired differences.

        Policies with the same seed meet the same pools and noise in each replica, so intervals of
        paired differences are narrower than intervals of differences of two means.

        Args:
            baseline: the label or the policy of the baseline, or values of its settings by their
                keys or ends of keys, such as `{"policy": "greedy", "noise": 0}`. Exactly one
                setting of each environment must match.
            metric: what to compare after the last round: a metric, `cost_per_pick`,
                `selection_rate_GROUP`, `selected_GROUP`, or a measure by group as in `pooled`.

        Returns:
            One row for each other setting with the same environment and number of rounds: `label`;
            the settings as in `curves`; `baseline`, the label of the baseline; `mean`, `std` and
            `n` of the differences (setting minus baseline) over the shared replicas where both
            values are known; and the interval of the mean, `low` to `high`.

        Raises:
            FairbanditError: the baseline does not match exactly one setting, or shares no seed and
                replica with another setting.
        """
        import pandas as pd

        scenes = scenes_of(self)
        check_known("metric", [metric], union(run.columns for one in scenes for run in one.runs))
        rows = [row for row in differences(scenes, baseline) if metric in row.columns]
        if not rows:
            raise FairbanditError(f"no run beside the baseline {baseline!r} has {metric!r}")
        found = pd.DataFrame([paired_difference(row, row.base, metric) for row in rows])
        found.insert(0, "baseline", [row.base.label for row in rows])
        return _apart(rows).join(found)


def _apart(rows: Sequence[PooledRuns]) -> pd.DataFrame:
    """Returns the labels, and the settings that tell rows apart."""
    table = labelled(rows, columns=()).to_pandas()
    shown = {"label", *KEYS, *(one.key for row in rows for one in row.varied)}
    return table[[key for key in table if key in shown]]
