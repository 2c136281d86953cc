"""Saved runs in pandas: tables, pooled tables, curves, single rounds and paired comparisons."""

from __future__ import annotations

from collections import UserList
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fairbandit.errors import FairbanditError
from fairbandit.results.differences import chosen, differing, distinguishing, union
from fairbandit.results.pooling import PooledRuns, interval, paired_difference, pool
from fairbandit.results.runs import FOLDER, KEYS, SavedRun, logs, read_runs
from fairbandit.results.scenes import scenes_of
from fairbandit.results.table import tidy

if TYPE_CHECKING:
    import pandas as pd

LABEL = "label"
"""The column that names a setting by what distinguishes it from others of its environment."""


def load(*folders: str | PathLike[str]) -> Runs:
    """Loads every finished run below some folders.

    Files that a run left are read only if they are, byte for byte, what it wrote.

    Args:
        folders: where to look, at any depth.

    Returns:
        The runs, whose methods return tables of pandas.

    Raises:
        FairbanditError: a folder does not exist, a file is no summary, or there is no run.

    Example:
        runs = fairbandit.load("outputs/sweeps/ranks")
        runs.pooled()[["label", "fair_regret_mean", "fair_regret_low"]]
        for label, curve in runs.curves("fair_regret").groupby("label"):
            plt.plot(curve["round"], curve["mean"], label=label)
    """
    if not folders:
        raise FairbanditError("load needs a folder, as in fairbandit.load('outputs')")
    return Runs(read_runs([Path(folder) for folder in folders]))


class Runs(UserList[SavedRun]):
    """Finished runs, as `load` finds them: a list, and tables of what they came to.

    Every method pools runs that differ only in their seeds into one with all their replicas. Means,
    standard deviations (ddof 1) and intervals are over replicas; an interval is Student's, at 95 %.
    A `metric` is a column of the round log, such as `fair_regret`. A metric or setting that no run
    has, and a damaged file, raise `FairbanditError`.
    """

    def __repr__(self) -> str:
        settings = [run.settings for run in self]
        keys: list[str] = [key for key in ("policy", "environment") if key in differing(settings)]
        keys += distinguishing(settings)
        return f"<{len(self)} runs; they differ in {', '.join(keys)}>"

    @property
    def table(self) -> pd.DataFrame:
        """A row a run: policy, environment, rounds, replicas, seed, what else differs, results.

        The results are the mean and standard deviation of each metric over the run's replicas, and
        of each group's selection rate; `folder` says where the run is.
        """
        return tidy(pool(self, each=True)).to_pandas()

    def pooled(self) -> pd.DataFrame:
        """Returns a row a setting, with all replicas of its runs together.

        Returns:
            `label`; the settings in which the rows differ; `runs`, how many were pooled; and of
            each metric and each group's selection rate the mean, the standard deviation, the number
            n of replicas and the interval of the mean: `fair_regret_mean`, `_std`, `_n`, `_low` and
            `_high`.
        """
        rows = [run for scene in scenes_of(self) for run in scene.runs]
        table = tidy(rows).to_pandas()
        table.insert(0, LABEL, [run.label for run in rows])
        return table

    def curves(self, metric: str) -> pd.DataFrame:
        """Returns a metric after rounds 1 … t, in long form: a row a setting and round t.

        Returns:
            `label`; the settings in which the rows differ; `round`, evenly spaced and, at the
            beginning, log-spaced ones; and `mean`, `std`, `n`, `low`, `high`. Settings without the
            metric have no rows.
        """
        column = self._column(metric)
        rows = [run for scene in scenes_of(self) for run in scene.runs if column in run.metrics]
        found = [run.curves[column] for run in rows]
        lengths = [len(curve.rounds) for curve in found]
        table = self._settings(rows).loc[np.repeat(np.arange(len(rows)), lengths)]
        rounds, count, mean, std = (
            np.concatenate([getattr(curve, part) for curve in found])
            for part in ("rounds", "count", "mean", "std")
        )
        low, high = interval(count, mean, std)
        numbers = {"mean": mean, "std": std, "n": count.astype(np.int64), "low": low, "high": high}
        return table.reset_index(drop=True).assign(round=rounds, **numbers)

    def rounds(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Returns the single rounds of all runs, a row for each round and replica.

        Args:
            columns: the columns of the round log to read; None for all.

        Returns:
            These columns, where `group` is the group's label, and `folder`, that of `table`.
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
        """Returns how far each setting is from a baseline, by paired differences.

        Policies under one seed meet the same pools and the same noise in each replica. The
        difference between two of them, replica by replica, is therefore free of what the pools
        contribute to both, and its interval is narrower than that of the difference of two means.

        Args:
            baseline: the label or the policy of the setting to compare with, or values of its
                settings by their keys or the ends of these, as `{"policy": "greedy", "noise": 0}`.
                There must be one such setting in each environment.
            metric: what is compared, after the last round.

        Returns:
            A row for each other setting of the same environment and number of rounds: `label`; the
            settings as in `curves`; `baseline`, the label of what it is compared with; `mean`,
            `std` and `n` of the differences (setting less baseline) over the replicas that both
            have, known in both; and the interval of the mean, `low` to `high`.

        Raises:
            FairbanditError: the baseline names no setting or several, or two settings have no seed
                and replica together.
        """
        import pandas as pd

        column = self._column(metric)
        pairs = [
            (run, base)
            for scene in scenes_of(self)
            for rounds in dict.fromkeys(run.rounds for run in scene.runs)
            for alike in [[run for run in scene.runs if run.rounds == rounds]]
            for base in [_baseline(baseline, scene.name, alike)]
            for run in alike
            if run is not base and column in run.metrics
        ]
        if not pairs:
            raise FairbanditError(f"there is no run beside {baseline!r} to compare with it")
        found = [_compared(run, base, column) for run, base in pairs]
        return self._settings([run for run, _ in pairs]).join(pd.DataFrame(found))

    def _column(self, metric: str) -> str:
        known = union(run.summary["metrics"] for run in self)
        if metric not in known:
            raise FairbanditError(f"no run has a metric {metric!r}; there are {', '.join(known)}")
        return metric

    def _settings(self, rows: Sequence[PooledRuns]) -> pd.DataFrame:
        """Returns the labels of pooled runs, `KEYS`, and the settings in which they differ."""
        apart = {*KEYS, *distinguishing([row.settings for row in rows])}
        table = tidy(rows).to_pandas()
        table = table[[key for key in table if key in apart]]
        table.insert(0, LABEL, [run.label for run in rows])
        return table


def _compared(run: PooledRuns, base: PooledRuns, column: str) -> dict[str, Any]:
    found = paired_difference(run, base, column)
    if found is None:
        ours, theirs = (sorted({one.summary["seed"] for one in each.runs}) for each in (run, base))
        raise FairbanditError(
            f"{run.label!r} and {base.label!r} have no pools together: the seeds of one are "
            f"{ours}, of the other {theirs}"
        )
    return {"baseline": base.label} | found


def _baseline(
    asked: str | Mapping[str, Any], environment: str, runs: Sequence[PooledRuns]
) -> PooledRuns:
    if isinstance(asked, str):
        found = [run for run in runs if run.label == asked]
        found = found or [run for run in runs if run.policy == asked]
    else:
        wanted = {key: [value] for key, value in asked.items()}
        found = [runs[at] for at in chosen([run.settings for run in runs], wanted)]
    if len(found) != 1:
        many = "several settings" if found else "no setting"
        labels = ", ".join(repr(run.label) for run in found or runs)
        raise FairbanditError(
            f"the baseline {asked!r} names {many} of {environment} with {runs[0].rounds:,} rounds; "
            f"choose one of {labels}"
        )
    return found[0]
