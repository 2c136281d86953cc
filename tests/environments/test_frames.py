"""Tables that are in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fairbandit.environments import Table
from fairbandit.environments.frames import kept_table
from fairbandit.errors import FairbanditError
from fairbandit.registry import create, describe
from tests.environments.data import people, write


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fairbandit" / "tables"


def test_every_form_is_one_problem(tmp_path, cache):
    table = people()
    chosen = {"group": "group", "reward": "wage", "pool": "random", "candidates": 4}
    file = write(tmp_path / "t.parquet", table)
    expected = create("environment", {"name": "table", "path": str(file), **chosen})
    frame = pd.DataFrame(table, index=[f"row {row}" for row in range(400)])
    arrow = pa.table(table)
    split = pa.concat_tables([arrow[:100], arrow[100:]])
    for data in (frame, arrow, split, table, arrow.to_reader()):
        made = Table.from_data(data, **chosen)
        assert made.members.contexts.equal(expected.members.contexts)
        assert made.resolved_columns == expected.resolved_columns
        assert made.fingerprint() == expected.fingerprint()
        again = create("environment", describe(made))
        assert again.members.contexts.equal(made.members.contexts)
    assert {kept_table(data) for data in (arrow, split, table)} < set(cache.iterdir())
    assert len({kept_table(data) for data in (arrow, split, table)}) == 1


def test_another_cell_is_another_file():
    table = people()
    first = kept_table(table)
    table["age"][0] += 1
    assert kept_table(table) != first
    assert kept_table(people()) == first


def test_missing_cells_and_categories_of_pandas():
    frame = pd.DataFrame(people())
    frame["town"] = frame["town"].astype("category")
    frame.loc[5, "age"] = np.nan
    made = Table.from_data(frame, group="group", reward="wage", missing="drop")
    assert len(made.members.groups) == 399
    assert made.resolved_columns["town"] == ["north", "south"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([1, 2], "expected a pandas DataFrame, a pyarrow Table, .*; got list"),
        (pd.Series([1]), "no table that Arrow can hold: "),
        (pd.DataFrame({"a": [1, "x"]}), "no table that Arrow can hold: .*column a"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "no table that Arrow can hold: Duplicate"),
        ({"a": [1], "b": [1, 2]}, "no table that Arrow can hold: "),
    ],
)
def test_what_is_no_table(data, problem):
    with pytest.raises(FairbanditError, match=problem):
        Table.from_data(data, group="a", reward="b")


def test_a_cache_that_takes_no_file(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(FairbanditError, match=r"cannot keep the table in .*give its path"):
        kept_table(people())
