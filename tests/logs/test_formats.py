"""Logs in the formats of Vowpal Wabbit and of obp."""

import gzip
import json
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from fairbandit import Agent, Encoder, FairbanditError
from fairbandit.logs.chain import Position, chained
from tests.evaluation.logs import random_log, read_log

LINE: dict[str, Any] = {
    "_label_cost": -1.0,
    "_label_probability": 0.05000000074505806,
    "_label_Action": 2,
    "_labelIndex": 1,
    "EventId": "13118d9b",
    "a": [2, 1],
    "c": {
        "FromUrl": [{"weather": "Sunny"}],
        "_multi": [
            {"_tag": "cappuccino", "i": {"constant": 1, "id": "hot"}, "j": [{"milk": 2.5}]},
            {"_tag": "cold brew", "i": {"constant": 1, "id": "cold"}, "j": [{"milk": None}]},
        ],
    },
    "p": [0.05, 0.95],
    "VWState": {"m": "N/A"},
}
"""A line as Vowpal Wabbit's clients write it."""


def test_a_line_of_vowpal_wabbit(tmp_path):
    path = tmp_path / "log.dsjson"
    late = {"RewardValue": 1.0, "EventId": "13118d9b"}
    path.write_text(json.dumps(LINE) + "\n" + json.dumps(late) + "\n")
    log = read_log(path, group="i.id")
    assert log.labels == ("hot", "cold")
    assert (log.picks.tolist(), log.rewards.tolist(), log.names) == ([[1]], [[1.0]], ["13118d9b"])
    assert log.probabilities.tolist() == [0.95, 0.05]
    values = [dict(zip(log.features, row, strict=True)) for row in log.contexts.tolist()]
    shared = {"FromUrl.0.weather=Sunny": 1.0, "i.constant": 1.0}
    assert values[0] == shared | {"i.id=hot": 1.0, "i.id=cold": 0.0, "j.0.milk": 2.5}
    assert values[1] == shared | {"i.id=hot": 0.0, "i.id=cold": 1.0, "j.0.milk": 0.0}


@pytest.mark.parametrize("missing", [{"milk": None}, {}, {"milk": "NaN"}])
def test_numbers_that_actions_of_dsjson_lack_are_counted(tmp_path, missing):
    warm, cold = LINE["c"]["_multi"]
    tagged = {**warm, "tags": {"new": 1}}
    several = [{**cold, "j": [missing]}, tagged], [warm, {**cold, "j": [missing]}], [warm, warm]
    records = [{**LINE, "c": {"_multi": actions}} for actions in several]
    log = read_log(lines(tmp_path / "log.dsjson", *records), group="i.id")
    assert "j.0.milk=NaN" not in log.features
    (notice,) = (note for note in log.notes if "lack" in note)
    assert notice.endswith("log.dsjson: numbers that actions lack become 0: 2 of 'j.0.milk'")


def test_tables_hold_what_makes_probabilities_depend_on_the_past(tmp_path):
    for flag in ("adaptive", "draws_models"):
        log = random_log(30, **{flag: True})
        log.frame.to_csv(tmp_path / "log.csv", index=False)
        for found in (read_log(tmp_path / "log.csv"), read_log(log.frame)):
            assert getattr(found, flag)
            assert flag not in found.features


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"_labelIndex": 2}, "`_label_Action` is not"),
        ({"_label_cost": "1"}, "Expected `float`, got `str` - at `[$]._label_cost`"),
        ({"_label_probability": 0.5}, "not the pick's"),
        ({"a": [1, 1]}, "not an order"),
        ({"p": [0.05, 0.5]}, "sum to 1"),
        ({"c": {"_multi": [{"i": {"id": "hot"}}, {"i": {"id": ["hot", "cold"]}}]}}, "several"),
    ],
)
def test_errors_name_the_line(tmp_path, change, expected):
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, **change}))
    with pytest.raises(FairbanditError, match="log.dsjson.* line 2: .*" + expected):
        read_log(path, group="i.id")


def lines(path: Any, *records: Any) -> Any:
    """A file of records, or of lines that are texts."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in records]
    data = "\n".join(texts).encode()
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["log.dsjson", "log.dsjson.gz", "LOG.JSON.GZ"])
def test_lines_that_are_no_decisions_are_left_out_and_counted(tmp_path, name, caplog):
    never = {**LINE, "_label_cost": 0.0, "_skipLearn": True}
    several = {"_outcomes": [{"_label_cost": -1, "_a": [0, 1], "_p": [0.5, 0.5]}], "c": {}}
    carried = {**LINE, "_skipLearn": False}
    sound = [LINE, "", " ", carried, never, never, several, {"RewardValue": 1}]
    path = lines(tmp_path / name, *sound)
    assert read_log(path, group="i.id").rewards.tolist() == [[1.0], [1.0]]
    counts = "2 never carried out (_skipLearn), 1 of conditional bandits (_outcomes), "
    counts += "1 without a cost (_label_cost)"
    assert f"{path}: 4 of 6 lines are left out: {counts}" in caplog.messages
    bad = {**LINE, "pdrop": 0.5}, {**LINE, "_skipLearn": "false"}
    lines(path, *sound, "[checkpoint-info] 2024", *bad, "[1]", "null")
    with pytest.raises(FairbanditError, match="line 9: not a decision of DSJSON"):
        read_log(path, group="i.id")
    assert len(read_log(path, group="i.id", bad_lines="skip")) == 2
    counts += ", 5 bad (bad_lines=skip)"
    assert caplog.messages[-1] == f"{path}: 9 of 11 lines are left out: {counts}"
    with pytest.raises(FairbanditError, match="expected error or skip"):
        read_log(path, group="i.id", bad_lines="warn")
    with pytest.raises(FairbanditError, match="holds no decision"):
        read_log(lines(path, ""), group="i.id")


def test_a_compressed_file_that_is_cut_off(tmp_path):
    path = lines(tmp_path / "log.json.gz", LINE, LINE)
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:40] + b"?" * 9 + whole[49:], b"{}" + whole):
        path.write_bytes(damaged)
        with pytest.raises(FairbanditError, match=r"cannot read .*log\.json\.gz|line 1"):
            read_log(path, group="i.id")


def test_features_of_dsjson_are_chosen_by_name_and_by_namespace(tmp_path, caplog):
    shared = {"User": {"id": "u7", "age": 3}, "Userland": 1}
    actions = LINE["c"]["_multi"]
    path = lines(tmp_path / "log.dsjson", {**LINE, "c": {**shared, "_multi": actions}})
    every = read_log(path, group="i.id")
    chosen = read_log(path, group="i.id", features=["j", "i.id"])
    assert chosen.features == ("j.0.milk", "i.id=hot", "i.id=cold")
    at = [every.features.index(name) for name in chosen.features]
    assert np.array_equal(chosen.contexts, every.contexts[..., at])
    for name in ("User.id", "User.id=u7"):
        rest = read_log(path, group="i.id", exclude=[name]).features
        assert [*rest] == [one for one in every.features if one != "User.id=u7"]
    rest = read_log(path, group="i.id", exclude="User", features=["User", "Userland"])
    assert rest.features == ("Userland",)
    new = {**LINE, "c": {"User": {"id": "u8"}, "_multi": actions}}
    later = lines(tmp_path / "later.dsjson", new)
    like = read_log(later, group="i.id", like=every)
    assert like.features == every.features
    assert any("User.id=u8" in message for message in caplog.messages)
    assert not like.contexts[..., every.features.index("User.age")].any()
    assert like.contexts[..., every.features.index("i.id=hot")].tolist() == [1.0, 0.0]
    for options, expected in (
        ({"features": ["i.i"]}, "lacks the feature 'i.i'"),
        ({"exclude": ["us"]}, "lacks the feature 'us'"),
        ({"like": random_log(3)}, "shares features"),
        ({"like": every, "features": ["j"]}, "features: expected None with like="),
        ({"reward": "r", "picked": "p", "time": "Timestamp"}, "^picked, reward, time: a log of D"),
    ):
        with pytest.raises(FairbanditError, match=expected):
            read_log(path, group="i.id", **options)
    with pytest.raises(FairbanditError, match="features, exclude: a log of obp takes only"):
        read_log(feedback(), features=["x0"], exclude=["x1"])


def feedback(n: int = 50, k: int = 4, **changed: Any) -> dict[str, Any]:
    """What obp's synthetic data sets return."""
    draw = np.random.default_rng(0)
    pi = draw.dirichlet(np.ones(k), n)
    action = (pi.cumsum(1) > draw.random((n, 1))).argmax(1)
    given = {
        "n_rounds": n,
        "n_actions": k,
        "context": draw.normal(size=(n, 2)),
        "action_context": np.eye(k),
        "action": action,
        "position": None,
        "reward": draw.integers(0, 2, n),
        "expected_reward": draw.random((n, k)),
        "pi_b": pi[..., None],
        "pscore": pi[np.arange(n), action],
    }
    return {**given, **changed}


def test_obp():
    given = feedback()
    log = read_log(given)
    assert log.labels == (0, 1, 2, 3)
    assert np.array_equal(log.probabilities, given["pi_b"].ravel())
    assert np.array_equal(log.rewards[:, 0], given["reward"])
    x, z = given["context"][7], np.eye(4)[2]
    assert np.array_equal(log.contexts[7 * 4 + 2], [*z, *x, *np.outer(x, z).ravel()])
    grouped = read_log(given, group=["even", "odd", "even", "odd"])
    assert grouped.labels == ("even", "odd")
    bare = {key: given[key] for key in ("context", "action", "reward", "pscore")}
    assert np.array_equal(read_log(bare).contexts, log.contexts)
    assert read_log(bare).probabilities is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"pscore": np.full(50, 0.5)}, "round 1: expected .* sum to 1"),
        ({"pscore": None}, "pscore is missing; propensity=None reads"),
        ({"reward": np.full(50, np.inf)}, "column 'reward', round 1: expected a number of at most"),
        ({"action": np.arange(50) % 4 + 1}, "action: expected numbers from 0 to 3; got 1 to 4"),
        ({"action": np.full(50, 2.0)}, "action: expected whole numbers; got the type float64"),
        ({"context": np.full((50, 2), np.nan)}, "context, row 0: expected numbers .*; got nan"),
        ({"context": csr_array(np.ones((50, 2)))}, "context: expected an array; got a sparse"),
        ({"context": np.zeros(50)}, "50 contexts"),
    ],
)
def test_no_obp(changed, expected):
    with pytest.raises(FairbanditError, match=expected):
        read_log(feedback(**changed))


def test_obp_without_actions_or_with_other_labels():
    lacking = feedback()
    del lacking["action"]
    with pytest.raises(FairbanditError, match="KeyError: 'action'"):
        read_log(lacking)
    for group in (["a", "b"], "abcd", dict.fromkeys(range(4), "a"), {*"abcd"}):
        with pytest.raises(FairbanditError, match="group: expected a list of the 4 actions"):
            read_log(feedback(), group=group)


def test_obp_without_propensities_with_missing_rewards_and_of_several_positions():
    reward = np.where(np.arange(50) % 5, 1.0, np.nan)
    for given in (feedback(pscore=None, reward=reward), feedback(reward=reward)):
        log = read_log(given, propensity=None)
        assert log.probabilities is None
        assert np.isnan(log.propensities).all()
        assert np.array_equal(log.rewards[:, 0], reward, equal_nan=True)
    position = np.arange(50) % 3
    pi = np.stack([feedback()["pi_b"][..., 0], np.full((50, 4), 0.25), np.eye(4)[[0] * 50]], 2)
    action = np.where(position == 2, 0, feedback()["action"])
    pscore = pi[range(50), action, position]
    log = read_log(feedback(position=position, pi_b=pi, action=action, pscore=pscore))
    at = [log.features.index(f"position={one}") for one in range(3)]
    assert np.array_equal(log.contexts[:, at], np.eye(3)[position].repeat(4, 0))
    assert log.features[-1] == "position=2*z3"
    assert np.array_equal(log.contexts[:, -1], ((position == 2)[:, None] * np.eye(4)[3]).ravel())
    assert np.array_equal(log.probabilities, pi[range(50), :, position].ravel())


def test_the_log_of_an_agent_counts_what_is_left_out_and_takes_no_arguments(tmp_path, caplog):
    agent = Agent.from_config("uniform", features=1, groups=["a", "b"], log=tmp_path / "one.jsonl")
    for _ in range(3):
        agent.act([[1.0], [2.0]], ["a", "b"])
    agent.observe([[[1.0], [2.0]]], [["a", "b"]], [0], [1.0])
    agent.drop(1)
    agent.save(tmp_path / "agent.pt")
    later = Agent.load(tmp_path / "agent.pt", log=tmp_path / "two.jsonl")
    later.update(1.0, 2)
    later.act([[1.0], [2.0]], ["a", "b"])
    assert len(read_log(tmp_path / "one.jsonl")) == 3
    assert len(read_log(tmp_path / "two.jsonl")) == 1
    left_out = [text.partition(": ")[2] for text in caplog.messages if "left out" in text]
    assert left_out == [
        "lines that hold no decision to judge are left out: 1 of observed rounds",
        "lines that hold no decision to judge are left out: 1 of rewards of earlier decisions",
    ]
    for options in ({"group": "sex"}, {"features": ["x"]}, {"like": random_log(3)}):
        with pytest.raises(FairbanditError, match="a log of an agent takes only a path"):
            read_log(tmp_path / "one.jsonl", **options)


def test_labels_of_an_agent_may_be_of_several_types(tmp_path):
    labels = ["a", ("b", 1), -1]
    agent = Agent.from_config("uniform", features=1, log=tmp_path / "log.jsonl")
    agent.act([[1.0], [2.0], [3.0]], labels)
    assert read_log(tmp_path / "log.jsonl").labels == (*labels,)


@pytest.mark.parametrize(
    ("field", "value"),
    [("codes", ["\ud800"] * 3), ("means", ["x"] * 3), ("label", 0), ("type", "plan")],
)
def test_a_header_is_typed_to_the_last_field(tmp_path, field, value):
    table = {"sex": ["f", "m"] * 9, "job": [*"abc"] * 6, "pay": [*range(18)]}
    encoder = Encoder.from_table(table, group="sex", reward="pay")
    path = tmp_path / "log.jsonl"
    Agent.from_config("uniform", features=encoder, groups=["f", "m"], log=path).close()
    header = json.loads(path.read_bytes())
    del header["previous"], header["sha256"]
    wrong = json.loads(json.dumps(header))
    column = next(c for c in wrong["options"]["features"]["columns"] if c["type"] == "category")
    column[field] = value
    for record, message in ((header, "holds no decision"), (wrong, r"line 1: \w+Error: ")):
        line = json.dumps(record, separators=(",", ":")).encode()
        path.write_bytes(chained(line, Position())[0])
        with pytest.raises(FairbanditError, match=message):
            read_log(path)
