"""`fairbandit table`: shows how the environment `table` reads a file, or the contents of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.cli.logs import given_log
from fairbandit.cli.parsers import read_words
from fairbandit.environments import contents
from fairbandit.errors import brief
from fairbandit.logs import Log, is_table
from fairbandit.notices import listed
from fairbandit.runs.sheets import console, make_table
from fairbandit.tables.columns import group_columns
from fairbandit.tables.files import read_header
from fairbandit.tables.labels import JOINED

_HELP = """\
Reads a CSV or Parquet table as environment=table does, and shows which columns become features and
how, how many cells are missing, and the size and mean reward of each group. No file is written.

KEY=VALUE are parameters of environment=table: group and reward, and if needed columns, exclude,
separator, decimal, group_feature and others.

For a log (a folder, an agent's log, DSJSON, or a table with the columns decision and picked), the
command shows the decisions, candidates, groups, features, propensities and rewards that `read_log`
reads; KEY=VALUE are its arguments. Notices report omitted entries and other irregularities.

examples:
  fairbandit table people.csv group=sex reward=income
  fairbandit table people.csv group=sex reward=income 'separator=;' decimal=,
  fairbandit table people.csv 'group=[sex,race]' reward=income 'exclude=[id,name]'
  fairbandit table people.csv group=sex reward=income columns=columns.yaml
  fairbandit table decisions.jsonl
  fairbandit table hiring.csv group=sex reward=grade"""

_OF_LOGS = {"decision", "picked", "propensity", "score", "features", "like", "time", "bad_lines"}
"""The keys that apply to logs only."""

_TEXTS = ("group", "reward", "separator", "decimal", "scaler_path")  # literal, not parsed as YAML


def table(words: Sequence[str]) -> None:
    """Prints the features, groups and missing cells of a table, or the contents of a log."""
    (path,), settings, _ = read_words("table", _HELP, [*map(_literal, words)], "FILE")
    out = console()
    if _is_log(path, settings):
        log, _ = given_log(path, settings, _facts)
        out.print(make_table(["log", path.name], _facts(log).items()))
        return
    features, groups = contents(str(path), **settings)
    total = features["features"].sum()
    print(f"{path.name}: {groups['n'].sum():,} rows, {total:,} features")
    rows = features.astype(object).map(lambda cell: cell if isinstance(cell, str) else f"{cell:,}")
    out.print(make_table([*rows], rows.to_numpy().tolist(), right=["features", "missing"]))
    mean = f"mean {settings['reward']}"
    header = [JOINED.join(group_columns(settings["group"])), "rows", mean, "std"]
    numbers = [
        (group, f"{n:,}", *("–" if math.isnan(value) else brief(value) for value in values))
        for group, n, *values in groups.itertuples()
    ]
    out.print(make_table(header, numbers, right=["rows", mean, "std"]))
    if header[0] not in [*features["column"]]:
        print("The group is not a feature: true rewards miss differences by group alone.")


def _is_log(path: Path, settings: Mapping[str, Any]) -> bool:
    if path.is_dir() or not is_table(path):
        return True
    names = read_header(path, settings.get("separator", ",")) if path.is_file() else []
    return bool(settings.keys() & _OF_LOGS) or {"decision", "picked"} <= {*names}


def _facts(log: Log) -> dict[str, str]:
    picked, names = log.picks >= 0, log.schema.names
    counts = np.bincount(log.groups)
    groups = [f"{label}: {count:,}" for label, count in zip(log.labels, counts, strict=False)]
    known = "unknown" if np.isnan(log.propensities[picked]).any() else "of the picks alone"
    features = listed(list(names), 12) if names else "without names"
    return {
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}",
        "candidates": f"{log.sizes.sum():,}, at most {log.sizes.max():,} a decision",
        "picks": f"{picked.sum():,}, at most {picked.sum(1).max():,} a decision",
        "groups": listed(groups),
        "features": f"{len(log.features)}: {features}",
        "propensities": known if log.probabilities is None else "of all candidates",
        "rewards": f"{log.reward or 'reward'}; {1 - log.missing:.1%} of the picks have one",
    }


def _literal(word: str) -> str:
    """Returns a word without the prefix of a run's key; values of `_TEXTS` are put in quotes."""
    key, equals, value = word.removeprefix("environment.").partition("=")
    if key in _TEXTS and equals and not value.startswith(("[", "'", '"')):
        value = "'{}'".format(value.replace("'", "''"))
    return f"{key}{equals}{value}"
