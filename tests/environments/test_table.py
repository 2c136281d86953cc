from __future__ import annotations

import logging
import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.environments import population
from fairbandit.environments.table import CANDIDATES, PoolKind, Table
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
    """A rank is a quotient of two whole numbers, rounded once."""
    made = table(path, pool=pool)
    d2 = people()
    _, _, truth = by_hand(d2, d2)
    truth, groups = truth.round(6), np.array(d2["group"])  # equal people have equal rewards
    ranks = [np.mean(truth[groups == g] <= v) for v, g in zip(truth, groups, strict=True)]
    np.testing.assert_allclose(made.members.ranks.numpy(), ranks, rtol=1e-15)
    asked = made.truth.cdf(made.members.groups, made.members.expected + 1e-9)
    np.testing.assert_allclose(asked.numpy(), ranks, rtol=1e-15)


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
    assert pools.expected.allclose(pools.contexts @ made.truth.theta, rtol=0, atol=1e-12)


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
    ordered = made.truth.cdf(members.groups, members.expected + 1e-9)[members.groups == 0]
    assert (ordered * 100).allclose((ordered * 100).round())  # a CDF of 100 members
    assert made.members.contexts.equal(table(path, pool=pool, group_size=100).members.contexts)
    other = table(path, pool=pool, group_size=100, sample_seed=1)
    assert not torch.equal(
        made.truth.cdf(torch.zeros(400).long(), torch.linspace(-2, 2, 400).double()),
        other.truth.cdf(torch.zeros(400).long(), torch.linspace(-2, 2, 400).double()),
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
        ({"columns": {"job": [1, 2]}}, "column 'job', line "),
        ({"columns": {"town": None}}, "column 'town', line 2: expected a number, got the text"),
        ({"reward": "town"}, "column 'town', line 2: expected a number"),
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
    assert f"{scaler}, column 'age', line 8: " in refused(path, scaler_path=str(scaler))


def test_empty_group_cell(tmp_path):
    d2 = people()
    d2["group"][2] = ""
    assert "column 'group', line 4: the cell is empty" in refused(write(tmp_path / "t.csv", d2))


def numeric(tmp_path: Path, ending: str = "csv", **columns: Any) -> Path:
    """A table of two groups with the given columns."""
    count = len(next(iter(columns.values())))
    return write(
        tmp_path / f"n.{ending}", {"g": ["ab"[row % 2] for row in range(count)], **columns}
    )


def standard(values: Any) -> Any:
    """(x − mean)/deviation in exact arithmetic but for the last root and division."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction()) / len(exact)
    variance = sum(((value - mean) ** 2 for value in exact), Fraction()) / len(exact)
    scale = Decimal(variance.numerator) / Decimal(variance.denominator)
    centred = [Decimal((v - mean).numerator) / Decimal((v - mean).denominator) for v in exact]
    return [float(value / scale.sqrt()) for value in centred]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("unit", [1e-280, 1e-170, 1e-160, 1.0, 1e80, 1e99])
def test_any_unit_is_standardised_alike(tmp_path, ending, unit):
    draw = np.random.default_rng(0)
    x, r = (draw.normal(size=60) * unit for _ in range(2))
    path = numeric(tmp_path, ending, x=x.tolist(), r=r.tolist())
    members = Table(path=str(path), group="g", reward="r", columns={"x": None}).members
    np.testing.assert_allclose(members.contexts[:, 0], standard(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(members.rewards, standard(r), rtol=1e-12, atol=1e-13)
    plain = Table(
        path=str(numeric(tmp_path, ending, x=(x / unit).tolist(), r=(r / unit).tolist())),
        group="g",
        reward="r",
        columns={"x": None},
    )
    np.testing.assert_allclose(members.expected, plain.members.expected, atol=1e-9)
    assert members.ranks.equal(plain.members.ranks)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["x", "r"])
@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ({3: 1e308}, "of at most 1e+100, got 1e+308"),
        ({0: 1e200, 1: 2e200}, "of at most 1e+100, got 1e+200"),
    ],
)
def test_cells_beyond_the_range(tmp_path, ending, name, cells, problem):
    values: dict[str, Any] = {"x": [float(row) for row in range(8)], "r": [1.0, 2.0] * 4}
    for row, cell in cells.items():
        values[name][row] = cell
    path = numeric(tmp_path, ending, **values)
    row = min(cells)
    where = f"line {row + 2}" if ending == "csv" else f"row {row + 1}"
    with pytest.raises(FairbanditError, match=re.escape(f"column '{name}', {where}: ")) as caught:
        Table(path=str(path), group="g", reward="r", columns={"x": None})
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["x", "r"])
def test_column_that_float64_cannot_resolve(tmp_path, name):
    """A few units in the last place apart, values say little more than how they were rounded."""
    values: dict[str, Any] = {"x": [float(row) for row in range(8)], "r": [1.0, 2.0] * 4}
    values[name] = [1e30 + 2e14 * row for row in range(8)]
    path = numeric(tmp_path, **values)
    with pytest.raises(FairbanditError, match=rf"column '{name}': the values lie between 1e\+30 "):
        Table(path=str(path), group="g", reward="r", columns={"x": None})
    values[name] = [1e7 + row for row in range(8)]  # as far from zero as is well
    path = numeric(tmp_path, **values)
    members = Table(path=str(path), group="g", reward="r", columns={"x": None}).members
    got = members.contexts[:, 0] if name == "x" else members.rewards
    np.testing.assert_allclose(got, standard(values[name]), rtol=1e-7, atol=1e-7)


def test_column_of_vanishing_values(tmp_path):
    path = numeric(tmp_path, x=[1e-300 * row for row in range(8)], r=[1.0, 2.0] * 4)
    with pytest.raises(FairbanditError, match=r"column 'x': .*must be at least .* and 1e-290"):
        Table(path=str(path), group="g", reward="r", columns={"x": None})


@pytest.mark.parametrize("rewards", [[5.0] * 8, [1e30 + row for row in range(8)]])
def test_rewards_that_are_all_one(tmp_path, rewards):
    path = numeric(tmp_path, x=[float(row) for row in range(8)], r=rewards)
    with pytest.raises(FairbanditError, match=r"column 'r': all rewards of the groups in use are"):
        Table(path=str(path), group="g", reward="r", columns={"x": None})


@pytest.mark.parametrize("name", ["x", "r"])
def test_member_that_the_scaler_throws_far_off(tmp_path, name):
    values: dict[str, Any] = {"x": [float(row) for row in range(8)], "r": [1.0, 2.0] * 4}
    d1 = numeric(tmp_path, **values).rename(tmp_path / "d1.csv")
    values[name][5] = 1e30
    d2 = numeric(tmp_path, **values)
    expected = re.escape(f"column '{name}', line 7: standardised with environment.scaler_path")
    with pytest.raises(FairbanditError, match=expected):
        Table(path=str(d2), scaler_path=str(d1), group="g", reward="r", columns={"x": None})


def test_truth_values_are_one_problem(tmp_path):
    flags = [row % 3 == 0 for row in range(12)]
    rewards = [float(row * row % 7) for row in range(12)]
    made = [
        Table(path=str(path), group="f", reward="r", columns={"f": None, "h": ["true", "false"]})
        for path in (
            numeric(tmp_path, "csv", f=flags, h=flags, r=rewards),
            numeric(tmp_path, "parquet", f=flags, h=flags, r=rewards),
        )
    ]
    assert made[0].group_names == made[1].group_names == ("false", "true")
    assert made[0].members.contexts.equal(made[1].members.contexts)
    assert made[0].members.contexts[:, 1].gt(0).tolist() == flags


def test_code_that_spells_a_missing_value(tmp_path):
    """A code book says what is meant; a label of a group is taken for what it usually means."""
    codes = ["NA", "DE"] * 4
    path = numeric(tmp_path, x=codes, r=[1.0, 2.0, 3.0, 4.0] * 2)
    made = Table(path=str(path), group="g", reward="r", columns={"x": ["NA", "DE"]})
    assert made.members.contexts[:, 0].gt(0).tolist() == [True, False] * 4
    with pytest.raises(FairbanditError, match=r"column 'x', line 2: 'NA' stands for a missing"):
        Table(path=str(path), group="g", reward="r", columns={"x": ["DE"]})
    with pytest.raises(FairbanditError, match=r"column 'x', line 2: 'NA' stands for a missing"):
        Table(path=str(path), group="x", reward="r", columns={"x": ["DE"]})


def test_many_groups(tmp_path):
    """Ranks and samples of thousands of groups, against a literal loop."""
    draw = np.random.default_rng(0)
    groups = draw.integers(0, 2000, 8000)
    values = {"x": draw.normal(size=8000).tolist(), "r": draw.normal(size=8000).tolist()}
    path = write(tmp_path / "t.csv", {"g": groups.tolist(), **values})
    made = Table(
        path=str(path),
        group="g",
        reward="r",
        columns={"x": None},
        pool=PoolKind.random,
        group_size=3,
    )
    members = made.members
    truth, codes = members.expected.numpy(), members.groups.numpy()
    for row in range(0, 8000, 173):
        sample = made._cdf.sample(int(codes[row])).numpy()
        assert len(sample) == min(3, (codes == codes[row]).sum())
        assert set(sample.tolist()) <= set(truth[codes == codes[row]].tolist())
        share = np.mean(sample <= truth[row] + 1e-12)
        assert members.ranks[row].item() == pytest.approx(share, abs=1e-6)


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
