"""Which columns are features: inferred, chosen, or named in a YAML file."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from fairbandit.environments import Encoder, Table
from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash
from fairbandit.registry import create, describe
from fairbandit.tables.columns import CONSTANT, DATES, chosen_columns
from tests.environments.data import COLUMNS, arguments, people, write

COUNT = 60

both = pytest.mark.parametrize("ending", ["csv", "parquet"])


def cells(**more: Any) -> dict[str, Any]:
    """A sound table with some columns beside the group `g`, the reward `r` and the number `x`."""
    plain = {
        "g": ["ab"[row % 2] for row in range(COUNT)],
        "r": [float(row * row % 17) for row in range(COUNT)],
        "x": [row * 7 % 23 for row in range(COUNT)],
    }
    return plain | {name: [make(row) for row in range(COUNT)] for name, make in more.items()}


def made(tmp_path: Path, ending: str, table: dict[str, Any], **parameters: Any) -> Table:
    path = write(tmp_path / f"t.{ending}", table)
    given: dict[str, Any] = {"group": "g", "reward": "r", "group_feature": False}
    return Table(path=str(path), **given | parameters)


def refused(tmp_path: Path, ending: str, table: dict[str, Any], **parameters: Any) -> str:
    with pytest.raises(FairbanditError) as caught:
        made(tmp_path, ending, table, **parameters)
    return str(caught.value)


@both
def test_numbers_truth_values_and_texts(tmp_path, ending, caplog):
    table = cells(h=lambda row: row / 8, b=lambda row: row % 3 == 0, t=lambda row: "zyx"[row % 3])
    found = made(tmp_path, ending, table)
    assert found.resolved_columns == {"x": None, "h": None, "b": None, "t": ["x", "y", "z"]}
    assert found.feature_names == ("x", "h", "b", "t=x", "t=y", "t=z", "bias")
    explicit = made(tmp_path, ending, table, columns=found.resolved_columns)
    assert found.members.contexts.equal(explicit.members.contexts)
    assert not caplog.text


@both
def test_what_is_no_feature_is_named_once(tmp_path, ending, caplog):
    table = cells(
        day=lambda row: datetime.date(2020, 1, 1 + row % 9),
        date=lambda row: f"{1 + row % 9}/{1 + row % 12}/2020",
        one=lambda row: 3.5,
        none=lambda row: None,
    )
    for _ in range(2):
        assert made(tmp_path, ending, table).feature_names == ("x", "bias")
    (record,) = caplog.records
    reasons = {"day": DATES, "date": DATES, "one": CONSTANT, "none": CONSTANT}
    expected = ", ".join(f"{name!r} ({reason})" for name, reason in reasons.items())
    assert f"these columns are not features: {expected}. environment.columns" in record.message


def test_a_few_texts_among_numbers_are_named(tmp_path, caplog):
    table = cells(age=lambda row: "absent" if row == 7 else str(row % 9))
    assert made(tmp_path, "csv", table).features == 2
    assert "'age' (numbers, except texts such as 'absent', which missing_values" in caplog.text
    given = {"missing": "mean", "missing_values": ["absent"]}
    assert made(tmp_path, "csv", table, **given).features == 3


def test_cells_without_a_text_form_and_an_index_are_no_features(tmp_path, caplog):
    table = cells(odd=lambda row: [row], bytes=lambda row: b"\xff", y=lambda row: row)
    table["__index_level_0__"] = list(range(COUNT))
    assert made(tmp_path, "parquet", table).feature_names == ("x", "y", "bias")
    reasons = "'odd' (cells of the type list<.*> are .*), 'bytes' (cells of the type binary are .*)"
    assert re.search(reasons.replace("(", "[(]").replace(")", "[)]"), caplog.text)


@pytest.mark.parametrize(
    ("found", "codes"),
    [
        (["10", "9", "1.50"], [1.5, 9, 10]),
        ([" b", "a ", "b"], ["a", "b"]),
        (["01", "1", "1"], ["01", "1"]),
        (["True", "false", "1"], [0, 1]),
    ],
)
def test_a_category_by_choice(tmp_path, found, codes):
    table = cells(c=lambda row: found[row % 3])
    world = made(tmp_path, "csv", table, columns={"c": "category", "x": None})
    assert world.resolved_columns == {"c": codes, "x": None}
    assert world.feature_names == (*(f"c={code}" for code in codes), "x", "bias")


def test_a_file_stands_for_its_mapping(tmp_path):
    path = write(tmp_path / "t.csv", people())
    named = str(tmp_path / "columns.yaml")
    OmegaConf.save(OmegaConf.create(COLUMNS), named)
    found = create("environment", arguments(path, columns=named))
    assert found.members.contexts.equal(create("environment", arguments(path)).members.contexts)
    assert describe(found)["columns"] == named
    assert Table.fingerprint(describe(found)) == data_hash([path, Path(named)])
    inferred = create("environment", arguments(path, columns=None))
    OmegaConf.save(inferred.resolved_columns, named)
    again = create("environment", arguments(path, columns=named))
    assert again.members.contexts.equal(inferred.members.contexts)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("job: 5\n", "environment.columns.job: expected null (a number), category"),
        ("smoker: [yes, no]\n", "codes are all numbers or all texts (in quotes)"),
        ("job: {codes: [1], reference: [1.0]}\n", "and are distinct"),
        ("age:\nage:\n", "found duplicate key age"),
        ("", "environment.columns must be a mapping"),
    ],
)
def test_a_file_that_is_wrong(tmp_path, text, problem):
    path = tmp_path / "columns.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FairbanditError) as caught:
        chosen_columns(str(path))
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_columns_are_excluded(tmp_path, caplog):
    table = cells(id=lambda row: 1000 + row, place=lambda row: f"p{row % 5}")
    assert {"id", "place=p0"} < {*made(tmp_path, "csv", table).feature_names}
    assert {*made(tmp_path, "csv", table, exclude=["id"]).resolved_columns} == {"x", "place"}
    chosen = made(tmp_path, "csv", table, columns={"x": None, "id": None}, exclude=["id"])
    assert [*chosen.resolved_columns] == ["x"]
    assert not caplog.records
    message = refused(tmp_path, "csv", table, exclude=["plaze"])
    assert message.startswith("exclude: ")
    assert "no column 'plaze' (did you mean 'place'?); it has 'g', 'r', 'x', 'id', 'pl" in message


@both
def test_row_numbers_that_pandas_has_written_are_no_feature(tmp_path, ending, caplog):
    table = {"Unnamed: 0": list(range(COUNT)), **cells()}
    assert made(tmp_path, ending, table).feature_names == ("x", "bias")
    assert "'Unnamed: 0' (row numbers that pandas has written)" in caplog.text
    table["Unnamed: 0"] = [row % 7 for row in range(COUNT)]
    assert made(tmp_path, ending, table).feature_names == ("Unnamed: 0", "x", "bias")


def test_a_column_of_amounts_is_no_group(tmp_path, caplog):
    table = cells(
        pay=lambda row: row * 1.5, rare=lambda row: "ab"[row > 54], age=lambda row: row % 20
    )
    for group in ("pay", "age"):
        message = refused(tmp_path, "csv", table, group=group)
        assert f"column '{group}': " in message
        assert "groups have fewer than 5 members" in message
    caplog.clear()
    made(tmp_path, "csv", table, group="rare", columns={"x": None})
    assert "relative ranks are coarse in groups of few members: 'b': 5" in caplog.text
    table["rare"] = [["F", "f", "m"][row % 3] for row in range(COUNT)]
    made(tmp_path, "csv", table, group="rare", columns={"x": None})
    assert "groups differ in upper and lower case alone: 'F', 'f'" in caplog.text


def test_intersectional_groups_and_raw_rows_of_them(tmp_path):
    """The group of several columns is that of a column which holds their labels together."""
    table = cells(s=lambda row: "fm"[row // 2 % 2], n=lambda row: row // 4 % 2)
    joined = [f"{s} × {n}" for s, n in zip(table["s"], table["n"], strict=True)]
    given = {"group": ["s", "n"], "columns": {"x": None}, "group_feature": True}
    found = made(tmp_path, "csv", table, **given)
    other = made(tmp_path, "csv", {**table, "j": joined}, **{**given, "group": "j"})
    assert found.labels == other.labels == ("f × 0", "f × 1", "m × 0", "m × 1")
    assert found.feature_names[1:5] == tuple(f"s × n={label}" for label in found.labels)
    assert found.members.contexts.equal(other.members.contexts)
    rows = [{"x": 3, "s": "m", "n": 1.0}, {"x": 3, "s": "f", "n": 0}]
    assert found.encoder.encode(rows)[:, 1:5].argmax(1).tolist() == [3, 0]
    again = Encoder(**found.encoder.state())
    assert again == found.encoder
    assert (again.encode(rows) == found.encoder.encode(rows)).all()


def test_an_excluded_group_has_no_features(caplog):
    table = cells(s=lambda row: "fm"[row // 2 % 2], n=lambda row: row // 4 % 2)
    given: dict[str, Any] = {"reward": "r"}
    for chosen, group, exclude, features in (
        (None, "s", ["s", "g", "n"], []),
        (None, ["s", "n"], ["s", "g"], ["n=0", "n=1"]),
        (None, ["s", "n"], ["n", "g"], ["s=f", "s=m"]),
        (None, ["s", "n"], ["n", "s", "g"], []),
        ({"x": None}, ["s", "n"], ["n"], ["s=f", "s=m"]),
        ({"x": None, "n": None}, ["s", "n"], ["s"], ["n"]),
        ({"x": None, "n": None}, "n", ["n"], []),
    ):
        given |= {"columns": chosen, "group": group, "exclude": exclude}
        found, encoder = Table.from_data(table, **given), Encoder.from_table(table, **given)
        assert found.feature_names == ("x", *features, "bias")
        assert encoder.state() == found.encoder.state()
        assert encoder.labels == ()
    assert "remains" not in caplog.text
    Table.from_data(table, group="s", reward="r", exclude=["r"])
    assert "exclude: the table, column 'r' remains the reward" in caplog.text


def test_categories_are_decoded():
    table = {"job": [0, 1, 2, 4] * 10, "g": ["a", "b"] * 20, "pay": [*range(40)]}
    columns = {"job": {"codes": [1, 2], "reference": [0, 4]}}
    encoder = Encoder.from_table(table, group="g", reward="pay", columns=columns, missing="mean")
    rows = encoder.encode([{"g": "a", "job": job} for job in (0, 1, 2, 4, None, 3)])
    assert [encoder.decode(row)["job"] for row in rows] == ["0 or 4", 1, 2, "0 or 4", None, None]
