"""`fairbandit table`: shows how the environment `table` reads a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.environments.columns import chosen_columns, codes_and_reference, resolve_columns
from fairbandit.environments.reading import Source, listed, read_table
from fairbandit.registry import completed
from fairbandit.run.table import console, make_table

_HELP = """\
Reads a CSV or Parquet table as environment=table does, and shows which columns become features and
how, how many cells are missing, and the size and mean reward of each group. Nothing is written.

KEY=VALUE are parameters of environment=table: group and reward, and if need be columns, separator,
decimal, group_feature and the others."""

_EXAMPLES = """\
examples:
  fairbandit table people.csv group=sex reward=income
  fairbandit table people.csv group=sex reward=income 'separator=;' decimal=,
  fairbandit table people.csv group=sex reward=income columns=columns.yaml"""


_TEXTS = ("group", "reward", "separator", "decimal", "scaler_path")  # not read as YAML


def table(words: Sequence[str]) -> None:
    """Prints the features, the groups and the missing cells of a file."""
    import pandas as pd

    parser = tool_parser("table", _HELP, _EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="a .csv or .parquet file")
    parser.add_argument("parameters", nargs="*", metavar="KEY=VALUE", help="group=… reward=…")
    given = parser.parse_args(words)
    parameters = {"name": "table", "path": given.file, **_read(given.parameters)}
    spec = completed("environment", parameters)
    taken, chosen = (spec["group"], spec["reward"]), chosen_columns(spec["columns"])
    source = read_table(
        given.file,
        [*taken, *(chosen or ())],
        every=chosen is None,
        separator=spec["separator"],
        decimal=spec["decimal"],
        missing_values=spec["missing_values"],
    )
    columns, left_out = resolve_columns(source, chosen, taken)
    rewards = pd.Series(source.numbers(spec["reward"])).groupby(source.labels(spec["group"]))
    groups = pd.DataFrame({"n": rewards.size(), "mean": rewards.mean(), "std": rewards.std(ddof=0)})
    out = console()
    print(f"{Path(given.file).name}: {len(source):,} rows, {len(source.columns):,} columns")
    out.print(_features(source, columns, spec, sorted(groups.index)))
    if left_out:
        out.print(make_table(["left out", "why"], left_out.items()))
    rows, mean = [], f"mean {spec['reward']}"
    for group, n, own_mean, std in groups.sort_values(
        "n", ascending=False, kind="stable"
    ).itertuples():
        small = " (too small)" if n < spec["min_group_size"] else ""
        rows.append((group + small, f"{n:,}", f"{own_mean:.4g}", f"{std:.3g}"))
    out.print(make_table([spec["group"], "rows", mean, "std"], rows, right=["rows", mean, "std"]))
    gaps = int(sum(source.gaps(name).sum() for name in (*taken, *columns)))
    if gaps and spec["missing"] == "error":
        print(f"{gaps:,} missing cells are an error; set missing=drop or missing=mean")
    if not spec["group_feature"] and spec["group"] not in columns:
        print("The group is no feature: true rewards miss what differs by group alone.")
    print("Features and rewards are standardised when they are played.")


def _read(words: Sequence[str]) -> dict[str, Any]:
    """Reads KEY=VALUE words; a value of one of `_TEXTS` may stand in quotes but needs none."""
    pairs = [word.removeprefix("environment.").partition("=") for word in words]
    texts = {key: value.strip("\"'") for key, _, value in pairs if key in _TEXTS}
    others = ["".join(pair) for pair in pairs if pair[0] not in _TEXTS]
    return {**texts, **read_parameters(others, "environment")}


def _features(
    source: Source, columns: dict[str, Any], spec: dict[str, Any], labels: list[str]
) -> Table:
    """A table of the columns that become features, the bias, the total d and the reward."""
    rows = []
    for name, chosen in columns.items():
        codes, reference = codes_and_reference(chosen)
        kind = f"category: {listed([*map(str, codes)], 6)}" if codes else "number"
        kind += f"; without a feature: {listed([*map(str, reference)], 6)}" if reference else ""
        rows.append((name, kind, len(codes) or 1))
    if spec["group_feature"] and spec["group"] not in columns:
        rows.append((spec["group"], f"the group: {listed(labels, 6)}", len(labels)))
    cells = [(name, kind, str(count), f"{source.gaps(name).sum():,}") for name, kind, count in rows]
    cells += [("", "bias, always 1", "1", "")] if spec["bias"] else []
    cells.append(("", "all together, d", str(sum(int(row[2]) for row in cells)), ""))
    cells.append((spec["reward"], "the reward", "", f"{source.gaps(spec['reward']).sum():,}"))
    header = ["column", "becomes", "features", "missing"]
    return make_table(header, cells, right=["features", "missing"])
