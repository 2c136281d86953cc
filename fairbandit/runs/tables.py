"""Results of runs as tidy tables of pandas: played, loaded, pooled and compared.

A table has a row for each value: its settings under their full keys, `seed`, `replica`, `measure`,
`group` and `value`, and in curves `round`. The settings are `KEYS` and all in which the runs
differ. A setting that a run lacks is "–", and so is the group of a measure of the whole run: a
`groupby` of pandas drops rows without a key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairbandit.errors import FairbanditError, did_you_mean
from fairbandit.notices import remark
from fairbandit.policy.build import named_policies, policy_label
from fairbandit.runs import naming
from fairbandit.runs.intervals import CONFIDENCE, SHARE, Span, interval, share_ends
from fairbandit.runs.naming import chosen, full_key, joined, of_world
from fairbandit.runs.record import RATE
from fairbandit.runs.saved import Run, read_runs
from fairbandit.runs.settings import LACKING
from fairbandit.runs.summary import KEYS

if TYPE_CHECKING:
    import pandas as pd

_VALUES = ("seed", "replica", "measure", "group", "round", "value")
_NAMES = ("label", "baseline")


def load(
    *folders: str | PathLike[str],
    curves: bool = False,
    where: Mapping[str, Sequence[Any]] | None = None,
) -> pd.DataFrame:
    """Loads the finals, or the curves, of all finished runs below some folders.

    Args:
        folders: the folders to search, at any depth.
        curves: loads the metrics over rounds 1 … t, at some rounds t, in place of the finals.
        where: the allowed values of some settings, such as
            `{"policy": ["greedy", "oful"], "noise": [0.1]}`, by the keys of the settings or the
            ends of keys.

    Returns:
        The settings in which the runs differ, `seed`, `replica`, `measure`, `group`, with `curves`
        also `round`, and `value`. The group of a measure of the whole run is "–".

    Raises:
        FairbanditError: a folder does not exist, a summary is not valid, or no run was found.

    Example:
        table = fairbandit.load("outputs/sweeps/ranks")
        table[table["measure"] == "fair_regret"].groupby("policy")["value"].mean()
    """
    if not folders:
        raise FairbanditError("load needs a folder, as in fairbandit.load('outputs')")
    runs = chosen(read_runs([Path(folder) for folder in folders]), where or {})
    return tidy(runs, curves=curves)


def tidy(runs: Sequence[Run], *, curves: bool = False) -> pd.DataFrame:
    """Joins runs to one table, named policies first; a replica of several runs stands once."""
    import pandas as pd

    names = ("environment", "policy")
    runs = sorted(runs, key=lambda run: (run.summary[names[0]], place_of(run.summary[names[1]])))
    keys = naming.telling_keys([run.settings for run in runs])
    keys = [*KEYS[:3], *(key for key in keys if key not in KEYS), "seed"]
    values = [values_of(run, keys) for run in runs]
    settings = pd.DataFrame(values, columns=keys, dtype=object).infer_objects()
    texts = dict.fromkeys(settings.select_dtypes(exclude="number"), "category")
    tables = [run.curves if curves else run.finals for run in runs]
    rows = settings.astype(texts).iloc[np.repeat(range(len(runs)), [*map(len, tables)])]
    joined = rows.reset_index(drop=True).join(pd.concat(tables, ignore_index=True))
    joined = joined.astype({"measure": "category", "group": "category"})
    if not settings.duplicated().any():  # no two runs share replicas
        return joined
    joined = joined.drop_duplicates(ignore_index=True)
    again = joined.duplicated([key for key in joined if key != "value"])
    if again.any():
        remark(
            "several runs have the same settings, seed and replica but other results, and the "
            "first of them counts: was the package changed between them?"
        )
    return joined[~again].reset_index(drop=True)


def place_of(policy: str) -> tuple[int, str]:
    """Returns a key that sorts policies: named ones first, in their order, then by name."""
    names = [*named_policies()]
    return names.index(policy) if policy in names else len(names), policy


def values_of(run: Run, keys: Sequence[str]) -> tuple[Any, ...]:
    """Returns the values of some settings of a run, `LACKING` for a setting that it lacks."""
    values = (run.settings.get(key) for key in keys)
    return tuple(LACKING if value is None else value for value in values)


def column_of(measure: str, group: str = LACKING) -> str:
    """Returns the name of a measure in tables: `fair_regret`, or `rank:GROUP` of a group."""
    return measure if group == LACKING else f"{measure}:{group}"


def spreads(table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Pools the values of each measure and group, separately for the values of the columns `by`.

    The interval is Student's. Unless the values are differences, it is within 0 and 1 for shares
    and ranks, and for selection rates at the end of a run it is `rate_ends`.
    """
    keys = [*by, *(key for key in ("measure", "group", "round") if key in table)]
    values = table.groupby(keys, observed=True, sort=False)["value"]
    pooled = values.agg(n="count", mean="mean", std="std").reset_index()
    pooled["low"], pooled["high"] = interval(pooled["n"], pooled["mean"], pooled["std"])
    if "baseline" in table:
        return pooled
    shares = pooled["measure"].isin(("share", "rank", RATE)) & (pooled["group"] != LACKING)
    ends = pooled.loc[shares, ["low", "high"]]
    pooled.loc[shares, ["low", "high"]] = ends.clip(0.0, 1.0)
    if "round" not in table:
        of_rates, on = pooled["measure"] == RATE, [*by, "group"]
        received = pooled.loc[pooled["measure"] == "received", [*on, "mean"]]
        rates = pooled[of_rates].merge(received, on=on, how="left", suffixes=("", "_received"))
        parts = (rates[part] for part in ("mean", "std", "n", "mean_received"))
        spans = [rate_ends(*row) for row in zip(*parts, strict=True)]
        pooled.loc[of_rates, ["low", "high"]] = np.array(spans).reshape(-1, 2)
    return pooled


def rate_ends(mean: float, std: float, n: float, received: float) -> Span:
    """Returns the interval of a group's mean selection rate; NaN for fewer than two replicas.

    An event is unseen by the candidates of all replicas. If all replicas have the same rate, it is
    unseen by replicas: a learner may always pick a group in some, and never in others.
    """
    if math.isnan(std):
        return math.nan, math.nan
    units = n * received if std else n
    return share_ends(mean, std**2 / n, n - 1, units, SHARE, CONFIDENCE)


def subtracted(table: pd.DataFrame, base: pd.DataFrame, on: Sequence[str]) -> pd.DataFrame:
    """Subtracts the value with the same `on` in a baseline; rows without one are left out."""
    values = base[[*on, "value"]].rename(columns={"value": "base"})
    joined = table.merge(values, on=[*on])
    return joined.assign(value=joined["value"] - joined["base"]).drop(columns="base")


def settings_of(table: pd.DataFrame) -> list[str]:
    """Returns the columns of a table that are settings, without the seed."""
    return [key for key in table if key not in (*_VALUES, *_NAMES)]


def pooled(
    table: pd.DataFrame, by: Iterable[str] | None = None, *, each: bool = False
) -> pd.DataFrame:
    """Pools the replicas and seeds of each setting.

    Args:
        table: a table of finals or curves, from `load` or `sweep`.
        by: the settings whose values are kept apart, by their keys or the ends of keys; None keeps
            all settings apart.
        each: keeps seeds apart, too.

    Returns:
        `label`, the name of the setting; the settings; `measure`, `group`, `round` for curves; the
        number `n` of replicas with a known value, `mean`, `std` (ddof 1), and the 95 % interval of
        the mean, `low` to `high`, NaN where all replicas are equal.
    """
    keys = settings_of(table)
    if by is not None:
        _, settings = _settings(table, keys)
        keys = [full_key(settings, word) for word in by]
    if "baseline" in table:
        return spreads(table, ["label", *keys, "baseline"])
    if {"policy", "environment"} <= {*keys}:
        numbers, settings = _settings(table, keys)
        labels = np.array(_labels(settings), object)
        table, keys = table.assign(label=labels[numbers]), ["label", *keys]
    return spreads(table, [*keys, "seed"] if each else keys)


def compare(table: pd.DataFrame, against: str | Mapping[str, Any]) -> pd.DataFrame:
    """Subtracts a baseline from each setting, replica by replica in the same world.

    Policies with the same seed meet the same pools and noise in each replica, so intervals of
    paired differences are narrower than intervals of differences of two means.

    Args:
        table: a table of finals or curves, from `load` or `sweep`.
        against: the label or the policy of the baseline, or values of its settings by their keys
            or the ends of keys, such as `{"policy": "greedy", "noise": 0.1}`. In each environment
            with a number of rounds, exactly one setting must match.

    Returns:
        A table like the result of `pooled`, but of the differences, setting minus baseline, over
        the replicas in which both values are known, with the label of the `baseline`.

    Raises:
        FairbanditError: the baseline does not match exactly one setting, or shares no environment
            with the same data, no seed and no replica with another setting.
    """
    return pooled(differences(table, against))


def differences(table: pd.DataFrame, against: str | Mapping[str, Any]) -> pd.DataFrame:
    """Returns a table of the differences that `compare` pools, with `label` and `baseline`."""
    keys = settings_of(table)
    numbers, settings = _settings(table, keys)
    labels = _labels(settings)
    pair = [key for key in _VALUES[:-1] if key in table]
    apart = [key for key in keys if of_world(key) or key in ("environment", "rounds")]
    worlds, base = dict[str, list[int]](), dict[int, int]()
    for at, row in enumerate(settings):
        worlds.setdefault(json.dumps([row.get(key) for key in apart]), []).append(at)
    for places in worlds.values():
        base |= dict.fromkeys(places, _baseline(against, settings, labels, places))
    is_base = np.isin(numbers, [*base.values()])
    names = {"label": labels, "baseline": [labels[base[at]] for at in range(len(settings))]}
    table = table.assign(**{key: np.array(own, object)[numbers] for key, own in names.items()})
    both = subtracted(table[~is_base], table[is_base], [*apart, *pair])
    if both.empty:
        raise FairbanditError(
            f"no other run shares an environment with the same data, a seed and a replica with the "
            f"baseline {against!r}"
        )
    return both


def _baseline(
    asked: str | Mapping[str, Any],
    settings: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    places: Sequence[int],
) -> int:
    """Returns the only one of the settings in a world, at some places, that the baseline names."""
    if isinstance(asked, str):
        matches = [at for at in places if labels[at] == asked]
        matches = matches or [at for at in places if settings[at]["policy"] == asked]
    else:
        found = naming.matching(settings, {key: [value] for key, value in asked.items()})
        matches = sorted({*places} & {*found})
    if len(matches) != 1:
        several = "several settings" if matches else "no setting"
        known = [name for at in places for name in (labels[at], settings[at]["policy"])]
        guess = "" if matches else did_you_mean(asked, known)
        names = ", ".join(repr(labels[at]) for at in matches or places)
        where = f"{several} of an environment{guess}"
        raise FairbanditError(f"the baseline {asked!r} names {where}; choose one of {names}")
    return matches[0]


def _settings(
    table: pd.DataFrame, keys: Sequence[str]
) -> tuple[NDArray[np.int64], list[dict[str, Any]]]:
    """Returns the number of each row's setting, and the settings without `LACKING` values."""
    numbers = table.groupby([*keys], sort=False, observed=True).ngroup().to_numpy()
    _, first = np.unique(numbers, return_index=True)
    rows = table.iloc[first][[*keys]].astype(object).to_dict("records")
    return numbers, [{k: v for k, v in row.items() if v != LACKING} for row in rows]


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    several = len({row["environment"] for row in settings}) > 1
    labels = []
    for row, names in zip(settings, naming.varied(settings), strict=True):
        first = [naming.Setting("environment", "environment", row["environment"])] * several
        own, world = ([s for s in names if of_world(s.key) == part] for part in (False, True))
        labels.append(joined(policy_label(row["policy"]), [*own, *first, *world]))
    return labels
