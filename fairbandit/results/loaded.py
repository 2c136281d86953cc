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
"""The column with a setting's label, which is unique within its environment."""


def load(*folders: str | PathLike[str]) -> Runs:
    """Loads every finished run below some folders.

    The files of a run are checked against their hashes when they are read.

    Args:
        folders: the folders to search, at any depth.

    Returns:
        The runs, whose methods return pandas tables.

    Raises:
        FairbanditError: a folder does not exist, a summary is not valid, or no run was found.

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
    """A list of finished runs, with tables of their results; `load` returns it.

    `pooled`, `curves` and `compare` pool the replicas of runs that differ only in their seeds.
    Means, standard deviations (ddof 1) and intervals are over replicas; intervals are Student's,
    at 95 %. A `metric` is a column of the round log, such as `fair_regret`. A metric or setting
    that all runs lack, and a damaged file, raise `FairbanditError`.
    """

    def __repr__(self) -> str:
        settings = [run.settings for run in self]
        keys: list[str] = [key for key in ("policy", "environment") if key in differing(settings)]
        keys += distinguishing(settings)
        return f"<{len(self)} runs; they differ in {', '.join(keys)}>"

    @property
    def table(self) -> pd.DataFrame:
        """One row per run: policy, environment, rounds, replicas, seed, other differences, results.

        The results are the mean and standard deviation over the run's replicas of each metric and
        of each group's selection rate; `folder` is the folder of the run.
        """
        return tidy(pool(self, each=True)).to_pandas()

    def pooled(self) -> pd.DataFrame:
        """Returns one row per setting, which pools the replicas of its runs.

        Returns:
            `label`; the settings in which the rows differ; `runs`, the number of pooled runs; and
            for each metric and each group's selection rate the mean, the standard deviation, the
            number n of replicas and the interval of the mean: `fair_regret_mean`, `_std`, `_n`,
            `_low` and `_high`.
        """
        rows = [run for scene in scenes_of(self) for run in scene.runs]
        table = tidy(rows).to_pandas()
        table.insert(0, LABEL, [run.label for run in rows])
        return table

    def curves(self, metric: str) -> pd.DataFrame:
        """Returns a metric over rounds 1 … t in long form, with one row per setting and round t.

        Returns:
            `label`; the settings in which the rows differ; `round`, log-spaced at the beginning
            and then evenly spaced; and `mean`, `std`, `n`, `low`, `high`. Settings without the
            metric are left out.
        """
        column = self._column(metric)
        rows = [run for scene in scenes_of(self) for run in scene.runs if column in run.metrics]
        curves = [run.curves[column] for run in rows]
        lengths = [len(curve.rounds) for curve in curves]
        table = self._settings(rows).loc[np.repeat(np.arange(len(rows)), lengths)]
        rounds, count, mean, std = (
            np.concatenate([getattr(curve, part) for curve in curves])
            for part in ("rounds", "count", "mean", "std")
        )
        low, high = interval(count, mean, std)
        numbers = {"mean": mean, "std": std, "n": count.astype(np.int64), "low": low, "high": high}
        return table.reset_index(drop=True).assign(round=rounds, **numbers)

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

        Policies with the same seed meet the same pools and the same noise in each replica. Paired
        differences, replica by replica, remove this shared variation, so their interval is
        narrower than the interval of a difference of two means.

        Args:
            baseline: the label or the policy of the baseline, or values of its settings by their
                keys or ends of keys, such as `{"policy": "greedy", "noise": 0}`. Exactly one
                setting of each environment must match.
            metric: the metric to compare, after the last round.

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
            raise FairbanditError(f"there is no run to compare with the baseline {baseline!r}")
        compared = [_compared(run, base, column) for run, base in pairs]
        return self._settings([run for run, _ in pairs]).join(pd.DataFrame(compared))

    def _column(self, metric: str) -> str:
        known = union(run.summary["metrics"] for run in self)
        if metric not in known:
            raise FairbanditError(f"unknown metric {metric!r}; the runs have {', '.join(known)}")
        return metric

    def _settings(self, rows: Sequence[PooledRuns]) -> pd.DataFrame:
        """Returns the labels of pooled runs, `KEYS`, and the settings in which they differ."""
        apart = {*KEYS, *distinguishing([row.settings for row in rows])}
        table = tidy(rows).to_pandas()
        table = table[[key for key in table if key in apart]]
        table.insert(0, LABEL, [run.label for run in rows])
        return table


def _compared(run: PooledRuns, base: PooledRuns, column: str) -> dict[str, Any]:
    difference = paired_difference(run, base, column)
    if difference is None:
        seeds = [sorted({r.summary["seed"] for r in pooled.runs}) for pooled in (run, base)]
        raise FairbanditError(
            f"{run.label!r} and {base.label!r} share no pools: their seeds are {seeds[0]} and "
            f"{seeds[1]}"
        )
    return {"baseline": base.label} | difference


def _baseline(
    asked: str | Mapping[str, Any], environment: str, runs: Sequence[PooledRuns]
) -> PooledRuns:
    if isinstance(asked, str):
        matches = [run for run in runs if run.label == asked]
        matches = matches or [run for run in runs if run.policy == asked]
    else:
        wanted = {key: [value] for key, value in asked.items()}
        matches = [runs[at] for at in chosen([run.settings for run in runs], wanted)]
    if len(matches) != 1:
        count = "several settings" if matches else "no setting"
        labels = ", ".join(repr(run.label) for run in matches or runs)
        raise FairbanditError(
            f"the baseline {asked!r} names {count} of {environment} with {runs[0].rounds:,} "
            f"rounds; choose one of {labels}"
        )
    return matches[0]
