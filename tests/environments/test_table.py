from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.environments.table import CANDIDATES
from fairbandit.errors import FairbanditError
from fairbandit.notices import noted as noting
from fairbandit.registry import create
from fairbandit.streams import Purpose, Streams
from tests.environments.data import arguments, encoded, people, standardised, write

GAPS = {"age": [3, 200], "job": [3, 9], "town": [11, 70]}
"""Rows whose cells are missing."""

both = pytest.mark.parametrize("ending", ["csv", "parquet"])


def table(path: Path, replicas: int = 2, **changed: Any) -> Any:
    given = {"group_feature": False, **changed}  # tests of their own have it
    environment = create("environment", arguments(path, **given))
    environment.bind(Streams(0, range(replicas)))
    return environment


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "d2.csv", people())


def refused(path: Path, **changed: Any) -> str:
    with pytest.raises(FairbanditError) as caught:
        create("environment", arguments(path, **changed))
    return str(caught.value)


def by_hand(d2: Any, d1: Any) -> Any:
    """Standardised features with a bias, rewards and true rewards, with numpy alone."""
    X = np.column_stack([standardised(encoded(d2), encoded(d1)), np.ones(len(d2["wage"]))])
    y = standardised(np.array(d2["wage"]), np.array(d1["wage"]))
    return X, y, X @ np.linalg.lstsq(X, y, rcond=None)[0]


@both
@pytest.mark.parametrize("other", [False, True])
def test_against_numpy(tmp_path, ending, other):
    d2, d1 = people(), people(count=300, seed=1)
    d1["job"] = [min(job, 2) for job in d1["job"]]  # no one of job 3: constant in D1 alone
    path = write(tmp_path / f"d2.{ending}", d2)
    scaler = write(tmp_path / f"d1.{ending}", d1) if other else None
    made = table(path, scaler_path=str(scaler) if scaler else None)
    X, y, truth = by_hand(d2, d1 if other else d2)
    wage = np.array((d1 if other else d2)["wage"])
    assert made.unit == {
        "name": "wage",
        "std": pytest.approx(wage.std()),
        "mean": pytest.approx(wage.mean()),
    }
    members = made.members
    np.testing.assert_allclose(members.contexts.numpy(), X, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(members.rewards.numpy(), y, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(members.expected.numpy(), truth, rtol=1e-7, atol=1e-7)
    assert made.group_names == ("a", "b", "c")
    assert [made.group_names[g] for g in members.groups.tolist()] == d2["group"]
    assert made.feature_names == (
        *("age", "job=1", "job=2", "job=3", "town=north", "town=south", "flat", "bias"),
    )
    assert np.linalg.matrix_rank(X) < X.shape[1]  # θ is not unique; what it predicts is


@pytest.mark.parametrize("pool", ["one_per_group", "random"])
def test_true_ranks_against_brute_force(path, pool):
    """A rank is a quotient of two whole numbers, rounded once."""
    made = table(path, pool=pool)
    d2 = people()
    _, _, truth = by_hand(d2, d2)
    truth, groups = truth.round(6), np.array(d2["group"])  # equal people have equal rewards
    ranks = [np.mean(truth[groups == g] <= v) for v, g in zip(truth, groups, strict=True)]
    np.testing.assert_allclose(made.members.ranks.numpy(), ranks, rtol=1e-15)
    asked = made.truth.cdf(made.members.groups, made.members.expected + 1e-9)
    np.testing.assert_allclose(asked.numpy(), ranks, rtol=1e-15)


def test_one_per_group_pools(path):
    made = table(path, replicas=3)
    pools = made.pools(1, 500)
    assert (made.places, table(path, bias=False).features) == (3, 7)
    assert pools.groups.eq(torch.arange(3)).all()
    uniforms = made.streams[Purpose.POOLS].uniform(1, 500, 3)
    for g in range(3):
        own = made.members.contexts[made.members.groups == g]
        rows = (uniforms[:, :, g] * len(own)).long()
        assert pools.contexts[:, :, g].equal(own[rows])
        assert len(rows.unique()) > len(own) * 0.95  # nearly all are drawn in 1500 draws
    assert pools.expected.allclose(pools.contexts @ made.truth.theta, rtol=0, atol=1e-12)


def test_pools_are_random_where_a_group_is_rare_or_candidates_are_given(tmp_path, path):
    """A tenth of the mean size, 400/3, is 13.3."""
    assert table(path, candidates=4).pools(1, 2).groups.shape == (2, 2, 4)
    for rare, size, random in ((13, None, True), (14, None, False), (9, 150, False)):
        groups = ["c" if row < rare else "ab"[row % 2] for row in range(400)]
        file = write(tmp_path / f"{rare}.csv", {**people(), "group": groups})
        with noting() as notes:
            made = table(file, group_size=size)
        assert any("the few members of 'c'" in note for note in notes) == random
        assert made.pool.name == ("random" if random else "one_per_group")
        same = table(file, group_size=size, pool=made.pool.name).pools(1, 3)
        assert same.contexts.equal(made.pools(1, 3).contexts)


def test_random_pools_at_natural_proportions(path):
    made = table(path, replicas=4, pool="random")
    pools = made.pools(1, 1000)
    assert made.places == CANDIDATES
    counts = torch.bincount(pools.groups.flatten(), minlength=3).double()
    expected = made.members.sizes.double() / 400 * 40_000
    # chi-square with 2 degrees of freedom: above 18.4 with probability 1e-4
    assert ((counts - expected) ** 2 / expected).sum() < 18.4


@pytest.mark.parametrize(("rewards", "noise"), [("column", 0.0), ("model", 0.5)])
def test_rewards(path, rewards, noise):
    made = table(path, pool="random", rewards=rewards, noise=noise)
    pools = made.pools(3, 40)
    rows = (made.streams[Purpose.POOLS].uniform(3, 40, 10) * 400).long()
    base = made.members.rewards[rows] if rewards == "column" else pools.expected
    normal = made.streams[Purpose.REWARDS].normal(3, 40, 10)
    assert pools.rewards.equal(base + noise * normal)


@pytest.mark.parametrize("pool", ["one_per_group", "random"])
def test_group_size(path, pool):
    made = table(path, pool=pool, group_size=100)
    d2 = people()
    members, everyone = made.members, Counter(d2["group"])
    taken = 100 + sum(min(everyone[g], 100) for g in "bc")
    assert len(members.groups) == (taken if pool == "one_per_group" else 400)
    ordered = made.truth.cdf(members.groups, members.expected + 1e-9)[members.groups == 0]
    assert (ordered * 100).allclose((ordered * 100).round())  # a CDF of 100 members
    other = table(path, pool=pool, group_size=100, sample_seed=1)
    asked = torch.zeros(400).long(), torch.linspace(-2, 2, 400).double()
    assert not torch.equal(made.truth.cdf(*asked), other.truth.cdf(*asked))


def test_small_groups_are_left_out_of_both_tables(tmp_path):
    d2, d1 = people(), people(seed=3)
    d2["group"] = ["z" if row < 5 else g for row, g in enumerate(d2["group"])]
    d1["group"] = ["z" if row < 200 else g for row, g in enumerate(d1["group"])]
    paths = [write(tmp_path / f"{name}.csv", t) for name, t in (("d2", d2), ("d1", d1))]
    made = table(paths[0], scaler_path=str(paths[1]), min_group_size=6)
    kept = {name: values[5:] for name, values in d2.items()}
    X, _, truth = by_hand(kept, {name: values[200:] for name, values in d1.items()})
    assert made.group_names == ("a", "b", "c")
    np.testing.assert_allclose(made.members.contexts.numpy(), X, atol=1e-12)
    np.testing.assert_allclose(made.members.expected.numpy(), truth, atol=1e-7)


@both
def test_order_of_group_names(tmp_path, ending):
    orders = {("10", "9", "-1"): ("-1", "9", "10"), ("b", "10", "9"): ("9", "10", "b")}
    for labels, order in [*orders.items(), ((2.0, 10.0, 1.5), ("1.5", "2", "10"))]:
        d2 = people()
        d2["group"] = [labels["abc".index(g)] for g in d2["group"]]
        assert table(write(tmp_path / f"t.{ending}", d2)).group_names == order


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"candidates": 0, "pool": "random"}, "environment.candidates must be at least 1, got 0"),
        ({"group": "race"}, "has no column 'race' of numbers or texts; with sep"),
        ({"columns": {"town": ["north"]}}, "expected one of the codes 'north'; got 'south'"),
        ({"reward": "town"}, "column 'town', row 1: expected a number"),
        ({"pool": "all"}, "Invalid value 'all', expected one of [one_per_group, random]"),
    ],
)
def test_refused_arguments(path, changed, message):
    assert message in refused(path, **changed)


def test_fewer_than_two_groups(path):
    message = refused(path, min_group_size=150)
    assert "1 group(s) of column 'group' have at least environment.min_group_size=150" in message
    assert "and 370 more" in refused(path, group="id", min_group_size=2)


def with_gaps(**more: list[int]) -> dict[str, Any]:
    """The people, of whom some cells are missing."""
    made = people()
    for name, rows in (GAPS | more).items():
        for row in rows:
            made[name][row] = None
    return made


@both
@pytest.mark.parametrize("size", [None, 60])
def test_drop_is_as_if_the_rows_were_not_there(tmp_path, ending, size, caplog):
    more = {"group": [20], "wage": [21, 22]}
    whole = with_gaps(**more)
    lost = {row for rows in (GAPS | more).values() for row in rows}
    rest = {name: [c for i, c in enumerate(v) if i not in lost] for name, v in whole.items()}
    path = write(tmp_path / f"t.{ending}", whole)
    found = table(path, missing="drop", group_size=size)
    plain = table(write(tmp_path / f"r.{ending}", rest), group_size=size)
    assert found.members.contexts.equal(plain.members.contexts) or size
    assert len(found.members.groups) == len(plain.members.groups)
    remark = f"{path}: environment.missing=drop concerns 8 of 400 rows; missing are "
    assert remark + "2 of 'age', 2 of 'job', 2 of 'town', 1 of 'group', 2 of 'wage'" in caplog.text


@both
@pytest.mark.parametrize("other", [False, True])
def test_mean_sets_features_to_their_means(tmp_path, ending, other, caplog):
    path = write(tmp_path / f"t.{ending}", with_gaps())
    d1 = people(seed=1) if other else people()
    scaler = str(write(tmp_path / f"d1.{ending}", d1)) if other else None
    found = table(path, missing="mean", scaler_path=scaler).members.contexts.numpy()
    whole = encoded(d1)
    gaps = np.zeros((len(whole), 7), dtype=bool)
    for name, places in (("age", [0]), ("job", [1, 2, 3]), ("town", [4, 5])):
        gaps[np.ix_(GAPS[name], places)] = True
    seen = np.ones_like(gaps) if other else ~gaps
    for at in range(7):
        expected = standardised(encoded(people())[:, [at]], whole[seen[:, at]][:, [at]])[:, 0]
        expected[gaps[:, at]] = 0
        np.testing.assert_allclose(found[:, at], expected, rtol=1e-12, atol=1e-12)
    remark = f"{path}: environment.missing=mean concerns 5 of 400 rows; missing are 2 of 'age', "
    assert remark + "2 of 'job', 2 of 'town'" in caplog.text


@both
def test_a_missing_cell_is_named(tmp_path, ending):
    whole = {name: [*column[:5], None, *column[6:]] for name, column in people().items()}
    for name in ("age", "job", "town", "group", "wage"):
        path = write(tmp_path / f"{name}.{ending}", {**people(), name: whole[name]})
        problem = f"{path}, column '{name}', row 6: expected a value (1 of 400 rows lack "
        if name == "group":
            for missing in ("error", "mean"):
                found = table(path, missing=missing)
                assert found.labels == ("a", "b", "c", "unknown")
                assert found.members.groups.tolist().index(3) == 5
        elif name == "wage":
            problem += f"'{name}'; only environment.missing=drop can be used"
            for missing in ("error", "mean"):
                assert problem in refused(path, missing=missing)
        else:
            assert problem + "a feature; environment.missing=drop leaves them out" in refused(path)
            assert table(path, missing="mean").members.contexts[5].eq(0).any()


def test_no_cell_is_there(tmp_path):
    path = write(tmp_path / "t.parquet", with_gaps(age=list(range(400))))
    assert "column 'age': no cell is left" in refused(path, missing="mean")
    assert "0 group(s) of column 'group'" in refused(path, missing="drop")


def unequal() -> dict[str, Any]:
    """People whose first group earns more, beside what its age and its job say."""
    made = people(2000)
    lift = 30.0 * (np.array(made["group"]) == "a")
    return made | {"wage": (np.array(made["wage"]) + lift).tolist()}


@pytest.mark.parametrize("columns", [{"age": None}, None])
def test_the_group_is_a_feature_unless_it_is_left_out(tmp_path, columns):
    path = write(tmp_path / "t.csv", unequal())
    made = create("environment", arguments(path, columns=columns))
    without = create("environment", arguments(path, columns=columns, group_feature=False))
    here = made.feature_names.index("group=a")
    assert made.feature_names[here:] == ("group=a", "group=b", "group=c", "bias")
    assert without.feature_names == (*made.feature_names[:here], "bias")
    members = made.members
    assert members.contexts[:, here].gt(0).equal(members.groups == 0)
    columns = [*range(here), -1]
    assert members.contexts[:, columns].equal(without.members.contexts)
    left = members.rewards - members.expected
    means = [left[members.groups == g].mean().item() for g in range(3)]
    assert means == pytest.approx([0, 0, 0], abs=1e-6)
    listed = create("environment", arguments(path, columns={"group": ["a", "b", "c"]}))
    assert listed.feature_names == made.feature_names[here:]
