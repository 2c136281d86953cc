"""Oddities of tables: the same numbers whichever way a table comes, or the same refusal."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairbandit import Agent, Encoder, FairbanditError, read_log, read_table
from fairbandit.notices import noted
from tests.agent import worlds

N = 40
PLAIN: dict[str, Any] = {"sex": ["f", "m"] * 20, "pay": [row % 7 for row in range(N)]}


def fitted(source: Any, **options: Any) -> Encoder:
    given: dict[str, Any] = {"group": "sex", "reward": "pay", **options}
    return Encoder.from_table(source, **given)


def mean(encoder: Encoder, name: str) -> float:
    """The mean of a column of numbers, from the features of the number 0."""
    (at,) = [at for at, own in enumerate(encoder.names) if own == name]
    blank: dict[str, Any] = dict.fromkeys(encoder.columns, 0)
    rows = [blank | {"sex": "f", name: x} for x in (0, 1)]
    low, high = encoder.encode(rows)[:, at]
    return float(-low / (high - low))


def csv_file(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def decisions(times: Any, **more: Any) -> dict[str, Any]:
    """A table of decisions of two candidates, in turn, whose rewards are their numbers."""
    n = len(times)
    return {
        "decision": [at // 2 for at in range(2 * n)],
        "group": ["a", "b"] * n,
        "x": [at % 5 for at in range(2 * n)],
        "picked": [1, 0] * n,
        "propensity": [0.5] * 2 * n,
        "reward": [float(at // 2) if at % 2 == 0 else None for at in range(2 * n)],
        "at": [times[at // 2] for at in range(2 * n)],
    } | more


def order(times: Any) -> list[int]:
    return [int(value) for value in read_log(decisions(times), time="at").rewards[:, 0]]


EPOCH = 1_717_200_000_123_456_789


@pytest.mark.parametrize("kind", ["int64", "Int64", "uint64", "str", "object"])
def test_times_and_codes_above_2_53_are_exact(kind):
    times = pd.Series([EPOCH + late for late in (30, 10, 20, 0)])
    assert order(times.astype(kind).tolist()) == [3, 1, 2, 0]
    frame = pd.DataFrame(decisions(times))
    log = read_log(frame.astype({"at": kind}), time="at")
    assert log.rewards[:, 0].tolist() == [3, 1, 2, 0]
    shops = pd.Series([2**53 + code for code in (0, 1, 2, 3)] * 10)
    encoder = fitted({**PLAIN, "shop": shops.astype(kind)}, columns={"shop": "category"})
    rows = [{"shop": 2**53 + code, "sex": "f"} for code in range(4)]
    assert encoder.encode(rows)[:, :4].argmax(1).tolist() == [0, 1, 2, 3]
    assert np.array_equal(encoder.encode(pa.Table.from_pylist(rows)), encoder.encode(rows))


def test_single_precision_is_read_as_it_was_written(tmp_path):
    level = [-999.99 if row % 10 == 0 else row / 10 for row in range(N)]
    expected = float(np.mean([value for value in level if value > 0]))
    for kind in ("float64", "float32", "Float32"):
        frame = pd.DataFrame({**PLAIN, "level": level}).astype({"level": kind})
        frame.to_parquet(tmp_path / "t.parquet")
        for source in (frame, tmp_path / "t.parquet", pa.Table.from_pandas(frame)):
            encoder = fitted(source, missing="mean", missing_values=[-999.99])
            assert mean(encoder, "level") == pytest.approx(expected, rel=1e-12)
    doses = pd.DataFrame({**PLAIN, "dose": np.array([0.1, 0.2] * 20, np.float32)})
    encoder = fitted(doses, columns={"dose": "category"})
    assert encoder.names[:2] == ("dose=0.1", "dose=0.2")
    assert np.array_equal(
        encoder.encode(doses[:2]),
        encoder.encode([{"sex": "f", "dose": 0.1}, {"sex": "m", "dose": 0.2}]),
    )


def test_durations_and_months_are_no_numbers():
    frame = pd.DataFrame({**PLAIN, "x": range(N), "since": pd.period_range("2015-01", periods=N)})
    for unit in ("s", "ms", "us", "ns"):
        waits = pd.to_timedelta(frame["x"], unit="h").astype(f"timedelta64[{unit}]")
        with noted() as notes:
            names = fitted(frame.assign(wait=waits)).names
        assert names == ("x", "sex=f", "sex=m", "bias")
        assert "'wait' (durations are not read; give a number, such as the hours)" in notes[0]
    for column in ("wait", "since"):
        with pytest.raises(FairbanditError, match=f"column '{column}': (durations|cells of)"):
            fitted(frame.assign(wait=waits), reward=column)


def test_times_of_two_kinds_are_refused():
    mixed = ["2024-05-31T08:00:00", "2024-05-31T08:10:00+02:00", "2024-05-31T08:20:00Z"]
    with pytest.raises(FairbanditError, match=r"column 'at', row 0 .*: expected an offset such as"):
        order(mixed)
    assert order(mixed[1:]) == [1, 0] if mixed[1] > mixed[2] else [0, 1]
    with pytest.raises(FairbanditError, match="are times of different units"):
        order(["1717142400", "1717142401000"])
    log = read_log(decisions(["2024-05-31T09:00:00", "2024-05-31T08:10:00"]), time="at")
    assert log.rewards[:, 0].tolist() == [1, 0]
    assert log.period == ("2024-05-31 08:10:00", "2024-05-31 09:00:00")
    assert any("have no offset: their zone is unknown" in note for note in log.notes)


def test_an_index_that_does_not_fit_is_refused():
    frame = pd.DataFrame({**PLAIN, "test": [row * 7 % 11 for row in range(N)]})
    agent = Agent.from_config("fair_greedy", features=fitted(frame, group_feature=False))
    pool, labels = frame.head(6).sort_values("test"), frame["sex"].head(6)
    pools, before = pd.Series([1, 1, 1, 2, 2, 2]), worlds.held(agent)
    for call in (
        lambda: agent.act(pool, labels),
        lambda: agent.explain(pool, labels),
        lambda: agent.act_many(pool, labels[pool.index], pools=pools),
        lambda: agent.act_many([pool], [labels]),
    ):
        with pytest.raises(FairbanditError, match=r"(groups|pools): expected the index"):
            call()
    assert worlds.held(agent) == before
    agent.act_many(pool, labels[pool.index], pools=pools[pool.index])
    with pytest.raises(FairbanditError, match="are Series of different indices"):
        fitted({**frame, "x": pd.Series(range(N), index=range(N)[::-1])})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_categories_of_arrow_and_polars(kind):
    places = pa.array([0, 1] * 20, pa.uint32())
    sex, job = (
        pa.DictionaryArray.from_arrays(places, pa.array([*texts], kind)) for texts in ("fm", "cn")
    )
    table = pa.table({"sex": sex, "pay": PLAIN["pay"], "job": job})
    encoder = fitted(table)
    assert encoder.names == ("job=c", "job=n", "sex=f", "sex=m", "bias")
    assert encoder.labelled(table)[1][:2] == ["f", "m"]
    agent = Agent.from_config("greedy", features=["p", "q"])
    pool = pa.table({"p": [1.0, 2.0], "q": [0.0, 1.0]})
    assert len(agent.act(pool.to_pandas(), table["sex"][:2]).picks) == 1


def test_marks_of_thousands(tmp_path):
    amounts = [200 + 120 * row for row in range(N)]
    for sign, separator, decimal in ((",", ",", "."), (".", ";", ","), (",", ";", ".")):
        cells = [f'"{amount:,}"'.replace(",", sign) for amount in amounts]
        rows = [separator.join(["fm"[at % 2], cell, str(at % 7)]) for at, cell in enumerate(cells)]
        text = "\n".join([separator.join(["sex", "income", "pay"]), *rows])
        path = csv_file(tmp_path, text)
        with pytest.raises(FairbanditError, match=r"thousands, which thousands=.* got '1.040'"):
            fitted(path, separator=separator, decimal=decimal)
        marks = {"separator": separator, "thousands": sign, "decimal": decimal}
        assert fitted(path, **marks).ranges["income"] == ([min(amounts), max(amounts)], True)
        with noted() as notes:
            fitted(path, separator=separator, decimal=sign)
        assert any("are 1.04 to 920" in note and "may be 1040 with" in note for note in notes)
    sound = ["0.125", "12.5", "1.125", "2000"] * 10
    text = "sex,x,pay\n" + "\n".join(f"{'fm'[at % 2]},{x},{at % 7}" for at, x in enumerate(sound))
    with noted() as notes:
        fitted(csv_file(tmp_path, text))
    assert not any("with a mark of thousands" in note for note in notes)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_a_folder_differ_in_gaps_and_order(tmp_path, ending):
    day = pd.DataFrame(decisions(range(6))).drop(columns="at")
    other = day.assign(decision=day["decision"] + 100, x=day["x"].where(day.index != 3))
    others = {"gap": other, "null": other.assign(reward=None), "order": other[[*other][::-1]]}
    for name, second in others.items():
        folder = tmp_path / name
        folder.mkdir()
        for at, frame in enumerate((day, second)):
            path = folder / f"{at}.{ending}"
            frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
        log, whole = read_log(folder), read_log(pd.concat([day, second], ignore_index=True))
        assert np.array_equal(np.asarray(log.contexts), np.asarray(whole.contexts))
        assert np.array_equal(log.rewards, whole.rewards, equal_nan=True)
    second.rename(columns={"x": "y"}).to_csv(tmp_path / "order" / "2.csv", index=False)
    if ending == "csv":
        with pytest.raises(FairbanditError, match=r"differ in the columns 'x', 'y'"):
            read_log(tmp_path / "order")
    else:
        other.assign(x="old").to_parquet(tmp_path / "gap" / "2.parquet")
        with pytest.raises(FairbanditError, match=r"type double in .*1\.parquet and .*string in"):
            read_log(tmp_path / "gap")


def test_invisible_signs_are_removed_and_look_alikes_are_noted():
    labels = ["nurse", "nurse\u200b", "nur\u00adse", "nurs\u0435", "nurse\u00a0"]
    labels += ["\u202aclerk\u202c"]
    table = decisions(range(60), group=[labels[at % 6] for at in range(120)])
    log = read_log(table)
    assert log.labels == ("clerk", "nurse", "nurs\u0435")
    assert any("look alike: 'nurs\\u0435'" in note for note in log.notes)
    persian = ["می\u200cخواهم", "میخواهم"]  # the joiner tells two words apart
    assert len(read_log(decisions(range(20), group=persian * 20)).labels) == 2
    encoder = fitted({**PLAIN, "job": ["a\u200b", "b"] * 20})
    assert encoder.names[:2] == ("job=a", "job=b")
    rows = [{"sex": "f", "job": job} for job in ("a", "a\u2060", "a ")]
    assert len(np.unique(encoder.encode(rows), axis=0)) == 1


@pytest.mark.parametrize("form", ["{}", "{:.1f}", "{:.2f}", "{:e}", "{:.1f},"])
def test_missing_numbers_are_compared_as_numbers(tmp_path, form):
    values = [-9 if row % 5 == 0 else 20 + row % 7 for row in range(N)]
    expected = float(np.mean([value for value in values if value > 0]))
    decimal = "," if form.endswith(",") else "."
    cells = [form.rstrip(",").format(value).replace(".", decimal) for value in values]
    lines = [f"{'fm'[at % 2]};{cell};{at % 7}" for at, cell in enumerate(cells)]
    path = csv_file(tmp_path, "\n".join(["sex;x;pay", *lines]))
    marks = {"separator": ";", "decimal": decimal}
    found = fitted(path, missing="mean", missing_values=[-9], **marks)
    assert mean(found, "x") == pytest.approx(expected)
    row: dict[str, Any] = {"sex": "f", "x": cells[0]}
    assert found.encode([row]).tolist() == found.encode([{"sex": "f", "x": None}]).tolist()
    exact = [Decimal(value).quantize(Decimal("0.01")) for value in values]
    found = fitted({**PLAIN, "x": exact}, missing="mean", missing_values=[-9])
    assert mean(found, "x") == pytest.approx(expected)


@pytest.mark.parametrize("cells", [['"5in screen', "ok"], ['"5in', '"x"'], ['"a"b', "ok"]])
def test_a_quotation_mark_that_is_not_closed(tmp_path, cells):
    rows = [f"{at},{cell}" for at, cell in enumerate(["ok", cells[0], "ok", cells[1], "ok"])]
    path = csv_file(tmp_path, "\n".join(["x,comment", *rows]) + "\n")
    with pytest.raises(FairbanditError, match="row that begins in line 3 has a quotation mark"):
        fitted(path, group="comment", reward="x")


def test_columns_may_be_called_like_roles_products_and_the_bias():
    draws = np.random.default_rng(0)
    clash: dict[str, Any] = {"age × hours": draws.normal(size=N), "sex=f": draws.normal(size=N)}
    clash |= {name: [row * 3 % 7 for row in range(N)] for name in ("bias", "hours")}
    clash["age"] = range(N)
    table = pd.DataFrame({**PLAIN, **clash})
    encoder = fitted(table, products=[["age", "hours"]])
    assert len({*encoder.names}) == len(encoder.names)
    assert encoder.names[-2:] == ("(age × hours)", "(bias)")
    decoded = encoder.decode(encoder.encode(table)[7])
    assert {name: decoded[name] for name in clash} == pytest.approx(
        table.loc[7, [*clash]].to_dict()
    )
    agent = Agent.from_config("fair_greedy", features=encoder)
    agent.observe(table, rewards=table["pay"])
    explained = agent.explain(table.head(3))
    assert {*explained.reasons(0)["feature"]} == {*decoded}
    assert {*explained.needed(0).features["feature"]} <= {*decoded}
    roles: dict[str, Any] = {"decision": "pool", "group": "sex", "reward": "grade"}
    renamed = {own: name for name, own in zip(roles.values(), roles, strict=True)}
    people = pd.DataFrame(decisions(range(30))).rename(columns=renamed)
    people = people.assign(group=range(60), reward=[at % 7 for at in range(60)])
    log = read_log(people, **roles)
    assert {"group", "reward"} < {*log.features}
    frame = log.frame
    assert frame["group"].tolist() == people["sex"].tolist()
    assert frame["reward"].dropna().tolist() == people["grade"].dropna().tolist()
    assert {"(group)", "(reward)"} < {*frame}


@pytest.mark.parametrize("missing", ["error", "mean"])
def test_a_listed_group_is_compared_with_the_labels(missing):
    table = {**PLAIN, "age": range(N), "zone": ["n", "s", "s", "n"] * 10}
    pool = [{"sex": "f", "age": 31, "zone": "n"}, {"sex": "m", "age": 45, "zone": "n"}]
    columns = {"age": None, "sex": ["f", "m"], "zone": {"codes": ["n"], "reference": ["s"]}}
    for group, labels in (("sex", ["f", "m"]), (["sex", "zone"], ["f × n", "m × n"])):
        encoder = fitted(table, group=group, columns=columns, group_feature=False, missing=missing)
        assert encoder.labelled(pool)[1] == labels
        again = Encoder(**encoder.state())
        assert again == encoder
        assert again.labels == encoder.labels
        agent = Agent.from_config("fair_greedy", features=again)
        assert agent.explain(pool).groups == tuple(labels)
        with pytest.raises(FairbanditError, match=r"groups\[0\] is 'm.*'sex.* says 'f"):
            agent.act(pool, labels[::-1])
        lacking = [pool[0], {**pool[1], "sex": None}]
        if missing == "mean":
            assert agent.explain(lacking).groups == (labels[0], labels[1].replace("m", "unknown"))
        else:
            with pytest.raises(FairbanditError, match=r"column 'sex', row 1 .* a value"):
                agent.act(lacking)


ODDITIES: dict[str, tuple[list[Any], list[Any]]] = {
    "whole numbers and a gap": ([1, None, 3], [1, None, 3]),
    "whole floats": ([1.0, None, 3.0], [1, None, 3]),
    "floats": ([0.5, None, -2.25], [0.5, None, -2.25]),
    "a negative zero": ([-0.0, 1.0], [-0.0, 1.0]),
    "large floats": ([1e300, 0.25], [1e300, 0.25]),
    "whole numbers above 2^53": ([2**53 + 1, None, 2**53 + 2], [2**53 + 1, None, 2**53 + 2]),
    "whole numbers beyond 64 bits": ([10**20, 10**20 + 1], [f"{10**20}", f"{10**20 + 1}"]),
    "truth values": ([True, None, False], [True, None, False]),
    "truth values beside 0 and 1": ([True, 0, 1, None], [1, 0, 1, None]),
    "codes": (["01", "1", None], ["01", "1", None]),
    "texts with blanks": ([" a", "a ", None], ["a", "a", None]),
    "two Unicode forms": (["caf\u00e9", "cafe\u0301"], ["caf\u00e9", "caf\u00e9"]),
    "numbers beside texts": ([1, "a", 2.5], ["1", "a", "2.5"]),
    "decimals": ([Decimal("3.30"), None, Decimal("-1.1")], [3.3, None, -1.1]),
    "single precision": ([np.float32(0.1), np.float32(2.5)], [0.1, 2.5]),
    "nothing": ([None, None], [None, None]),
    "intervals": ([pd.Interval(0, 1), None], ["(0, 1]", None]),
}
"""Cells, and what they are in a typed table."""


def forms_of(cells: list[Any], folder: Path) -> dict[str, Any]:
    """A table with a column of cells in each form that holds them, and beside it the rows."""
    rows = [*range(len(cells))]
    objects = pd.DataFrame({"row": rows, "b": pd.Series(cells, dtype=object)})
    forms = {
        "rows": [{"row": row, "b": cell} for row, cell in zip(rows, cells, strict=True)],
        "columns": {"row": rows, "b": cells},
        "objects": objects,
        "an index": objects.set_index(pd.Index(rows[::-1])),
    }
    objects.to_csv(folder / "t.csv", index=False)
    forms["CSV"] = folder / "t.csv"
    kinds = {type(cell) for cell in cells if cell is not None}
    nullable = {int: "Int64", float: "Float64", bool: "boolean", str: "string"}
    if len(kinds) == 1 and {*kinds} <= {*nullable}:
        with suppress(OverflowError):
            forms["nullable"] = objects.assign(b=pd.array(cells, dtype=nullable[kinds.pop()]))
    with suppress(pa.ArrowException, OverflowError):
        forms["Arrow"] = pa.table({"row": rows, "b": pa.array(cells)})
        forms["Arrow-backed"] = forms["Arrow"].to_pandas(types_mapper=pd.ArrowDtype)
        pq.write_table(forms["Arrow"], folder / "t.parquet")
        forms["Parquet"] = folder / "t.parquet"
    return forms


@pytest.mark.parametrize("name", ODDITIES)
def test_every_form_of_a_table_has_the_same_cells(name, tmp_path):
    given, expected = ODDITIES[name]
    forms = forms_of(given, tmp_path)
    assert len(forms) > 4
    for form, source in forms.items():
        column = read_table(source)["b"]
        found = [None if gap else cell for cell, gap in zip(column, column.isna(), strict=True)]
        assert [*map(repr, found)] == [*map(repr, expected)], form
        again = read_table(read_table(source))["b"]  # what has types keeps them
        assert again.dtype == column.dtype
        assert again.equals(column)


def test_a_category_of_numbers_is_a_category_and_texts_of_numbers_stay_texts():
    shops = pd.DataFrame({**PLAIN, "shop": pd.Categorical([3, 1] * 20)})
    assert fitted(shops).names[:2] == ("shop=1", "shop=3")
    assert fitted(shops.astype({"shop": "int64"})).names[0] == "shop"
    with noted() as notes:
        assert fitted(shops.astype({"shop": "str"})).names[:2] == ("shop=1", "shop=3")
    assert any("'shop': numbers that are texts make a category" in note for note in notes)


def test_whole_floats_above_2_53_are_no_labels_codes_or_times():
    large = [float(2**53 + 2 * row) for row in range(N)]
    table = {**PLAIN, "x": large}
    assert fitted(table).ranges["x"] == ([large[0], large[-1]], True)
    for call in (
        lambda: fitted(table, columns={"x": "category"}),
        lambda: fitted(table, group="x"),
        lambda: read_log(decisions(large), time="at"),
    ):
        with pytest.raises(FairbanditError, match=r": expected whole numbers above 2\^53 as"):
            call()


@pytest.mark.parametrize("cells", [[2**53 + 1, 0.5], [[1], "a"], [b"a", 1]])
def test_cells_without_a_type_in_common_are_refused_by_the_name_of_their_column(cells):
    rows = [{"a": 1, "b": cell} for cell in cells]
    for source in (rows, {"a": [1, 1], "b": cells}, pd.DataFrame(rows, dtype=object)):
        with pytest.raises(FairbanditError, match=r"column 'b': cells of .* have no type"):
            read_table(source)
