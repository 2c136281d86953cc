"""The paper's experiments on US census data: income by gender and by ethnicity (App. D.2, E.1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairbandit.environments.acs import person_table, record_files
from fairbandit.environments.table import CANDIDATES, PoolKind, RewardSource, Table, check_settings
from fairbandit.registry import register

CENSUS_COLUMNS: Mapping[str, Any] = MappingProxyType(
    {
        "AGEP": None,  # age
        "COW": None,  # class of worker
        "SCHL": None,  # schooling
        "MAR": list(range(1, 6)),  # marital status
        "OCCP": None,  # occupation
        "POBP": None,  # place of birth
        "RELP": {"codes": list(range(1, 18)), "reference": [0]},  # relation to the householder
        "WKHP": None,  # hours worked a week
        "SEX": [1, 2],
        "RAC1P": list(range(1, 10)),
    }
)
"""The 39 features like those of "Adult", as `Table` takes them; a bias makes d = 40."""

GENDERS = {"1": "male", "2": "female"}
"""Names of the codes of SEX."""

ETHNICITIES = {
    "1": "white",
    "2": "black",
    "3": "american_indian",
    "4": "alaska_native",
    "5": "native_unspecified",
    "6": "asian",
    "7": "pacific_islander",
    "8": "other",
    "9": "two_or_more",
}
"""Names of the codes of RAC1P."""

_SURVEYS = {"root", "year", "states", "scaler_year", "scaler_states"}


@register("environment", "census_gender")
class CensusGender(Table):
    """Income in the US census, one man and one woman a round (paper, App. D.2).

    A `Table` of the working adults of a survey year, with another year as D1: the group is SEX,
    the features `CENSUS_COLUMNS` and a bias, the noisy reward the standardised income PINCP.

    Args:
        root: a folder in folktables' layout, {root}/{year}/1-Year/psam_p{FIPS}.csv.
        states: postal codes of the states; null for the 50 states and PR.
        year: the survey of D2, 2014 to 2018.
        scaler_year: the survey of D1; null for `year`.
        scaler_states: the states of D1; null for `states`.
        min_group_size: a gender with fewer members in D2 is left out.
        group_size: at most so many of a gender, drawn without replacement, in D1 and in D2.
        sample_seed: seed of that draw.
        download: fetches files that are missing from the Census Bureau.
        cache: folder for the filtered records; null for the user's cache folder.

    Raises:
        FairbanditError: see `Table` and `person_table`.

    Reference:
        Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022.
    """

    rounds = 5000
    exploration = 0.1

    def __init__(
        self,
        *,
        root: str = "data",
        states: list[str] | None = None,
        year: int = 2018,
        scaler_year: int | None = 2017,
        scaler_states: list[str] | None = None,
        min_group_size: int = 1,
        group_size: int | None = 500_000,
        sample_seed: int = 0,
        download: bool = False,
        cache: str | None = None,
    ) -> None:
        check_settings(
            min_group_size=min_group_size, group_size=group_size, sample_seed=sample_seed
        )
        self.root, self.states, self.year = root, states, year
        self.scaler_year, self.scaler_states = scaler_year, scaler_states
        self.download, self.cache = download, cache
        path, scaler_path = _tables(self)
        super().__init__(
            path=path,
            scaler_path=scaler_path,
            group="SEX",
            reward="PINCP",
            columns=CENSUS_COLUMNS,
            pool=PoolKind.one_per_group,
            rewards=RewardSource.column,
            min_group_size=min_group_size,
            group_size=group_size,
            sample_seed=sample_seed,
        )
        self.group_names = tuple(GENDERS.get(code, code) for code in self.group_names)

    @classmethod
    def data_files(cls, parameters: Mapping[str, Any]) -> list[Path]:
        """The person records of D2 and of D1."""
        if not parameters.keys() >= _SURVEYS:  # a subclass of another constructor
            return super().data_files(parameters)
        return _records(parameters)


@register("environment", "census_ethnicity")
class CensusEthnicity(Table):
    """Income in the US census, candidates of all ethnicities at random (paper, App. E.1).

    A `Table` of the working adults of a survey year, with another year as D1: the group is RAC1P,
    the features `CENSUS_COLUMNS` and a bias, the noisy reward the true reward plus noise·ξ.

    Args:
        root: a folder in folktables' layout, {root}/{year}/1-Year/psam_p{FIPS}.csv.
        states: postal codes of the states; null for the 50 states and PR.
        year: the survey of D2, 2014 to 2018.
        scaler_year: the survey of D1; null for `year`.
        scaler_states: the states of D1; null for `states`.
        candidates: K.
        noise: standard deviation of the reward noise, at least 0.
        min_group_size: groups with fewer members in D2 are left out, of D1 too.
        group_size: at most so many members of a group make its true CDF; null for all.
        sample_seed: seed of the choice of those members.
        download: fetches files that are missing from the Census Bureau.
        cache: folder for the filtered records; null for the user's cache folder.

    Raises:
        FairbanditError: see `Table` and `person_table`.

    Reference:
        Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022.
    """

    rounds = 2500
    exploration = 0.01

    def __init__(
        self,
        *,
        root: str = "data",
        states: list[str] | None = None,
        year: int = 2018,
        scaler_year: int | None = 2017,
        scaler_states: list[str] | None = None,
        candidates: int = CANDIDATES,
        noise: float = 0.2,
        min_group_size: int = 5000,
        group_size: int | None = None,
        sample_seed: int = 0,
        download: bool = False,
        cache: str | None = None,
    ) -> None:
        check_settings(
            candidates=candidates,
            noise=noise,
            min_group_size=min_group_size,
            group_size=group_size,
            sample_seed=sample_seed,
        )
        self.root, self.states, self.year = root, states, year
        self.scaler_year, self.scaler_states = scaler_year, scaler_states
        self.download, self.cache = download, cache
        path, scaler_path = _tables(self)
        super().__init__(
            path=path,
            scaler_path=scaler_path,
            group="RAC1P",
            reward="PINCP",
            columns=CENSUS_COLUMNS,
            pool=PoolKind.random,
            candidates=candidates,
            rewards=RewardSource.model,
            noise=noise,
            min_group_size=min_group_size,
            group_size=group_size,
            sample_seed=sample_seed,
        )
        self.group_names = tuple(ETHNICITIES.get(code, code) for code in self.group_names)

    @classmethod
    def data_files(cls, parameters: Mapping[str, Any]) -> list[Path]:
        """The person records of D2 and of D1."""
        if not parameters.keys() >= _SURVEYS:  # a subclass of another constructor
            return super().data_files(parameters)
        return _records(parameters)


def _surveys(parameters: Mapping[str, Any]) -> list[tuple[int, list[str] | None]]:
    """Year and states of D2 and of D1."""
    year, states = parameters["year"], parameters["states"]
    scaler_year, scaler_states = parameters["scaler_year"], parameters["scaler_states"]
    return [
        (year, states),
        (
            year if scaler_year is None else scaler_year,
            states if scaler_states is None else scaler_states,
        ),
    ]


def _records(parameters: Mapping[str, Any]) -> list[Path]:
    """The files of both surveys, each once."""
    root = parameters["root"]
    surveys = _surveys(parameters)
    paths = (record_files(root=root, year=year, states=states) for year, states in surveys)
    return list(dict.fromkeys(path for files in paths for path in files))


def _tables(census: CensusGender | CensusEthnicity) -> tuple[str, str]:
    """The filtered tables of D2 and D1; one and the same where year and states are."""
    paths = [
        person_table(
            root=census.root,
            year=year,
            states=states,
            download=census.download,
            cache=census.cache,
        )
        for year, states in _surveys(vars(census))
    ]
    return str(paths[0]), str(paths[1])
