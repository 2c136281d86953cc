"""The columns of a table from a YAML file, and categories whose codes are in the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from fairbandit.environments import Table
from fairbandit.environments.columns import resolve_columns
from fairbandit.errors import FairbanditError
from fairbandit.registry import create, describe
from tests.environments.data import COLUMNS, arguments, people, write


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "people.csv", people())


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "columns.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_stands_for_its_mapping(tmp_path, path):
    named = str(tmp_path / "columns.yaml")
    OmegaConf.save(OmegaConf.create(COLUMNS), named)
    made = create("environment", arguments(path, columns=named))
    plain = create("environment", arguments(path))
    assert made.members.contexts.equal(plain.members.contexts)
    assert describe(made)["columns"] == named
    assert Table.data_files(describe(made)) == [path, Path(named)]


def test_inferred_columns_can_be_saved_and_read(tmp_path, path):
    inferred = create("environment", arguments(path, columns=None))
    assert inferred.resolved_columns == {"age": None, "job": None, "town": ["north", "south"]}
    named = str(tmp_path / "columns.yml")
    OmegaConf.save(inferred.resolved_columns, named)
    made = create("environment", arguments(path, columns=named))
    assert made.members.contexts.equal(inferred.members.contexts)
    assert describe(inferred)["columns"] is None


def test_chosen_categories_take_their_codes_from_the_table(path):
    made = create("environment", arguments(path, columns={"job": "category", "age": None}))
    assert made.resolved_columns == {"job": [0, 1, 2, 3], "age": None}
    assert made.feature_names == ("job=0", "job=1", "job=2", "job=3", "age", "bias")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("job: 5\n", "environment.columns.job: expected null (a number), category"),
        ("job: [1, a]\n", "environment.columns.job: codes are all numbers or all texts"),
        ("smoker: [yes, no]\n", "codes are all numbers or all texts (put a text in quotes)"),
        ("no: null\n", "YAML reads a key as False, which is no text"),
        ("age:\njob: [1\n", "cannot be read as YAML: while parsing a flow sequence"),
        ("age:\nage:\n", "found duplicate key age"),
        ("- age\n", "environment.columns must be a mapping"),
        ("", "environment.columns is empty"),
        ("!!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
    ],
)
def test_a_file_that_is_wrong(tmp_path, path, text, problem):
    named = file(tmp_path, text)
    with pytest.raises(FairbanditError) as caught:
        create("environment", arguments(path, columns=named))
    assert named in str(caught.value)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there(path):
    with pytest.raises(FairbanditError, match=r"none\.yaml cannot be read .*: No such file"):
        create("environment", arguments(path, columns="none.yaml"))


@pytest.mark.parametrize("columns", ["people.txt", ["age"], 3])
def test_columns_that_are_no_mapping(columns: Any) -> None:
    with pytest.raises(FairbanditError, match=r"must be a mapping .* or the path of a \.yaml file"):
        resolve_columns(columns, [], ("g", "r"))
