"""Logs in the formats of Vowpal Wabbit and of obp."""

import json
from typing import Any

import numpy as np
import pytest

from fairbandit import FairbanditError
from fairbandit.logs import read_pieces
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
    assert log.probabilities.tolist() == [[0.95, 0.05]]
    values = [dict(zip(log.features, row, strict=True)) for row in log.contexts[0].tolist()]
    shared = {"FromUrl.0.weather=Sunny": 1.0, "i.constant": 1.0}
    assert values[0] == shared | {"i.id=hot": 1.0, "i.id=cold": 0.0, "j.0.milk": 2.5}
    assert values[1] == shared | {"i.id=hot": 0.0, "i.id=cold": 1.0, "j.0.milk": 0.0}


@pytest.mark.parametrize("only_picks", [False, True])
def test_dsjson_there_and_back_is_the_same_log(tmp_path, only_picks):
    log = random_log(30)
    log = random_log(30, probabilities=None if only_picks else log.probabilities)
    path = tmp_path / "log.dsjson"
    log.to_dsjson(path)
    found = read_log(path)
    assert (found.probabilities is None) == only_picks
    order = [found.labels.index(label) for label in log.labels]
    assert np.array_equal(found.groups, np.array([*order, -1])[log.groups])
    assert found.features == tuple(f"x.{name}" for name in log.features)
    for name in ("picks", "rewards", "propensities", "contexts"):
        assert np.array_equal(getattr(found, name), getattr(log, name)), name
    found.to_dsjson(tmp_path / "again.dsjson")
    assert np.array_equal(read_log(tmp_path / "again.dsjson").contexts, log.contexts)
    table = read_log(found.frame)
    assert np.array_equal(table.rewards, log.rewards)
    (piece,) = read_pieces(path)
    assert np.array_equal(piece.rewards, log.rewards)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"_labelIndex": 2}, "`_label_Action` is not"),
        ({"_labelIndex": "1"}, "TypeError"),
        ({"_label_Action": 1}, "`_label_Action` is not"),
        ({"_label_cost": 1e999}, "no number"),
        ({"_label_cost": "1"}, "no number"),
        ({"_label_probability": 0.5}, "is not the pick's"),
        ({"a": [1, 1]}, "no order"),
        ({"a": [0, 1]}, "KeyError"),
        ({"a": 7}, "TypeError"),
        ({"a": [1, 2]}, "is not the pick's"),
        ({"p": [0.05, 0.5]}, "sum to 1"),
        ({"p": [0.05, -0.95]}, "a probability"),
        ({"p": [0.05]}, "ValueError"),
        ({"p": [0.05, None]}, "no number"),
        ({"pdrop": 0.9}, "left out"),
        ({"c": []}, "TypeError"),
        ({"c": {"_multi": [{"i": {"id": "hot"}}, {}]}}, "no 'i.id'"),
    ],
)
def test_errors_name_the_line(tmp_path, change, expected):
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, **change}))
    with pytest.raises(FairbanditError, match="log.dsjson.* line 2: .*" + expected):
        read_log(path, group="i.id")


def test_what_dsjson_cannot_hold(tmp_path):
    path = tmp_path / "log.dsjson"
    for changed in ({"contexts": None}, {"features": ("_a", "b", "c")}):
        with pytest.raises(FairbanditError, match="DSJSON holds decisions of one pick"):
            random_log(3, **changed).to_dsjson(path)
    assert not path.exists()
    path.write_text("")
    with pytest.raises(FairbanditError, match="holds no decision"):
        read_log(path)


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
    assert np.array_equal(log.probabilities, given["pi_b"][..., 0])
    assert np.array_equal(log.rewards[:, 0], given["reward"])
    x, z = given["context"][7], np.eye(4)[2]
    assert np.array_equal(log.contexts[7, 2], [*z, *x, *np.outer(x, z).ravel()])
    grouped = read_log(given, group=["even", "odd", "even", "odd"])
    assert grouped.labels == ("even", "odd")
    bare = {key: given[key] for key in ("context", "action", "reward", "pscore")}
    assert np.array_equal(read_log(bare).contexts, log.contexts)
    assert read_log(bare).probabilities is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"pscore": np.zeros(50)}, "round 1: expected a probability, above 0"),
        ({"pscore": np.full(50, 0.5)}, "round 1: expected .* sum to 1"),
        ({"reward": np.full(50, np.nan)}, "a reward is nan"),
        ({"action": np.full(50, 4)}, "IndexError"),
        ({"action": np.full(50, 0.5)}, "TypeError"),
        ({"position": np.arange(50)}, "one position"),
        ({"context": np.zeros(50)}, "50 contexts"),
        ({"reward": None}, "TypeError"),
    ],
)
def test_no_obp(changed, expected):
    with pytest.raises(FairbanditError, match=expected):
        read_log(feedback(**changed))
    lacking = feedback()
    del lacking["action"]
    with pytest.raises(FairbanditError, match="KeyError: 'action'"):
        read_log(lacking)
