"""An agent that meets raw rows decides as a policy that plays their table."""

from __future__ import annotations

import csv
import json
import logging
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import Agent, Encoder, FairbanditError, build, read_log
from fairbandit.agent.replaying import replay
from fairbandit.logs import erase, own_lines
from fairbandit.logs.events import Observed, Offered
from fairbandit.notices import _remark
from fairbandit.tables.labels import normal
from tests import support
from tests.agent import worlds
from tests.environments.data import people, write

ROUNDS = 40

TABLE = {
    "group": "group",
    "reward": "wage",
    "columns": {"age": None, "job": [0, 1, 2, 3], "town": "category", "flat": None},
    "missing": "mean",
}


def raw(count: int = 400) -> dict[str, list[Any]]:
    """A table as it is written, with numbered groups of several spellings and missing cells."""
    found: dict[str, list[Any]] = people(count)
    found["group"] = [{"a": "1.0", "b": "3e0", "c": "2"}[one] for one in found["group"]]
    found["age"] = [f"{age},5" if row % 9 else "" for row, age in enumerate(found["age"])]
    found["town"] = [town if row % 7 else "NA" for row, town in enumerate(found["town"])]
    found["wage"] = [str(wage).replace(".", ",") for wage in found["wage"]]
    found["flat"] = ["0,1"] * count
    return found


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "people.csv", raw())


@pytest.fixture
def notices(caplog):
    _remark.cache_clear()
    return lambda: [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


def served(agent: Any, environment: Any, rows: Any, as_table: Any) -> list[int]:
    """Plays the rounds of an environment with raw rows of its file; returns the picks."""
    pools = worlds.pools_of(environment, ROUNDS, 4)
    row_of = {tuple(x): row for x, row in zip(agent.encoder.encode(rows), rows, strict=True)}
    picked = []
    for t, contexts in enumerate(pools.contexts[0].numpy()):
        pool = [row_of[tuple(x)] for x in contexts]
        groups = [normal(row["group"]) for row in pool]
        decision = agent.act(as_table(pool), groups)
        picked.append(decision.candidate)
        agent.update(pools.rewards[0, t, decision.candidate], decision.ticket)
    return picked


AS_TABLES = {
    "rows": list,
    "frame": lambda pool: pd.DataFrame(pool, index=range(7, 7 + len(pool))),
    "columns": lambda pool: {name: [row[name] for row in pool] for name in pool[0]},
}


@pytest.mark.parametrize(
    ("kind", "pool"), list(zip(AS_TABLES, ["random", "one_per_group", "random"], strict=True))
)
def test_it_decides_as_the_engine_on_the_table(path, pool, kind):
    given = {**TABLE, "decimal": ",", "pool": pool}
    environment: Any = build({"name": "table", "path": str(path), **given})
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    theirs = support.actions(
        support.policy("fair_greedy"), environment, ROUNDS, replicas=2, seed=4
    )[0]
    agent = Agent.from_config(
        "fair_greedy",
        features=Encoder.from_table(path, **given),
        groups=environment.group_names,
        seed=4,
    )
    assert served(agent, environment, rows, AS_TABLES[kind]) == theirs.tolist()


def test_files_and_logs_hold_the_encoder(tmp_path, path):
    encoder = Encoder.from_table(path, **TABLE, decimal=",")
    log, saved = tmp_path / "decisions.jsonl", tmp_path / "agent.pt"
    agent = Agent.from_config("fair_greedy", features=encoder, log=log)
    rows = [{name: cells[row] for name, cells in raw(9).items()} for row in range(9)]
    rows = [{**row, "group": label} for label, row in enumerate(rows)]
    for _ in range(5):
        agent.act(rows, range(9))
        agent.update(1.0)
    agent.observe([rows, rows[:2]], [range(9), range(2)], [0, 1], [1.0, 2.0])
    agent.save(saved)
    known, pick = worlds.held(agent)["known"], agent.explain(rows, range(9)).probabilities.tolist()
    del agent
    again = Agent.from_config("fair_greedy", features=encoder, log=log)
    assert worlds.held(again)["known"] == known
    assert again.explain(rows, range(9)).probabilities.tolist() == pick
    assert replay(log).lines == 1 + 5 + 5 + 1
    loaded = Agent.load(saved)
    assert loaded.encoder
    assert loaded.encoder.state() == encoder.state()
    assert loaded.explain(rows, range(9)).probabilities.tolist() == pick
    del again
    plain = json.loads(json.dumps(encoder.state()))
    assert np.array_equal(Encoder(**plain).encode(rows), encoder.encode(rows))
    other = Encoder.from_table(path, **TABLE, decimal=",", bias=False)
    with pytest.raises(FairbanditError, match="is not the log that this agent wrote"):
        Agent.from_config("fair_greedy", features=other, log=log)


def test_logs_hold_raw_rows(tmp_path, path):
    """Typed, with None for a missing cell, and of the columns that the encoder reads."""
    encoder, log = Encoder.from_table(path, **TABLE, decimal=","), tmp_path / "log"
    config = {"split": "full", "estimator": "ridge", "rank": "recent_cdf", "selector": "rolling"}
    rows = [
        {"group": 1, "age": "30,5", "job": 1, "town": "north", "flat": 0.1, "name": "Ann"},
        {"group": "2", "age": "", "job": 9, "town": None, "flat": "0,1", "name": "Bob"},
    ]
    columns: dict[str, list[Any]] = {
        "age": ["30,5", None],
        "job": [1, 9],
        "town": ["north", None],
        "flat": [0.1, "0,1"],
    }
    columns["group"] = [1, "2"]
    for options in ({}, {"log_rows": False}):
        with Agent.from_config(config, features=encoder, log=log, **options) as agent:
            with agent.round(f"{options}", places=1, candidates=2) as opening:
                opening.offer(rows[1])
            agent.observe(pd.DataFrame(rows), rewards=[1.0, 2.0])
    offered, observed, *without = [
        line.event.rows for line in own_lines(log) if isinstance(line.event, Offered | Observed)
    ]
    assert offered == {name: cells[1:] for name, cells in columns.items()}
    assert observed == [{name: [c[at]] for name, c in columns.items()} for at in range(2)]
    assert without == [None, None]
    replay(log)
    with Agent.from_config("greedy", features=encoder, log=tmp_path / "greedy") as agent:
        agent.act_many(pd.DataFrame(rows), pools=["b", "a"])
    erase(tmp_path / "greedy", tmp_path / "erased", [1])
    kept: list[Any] = [line.event for line in own_lines(tmp_path / "erased")][1:]
    assert [event.rows for event in kept] == [{name: c[1:] for name, c in columns.items()}]


def test_an_agent_made_from_the_log_of_a_table_takes_rows_of_it():
    rows: list[dict[str, Any]] = [{"age": age, "sex": "fm"[age % 2]} for age in range(10)]
    picks = [{"decision": at // 2, "picked": 1 - at % 2} for at in range(10)]
    table = [{**row, **pick} for row, pick in zip(rows, picks, strict=True)]
    table = [{**row, "reward": float(row["age"]) if row["picked"] else None} for row in table]
    log = read_log(pd.DataFrame(table), group="sex", propensity=None)
    agent = Agent.from_log("greedy", log)
    labels = [row["sex"] for row in rows]
    assert agent.act(rows, labels).candidate == 8  # the oldest of those who were picked
    assert agent.act(rows).candidate == 8
    with pytest.raises(FairbanditError, match=r"groups\[1\] is 'f', but column 'sex' .* says 'm'"):
        agent.act(rows, ["f"] * 10)


def test_encoders_of_tables_and_of_logs_know_the_same_labels(notices):
    rows = pd.DataFrame({"age": range(24), "size": [10, 9, "09"] * 8, "up": [True, False] * 12})
    log = rows.assign(decision=range(24), picked=1, reward=1.0)
    for group in ("size", "up", ["size", "up"]):
        own = read_log(log, group=group, propensity=None).encoder
        other = Encoder.from_table(rows.assign(pay=rows["age"]), group=group, reward="pay")
        assert own is not None
        assert own.labelled(rows)[1] == other.labelled(rows)[1] == own.labels_in(own.encode(rows))
        assert sorted(own.labels) == sorted(other.labels)
        again = Encoder(**json.loads(json.dumps(own.state())))
        assert again == own
        assert again.labels == own.labels
        before = len(notices())
        agent = Agent.from_config("greedy", features=own, groups=[*own.labels, "new × size"])
        assert "new group 'new × size'" in notices()[before]
        for x in (rows[:2], own.encode(rows[:2])):
            with pytest.raises(FairbanditError, match=r"groups\[1\] is '10.*', but column"):
                agent.act(x, [own.labelled(rows)[1][0]] * 2 if group != "up" else ["true", "10"])
    part = read_log(log, group=["size", "up"], exclude=["up"], propensity=None).encoder
    assert part is not None
    assert part.labels == ()  # the features do not hold the whole label


def test_missing_cells_and_unknown_codes_become_means_with_a_notice(notices):
    encoder = Encoder.from_table(people(), **TABLE)
    known = [{"group": "a", "age": 30, "job": 1, "town": "north", "flat": 0.1}]
    odd = [{"group": "new", "age": None, "job": 9, "town": "North", "flat": float("nan")}]
    assert encoder.encode(known).all(axis=0).sum() == len(encoder.names) - 1  # all but `flat`
    assert not notices()
    assert encoder.encode(odd).tolist() == [[0.0] * (len(encoder.names) - 1) + [1.0]]
    assert [text.split("'")[1] for text in notices()] == ["age", "job", "town", "flat", "group"]
    encoder.encode(odd)
    assert len(notices()) == 5  # once in a process
    guess = "unknown 'North' (did you mean 'north'?) gets the table's mean; known are north, south"
    assert notices()[2] == f"the pool, column 'town': {guess}"
    assert encoder.encode([{**odd[0], "group": None}]).tolist() == encoder.encode(odd).tolist()
    assert notices()[-1].startswith("the pool, column 'group': missing cells get the table's mean")


def test_numbers_far_outside_the_table_are_noted_once_for_each_column(notices):
    cells = {"age": [20, 40, 65], "sex": ["f", "m", "f"], "pay": [0.0, -1.5, 3.0]}
    table = pd.DataFrame({**cells, "out": [0, 1, 2]})
    encoder = Encoder.from_table(table, group="sex", reward="out", missing="mean")
    agent = Agent.from_config("greedy", features=encoder)
    agent.act(np.full((1, len(encoder.names)), 400.0), ["f"])  # arrays are not checked
    before = len(notices())
    near = pd.DataFrame({"age": [-25, 110], "sex": ["f", "m"], "pay": [-6.0, 7.5]})
    agent.act(near)
    assert len(notices()) == before  # as far outside as the table's numbers are apart
    agent.act([{"age": 30, "sex": "f", "pay": None}, {"age": 110.1, "sex": "m", "pay": 1}])
    agent.act([{"age": 408, "sex": "f", "pay": -22_265}])
    what = "the pool, column '{}': {} is far outside {}, the numbers of the table"
    assert [text for text in notices()[before:] if "far" in text] == [
        what.format("age", "110.1", "20 to 65"),
        what.format("pay", "-22,265", "-1.5 to 3"),
    ]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"job": 9}, "column 'job', row 1 .from 0.: expected one of the codes 0, 1, 2, 3; got '9'"),
        ({"age": None}, "column 'age', row 1 .from 0.: expected a value .*; got a missing cell"),
    ],
)
def test_without_means_they_are_errors_that_change_nothing(changed, expected):
    agent = Agent.from_config(
        "fair_greedy", features=Encoder.from_table(people(), **{**TABLE, "missing": "error"})
    )
    known = {"group": "a", "age": "30", "job": 1, "town": "north", "flat": 0.1}
    before = worlds.held(agent)
    with pytest.raises(FairbanditError, match=expected):
        agent.act([known, {**known, **changed}], ["a", "b"])
    assert worlds.held(agent) == before


def test_labels_that_contradict_their_rows_are_refused():
    cells = {
        "age": range(20),
        "sex": list("fm") * 10,
        "region": ["North", "South", "South", "1"] * 5,
    }
    rows = pd.DataFrame({**cells, "pay": range(20)})
    encoder = Encoder.from_table(rows, group="region", reward="pay", missing="mean")
    agent = Agent.from_config("fair_rolling", features=encoder)
    table, says = rows[:4], r"groups\[0\] is '{}', but column 'region' of the row says '{}'"
    for decide in (agent.act, agent.explain):
        with pytest.raises(FairbanditError, match=says.format("f", "North")):
            decide(table, table["sex"])
    with pytest.raises(FairbanditError, match="pool 1: " + says.format("south", "South")):
        agent.act_many([table, table[1:]], [table["region"], ["south", "South", 1]])
    with pytest.raises(FairbanditError, match=r"groups\[1\] is 'North'"):
        agent.act_many(table, ["North"] * 4, pools=[0] * 4)
    with pytest.raises(FairbanditError, match="pool 0: " + says.format("South", "North")):
        agent.observe([table], [["South"] * 4], [0], [1.0])
    with agent.round(places=1, candidates=2) as opening:
        row = dict(rows.iloc[0])
        with pytest.raises(FairbanditError, match=says.format("South", "North")):
            opening.offer(row, "South")
        opening.offer({**row, "region": "West"}, "West ")  # a group that the encoder does not know
    agent.act(table, ["North", "South", " South", 1.0])
    assert agent.groups == ("West ", "North", "South", 1.0)


def test_labels_of_several_columns_are_rows_of_them():
    rows = pd.DataFrame({"age": range(8), "sex": list("fm") * 4, "region": list("NNSS") * 2})
    encoder = Encoder.from_table(
        rows.assign(pay=rows["age"]), group=["region", "sex"], reward="pay"
    )
    agent = Agent.from_config("fair_greedy", features=encoder)
    pairs = rows[["region", "sex"]]
    for labels in (pairs, pairs.to_numpy(), pairs.to_numpy().tolist()):
        assert agent.explain(rows, labels).groups == tuple(
            zip(rows["region"], rows["sex"], strict=True)
        )
    with pytest.raises(FairbanditError, match=r"groups\[0\] is 'f × N', but .* says 'N × f'"):
        agent.act(rows, rows[["sex", "region"]])
    contexts = encoder.encode(rows)[:, None]
    for labels in (pairs.to_numpy()[:, None], pairs):  # pools of one candidate
        agent = Agent.from_config("fair_greedy", features=encoder)
        agent.observe(contexts, labels, [0] * 8, range(8))
        assert agent.groups == tuple(zip(rows["region"][:4], rows["sex"][:4], strict=True))
    assert agent.explain(rows[:2], [("N", "f"), ["N", "m"]]).groups == (("N", "f"), ("N", "m"))
    with pytest.raises(FairbanditError, match="pool 0: groups: expected labels, as in"):
        agent.observe(encoder.encode(rows)[:, None], rows["sex"], [0] * 8, range(8))


def test_labels_that_are_left_out_are_read_from_the_rows():
    rows = pd.DataFrame(
        {
            "age": range(8),
            "sex": list("fm") * 4,
            "size": [1, "1e0", 2, "1.0"] * 2,
            "pool": [0, 1] * 4,
        }
    )
    encoder = Encoder.from_table(
        rows.assign(pay=rows["age"]), group=["sex", "size"], reward="pay", exclude=["pool"]
    )
    given, left = (Agent.from_config("fair_greedy", features=encoder) for _ in range(2))
    labels = rows[["sex", "size"]].itertuples(index=False, name=None)
    labels = [normal(label) for label in labels]
    assert str(left.explain(rows[:3])) == str(given.explain(rows[:3], labels[:3]))
    assert left.act(rows.to_dict("records")) == given.act(rows, labels)
    assert left.act_many(rows, pools="pool") == given.act_many(rows, labels, pools="pool")
    halves = [rows[:4], rows[4:]]
    assert left.act_many(halves) == given.act_many(halves, [labels[:4], labels[4:]])
    left.observe(halves, None, [0, 1], [1.0, 2.0])
    given.observe(halves, [labels[:4], labels[4:]], [0, 1], [1.0, 2.0])
    assert left.groups == given.groups == ("f × 1", "m × 1", "f × 2")
    assert worlds.held(left) == worlds.held(given)
    with pytest.raises(FairbanditError, match="pool 1: the pool, column 'sex × size', row 1"):
        left.act_many([rows[:2], rows[:2].assign(sex=["f", None])])
    with pytest.raises(FairbanditError, match="groups: expected labels, as in"):
        left.act(encoder.encode(rows))
    apart = Encoder.from_table(rows, group="sex", reward="age", group_feature=False)
    with pytest.raises(FairbanditError, match="the group is not among the features"):
        Agent.from_config("fair_greedy", features=apart).act(rows)


@pytest.mark.parametrize(("policy", "noted"), [("fair_greedy", True), ("greedy", False)])
def test_observed_rounds_that_are_sorted_are_noted(policy, noted, notices):
    """Fair-Greedy learns from the first half, and ranks among the second; greedy uses all."""
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"pay": draws.normal(size=300), "sex": draws.choice(["f", "m"], 300)})
    half = rows.assign(
        pay=[pay / 1000 if row < 150 else pay + 9 for row, pay in rows["pay"].items()]
    )
    for table, what in (
        (rows, ""),
        (rows.sort_values("sex"), "share of group "),
        (rows.sort_values("pay"), "mean reward "),
        (half, "mean reward "),
    ):
        agent = Agent.from_config(policy, features=1)
        groups = table[["sex"]] if what else [[label] for label in table["sex"]]
        before = len(notices())
        agent.observe(np.ones((300, 1, 1)), groups, None, table["pay"].to_numpy())
        found = notices()[before:]
        assert len(found) == (noted and bool(what))
        assert all(f"seem sorted: the {what}" in text for text in found)


def test_each_row_of_an_observed_table_is_a_pool():
    rows = pd.DataFrame({"age": [*range(8)], "sex": list("fm") * 4, "pay": range(8)})
    encoder = Encoder.from_table(rows, group="sex", reward="pay")
    given, table, frame = (Agent.from_config("fair_greedy", features=encoder) for _ in range(3))
    given.observe(
        encoder.encode(rows)[:, None], [[one] for one in rows["sex"]], [0] * 8, rows["pay"]
    )
    table.observe(rows, rewards=rows["pay"])
    frame.observe(rows, rows["sex"], [0] * 8, rows["pay"])
    for other in (table, frame):
        assert repr(other.explain(rows)) == repr(given.explain(rows))
    for one, changed in (
        ("rewards: expected the reward of each round", {"rewards": None}),
        ("groups: expected the index of the table", {"groups": rows["sex"][::-1]}),
        ("actions: expected the place of the pick", {"contexts": [rows]}),
    ):
        with pytest.raises(FairbanditError, match=one):
            given.observe(**{"contexts": rows, "rewards": rows["pay"], **changed})
    assert given.rounds == 8


@pytest.mark.parametrize("raw", [False, True])
def test_a_group_that_is_missing_is_unknown_however_it_is_spelled(tmp_path, raw):
    """In arrays and in rows, in the agent's log, and after loading."""
    words = ["undisclosed", "n/a"]
    table = {"sex": ["f", "m", None, "n/a"] * 9, "age": range(36), "pay": range(1, 37)}
    encoder = Encoder.from_table(table, group="sex", reward="pay", unknown=words)
    assert encoder.labels == ("f", "m", "unknown")
    log, draws = tmp_path / "log.jsonl", np.random.default_rng(0)
    options: Any = {"features": encoder} if raw else {"features": 5, "unknown": words}
    agent = Agent.from_config("fair_greedy", **options, log=log)
    for absent in (None, "", math.nan, "Undisclosed", "n/a", "unknown", "no key"):
        rows = [{"sex": sex, "age": int(draws.integers(60))} for sex in ("f", absent, "m", absent)]
        if absent == "no key":
            rows = [{"age": 30}, {"age": 40}] if raw else []
        labels = ["unknown" if row.get("sex") not in ("f", "m") else row["sex"] for row in rows]
        if raw and rows:
            assert agent.explain(rows).groups == tuple(labels)
            agent.act(rows)
        elif rows:
            given = [row["sex"] for row in rows]
            assert agent.explain(draws.normal(size=(4, 5)), given).groups == tuple(labels)
            agent.act(draws.normal(size=(4, 5)), given)
        if rows:
            agent.update(float(draws.normal()))
    assert agent.groups == ("f", "unknown", "m")
    agent.observe([[[0.0] * 5]], [["undisclosed" if not raw else None]], rewards=[1.0])
    agent.save(tmp_path / "agent")
    known = agent.groups
    del agent
    again = Agent.load(tmp_path / "agent")
    assert again.groups == known
    again.act(np.zeros((2, 5)), ["N/A", None])
    assert again.groups == known
    replayed = Agent.from_config("fair_greedy", **options, log=log)
    assert replayed.groups == known
    assert read_log(log).labels == ("f", "unknown", "m")
