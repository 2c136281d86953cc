"""Small tables for the tests, and an independent reading of them with numpy alone."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.environments import census

COLUMNS: dict[str, Any] = {
    "age": None,
    "job": {"codes": [1, 2, 3], "reference": [0]},
    "town": ["north", "south"],
    "flat": None,
}
CODED: dict[str, list[Any]] = {"job": [1, 2, 3], "town": ["north", "south"]}


def people(count: int = 400, seed: int = 0, groups: Sequence[str] = ("a", "b", "c")) -> Any:
    """Rows of a made-up table: half its people are of the first group; `flat` is constant."""
    draw = np.random.default_rng(seed)
    shares = np.array([0.5, *[0.5 / (len(groups) - 1)] * (len(groups) - 1)])
    age, job = draw.integers(18, 80, count), draw.integers(0, 4, count)
    return {
        "id": [f"p{row}" for row in range(count)],
        "group": draw.choice(list(groups), count, p=shares).tolist(),
        "age": age.tolist(),
        "job": job.tolist(),
        "town": draw.choice(["north", "south"], count).tolist(),
        "flat": [0.1] * count,
        "wage": np.round(age * 2.0 + job * 7 + draw.normal(0, 9, count), 3).tolist(),
    }


def write(path: Path, table: Mapping[str, Sequence[Any]]) -> Path:
    """Writes columns as CSV or Parquet, by the path's ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(dict(table)), path)
        return path
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))
    return path


def arguments(path: Path, **changed: Any) -> dict[str, Any]:
    """What a `table` environment of `people` is built from."""
    given = {"path": str(path), "group": "group", "reward": "wage", "columns": COLUMNS}
    return {"name": "table", **given, **changed}


def encoded(table: Mapping[str, Sequence[Any]]) -> Any:
    """Features of `people` by hand: (n, 7), not standardised."""
    columns = [np.array(table["age"], dtype=float)]
    columns += [np.array(table["job"]) == code for code in CODED["job"]]
    columns += [np.array(table["town"]) == code for code in CODED["town"]]
    columns += [np.array(table["flat"], dtype=float)]
    return np.column_stack(columns).astype(float)


def standardised(values: Any, scaler: Any) -> Any:
    """Columns minus the scaler's mean, divided by its standard deviation unless it is constant."""
    constant = (scaler == scaler[:1]).all(axis=0)
    return (values - scaler.mean(axis=0)) / np.where(constant, 1.0, scaler.std(axis=0))


def census_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Person records: people of the packaged sample, of whom every third has no work."""
    sample = pq.read_table(Path(census.__file__).parent / "sample" / "2018.parquet")
    away = {"COW": "", "OCCP": "", "WKHP": "", "PINCP": ""}
    return [
        {"RT": "P", "PWGTP": 1, **row, **(away if at % 3 == 0 else {})}
        for at, row in enumerate(sample.slice(count * seed, count).to_pylist())
    ]


def census_file(root: Path, year: int, state: str, rows: list[dict[str, Any]]) -> Path:
    """Writes person records where folktables would put them."""
    path = root / str(year) / "1-Year" / f"psam_p{census.FIPS[state]:02}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path, {name: [row[name] for row in rows] for name in rows[0]})


def census_root(tmp_path: Path) -> Path:
    """A root with two states of 2018 and one of 2017, some 900 made-up people in all."""
    root = tmp_path / "root"
    census_file(root, 2018, "DE", census_rows(300, seed=1))
    census_file(root, 2018, "WY", census_rows(300, seed=2))
    census_file(root, 2017, "DE", census_rows(300, seed=3))
    return root
