"""Tables as logs: what is read, from where, and the cell that an error names."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import FairbanditError
from tests.evaluation.logs import random_log, read_log

FEATURES = ["age", "years", "test"]


def table(n: int = 40, **changed: Any) -> tuple[Any, Any]:
    """A table with shuffled rows, and the log that it was made of."""
    log = random_log(n, **changed)
    return log, log.frame.sample(frac=1, random_state=0)


def same(one: Any, other: Any, contexts: bool = True) -> None:
    """Whether two logs of tables hold the same decisions, in whatever order."""
    order, others = (np.argsort(list(map(str, some.names))) for some in (one, other))
    one, other = one[order], other[others]
    assert list(map(str, one.names)) == list(map(str, other.names))
    for name in ("rewards", "propensities"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert sorted(one.labels) == sorted(other.labels)
    labels = [np.array(some.labels)[some.at_picks(some.groups)].tolist() for some in (one, other)]
    assert labels[0] == labels[1]
    if contexts:
        assert one.features == other.features
        for row in range(len(one)):
            sets = [
                sorted(map(tuple, some[row : row + 1].contexts.round(9).tolist()))
                for some in (one, other)
            ]
            assert sets[0] == sets[1]


LIKE = read_log(table(10)[1])


def rows_of(log: Any) -> list[int]:
    """The numbers that its decisions have in the log that the table was made of."""
    return list(map(int, log.names))


def test_what_a_table_holds():
    log, frame = table()
    found = read_log(frame)
    rows = f"{len(frame)} candidates, 3 groups and 7 features"
    assert str(found) == f"<Log of 40 decisions, {rows}>"
    same(found, log, contexts=False)
    assert found.features == ("age", "years", "test", "group=a", "group=b", "group=c", "bias")
    assert found.sizes.tolist() == log.sizes[rows_of(found)].tolist()
    every = found.contexts
    assert np.allclose(every[:, :-1].mean(0), 0)
    assert np.allclose(every[:, :-1].std(0), 1)
    assert np.allclose(found.sums(found.probabilities), 1)
    sums = found.sums(found.probabilities * found.picked)
    assert np.allclose(sums, found.propensities[:, 0])
    with pytest.raises(AttributeError):
        found.adaptive = True


def test_a_folder_is_one_log_with_one_encoding(tmp_path):
    _, frame = table(40)
    halves = [frame[frame["decision"] % 2 == part] for part in (0, 1)]
    right = read_log(frame)
    for number, half in enumerate(halves):
        half.to_csv(tmp_path / f"{number}.csv", index=False)
    same(read_log(tmp_path), right)
    halves[1] = halves[1].assign(decision=halves[1]["decision"] - 1)  # the names of the other half
    halves[1].to_csv(tmp_path / "1.csv", index=False)
    assert len(read_log(tmp_path)) == 40
    halves[1].assign(propensity=2).to_csv(tmp_path / "1.csv", index=False)
    with pytest.raises(FairbanditError, match=r"1\.csv, column 'propensity', row 1: "):
        read_log(tmp_path)
    (tmp_path / "more.dsjson").write_text("{}")
    with pytest.raises(FairbanditError, match="several kinds"):
        read_log(tmp_path)


def test_files_are_in_natural_order_and_others_are_counted(tmp_path, caplog):
    _, frame = table(36)
    days = [2, 10, 1]
    for part, day in enumerate(days):
        rows = frame[frame["decision"] % 3 == part]
        rows.assign(decision=rows["decision"] + 100 * day).to_csv(tmp_path / f"day-{day}.csv")
    (tmp_path / "day-3.txt").write_text("")
    (tmp_path / "day-1.csv.lock").write_text("")
    names = [int(name) // 100 for name in read_log(tmp_path).names]
    assert names == sorted(days * 12)
    assert caplog.messages[:2] == [
        f"{tmp_path}: 3 files in the natural order of their names: day-1.csv … day-10.csv",
        f"{tmp_path}: 1 other files are left out: day-3.txt",
    ]


def test_copies_of_files_are_refused_and_copies_of_decisions_noted(tmp_path, caplog):
    """A copy of some decisions is noted in any order, and decisions alike by chance are not."""
    frame = table(200)[1].sort_values("decision", kind="stable")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(FairbanditError, match=r"holds b\.csv twice, as a\.csv"):
        read_log(tmp_path)
    some = frame[frame["decision"].isin(np.random.default_rng(0).permutation(200)[:40])]
    some.iloc[::-1].to_csv(tmp_path / "b.csv", index=False)
    caplog.clear()
    read_log(tmp_path)
    assert "40 of 240 decisions equal an earlier one" in caplog.text
    caplog.clear()
    draw = np.random.default_rng(0)
    for day in "ab":  # two candidates and two features of 0 and 1; the names begin anew each day
        coarse = pd.DataFrame({"decision": np.repeat(range(200), 2), "group": ["a", "b"] * 200})
        coarse["picked"], coarse["propensity"] = draw.permuted([[0, 1]] * 200, axis=1).ravel(), 0.5
        coarse["age"], coarse["years"] = draw.integers(0, 2, (2, 400))
        coarse["reward"] = np.where(coarse["picked"], draw.integers(0, 2, 400), np.nan)
        coarse.to_csv(tmp_path / f"{day}.csv", index=False)
    assert len(read_log(tmp_path)) == 400
    assert "equal an earlier one" not in caplog.text


def test_outcomes_are_no_features(caplog):
    """Those of picks alone are left out; numbers that only picks distinguish are noted."""
    _, frame = table(40)
    frame["click"], frame["sale"] = frame["reward"] > 0, frame["reward"].fillna(0)
    frame["bonus"], frame["taken"] = frame["reward"] * 2, frame["picked"]
    features = read_log(frame).features
    assert {"sale", "age"} <= {*features}
    assert not {"bonus", "taken"} & {*features}
    assert "may be outcomes" in caplog.text
    assert "one value: 'click', 'sale'; exclude" in caplog.text


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_decisions_are_sorted_by_time(tmp_path, ending):
    _, frame = table(40)
    hours = (frame["decision"] * 7) % 20  # two decisions an hour, in the order of the rows
    began = pd.Timestamp("2024-05-31T08:00Z")
    right = [name for hour in range(20) for name in frame["decision"][hours == hour].unique()]
    zoned = (began + pd.to_timedelta(hours, "h")).dt.tz_convert("Asia/Tokyo")
    texts = [
        f"{one.isoformat()}" if one.hour % 2 else one.strftime("%Y-%m-%d %H:%M:%S.0000001%z")
        for one in zoned
    ]
    for time in (hours, hours / 3, zoned, texts):
        given = frame.assign(when=time)
        path = tmp_path / f"log.{ending}"
        given.to_csv(path, index=False) if ending == "csv" else given.to_parquet(path)
        log = read_log(path, time="when")
        assert [*map(int, log.names)] == right
        assert log.features == read_log(frame).features
        same(log, read_log(frame))
    given.loc[given.index[3], "when"] = texts[0]
    for wrong in (given, frame.assign(when="May 3"), frame.assign(when=np.nan)):
        with pytest.raises(FairbanditError, match=r"column 'when', row \d+ .from 0.: expected "):
            read_log(wrong, time="when")


def test_picks_are_words_columns_are_excluded_and_texts_are_missing(tmp_path):
    frame = table(30)[1].sort_values("decision", kind="stable")
    frame["id"] = range(len(frame))
    frame["job"] = np.array(["none", "?", "clerk"])[frame["id"] % 3]
    options: Any = {"exclude": ["id", "age"], "missing_values": ["?"]}
    right = read_log(frame, **options)
    features = ("years", "test", "job=clerk", "job=none", "group=a", "group=b", "group=c", "bias")
    assert right.features == features
    for no, yes in (("no", "yes"), ("N", "Y"), ("False", "TRUE"), ("0", "1")):
        frame.assign(picked=np.where(frame["picked"], yes, no)).to_csv(
            tmp_path / "log.csv", index=False
        )
        same(read_log(tmp_path / "log.csv", **options), right)


def test_another_table_is_encoded_like_the_first():
    _, frame = table(40)
    first, second = frame[frame["decision"] < 20], frame[frame["decision"] >= 20]
    log = read_log(first)
    other = read_log(second, like=log)
    assert other.features == log.features
    mean, deviation = first["age"].mean(), first["age"].std(ddof=0)
    (row,) = second.index[second["decision"] == int(other.names[0])][:1]
    assert other.contexts[0, 0] == pytest.approx((second["age"][row] - mean) / deviation)
    with pytest.raises(FairbanditError, match="read from a table"):
        read_log(second, like=random_log(3))


def test_groups_of_two_columns_scores_and_chosen_features():
    _, frame = table(20)
    frame["sex"] = np.where(frame["years"] > 0, "f", "m")
    frame["grade"] = frame["test"]
    log = read_log(frame, group=["group", "sex"], features=["age"], score="grade")
    assert "a × f" in log.labels
    assert set(log.attributes) == {"group", "sex"}
    numbers, labels = log.attributes["sex"]
    assert labels == ("f", "m")
    names = np.array([label.split(" × ")[1] for label in log.labels])[log.groups]
    assert np.array(labels)[numbers].tolist() == names.tolist()
    assert log.features[0] == "age"
    assert not any(name.startswith(("years", "grade")) for name in log.features)
    assert np.nanmax(log.scores) == pytest.approx(frame["test"].max())
    assert np.array_equal(log[5:].attributes["sex"][0], numbers[log.decisions >= 5])
    mapped = read_log(frame, features={"age": None})
    assert mapped.features == ("age", "group=a", "group=b", "group=c", "bias")


def test_the_propensity_of_the_pick_alone_or_none():
    log, frame = table(20)
    own = frame["propensity"].where(frame["picked"])
    for column in (own, own.groupby(frame["decision"]).transform("max")):
        found = read_log(frame.assign(propensity=column))
        assert found.probabilities is None
        assert np.array_equal(found.propensities, log.propensities[rows_of(found)])
    found = read_log(frame.drop(columns="propensity"), propensity=None)
    assert np.isnan(found.propensities).all()


def test_rounded_probabilities_and_shortlists():
    """A third is 0.33; picks of a shortlist are numbered, and read back."""
    table = pd.DataFrame({"decision": [1] * 3 + [2] * 3, "group": list("abcabc")})
    table["picked"], table["reward"] = [0, 1, 0, 1, 0, 0], [None, 1.0, None, 2.0, None, None]
    assert read_log(table.assign(propensity=0.33)).probabilities.tolist() == [0.33] * 6
    table["picked"], table["reward"] = [0, 2, 1, 1, 0, 0], [None, 1.0, 3.0, 2.0, None, None]
    found = read_log(table.assign(propensity=[0.5, 0.7, 0.8, 0.4, 0.3, 0.3]))
    assert found.picks.tolist() == [[2, 1], [0, -1]]
    assert np.array_equal(found.rewards, [[3.0, 1.0], [2.0, np.nan]], equal_nan=True)
    assert np.array_equal(read_log(found.frame, features=[]).picks, found.picks)
    with pytest.raises(FairbanditError, match="one pick in each decision"):
        read_log(table.assign(picked=[0, 1, 1, 1, 0, 0], propensity=0.33))


def put(column: str, value: Any, where: str) -> Any:
    """A change of one cell: of the first row of decision 3 that is a pick, or is none."""

    def change(frame: Any) -> int:
        rows = frame.index[(frame["decision"] == 3) & (frame["picked"] == (where == "pick"))]
        frame[column] = frame[column].astype(object)
        frame.loc[rows[0], column] = value
        return int(rows[0]) + 1

    return change


@pytest.mark.parametrize(
    ("change", "column", "expected"),
    [
        (put("picked", True, "other"), "picked", "one pick in each decision"),
        (put("picked", "maybe", "other"), "picked", "yes or no, true or false, or 1, 2, …"),
        (put("propensity", 1.5, "pick"), "propensity", "above 0 for the pick and at most 1"),
        (put("propensity", 0.9, "other"), "propensity", "the decision 3 has the sum 1."),
        (put("reward", 1.0, "other"), "reward", "no reward but for picks"),
        (put("decision", None, "other"), "decision", "a value"),
    ],
)
def test_errors_name_the_row(change, column, expected):
    frame = table(10)[1].reset_index(drop=True)
    row = change(frame)
    with pytest.raises(FairbanditError) as raised:
        read_log(frame.astype({column: "string"}) if frame[column].dtype == object else frame)
    assert f"column {column!r}, row " in str(raised.value)
    assert expected in str(raised.value)
    if "in each decision" not in str(raised.value):
        assert f"row {row - 1} (from 0): " in str(raised.value)


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        (pd.DataFrame({"decision": [1]}), {}, "no column 'picked', 'propensity', 'reward'"),
        (None, {"features": ["height"]}, "no column 'height'"),
        (None, {"features": ["reward"]}, "features: 'reward' have another role"),
        (None, {"like": random_log(3)}, "like: expected a log or an encoder; a table needs"),
        (None, {"like": LIKE, "exclude": ["age"]}, "^exclude: expected None with like="),
        ("nothing.csv", {}, "nothing.csv"),
        (3, {}, "got a int"),
    ],
)
def test_no_log(given, options, expected):
    with pytest.raises(FairbanditError, match=expected):
        read_log(table(10)[1] if given is None else given, **options)
