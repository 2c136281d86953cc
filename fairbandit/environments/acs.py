"""Finds, downloads, filters and caches person records of the American Community Survey.

Folders and files have the names that folktables gives them, and folktables downloads them. Its
loader is not used: it holds all of some 286 columns in memory, and hides a failed download.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.environments.reading import column_names, listed, read_table, require
from fairbandit.errors import FairbanditError

YEARS = range(2014, 2019)
"""The survey years that have RELP; in 2019 RELSHIPP replaced it, with other codes."""

COLUMNS = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P", "PINCP")
"""The columns that are kept."""

FILTER_COLUMN = "PWGTP"
"""A further column, which only the filter reads."""

STATES = (
    *("AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "ID", "IL", "IN", "IA"),
    *("KS", "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ"),
    *("NM", "NY", "NC", "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT"),
    *("VA", "WA", "WV", "WI", "WY", "PR"),
)
"""The postal codes of the states and Puerto Rico, in the order of folktables."""

SAMPLE = "sample"
"""The root that stands for the records inside the package."""

SAMPLE_STATES = {2018: ["DE", "HI", "NM", "SD", "VT", "WY"], 2017: ["AL"]}
"""The states in the packaged records of each year."""

_FIPS = (*sorted({*range(1, 57)} - {3, 7, 11, 14, 43, 52}), 72)  # the states' numbers, in order
_SITE = "https://www2.census.gov/programs-surveys/acs/data/pums"
_log = logging.getLogger("fairbandit")


def person_table(
    *,
    root: str | Path,
    year: int,
    states: Sequence[str] | None = None,
    download: bool = False,
    cache: str | Path | None = None,
) -> Path:
    """A Parquet table of the working adults of some states, which is made once and cached.

    The Adult-style filter is AGEP > 16, PINCP > 100, WKHP > 0, PWGTP ≥ 1. The name of the table has
    a hash of the year, the states, and the names, sizes and times of the source files. A change of
    these makes a new table; older tables stay and may be deleted at any time.

    Args:
        root: folder with {year}/1-Year/psam_p{FIPS}.csv (ss{yy}p{state}.csv before 2017), or
            `sample`, the records inside the package.
        year: survey year, one of `YEARS`.
        states: postal codes; None for the 50 states and PR. Their order does not matter.
        download: fetches files that are missing from the Census Bureau.
        cache: folder for the table; None for `default_cache()`.

    Raises:
        FairbanditError: another year, an unknown state, a file that is missing, damaged, lacks a
            column or holds a bad cell, or no row left after the filter.

    Reference:
        Ding et al., "Retiring Adult: New Datasets for Fair Machine Learning", NeurIPS 2021.
    """
    paths = record_files(root=root, year=year, states=states)
    if root == SAMPLE:
        return next(iter(paths.values()))
    _require_files(paths, year, download)
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths.values()]
    key = hashlib.sha256(json.dumps([year, list(paths), stats]).encode()).hexdigest()[:20]
    folder = default_cache() if cache is None else Path(cache)
    target = folder / f"acs-{year}-{key}.parquet"
    if not target.is_file():
        _write(list(paths.values()), target)
    return target


def default_cache() -> Path:
    """The user's cache folder: $XDG_CACHE_HOME/fairbandit, or ~/.cache/fairbandit."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fairbandit"


def file_name(year: int, state: str) -> str:
    """The name that the person records of a state have in the Census Bureau's archive."""
    number = _FIPS[STATES.index(state)]
    return f"psam_p{number:02}.csv" if year >= 2017 else f"ss{year % 100}p{state.lower()}.csv"


def record_files(
    *, root: str | Path, year: int, states: Sequence[str] | None = None
) -> dict[str, Path]:
    """The path of each state's person records, which need not exist, in the order of folktables.

    The arguments are those of `person_table`.

    Raises:
        FairbanditError: another year, or an unknown state.
    """
    known = SAMPLE_STATES if root == SAMPLE else {year: [*STATES] for year in YEARS}
    if year not in known:
        raise FairbanditError(
            f"the census year must be one of {', '.join(map(str, known))}, got {year}; RELP was "
            "replaced in 2019"
        )
    valid = known[year]
    chosen = valid if states is None else states
    unknown = [repr(state) for state in chosen if state not in valid]
    if unknown or not chosen:
        problem = f"unknown state {listed(unknown)}" if unknown else "no state"
        raise FairbanditError(f"{problem}; the census states are {', '.join(valid)}, or null: all")
    if root == SAMPLE:
        if len(set(chosen)) < len(valid):
            raise FairbanditError(f"the sample of {year} is all of {valid} together; got {chosen}")
        return dict.fromkeys(valid, Path(__file__).parent / SAMPLE / f"{year}.parquet")
    folder = Path(root, str(year), "1-Year")
    return {state: folder / file_name(year, state) for state in valid if state in chosen}


def _require_files(paths: dict[str, Path], year: int, download: bool) -> None:
    """Downloads the files that are missing, or names them in an error."""
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


def _download(path: Path, year: int, state: str) -> None:
    """Downloads one file to a temporary folder, checks it, and moves it into place."""
    # imported here, since it takes half a second; the package hides the module behind a function
    folktables = import_module("folktables.load_acs")
    _log.info("downloading the %d census records of %s", year, state)
    name = f"csv_p{state.lower()}.zip"
    url = f"{_SITE}/{year}/1-Year/{name}"
    # what requests and zipfile raise of a failed download or a damaged archive
    damage = (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)
    with _writable(path.parent, "environment.root") as aside:
        try:
            folktables.download_and_extract(url, aside, name, path.name)
            found = Path(aside, path.name)
            require(path.name, column_names(found), [*COLUMNS, FILTER_COLUMN])
        except (*damage, FairbanditError) as error:
            raise FairbanditError(
                f"the download of {url} failed; fetch it by other means and unpack it into "
                f"{path.parent}. The reason: {error or type(error).__name__}"
            ) from error
        found.replace(path)


def _writable(folder: Path, setting: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder inside another one, from which files are moved once they are whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=folder, prefix=".part-")
    except OSError as error:
        raise FairbanditError(
            f"cannot write into {folder} ({error.strerror or error}); set {setting} to a folder "
            "that can be written"
        ) from error


def _write(files: list[Path], target: Path) -> None:
    """Writes the table of the working adults, file by file."""
    schema = pa.schema([(name, pa.float64()) for name in COLUMNS])
    rows = 0
    with _writable(target.parent, "environment.cache") as aside:
        made = Path(aside, target.name)
        with pq.ParquetWriter(made, schema, compression="zstd", write_page_checksum=True) as writer:
            for path in files:
                columns = _filtered(path)
                writer.write_table(pa.table(columns, schema=schema))
                rows += len(columns[0])
        if not rows:
            raise FairbanditError(
                f"no row is left after the filter AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1 "
                f"in {listed(list(map(str, files)), 5)}"
            )
        made.replace(target)
    _log.info("wrote %d filtered census records to %s", rows, target)


def _filtered(path: Path) -> list[NDArray[np.float64]]:
    """The columns of the working adults of one file."""
    source = read_table(path, [*COLUMNS, FILTER_COLUMN])
    cells = {name: source.numbers(name) for name in (*COLUMNS, FILTER_COLUMN)}
    # a comparison with a missing cell is false
    keep = (cells["AGEP"] > 16) & (cells["PINCP"] > 100)
    keep &= (cells["WKHP"] > 0) & (cells[FILTER_COLUMN] >= 1)
    for name in COLUMNS:
        source.require_cells(name, keep & np.isnan(cells[name]))
    return [cells[name][keep] for name in COLUMNS]
