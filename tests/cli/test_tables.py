"""Tables of one's own on the command line: names, remarks, and files that name columns."""

from __future__ import annotations

import csv
import json
import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fairbandit.errors import FairbanditError
from fairbandit.notices import _remark
from fairbandit.runs import sheets as results
from fairbandit.runs.sheets import Sheet, console, make_table
from tests.environments.data import write

TABLE: dict[str, list[Any]] = {
    "性別": ["男", "女"] * 20,
    "Größe (cm)": [150 + row for row in range(40)],
    "Land": ["NL"] * 40,
    "r": [row * row % 17 for row in range(40)],
}
RUN = ("policy=uniform", "rounds=3", "replicas=1", "environment=table", "environment.reward=r")


@pytest.fixture(autouse=True)
def people(tmp_path):
    _remark.cache_clear()
    return write(tmp_path / "été.csv", TABLE)


def summaries() -> list[dict[str, Any]]:
    found = Path("outputs").rglob("summary.json")
    return [json.loads(file.read_text(encoding="utf-8")) for file in found]


def test_names_in_any_script_need_no_quotes(command, caplog):
    words = (*RUN, "environment.path=été.csv", "environment.group=性別")
    code, out, _ = command(*words)
    assert (code, "男" in out) == (0, True)
    assert caplog.text.count("été.csv: these columns are not features: 'Land' (one value, or") == 1
    assert command("-m", *words, "environment.group=性別,Land")[0] == 1  # Land is one group
    assert {one["config"]["environment"]["group"] for one in summaries()} == {"性別"}


def test_a_file_of_columns_is_part_of_the_identity(command, tmp_path):
    names = tmp_path / "columns.yaml"
    names.write_text("Größe (cm):\nLand: category\n", encoding="utf-8")
    table = ("environment.path=été.csv", "environment.group=性別")
    words = (*RUN, *table, "environment.columns=columns.yaml")
    assert command(*words)[0] == 0
    assert "already finished" in command(*words)[1]
    names.write_text("Größe (cm):\n", encoding="utf-8")
    assert "played again: data changed" in command(*words)[2]


def test_errors_and_warnings_give_a_screen_no_orders(command, monkeypatch, caplog):
    def fails(given):
        logging.getLogger("fairbandit").warning("%s left out", "\x1b]0;a\x07b")
        raise FairbanditError("\x1b[2J\x1b[32mall is well\u202e")

    monkeypatch.setattr("fairbandit.cli.main._run", fails)
    assert command()[2] == "fairbandit: error: [2J[32mall is well\n"
    assert caplog.messages == ["]0;ab left out"]


def test_texts_of_others_are_no_formulas_and_no_links(tmp_path):
    texts = ["=1+1", "@SUM(1)", "\t=1", "-2+3", "＝1", "-1", "+5.e3", "ok", None]
    results.write(pd.DataFrame({"=key": texts, "n": [-1.5] * 9}), tmp_path / "a.csv")
    rows = list(csv.reader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["'=key", "n"]
    marked = ["'=1+1", "'@SUM(1)", "'\t=1", "'-2+3", "'＝1", "-1", "+5.e3", "ok", ""]
    assert rows[1:] == [[text, "-1.5"] for text in marked]
    sheet = Sheet(["a"], [["http://x.org www.x.org \u202ea@b"]])
    assert "http\\://x.org www\\.x.org a\\@b" in sheet.exported("markdown")


def test_names_give_a_screen_no_orders(capsys):
    console().print(make_table(["name"], [["a\x1b[31mb\x9b2J"]]))
    assert "a[31mb2J" in capsys.readouterr().out
