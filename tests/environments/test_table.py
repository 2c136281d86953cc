from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.environments import population
from fairbandit.environments.table import CANDIDATES, Table
from fairbandit.errors import FairbanditError
from fairbandit.registry import create, describe
from fairbandit.streams import Purpose, Streams
from tests.environments.data import CODED, arguments, encoded, people, standardised, write


def table(path: Path, replicas: int = 2, **changed: Any) -> Any:
    environment = create("environment", arguments(path, **changed))
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


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("other", [False, True])
def test_against_numpy(tmp_path, ending, other, monkeypatch):
    monkeypatch.setattr(population, "_CHUNK", 64)
    d2, d1 = people(), people(count=300, seed=1)
    d1["job"] = [min(job, 2) for job in d1["job"]]  # no one of job 3: constant in D1 alone
    path = write(tmp_path / f"d2.{ending}", d2)
    scaler = write(tmp_path / f"d1.{ending}", d1) if other else None
    made = table(path, scaler_path=str(scaler) if scaler else None)
    X, y, truth = by_hand(d2, d1 if other else d2)
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


def test_constant_column_is_centred(tmp_path, path):
    assert table(path).members.contexts[:, 6].eq(0).all()
    d1 = people()
    d1["flat"] = [0.5] * len(d1["flat"])
    moved = table(path, scaler_path=str(write(tmp_path / "d1.csv", d1)))
    assert moved.members.contexts[:, 6].eq(0.1 - 0.5).all()


@pytest.mark.parametrize("pool", ["one_per_group", "random"])
def test_true_ranks_against_brute_force(path, pool):
    made = table(path, pool=pool)
    d2 = people()
    _, _, truth = by_hand(d2, d2)
    truth, groups = truth.round(6), np.array(d2["group"])  # equal people have equal rewards
    ranks = [np.mean(truth[groups == g] <= v) for v, g in zip(truth, groups, strict=True)]
    np.testing.assert_allclose(made.members.ranks.numpy(), ranks)
    asked = made.oracle.cdf(made.members.groups, made.members.expected + 1e-9)
    np.testing.assert_allclose(asked.numpy(), ranks)


def test_equal_people_have_equal_ranks(tmp_path):
    d2 = people()
    twice = {name: values * 2 for name, values in d2.items()}
    made = table(write(tmp_path / "twice.csv", twice))
    half = len(d2["age"])
    once = table(write(tmp_path / "once.csv", d2))
    assert made.members.ranks[:half].equal(made.members.ranks[half:])
    assert made.members.ranks[:half].equal(once.members.ranks)
    top = [made.members.ranks[made.members.groups == g].max().item() for g in range(3)]
    assert top == [1, 1, 1]


def test_one_per_group_pools(path):
    made = table(path, replicas=3)
    pools = made.pools(1, 500)
    assert made.places == 3
    assert pools.groups.eq(torch.arange(3)).all()
    uniforms = made.streams[Purpose.POOLS].uniform(1, 500, 3)
    for g in range(3):
        own = made.members.contexts[made.members.groups == g]
        rows = (uniforms[:, :, g] * len(own)).long()
        assert pools.contexts[:, :, g].equal(own[rows])
        assert len(rows.unique()) > len(own) * 0.95  # nearly all are drawn in 1500 draws
    assert pools.expected.allclose(pools.contexts @ made.oracle.theta, rtol=0, atol=1e-12)


def test_random_pools_at_natural_proportions(path):
    made = table(path, replicas=4, pool="random")
    assert made.places == CANDIDATES
    pools = made.pools(1, 1000)
    counts = torch.bincount(pools.groups.flatten(), minlength=3).double()
    expected = made.members.sizes.double() / len(made.members.groups) * 40_000
    # chi-square with 2 degrees of freedom: above 18.4 with probability 1e-4
    assert ((counts - expected) ** 2 / expected).sum() < 18.4
    assert table(path, pool="random", candidates=4).pools(1, 2).groups.shape == (2, 2, 4)


def test_each_round_is_a_fresh_draw(path):
    made = table(path, replicas=1)
    repeated = [made.pools(t, 1).expected.flatten().tolist() for t in range(1, 80)]
    assert torch.tensor(repeated).equal(made.pools(1, 79).expected[0].float())
    assert len({tuple(row) for row in repeated}) > 75


@pytest.mark.parametrize("rewards", ["column", "model"])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_rewards(path, rewards, noise):
    made = table(path, pool="random", rewards=rewards, noise=noise)
    pools = made.pools(3, 40)
    rows = (made.streams[Purpose.POOLS].uniform(3, 40, 10) * 400).long()
    base = made.members.rewards[rows] if rewards == "column" else pools.expected
    normal = made.streams[Purpose.REWARDS].normal(3, 40, 10)
    assert pools.rewards.equal(base + noise * normal)


@pytest.mark.parametrize("pool", ["one_per_group", "random"])
def test_group_size(tmp_path, path, caplog, pool):
    caplog.set_level(logging.INFO, "fairbandit")
    made = table(path, pool=pool, group_size=100)
    d2 = people()
    assert "environment.group_size=100 in the groups 'c': 97: all are taken" in caplog.text
    members, everyone = made.members, Counter(d2["group"])
    taken = 100 + sum(min(everyone[g], 100) for g in "bc")
    assert len(members.groups) == (taken if pool == "one_per_group" else 400)
    ordered = made.oracle.cdf(members.groups, members.expected + 1e-9)[members.groups == 0]
    assert (ordered * 100).allclose((ordered * 100).round())  # a CDF of 100 members
    assert made.members.contexts.equal(table(path, pool=pool, group_size=100).members.contexts)
    other = table(path, pool=pool, group_size=100, sample_seed=1)
    assert not torch.equal(
        made.oracle.cdf(torch.zeros(400).long(), torch.linspace(-2, 2, 400).double()),
        other.oracle.cdf(torch.zeros(400).long(), torch.linspace(-2, 2, 400).double()),
    )


def test_group_size_thins_both_tables(tmp_path, path):
    """D1 and D2 are samples of 60 a group; the features tell which rows they hold."""
    d1 = people(count=400, seed=5)
    scaler = write(tmp_path / "d1.csv", d1)
    made = table(path, scaler_path=str(scaler), group_size=60, columns={"age": None})
    ages = np.array(d1["age"], dtype=float)
    assert made.members.sizes.tolist() == [60, 60, 60]
    scale = (made.members.contexts[:, 0].max() - made.members.contexts[:, 0].min()).item()
    spread = (max(people()["age"]) - min(people()["age"])) / scale
    assert spread != pytest.approx(ages.std(), abs=1e-9)
    assert spread == pytest.approx(ages.std(), rel=0.2)


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


@pytest.mark.parametrize(
    ("labels", "order"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["b", "10", "9"], ("9", "10", "b")),
        ([2.0, 10.0, 1.5], ("1.5", "2", "10")),
    ],
)
def test_order_of_group_names(tmp_path, labels, order):
    d2 = people()
    d2["group"] = [labels["abc".index(g)] for g in d2["group"]]
    for ending in ("csv", "parquet"):
        assert table(write(tmp_path / f"t.{ending}", d2)).group_names == order


def test_plain_data_makes_it_again(path):
    made = table(path, pool="random", candidates=4, noise=0.5)
    assert describe(made)["pool"] == "random"
    again = create("environment", describe(made))
    again.bind(Streams(0, range(2)))
    assert again.pools(1, 9).rewards.equal(made.pools(1, 9).rewards)
    assert (made.rounds, made.exploration) == (5000, 1.0)


def test_same_file_as_its_own_scaler(path):
    alone = table(path, group_size=50)
    twice = table(path, group_size=50, scaler_path=str(path.parent / "." / path.name))
    assert alone.members.contexts.equal(twice.members.contexts)


def test_bias_can_be_left_out(path):
    assert table(path, bias=False).features == 7
    assert table(path).members.contexts[:, -1].eq(1).all()


def test_csv_and_parquet_are_one_problem(tmp_path, path):
    other = table(write(tmp_path / "d2.parquet", people()))
    assert other.pools(1, 50).contexts.equal(table(path).pools(1, 50).contexts)
    assert other.members.ranks.equal(table(path).members.ranks)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"candidates": 0, "pool": "random"}, "environment.candidates must be at least 1, got 0"),
        ({"candidates": 3}, "goes with environment.pool=random"),
        (
            {"pool": "random", "candidates": 10**18},
            "environment.candidates must be at most 1,000,000, got",
        ),
        ({"min_group_size": 0}, "environment.min_group_size must be at least 1, got 0"),
        ({"group_size": 0}, "environment.group_size must be at least 1, got 0"),
        ({"noise": -1.0}, "environment.noise must be finite and at least 0, got -1.0"),
        ({"noise": float("nan")}, "environment.noise must be finite"),
        ({"sample_seed": -1}, "environment.sample_seed must be at least 0"),
        ({"group": "race"}, "has no column 'race'; it has 'id', 'group', 'age'"),
        ({"reward": "pay"}, "has no column 'pay'"),
        ({"columns": {"age": None, "sex": [1, 2]}}, "has no column 'sex'"),
        ({"columns": {}}, "environment.columns is empty"),
        ({"columns": {"job": [1, 2]}}, "column 'job', row "),
        ({"columns": {"town": None}}, "column 'town', row 1: expected a number, got the text"),
        ({"reward": "town"}, "column 'town', row 1: expected a number"),
        ({"scaler_path": "none.csv"}, "there is no file none.csv"),
        ({"pool": "all"}, "Invalid value 'all', expected one of [one_per_group, random]"),
    ],
)
def test_refused_arguments(path, changed, message):
    assert message in refused(path, **changed)


def test_fewer_than_two_groups(path):
    sizes = Counter(people()["group"])
    message = refused(path, min_group_size=150)
    assert "1 group(s) of column 'group' have at least environment.min_group_size=150" in message
    listed = ", ".join(f"{name!r}: {size}" for name, size in sizes.most_common())
    assert f"the groups and their sizes are {listed}" in message
    many = refused(path, group="id", min_group_size=2)
    assert "and 370 more" in many


def test_header_and_no_rows(tmp_path):
    path = write(tmp_path / "t.csv", {name: [] for name in people()})
    assert "has a header and no rows" in refused(path)


def test_scaler_without_the_groups(tmp_path, path):
    d1 = people(groups=["x", "y"])
    scaler = str(write(tmp_path / "d1.csv", d1))
    assert "has no member of the groups 'a', 'b', 'c' in column 'group'" in refused(
        path, scaler_path=scaler
    )


def test_missing_file():
    assert "there is no file none.csv" in refused(Path("none.csv"))


def test_errors_name_the_scaler(tmp_path, path):
    d1 = people()
    d1["age"][6] = ""
    scaler = write(tmp_path / "d1.csv", d1)
    assert f"{scaler}, column 'age', row 7" in refused(path, scaler_path=str(scaler))


def test_empty_group_cell(tmp_path):
    d2 = people()
    d2["group"][2] = ""
    assert "column 'group', row 3: the cell is empty" in refused(write(tmp_path / "t.csv", d2))


def test_codes_are_those_of_the_tests():
    assert set(people()["job"]) == {0, *CODED["job"]}


def test_fingerprint_follows_the_data(tmp_path: Path) -> None:
    """Another file with the same people has the same one; one changed cell changes it."""
    rows = ["g,r,x"] + [f"{i % 2},{i * i % 7}.5,{i}" for i in range(40)]
    prints = []
    for name, text in (("a", rows), ("b", rows), ("c", [*rows[:-1], "1,9.5,39"])):
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(text) + "\n")
        prints.append(Table(path=str(path), group="g", reward="r", columns={"x": None}))
    first, same, other = (table.fingerprint() for table in prints)
    assert first == same != other
