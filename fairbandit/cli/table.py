"""`fairbandit table`: shows how the environment `table` reads a file, or the contents of a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from fairbandit.cli.logs import given_log
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.environments.table import PoolKind, suited_pool
from fairbandit.errors import brief
from fairbandit.logs import Log, is_table
from fairbandit.notices import listed
from fairbandit.registry import completed
from fairbandit.runs.sheets import console, make_table
from fairbandit.tables.columns import (
    check_groups,
    chosen_columns,
    codes_and_reference,
    group_columns,
    resolve_columns,
    with_group,
)
from fairbandit.tables.labels import JOINED
from fairbandit.tables.population import Missing, find_gaps, note_leaks
from fairbandit.tables.products import pairs_of
from fairbandit.tables.reading import read_header, read_table
from fairbandit.tables.source import Source

_HELP = """\
Reads a CSV or Parquet table as environment=table does, and shows which columns become features and
how, how many cells are missing, and the size and mean reward of each group. No file is written.

KEY=VALUE are parameters of environment=table: group and reward, and if needed columns, exclude,
separator, decimal, group_feature and others.

For a log (a folder, an agent's log, DSJSON, or a table with the columns decision and picked), the
command shows the decisions, candidates, groups, features, propensities and rewards that `read_log`
reads; KEY=VALUE are its arguments. Notices report omitted entries and other irregularities."""

_EXAMPLES = """\
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
    import pandas as pd

    parser = tool_parser("table", _HELP, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a .csv or .parquet file, or a log")
    parser.add_argument("parameters", nargs="*", metavar="KEY=VALUE", help="group=… reward=…")
    given = parser.parse_args(words)
    settings, out = _parse_parameters(given.parameters), console()
    if _is_log(Path(given.file), settings):
        log, _ = given_log(given.file, settings, _facts)
        out.print(make_table(["log", Path(given.file).name], _facts(log).items()))
        return
    spec = completed("environment", {"name": "table", "path": given.file, **settings})
    columns_of = group_columns(spec["group"])
    spec["group"], chosen = JOINED.join(columns_of), chosen_columns(spec["columns"])
    taken = (*columns_of, spec["reward"])
    how = [spec[key] for key in ("separator", "decimal", "missing_values")]
    source = read_table(given.file, [*taken, *(chosen or ())], chosen is None, *how)
    columns, left_out = resolve_columns(source, chosen, taken, spec["exclude"])
    options = spec["exclude"], spec["group_feature"]
    columns, spec["group_feature"] = with_group(columns, source, taken, *options)
    source = source.joined(columns_of)
    missing, roles = Missing[spec["missing"]], (spec["group"], spec["reward"])
    gaps, problem = find_gaps(source, roles, columns, missing, "missing={}")
    dropped = gaps.any(axis=1) & (missing is Missing.drop)
    played = replace(source, frame=source.frame[~dropped])
    note_leaks(played, columns, spec["reward"])
    rewards = pd.Series(played.numbers(spec["reward"])).groupby(played.labels(spec["group"]))
    groups = pd.DataFrame({"n": rewards.size(), "mean": rewards.mean(), "std": rewards.std()})
    check_groups(f"{source.name}, column {spec['group']!r}", groups["n"].to_dict())
    print(f"{Path(given.file).name}: {len(source):,} rows, {len(source.columns):,} columns")
    out.print(_features(source, columns, spec, sorted(groups.index)))
    if left_out:
        out.print(make_table(["left out", "why"], left_out.items()))
    groups = groups.sort_values("n", ascending=False, kind="stable")
    rows, mean = [], f"mean {spec['reward']}"
    for group, n, *values in groups.itertuples():
        small = " (too small)" if n < spec["min_group_size"] else ""
        numbers = ["–" if math.isnan(value) else brief(value) for value in values]
        rows.append((group + small, f"{n:,}", *numbers))
    out.print(make_table([spec["group"], "rows", mean, "std"], rows, right=["rows", mean, "std"]))
    if problem:
        print(f"A run fails, since {problem}.")
    elif dropped.any():
        print(f"missing=drop leaves out {dropped.sum():,} rows; the groups are shown without them.")
    if spec["pool"] is None and spec["candidates"] is spec["group_size"] is None:
        sizes = groups["n"][groups["n"] >= spec["min_group_size"]].to_dict()
        if sizes and suited_pool(sizes) is PoolKind.one_per_group:
            print("Each pool has one candidate of each group; pool=random draws in proportion.")
    if not spec["group_feature"] and spec["group"] not in columns:
        print("The group is not a feature: true rewards miss differences by group alone.")
    print(
        "std divides by n − 1. When they are played, features and rewards are standardised over "
        "all rows, with n."
    )


def _is_log(path: Path, settings: Mapping[str, Any]) -> bool:
    """Whether a path holds logged decisions, according to its name, columns or settings."""
    if path.is_dir() or not is_table(path):
        return True
    names = read_header(path, settings.get("separator", ",")) if path.is_file() else []
    return bool(settings.keys() & _OF_LOGS) or {"decision", "picked"} <= {*names}


def _facts(log: Log) -> dict[str, str]:
    """Returns the contents of a log in words, by topic."""
    picked, names = log.picks >= 0, log.schema.names
    counts = np.bincount(log.candidates.groups)
    groups = [f"{label}: {count:,}" for label, count in zip(log.labels, counts, strict=False)]
    known = "unknown" if np.isnan(log.propensities[picked]).any() else "of the picks alone"
    features = listed(list(names), 12) if names else "without names"
    return {
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}",
        "candidates": f"{log.sizes.sum():,}, at most {log.sizes.max():,} a decision",
        "picks": f"{picked.sum():,}, at most {picked.sum(1).max():,} a decision",
        "groups": listed(groups),
        "features": f"{len(log.features)}: {features}",
        "propensities": known if log.candidates.probabilities is None else "of all candidates",
        "rewards": f"{log.reward or 'reward'}; {1 - log.missing:.1%} of the picks have one",
    }


def _parse_parameters(words: Sequence[str]) -> dict[str, Any]:
    """Reads KEY=VALUE words; quotes around the values of `_TEXTS` are optional."""
    pairs = [word.removeprefix("environment.").partition("=") for word in words]
    plain = [pair for pair in pairs if pair[0] in _TEXTS and not pair[2].startswith("[")]
    texts = {key: value.strip("\"'") for key, _, value in plain}
    others = ["".join(pair) for pair in pairs if pair not in plain]
    return {**texts, **read_parameters(others, "environment")}


def _features(
    source: Source, columns: dict[str, Any], spec: dict[str, Any], labels: list[str]
) -> Table:
    """Returns a table of the columns that become features, the bias, the total d and the reward."""
    rows = []
    for name, chosen in columns.items():
        codes, reference = codes_and_reference(chosen)
        kind = f"category: {listed([*map(str, codes)], 6)}" if codes else "number"
        kind += f"; without a feature: {listed([*map(str, reference)], 6)}" if reference else ""
        rows.append((name, kind, len(codes) or 1))
    if spec["group_feature"]:
        rows.append((spec["group"], f"the group: {listed(labels, 6)}", len(labels)))
    cells = [(name, kind, str(count), f"{source.gaps(name).sum():,}") for name, kind, count in rows]
    widths = {name: count for name, _, count in rows}
    for one, other in pairs_of(spec["products"], widths):
        name = JOINED.join((one, other))
        cells.append((name, "the products", str(widths[one] * widths[other]), ""))
    cells += [("", "bias, always 1", "1", "")] if spec["bias"] else []
    cells.append(("", "all together, d", str(sum(int(row[2]) for row in cells)), ""))
    cells.append((spec["reward"], "the reward", "", f"{source.gaps(spec['reward']).sum():,}"))
    header = ["column", "becomes", "features", "missing"]
    return make_table(header, cells, right=["features", "missing"])
