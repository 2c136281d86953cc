"""Products of features: in encoders, tables, arrays, agents' files, and DSJSON."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from fairbandit import Encoder, FairbanditError
from fairbandit.environments import Table
from fairbandit.logs import read_log

DRAW = np.random.default_rng(0)

TABLE: dict[str, Any] = {
    "sex": [*"fm"] * 40,
    "job": [*"abca"] * 20,
    "age": DRAW.integers(20, 60, 80).tolist(),
    "hours": DRAW.normal(30, 9, 80).round(3).tolist(),
    "pay": DRAW.normal(size=80).tolist(),
}

GIVEN = {"group": "sex", "reward": "pay"}


def plain(encoder: Encoder, rows: Any, one: str, other: str) -> list[Any]:
    """The standardised products of two columns' features, from the encoder's own features."""
    features = dict(zip(encoder.names, encoder.encode(rows).T, strict=True))
    names = [[n for n in encoder.names if n.split("=")[0] == column] for column in (one, other)]
    values = [features[a] * features[b] for a, b in product(*names)]
    return [(own - own.mean()) / own.std() for own in values]


def test_products_are_standardised_products_of_features():
    encoder = Encoder.from_table(TABLE, products=[["age", "hours"], ["job", "hours"]], **GIVEN)
    own = Encoder.from_table(TABLE, **GIVEN)
    d = len(own.names) - 1
    assert encoder.names[:d] == own.names[:d]
    own_products = [f"{name} × hours" for name in ("age", "job=a", "job=b", "job=c")]
    assert encoder.names[d:] == (*own_products, "bias")
    x = encoder.encode(TABLE)
    np.testing.assert_array_equal(x[:, :d], own.encode(TABLE)[:, :d])
    right = plain(own, TABLE, "age", "hours") + plain(own, TABLE, "job", "hours")
    np.testing.assert_allclose(x[:, d:-1].T, right, atol=1e-9)
    assert encoder.sources[d:] == ("age × hours", *["job × hours"] * 3, "bias")
    again = Encoder(**json.loads(json.dumps(encoder.state())))
    assert again == encoder != own
    np.testing.assert_array_equal(again.encode(TABLE), x)


def test_all_has_squares_of_numbers_and_none_of_categories():
    encoder = Encoder.from_table(TABLE, products="all", **GIVEN)
    assert {"age × age", "age × hours", "age × job", "job × sex"} <= {
        " × ".join(sorted(name.split(" × "))) for name in encoder.sources
    }
    assert not {"job × job", "sex × sex", "bias × bias"} & {*encoder.sources}
    world = Table.from_data(TABLE, products="all", **GIVEN)
    assert world.feature_names == encoder.names
    assert world.features == len(encoder.names)
    squared = Table.from_data(TABLE, products=[["age", "age"]], **GIVEN)
    assert squared.feature_names[-2:] == ("age × age", "bias")


@pytest.mark.parametrize(
    "products", ["some", [["age"]], [["age", "size"]], [["job", "job"]], ["age"], 3, [[1, 2]]]
)
def test_what_is_no_pair_of_columns_is_refused(products):
    with pytest.raises(FairbanditError, match="products: expected all, or pairs"):
        Encoder.from_table(TABLE, products=products, **GIVEN)


def test_dsjson_multiplies_shared_features_by_those_of_actions(tmp_path):
    actions = [{"g": "x", "price": 2.0}, {"g": "y", "price": 5.0, "hot": "yes"}]
    line: dict[str, Any] = {"_label_cost": -1.0, "_label_probability": 0.5, "_label_Action": 1}
    line |= {"_labelIndex": 0, "EventId": "1", "a": [1, 2], "p": [0.5, 0.5]}
    line["c"] = {"user": {"age": 3.0, "kind": "new"}, "_multi": actions}
    (tmp_path / "log.dsjson").write_text(json.dumps(line) + "\n")
    log = read_log(tmp_path / "log.dsjson", group="g", products="shared")
    assert log.contexts is not None
    first, second = (dict(zip(log.features, x, strict=True)) for x in log.contexts[:2])
    assert (first["user.age × price"], second["user.age × price"]) == (6.0, 15.0)
    assert (first["user.kind=new × price"], first["user.age × hot=yes"]) == (2.0, 0.0)
    assert second["user.kind=new × hot=yes"] == 1.0
    again = read_log(tmp_path / "log.dsjson", group="g", like=log)
    np.testing.assert_array_equal(again.contexts, log.contexts)
    with pytest.raises(FairbanditError, match="products: expected 'shared'"):
        read_log(tmp_path / "log.dsjson", group="g", products=[["age", "price"]])
