from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from fairbandit.environments import Environment
from fairbandit.environments.acs import COLUMNS, person_table
from fairbandit.environments.census import CENSUS_COLUMNS
from fairbandit.environments.encoding import Encoding
from fairbandit.errors import FairbanditError
from fairbandit.registry import create, describe
from fairbandit.streams import Streams
from tests.environments.data import (
    RECORDS,
    TRIAL_STATES,
    census_file,
    census_root,
    census_rows,
    needs_records,
)


@pytest.fixture
def root(tmp_path):
    return census_root(tmp_path)


def census(name: str, tmp_path: Path, replicas: int = 2, **changed: Any) -> Any:
    given: dict[str, Any] = {
        "root": str(tmp_path / "root"),
        "states": ["DE", "WY"],
        "scaler_states": ["DE"],
    }
    given = {"name": name, **given, "cache": str(tmp_path / "cache"), **changed}
    environment = create("environment", given)
    environment.bind(Streams(0, range(replicas)))
    return environment


def real(name: str, tmp_path: Path, **changed: Any) -> Any:
    given = {"root": str(RECORDS), "states": TRIAL_STATES, "scaler_states": ["AL"]}
    return census(name, tmp_path, **{**given, **changed})


def same_pools(one: Environment, other: Environment) -> bool:
    first, second = one.pools(5, 200), other.pools(5, 200)
    names = ("contexts", "groups", "rewards", "expected", "ranks")
    return all(getattr(first, name).equal(getattr(second, name)) for name in names)


def by_hand(d2: str, d1: str) -> Any:
    """The 40 features and the reward of `person_table` files, with numpy alone."""
    blocks = []
    for path in (d2, d1):
        table = {name: pq.read_table(path)[name].to_numpy() for name in COLUMNS}
        columns = [table[name] for name in ("AGEP", "COW", "SCHL")]
        columns += [table["MAR"] == code for code in range(1, 6)]
        columns += [table["OCCP"], table["POBP"]]
        columns += [table["RELP"] == code for code in range(1, 18)]
        columns += [table["WKHP"]]
        columns += [table["SEX"] == code for code in (1, 2)]
        columns += [table["RAC1P"] == code for code in range(1, 10)]
        blocks.append(np.column_stack([*columns, table["PINCP"]]).astype(float))
    rows, scaler = blocks
    constant = (scaler == scaler[0]).all(axis=0)
    rows = (rows - scaler.mean(axis=0)) / np.where(constant, 1, scaler.std(axis=0))
    return np.column_stack([rows[:, :-1], np.ones(len(rows))]), rows[:, -1]


def test_forty_features():
    names = Encoding(CENSUS_COLUMNS, bias=True).names
    assert len(names) == 40
    assert names[:4] == ["AGEP", "COW", "SCHL", "MAR=1"]
    assert names[8:11] == ["OCCP", "POBP", "RELP=1"]
    assert names[26:] == [
        *("RELP=17", "WKHP", "SEX=1", "SEX=2"),
        *(f"RAC1P={code}" for code in range(1, 10)),
        "bias",
    ]


@pytest.mark.usefixtures("root")
def test_gender_is_a_table(tmp_path):
    made = census("census_gender", tmp_path, group_size=80)
    spec = {"name": "table", "path": made.path, "scaler_path": made.scaler_path}
    spec |= {"group": "SEX", "reward": "PINCP", "columns": dict(CENSUS_COLUMNS)}
    other = create("environment", {**spec, "group_size": 80})
    other.bind(Streams(0, range(2)))
    assert same_pools(made, other)
    assert made.group_names == ("male", "female")
    assert other.group_names == ("1", "2")
    assert (made.features, made.places, made.rounds, made.exploration) == (40, 2, 5000, 0.1)
    assert made.members.sizes.tolist() == [80, 80]


@pytest.mark.usefixtures("root")
def test_ethnicity_is_a_table(tmp_path):
    made = census("census_ethnicity", tmp_path, min_group_size=30)
    spec = {"name": "table", "path": made.path, "scaler_path": made.scaler_path}
    spec |= {"group": "RAC1P", "reward": "PINCP", "columns": dict(CENSUS_COLUMNS)}
    spec |= {"pool": "random", "rewards": "model", "noise": 0.2, "min_group_size": 30}
    other = create("environment", spec)
    other.bind(Streams(0, range(2)))
    assert same_pools(made, other)
    assert made.group_names == ("white", "black", "asian")
    assert (made.features, made.places, made.rounds, made.exploration) == (40, 10, 2500, 0.01)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("scaler_year", [2017, None])
def test_against_numpy(tmp_path, scaler_year):
    made = census("census_gender", tmp_path, scaler_year=scaler_year)
    X, y = by_hand(made.path, made.scaler_path)
    np.testing.assert_allclose(made.members.contexts.numpy(), X, atol=1e-12)
    np.testing.assert_allclose(made.members.rewards.numpy(), y, atol=1e-12)
    truth = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(made.members.expected.numpy(), truth, atol=1e-7)


@pytest.mark.usefixtures("root")
def test_same_year_and_states_are_one_table(tmp_path):
    made = census("census_gender", tmp_path, scaler_year=2018, scaler_states=None)
    assert made.path == made.scaler_path
    assert made.members.contexts[:, :-1].mean(dim=0).abs().max() < 1e-12


@pytest.mark.usefixtures("root")
def test_plain_data_makes_it_again(tmp_path):
    made = census("census_ethnicity", tmp_path, min_group_size=30, candidates=3)
    plain = describe(made)
    assert plain["states"] == ["DE", "WY"]
    assert "columns" not in plain
    again = create("environment", plain)
    again.bind(Streams(0, range(2)))
    assert same_pools(made, again)


@pytest.mark.parametrize("name", ["census_gender", "census_ethnicity"])
@pytest.mark.parametrize("key", ["min_group_size", "group_size"])
def test_values_are_checked_before_files_are_read(tmp_path, name, key):
    with pytest.raises(FairbanditError, match=f"{key} must be at least 1"):
        census(name, tmp_path, **{key: 0})
    assert not (tmp_path / "cache").exists()


def test_code_outside_the_code_book(tmp_path, root):
    rows = census_rows(50, seed=1)
    row = next(index for index, row in enumerate(rows) if row["WKHP"])
    rows[row]["MAR"] = 6
    census_file(root, 2018, "WY", rows)
    with pytest.raises(FairbanditError, match=r"'MAR', row \d+: .*codes 1, 2, 3, 4, 5; got 6\.0"):
        census("census_gender", tmp_path)


@pytest.mark.usefixtures("root")
def test_too_few_groups(tmp_path):
    with pytest.raises(
        FairbanditError, match=r"min_group_size=5000 members, .* sizes are '1': \d+"
    ):
        census("census_ethnicity", tmp_path)


@pytest.mark.usefixtures("root")
def test_missing_scaler_records(tmp_path):
    with pytest.raises(FairbanditError, match=r"2017.*psam_p56\.csv.*environment\.download=true"):
        census("census_gender", tmp_path, scaler_states=None)


@needs_records
def test_real_gender(tmp_path):
    made = real("census_gender", tmp_path)
    assert made.members.sizes.sum() == 32_885
    X, y = by_hand(made.path, made.scaler_path)
    np.testing.assert_allclose(made.members.contexts.numpy(), X, rtol=1e-10, atol=1e-10)
    assert np.linalg.matrix_rank(X) == 37
    truth = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(made.members.expected.numpy(), truth, rtol=1e-8, atol=1e-8)
    groups = made.members.groups
    for group in range(2):  # the top rank is 1 and the mean of ranks of an ECDF is about 1/2
        ranks = made.members.ranks[groups == group]
        assert ranks.max() == 1
        assert ranks.mean() == pytest.approx(0.5, abs=1e-3)
    pools = made.pools(1, 500)
    assert pools.ranks.equal(made.truth.cdf(pools.groups, pools.expected + 1e-9))


@needs_records
@pytest.mark.parametrize(("least", "groups"), [(800, 7), (1000, 5)])
def test_real_ethnicity(tmp_path, least, groups):
    made = real("census_ethnicity", tmp_path, min_group_size=least)
    assert len(made.group_names) == groups
    assert made.group_names[:3] == ("white", "black", "american_indian")
    counts = torch.bincount(made.pools(1, 2500).groups.flatten(), minlength=groups).double()
    expected = made.members.sizes.double() / made.members.sizes.sum() * counts.sum()
    # chi-square with at most 6 degrees of freedom: above 27.9 with probability 1e-4
    assert ((counts - expected) ** 2 / expected).sum() < 27.9


@needs_records
def test_real_records_have_the_code_book(tmp_path):
    path = person_table(root=RECORDS, year=2017, states=["AL"], cache=tmp_path)
    rare = pq.read_table(path)["RELP"].to_numpy()
    assert 14 not in rare
    made = real("census_gender", tmp_path)
    column = made.feature_names.index("RELP=14")
    assert set(made.members.contexts[:, column].unique().tolist()) == {0.0, 1.0}
