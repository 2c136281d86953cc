"""The paper's experiments on US census data: income by gender and by ethnicity (App. D.2, E.1)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fairbandit.environments.acs import SAMPLE, person_table, record_files
from fairbandit.environments.table import CANDIDATES, PoolKind, RewardSource, Table
from fairbandit.files.files import data_hash
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
"""The `columns` of 39 features similar to the data set "Adult"; a bias makes d = 40."""

GROUPS = {
    "SEX": ("male", "female"),
    "RAC1P": (
        *("white", "black", "american_indian", "alaska_native", "native_unspecified"),
        *("asian", "pacific_islander", "other", "two_or_more"),
    ),
}
"""The names of the codes from 1 of both group columns."""

GROUP_SIZE, SAMPLE_GROUP_SIZE = 5000, 800
"""The `min_group_size` of ethnicities in the paper, and in the sample, where seven are left."""


def _surveys(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the arguments of `record_files` for D2, then for D1, from `CensusGender`'s."""
    root, year, states = given["root"], given["year"], given["states"]
    first = {"year": given["scaler_year"] or year, "states": given["scaler_states"] or states}
    return [{"root": root, "year": year, "states": states}, {"root": root, **first}]


class _Census(Table):
    def __init__(self, group: str, given: Mapping[str, Any], **table: Any) -> None:
        surveys = "root", "states", "year", "scaler_year", "scaler_states", "download", "cache"
        vars(self).update({name: given[name] for name in surveys})
        table = {name: given[name] for name in ("group_size", "sample_seed")} | table
        fetched = {"download": given["download"], "cache": given["cache"]}
        paths = [str(person_table(**survey, **fetched)) for survey in _surveys(given)]
        table |= dict(zip(("path", "scaler_path"), paths, strict=True))
        super().__init__(group=group, reward="PINCP", columns=CENSUS_COLUMNS, **table)
        names = {str(code): name for code, name in enumerate(GROUPS[group], 1)}
        self.group_names = tuple(names.get(code, code) for code in self.group_names)

    @classmethod
    def fingerprint(cls, parameters: Mapping[str, Any]) -> str | None:
        surveys = [record_files(**survey).values() for survey in _surveys(parameters)]
        return data_hash(file for files in surveys for file in files)


@register("environment", "census_gender")
class CensusGender(_Census):
    """Income in the US census, one man and one woman a round (paper, App. D.2).

    A `Table` of the working adults of a survey year, with another year as D1: the group is SEX,
    the features `CENSUS_COLUMNS` and a bias, the noisy reward the standardised income PINCP.

    Args:
        root: a folder in folktables' layout, {root}/{year}/1-Year/psam_p{FIPS}.csv; or `sample`,
            records of six small states inside the package, with Alabama as D1.
        states: postal codes of the states; null for the 50 states and PR.
        year: the survey of D2, 2017 or 2018.
        scaler_year: the survey of D1; null for `year`.
        scaler_states: the states of D1; null for `states`.
        min_group_size: a gender with fewer members in D2 is left out.
        group_size: the most members of a gender, drawn without replacement, in D1 and in D2.
        sample_seed: seed of that draw.
        download: fetches files that are missing from the Census Bureau.
        cache: folder for the filtered records; null for the user's cache folder.

    Raises:
        FairbanditError: see `Table` and `person_table`.

    Reference:
        Grazzi et al., "Group Meritocratic Fairness in Linear Contextual Bandits", NeurIPS 2022.
    """

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
        super().__init__("SEX", locals(), min_group_size=min_group_size)


@register("environment", "census_ethnicity")
class CensusEthnicity(_Census):
    """Income in the US census, candidates of all ethnicities at random (paper, App. E.1).

    A `Table` of the working adults of a survey year, with another year as D1: the group is RAC1P,
    the features `CENSUS_COLUMNS` and a bias, the noisy reward the true reward plus noise·ξ.

    Args, beside those of `CensusGender`:
        candidates: K.
        noise: standard deviation of the reward noise, at least 0.
        min_group_size: groups with fewer members in D2 are left out of D2 and D1; null for 5,000,
            or 800 with root=sample.
        group_size: the most members of a group that make its true CDF; null for all.
        sample_seed: seed of the choice of those members.

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
        min_group_size: int | None = None,
        group_size: int | None = None,
        sample_seed: int = 0,
        download: bool = False,
        cache: str | None = None,
    ) -> None:
        if min_group_size is None:
            min_group_size = SAMPLE_GROUP_SIZE if root == SAMPLE else GROUP_SIZE
        super().__init__(
            "RAC1P",
            locals(),
            pool=PoolKind.random,
            rewards=RewardSource.model,
            candidates=candidates,
            noise=noise,
            min_group_size=min_group_size,
        )
