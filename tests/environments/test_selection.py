"""Missing cells: an error, rows that are left out, or means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairbandit.environments import reading
from fairbandit.environments.remarks import remark
from fairbandit.errors import FairbanditError
from fairbandit.registry import create
from tests.environments.data import COLUMNS, arguments, encoded, people, standardised, write

MISSING: dict[str, list[int]] = {"age": [3, 200], "job": [3, 9], "town": [11, 70]}
"""Rows whose cells are missing."""

both = pytest.mark.parametrize("ending", ["csv", "parquet"])


@pytest.fixture(autouse=True)
def in_blocks(monkeypatch):
    monkeypatch.setattr(reading, "BLOCK_ROWS", 50)
    remark.cache_clear()


def with_gaps(**more: list[int]) -> dict[str, Any]:
    """The people, of whom some cells are missing."""
    table = people()
    for name, rows in (MISSING | more).items():
        for row in rows:
            table[name][row] = None
    return table


def made(path: Path, **changed: Any) -> Any:
    return create("environment", arguments(path, **changed))


@both
@pytest.mark.parametrize("size", [None, 60])
def test_drop_is_as_if_the_rows_were_not_there(tmp_path, ending, size, caplog):
    more = {"group": [20], "wage": [21, 22]}
    table = with_gaps(**more)
    lost = {row for rows in (MISSING | more).values() for row in rows}
    rest = {name: [c for i, c in enumerate(v) if i not in lost] for name, v in table.items()}
    path = write(tmp_path / f"t.{ending}", table)
    found = made(path, missing="drop", group_size=size)
    plain = made(write(tmp_path / f"r.{ending}", rest), group_size=size)
    assert found.members.contexts.equal(plain.members.contexts) or size
    assert len(found.members.groups) == len(plain.members.groups)
    assert found.group_names == plain.group_names
    said = f"{path}: environment.missing=drop leaves out 8 of 400 rows; missing are "
    assert said + "2 of 'age', 2 of 'job', 2 of 'town', 2 of 'wage', 1 of 'group'" in caplog.text


@both
@pytest.mark.parametrize("other", [False, True])
def test_mean_sets_features_to_their_means(tmp_path, ending, other, caplog):
    path = write(tmp_path / f"t.{ending}", with_gaps())
    d1 = people(seed=1) if other else people()
    for row in MISSING["age"] if other else ():
        d1["age"][row] = None
    scaler = str(write(tmp_path / f"d1.{ending}", d1)) if other else None
    found = made(path, missing="mean", scaler_path=scaler).members.contexts.numpy()
    whole = encoded(d1 | {"age": [age or 0 for age in d1["age"]]})
    gaps = np.zeros((len(whole), 7), dtype=bool)
    for name, places in (("age", [0]), ("job", [1, 2, 3]), ("town", [4, 5])):
        gaps[np.ix_(MISSING[name], places)] = True
    seen = np.ones_like(gaps)
    seen[:, 0] = ~gaps[:, 0] if other else True
    seen = seen if other else ~gaps
    for at in range(7):
        expected = standardised(encoded(people())[:, [at]], whole[seen[:, at]][:, [at]])[:, 0]
        expected[gaps[:, at]] = 0
        np.testing.assert_allclose(found[:, at], expected, rtol=1e-12, atol=1e-12)
    said = f"{path}: environment.missing=mean fills in 6 cells: 2 of 'age', 2 of 'job', 2 of 'town'"
    assert said in caplog.text


@both
@pytest.mark.parametrize("mode", ["drop", "mean"])
def test_a_whole_table_is_the_same_in_every_mode(tmp_path, ending, mode, caplog):
    path = write(tmp_path / f"t.{ending}", people())
    assert made(path, missing=mode).members.contexts.equal(made(path).members.contexts)
    assert not caplog.text


@pytest.mark.parametrize("cell", ["", "  ", "NA", " nan", "NULL", "#N/A"])
def test_spellings_of_a_missing_cell(tmp_path, cell):
    table = people()
    for name in ("age", "job", "town"):
        table[name][5] = cell
    path = write(tmp_path / "t.csv", table)
    found = made(path, missing="mean").members.contexts
    assert found[5, :6].eq(0).all()
    assert len(made(path, missing="drop").members.groups) == 399
    for name in ("age", "job", "town"):
        with pytest.raises(FairbanditError, match=r"line 7: .*environment\.missing=drop leaves"):
            made(path, columns={name: COLUMNS[name]})


def test_a_code_that_spells_a_missing_cell_is_none(tmp_path):
    table = people()
    table["town"][5] = "NA"
    path = write(tmp_path / "t.csv", table)
    columns = {"age": None, "town": ["north", "south", "NA"]}
    found = made(path, missing="drop", columns=columns)
    assert len(found.members.groups) == 400


@pytest.mark.parametrize("name", ["group", "wage"])
def test_mean_needs_the_group_and_the_reward(tmp_path, name):
    path = write(tmp_path / "t.csv", with_gaps(**{name: [5]}))
    with pytest.raises(FairbanditError, match=rf"'{name}', line 7: .*environment\.missing=drop"):
        made(path, missing="mean")


@pytest.mark.parametrize("mode", ["drop", "mean"])
def test_other_cells_stay_strict(tmp_path, mode):
    for name, cell, problem in (
        ("age", "old", "expected a number, got the text 'old'"),
        ("age", "inf", "got an infinite number"),
        ("job", "7", "expected one of the codes"),
    ):
        table = with_gaps()
        table[name][30] = cell
        path = write(tmp_path / "t.csv", table)
        with pytest.raises(FairbanditError, match=f"column '{name}', line 32: .*{problem}"):
            made(path, missing=mode)


def test_nothing_is_there(tmp_path):
    table = with_gaps(age=list(range(400)))
    path = write(tmp_path / "t.parquet", table)
    with pytest.raises(FairbanditError, match="column 'age': all cells of the groups in use are"):
        made(path, missing="mean")
    with pytest.raises(FairbanditError, match=r"0 group\(s\) .* their sizes are 'a': 0"):
        made(path, missing="drop")
