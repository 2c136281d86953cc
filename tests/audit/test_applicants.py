"""The audit of a table with a row for each person equals plain counts, scipy and the law."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact

from fairbandit.audit import audit, audit_table
from fairbandit.audit.rates import ratio_ends
from fairbandit.errors import FairbanditError
from fairbandit.logs import read_log
from fairbandit.report import local_law_144
from tests.report.pages import Shown

NOBODY = [None, "", " ", "unknown", "Unknown", float("nan")]
"""The spellings of a group that is not known."""


def export(seed: int = 0) -> pd.DataFrame:
    """929 applicants in 120 requisitions, with several hires or none, and unknown groups."""
    draws = np.random.default_rng(seed)
    people = pd.DataFrame({"requisition": [*range(120), *draws.integers(120, size=809)]})
    people["sex"] = draws.choice(
        np.array(["female", "male", *NOBODY], object), 929, p=[0.45, 0.49, *[0.01] * 6]
    )
    people["race"] = draws.choice(
        np.array(["A", "B", "C", None], object), 929, p=[0.5, 0.29, 0.01, 0.2]
    )
    people["score"] = draws.normal(size=929) + 0.4 * (people["sex"] == "male")
    bar = people["requisition"].map(dict(enumerate(draws.normal(1, 1, 120))))
    people["hired"] = np.where(people["score"] > bar, "yes", "no")
    people.loc[draws.choice(929, 20, replace=False), "score"] = np.nan
    return people


def known(people: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The people whose groups are known, with the pair as one label."""
    said = people[~people[[*columns]].isin(NOBODY).any(axis=1)]
    return said.assign(label=said[[*columns]].agg(" × ".join, axis=1))


@pytest.mark.parametrize("decision", [None, "requisition"])
def test_the_table_is_that_of_plain_counts(decision):
    people, groups = export(), ["sex", "race"]
    hires = people.groupby("requisition")["hired"].agg(lambda hired: (hired == "yes").sum())
    assert (hires == 0).any()
    assert (hires > 1).any()
    table = audit_table(people, group=groups, selected="hired", score="score", decision=decision)
    for columns in (["sex"], ["race"], groups):
        said = known(people, *columns)
        scored = said.dropna(subset="score")
        for measure, counted, hit in [
            ("selection", said, said["hired"] == "yes"),
            ("scoring", scored, scored["score"] > scored["score"].median()),
        ]:
            found = table[(table.measure == measure) & (table.attribute == " × ".join(columns))]
            found = found.set_index("group")
            left_out = len(people.dropna(subset="score")) if measure == "scoring" else 929
            assert found.index[-1] == "unknown"
            assert found["received"].iloc[-1] == left_out - len(counted)
            assert found.iloc[-1][["share", "impact_ratio", "reference", "fisher_p"]].isna().all()
            found = found.iloc[:-1]
            plain = hit.groupby(counted["label"]).agg(["size", "sum", "mean"])
            assert found["received"].to_dict() == plain["size"].to_dict()
            assert found["selected"].to_dict() == plain["sum"].to_dict()
            large = plain["size"] >= 0.02 * len(counted)
            assert found["small"].to_dict() == (~large).to_dict()
            assert not large.all() or columns == ["sex"]
            best = plain["mean"][large].idxmax()
            np.testing.assert_allclose(found["rate"], plain["mean"])
            np.testing.assert_allclose(found["impact_ratio"], plain["mean"] / plain["mean"][best])
            assert (found["reference"] == best).all()
            for label, (n, hits) in plain[["size", "sum"]].drop(best).iterrows():
                others = [plain["sum"][best], plain["size"][best] - plain["sum"][best]]
                row = found.loc[label]
                assert row["fisher_p"] == pytest.approx(
                    fisher_exact([[hits, n - hits], others]).pvalue
                )
                enough = Fraction(4, 5) * Fraction(int(others[0]), int(sum(others)))
                counts = (k for k in range(1000) if Fraction(int(hits) + k, int(n)) >= enough)
                assert row["shortfall"] == next(counts)
                ends = row["ratio_low"], row["ratio_high"]
                if decision is None:
                    together = 1 - 0.05 / math.comb(len(found), 2)
                    others_of = plain["sum"][best], plain["size"][best]
                    right = ratio_ends((hits, n), others_of, together)
                    assert ends == pytest.approx(right)
                verdict = "below" if ends[1] < 0.8 else "above" if ends[0] >= 0.8 else "cannot say"
                assert row["four_fifths"] == verdict


def test_a_log_and_a_table_give_the_same_rates():
    """Of a log with one pick in each pool, every number that both audits have is the same."""
    draws = np.random.default_rng(1)
    log = pd.DataFrame({"decision": np.arange(600) // 5, "sex": draws.choice([*"fm"], 600)})
    log["race"], log["score"] = draws.choice([*"AB"], 600), draws.normal(size=600)
    log["picked"] = (draws.random((120, 5)).argsort(1) == 0).ravel().astype(int)
    log["reward"] = log["score"].where(log["picked"] == 1)
    columns: dict[str, Any] = {"group": ["sex", "race"], "score": "score"}
    right = audit(read_log(log, propensity=None, **columns)).table
    table = audit_table(log, selected="picked", decision="decision", **columns)
    shared = [name for name in table if name in right and name != "words"]
    assert {"measure", "rate", "low", "high", "impact_ratio", "ratio_low"} <= {*shared}
    pd.testing.assert_frame_equal(table[shared], right[shared], check_dtype=False)


def example() -> pd.DataFrame:
    """The worked example of 6 RCNY § 5-301 (c): 50 of 92 men and 34 of 76 women score above."""
    people = {
        "sex": ["male"] * 92 + ["female"] * 76 + [None] * 250,
        "score": [60.0] * 50 + [40.0] * 42 + [60.0] * 34 + [40.0] * 42 + [90.0] * 250,
    }
    return pd.DataFrame(people).sample(frac=1, random_state=0)


def test_files_and_tables_in_memory_are_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = export()
    people["sex"] = people["sex"].replace({"unknown": "not stated", "Unknown": "not stated"})
    options: dict[str, Any] = {"group": ["sex", "race"], "selected": "hired"}
    options["unknown"] = ["Not stated"]
    right = audit_table(people, **options)
    people.to_csv("people.csv", index=False)
    people["status"] = people["hired"].map({"yes": "Hired", "no": "Rejected"})
    people["truth"] = people["hired"] == "yes"
    only_yes = {"hired": ["yes"]}
    for table in (
        audit_table("people.csv", **options),
        audit_table(people, **{**options, "selected": {"status": ["Hired"]}}),
        audit_table(people, **{**options, "selected": "truth"}),
        audit_table(people, **{**options, "selected": {"hired": True}}),
        audit_table(people.replace({"hired": {"no": None}}), **{**options, "selected": only_yes}),
    ):
        pd.testing.assert_frame_equal(table, right)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"selected": None}, "expected selected or score"),
        ({"selected": "status"}, "row 0 (from 0): expected yes or no, true or false, 1 or 0"),
        ({"selected": {"status": "hird"}}, "(did you mean 'hired'?)"),
        ({"group": "id"}, "none of 100 groups has 2% of the people"),
        ({"decision": "requisition"}, "column 'requisition', row 3 (from 0): expected a value"),
    ],
)
def test_what_does_not_fit_is_refused(words, message):
    people = pd.DataFrame({"sex": [*"fm"] * 50, "id": range(100), "hired": [0, 1, 1, 0] * 25})
    people["status"] = people["hired"].map({1: "hired", 0: "rejected"})
    people["requisition"] = [0, 1, 2, None] * 25
    with pytest.raises(FairbanditError) as error:
        audit_table(people, **{"group": "sex", "selected": "hired", **words})
    assert message in str(error.value)


def test_nobody_selected_and_nobody_known_in_both():
    people = {"sex": [*"fm", None, None] * 9, "race": [None, None, *"AB"] * 9, "hired": [0] * 36}
    table = audit_table(people, group=["sex", "race"], selected="hired")
    assert table["group"].tolist() == ["f", "m", "unknown", "A", "B", "unknown", "unknown"]
    assert table["reference"].isna().all()
    assert table["four_fifths"].isna().all()
    assert (table["rate"] == 0).all()
    assert (table["high"] > 0).all()


def test_the_command_gives_the_numbers_of_the_function(command):
    people = export()
    people.to_csv("people.csv", index=False)
    words = "group=[sex,race]", "selected=hired", "score=score", "decision=requisition"
    out = "out=[people.html,rates.csv]"
    assert command("audit", "people.csv", *words, "confidence=0.9", out)[0] == 0
    right = audit_table(
        people,
        group=["sex", "race"],
        selected="hired",
        score="score",
        decision="requisition",
        confidence=0.9,
    )
    found = pd.read_csv("rates.csv").astype({"shortfall": "Int64"})
    pd.testing.assert_frame_equal(found, right, check_dtype=False)
    assert command("report", "people.csv", *words, "confidence=0.9")[0] == 0
    assert Path("report.html").read_bytes() == Path("people.html").read_bytes()
    page = Shown(Path("report.html").read_text("utf-8"))
    row, *_ = page.table("attribute", "group", "received", "selected")[1:]
    assert row[:3] == ["sex", "female", f"{right['received'][0]:,}"]


def test_a_table_with_a_score_alone_is_not_a_log(command):
    example().to_csv("people.csv", index=False)
    words = "people.csv", "group=sex", "score=score"
    assert "34 of 76 scored above the median (44.7 %)" in command("audit", *words)[1]
    code, out, _ = command("audit", *words, "form=ll144", "out=page.html")
    shown = Shown(Path("page.html").read_text("utf-8"))
    assert code == 0
    assert "44.7%" in out
    assert shown.table("sex") == [
        ["sex", "# of applicants", "scoring rate", "impact ratio"],
        ["female", "76", "44.7%", "0.82"],
        ["male", "92", "54.3%", "1.00"],
    ]
    table = audit_table(Path("people.csv"), group="sex", score="score")
    said = [*words[1:], "form=ll144"]
    assert local_law_144(table, Path("people.csv"), said).html == Path("page.html").read_text()
    text = " ".join(text for _, text in shown.texts)
    assert "sex: 250 people of an unknown category" in text


@pytest.mark.parametrize(
    "cells",
    [
        {},
        {"reward": None, "picked": [True, True, False, True]},
        {"reward": None, "picked": [False, True, False, False]},
    ],
    ids=["no reward", "several picks", "no pick"],
)
def test_what_is_no_log_may_be_audited_as_a_table(command, cells):
    people = pd.DataFrame({"decision": [1, 1, 2, 2], "group": [*"fmfm"], "picked": [0, 1, 0, 1]})
    people = people.assign(**cells)
    people.to_csv("people.csv", index=False)
    assert "selected=COLUMN" in command("audit", "people.csv", "propensity=null")[2]
    assert command("audit", "people.csv", "selected=picked")[0] == 0
    with pytest.raises(FairbanditError, match="audit_table"):
        audit(people)
