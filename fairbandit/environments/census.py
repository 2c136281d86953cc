"""The paper's experiments on US census data: income by gender and by ethnicity (App. D.2, E.1).

Folders and files have the names that folktables gives them, and folktables downloads them. Its
loader is not used: it holds all of some 286 columns in memory, and hides a failed download.
"""

from __future__ import annotations

import json
import logging
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.environments.table import CANDIDATES, PoolKind, RewardSource, Table
from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash, hash_of
from fairbandit.notices import listed
from fairbandit.registry import register
from fairbandit.tables import cells
from fairbandit.tables.reading import read_table

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

GROUP_SIZE, SAMPLE_GROUP_SIZE = 5000, 800  # of ethnicities in the paper, and in the sample
YEARS = (2017, 2018)  # whose files are named as here and have RELP, which became RELSHIPP in 2019
COLUMNS = (*CENSUS_COLUMNS, "PINCP")
_READ = (*COLUMNS, "PWGTP")  # the filter reads a person's weight

STATES = (
    *("AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA"),
    *("KS", "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ"),
    *("NM", "NY", "NC", "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT"),
    *("VA", "WA", "WV", "WI", "WY", "PR"),
)
"""The postal codes of the states and Puerto Rico."""

FIPS = dict(zip(STATES, (*sorted({*range(1, 57)} - {3, 7, 11, 14, 43, 52}), 72), strict=True))
"""The FIPS code of each state, which is part of the name of its file."""

SAMPLE = "sample"  # the value of `root` that selects the records inside the package

_SITE = "https://www2.census.gov/programs-surveys/acs/data/pums"
_DAMAGE = (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)  # of a download
_log = logging.getLogger("fairbandit")


def person_table(
    *,
    root: str | Path,
    year: int,
    states: Sequence[str] | None = None,
    download: bool = False,
    cache: str | Path | None = None,
) -> Path:
    """Returns the path of a Parquet table of working adults, which is made once and then cached.

    The filter is AGEP > 16, PINCP > 100, WKHP > 0, PWGTP ≥ 1, as for "Adult" (Ding et al.,
    "Retiring Adult: New Datasets for Fair Machine Learning", NeurIPS 2021). The name of the table
    has a hash of the survey, and of the names, sizes and times of the files. See `CensusGender` for
    the arguments.
    """
    paths = record_files(root=root, year=year, states=states)
    if root == SAMPLE:
        return next(iter(paths.values()))
    lacking = [state for state, path in paths.items() if not path.is_file()]
    if lacking and not download:
        raise FairbanditError(
            f"census records are missing: {listed([str(paths[state]) for state in lacking], 5)}. "
            "Download them with environment.download=true, or unpack csv_p{state}.zip of "
            f"{_SITE}/{year}/1-Year/ there, or set environment.root to a folder in folktables' "
            "layout that holds them; environment.root=sample plays a sample without a network"
        )
    for state in lacking:
        _download(paths[state], year, state)
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths.values()]
    key = hash_of([json.dumps([year, list(paths), stats])])[:20]
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fairbandit")
    target = Path(cache or default) / f"acs-{year}-{key}.parquet"
    if not target.is_file():
        table = pa.concat_tables(map(_filtered, paths.values()))
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=".part-") as folder:  # of this process
            path = Path(folder, target.name)
            pq.write_table(table, path, compression="zstd", write_page_checksum=True)
            path.replace(target)
        _log.info("wrote %d filtered census records to %s", len(table), target)
    return target


def record_files(
    *, root: str | Path, year: int, states: Sequence[str] | None = None
) -> dict[str, Path]:
    """Returns the path of each state's records, which may be missing; see `person_table`."""
    if year not in YEARS:
        raise FairbanditError(f"the census year must be one of {[*YEARS]}, got {year}")
    if root == SAMPLE and states is None:
        return {SAMPLE: Path(__file__).parent / SAMPLE / f"{year}.parquet"}
    chosen = STATES if states is None else states
    if root == SAMPLE or not chosen or not {*chosen} <= {*STATES}:
        raise FairbanditError(
            "the census states must be null, for all of them (the only choice with "
            f"environment.root=sample), or some of {', '.join(STATES)}; got {chosen}"
        )
    folder = Path(root, str(year), "1-Year")
    return {state: folder / f"psam_p{FIPS[state]:02}.csv" for state in STATES if state in chosen}


def _download(path: Path, year: int, state: str) -> None:
    # imported here, since it takes half a second; the package's own `load_acs` is a function
    folktables = import_module("folktables.load_acs")
    _log.info("downloading the %d census records of %s", year, state)
    name = f"csv_p{state.lower()}.zip"
    url = f"{_SITE}/{year}/1-Year/{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=".part-") as folder:
        try:
            folktables.download_and_extract(url, folder, name, path.name)
            cells.need(read_table(Path(folder, path.name), columns=_READ), _READ)
        except (FairbanditError, *_DAMAGE) as error:
            raise FairbanditError(
                f"the download of {url} failed; fetch it by other means and unpack it into "
                f"{path.parent}. The reason: {error or type(error).__name__}"
            ) from error
        Path(folder, path.name).replace(path)


def _filtered(path: Path) -> pa.Table:
    records = read_table(path, columns=_READ)
    cells.need(records, _READ)
    values = {name: cells.numbers(records, name) for name in _READ}
    # a comparison with a missing cell is false
    keep = (values["AGEP"] > 16) & (values["PINCP"] > 100)
    keep &= (values["WKHP"] > 0) & (values["PWGTP"] >= 1)
    return pa.table({name: values[name][keep] for name in COLUMNS})


def _surveys(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the arguments of `record_files` for D2, then for D1, from `CensusGender`'s."""
    root, year, states = spec["root"], spec["year"], spec["states"]
    first = {"year": spec["scaler_year"] or year, "states": spec["scaler_states"] or states}
    return [{"root": root, "year": year, "states": states}, {"root": root, **first}]


class _Census(Table):
    def __init__(self, group: str, spec: Mapping[str, Any], **table: Any) -> None:
        surveys = "root", "states", "year", "scaler_year", "scaler_states", "download", "cache"
        vars(self).update({name: spec[name] for name in surveys})
        table_keys = "group_size", "sample_seed", "min_group_size", "candidates", "noise"
        table |= {name: spec[name] for name in table_keys if name in spec}
        fetched = {"download": spec["download"], "cache": spec["cache"]}
        paths = [str(person_table(**survey, **fetched)) for survey in _surveys(spec)]
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
        FairbanditError: the errors of `Table`, or the survey is unknown, missing or damaged.
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
        super().__init__("SEX", locals())


@register("environment", "census_ethnicity")
class CensusEthnicity(_Census):
    """Income in the US census, candidates of all ethnicities at random (paper, App. E.1).

    The table is the same as for `CensusGender`, except that the group is RAC1P, and that the noisy
    reward is the true reward plus noise·ξ.

    Args, beside the arguments of `CensusGender`:
        candidates: K.
        noise: standard deviation of the reward noise, at least 0.
        min_group_size: groups with fewer members in D2 are left out of D2 and D1; null for 5,000,
            or 800 with root=sample.
        group_size: the most members of a group that make its true CDF; null for all.
        sample_seed: seed of the choice of those members.
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
        super().__init__("RAC1P", locals(), pool=PoolKind.random, rewards=RewardSource.model)
