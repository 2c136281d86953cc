"""`fairbandit table`: shows how the environment `table` reads a file, or the contents of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.cli.logs import given_log
from fairbandit.cli.parsers import tool
from fairbandit.environments import contents
from fairbandit.errors import FairbanditError, brief
from fairbandit.logs import Log, is_table
from fairbandit.notices import listed
from fairbandit.runs.sheets import console, make_table
from fairbandit.tables.columns import group_columns
from fairbandit.tables.files import read_header
from fairbandit.tables.labels import JOINED

_OF_LOGS = {"decision", "picked", "propensity", "score", "features", "like", "time", "bad_lines"}
"""The keys that apply to logs only."""


@tool("FILE")
def table(path: Path, /, **settings: Any) -> None:
    """Shows which columns of a table become features and how, missing cells, and each group.

    Reads a CSV or Parquet table as environment=table does. KEY=VALUE are its parameters: group and
    reward, and if needed columns, exclude, separator, decimal, group_feature and others.

    For a log (a folder, an agent's log, DSJSON, or a table with the columns decision and picked),
    the command shows the decisions, candidates, groups, features, propensities and rewards that
    `read_log` reads; KEY=VALUE are its arguments. Notices report omitted entries.

    examples:
      fairbandit table people.csv group=sex reward=income
      fairbandit table people.csv group=sex reward=income 'separator=;' decimal=,
      fairbandit table people.csv 'group=[sex,race]' reward=income 'exclude=[id,name]'
      fairbandit table people.csv group=sex reward=income columns=columns.yaml
      fairbandit table decisions.jsonl
      fairbandit table hiring.csv group=sex reward=grade
    """
    settings |= settings.pop("environment", {})  # the keys of a run
    if settings.pop("path", str(path)) != str(path):
        raise FairbanditError(f"path: the table is {path}, the first word")
    out = console()
    if _is_log(path, settings):
        facts = _facts(given_log(path, settings, _facts)[0])
        out.print(make_table(["log", path.name], facts.items()))
        return
    features, groups = contents(str(path), **settings)
    print(f"{path.name}: {groups['n'].sum():,} rows, {features['features'].sum():,} features")
    rows = features.astype(object).map(lambda cell: cell if isinstance(cell, str) else f"{cell:,}")
    out.print(make_table([*rows], rows.to_numpy().tolist(), right=["features", "missing"]))
    group = JOINED.join(group_columns(settings["group"]))
    header = [group, "rows", f"mean {settings['reward']}", "std"]
    numbers = [
        (label, f"{n:,}", *("–" if math.isnan(value) else brief(value) for value in values))
        for label, n, *values in groups.itertuples()
    ]
    out.print(make_table(header, numbers, right=header[1:]))
    if group not in [*features["column"]]:
        print("The group is not a feature: true rewards miss differences by group alone.")


def _is_log(path: Path, settings: Mapping[str, Any]) -> bool:
    if path.is_dir() or not is_table(path) or settings.keys() & _OF_LOGS:
        return True
    names = read_header(path, settings.get("separator", ",")) if path.is_file() else []
    return {"decision", "picked"} <= {*names}


def _facts(log: Log) -> dict[str, str]:
    picked, names = log.picks >= 0, log.schema.names
    counts = zip(log.labels, np.bincount(log.groups), strict=False)
    propensity = "unknown" if np.isnan(log.propensities[picked]).any() else "of the picks alone"
    features = listed(list(names), 12) if names else "without names"
    return {
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}",
        "candidates": f"{log.sizes.sum():,}, at most {log.sizes.max():,} a decision",
        "picks": f"{picked.sum():,}, at most {picked.sum(1).max():,} a decision",
        "groups": listed([f"{label}: {count:,}" for label, count in counts]),
        "features": f"{len(log.features)}: {features}",
        "propensities": propensity if log.probabilities is None else "of all candidates",
        "rewards": f"{log.reward or 'reward'}; {1 - log.missing:.1%} of the picks have one",
    }
