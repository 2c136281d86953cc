"""Finds, downloads, filters and caches person records of the American Community Survey.

Folders and files have the names that folktables gives them, and folktables downloads them. Its
loader is not used: it holds all of some 286 columns in memory, and hides a failed download.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairbandit.environments.reading import listed, read_table
from fairbandit.errors import FairbanditError

YEARS = (2017, 2018)
"""The years with files of these names and the column RELP, which RELSHIPP replaced in 2019."""

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
"""The postal codes of the states and Puerto Rico."""

FIPS = dict(zip(STATES, (*sorted({*range(1, 57)} - {3, 7, 11, 14, 43, 52}), 72), strict=True))
"""The number of each state in the names of files."""

SAMPLE = "sample"
"""The root that stands for the records inside the package."""

SAMPLE_STATES = {2018: ("DE", "HI", "NM", "SD", "VT", "WY"), 2017: ("AL",)}
"""The states in the packaged records of each year."""

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

    The arguments are those of `CensusGender`.

    Raises:
        FairbanditError: another year, an unknown state, a file that is missing, damaged, lacks a
            column or holds a bad cell, or no row left after the filter.

    Reference:
        Ding et al., "Retiring Adult: New Datasets for Fair Machine Learning", NeurIPS 2021.
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
    key = hashlib.sha256(json.dumps([year, list(paths), stats]).encode()).hexdigest()[:20]
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fairbandit")
    target = Path(cache or user) / f"acs-{year}-{key}.parquet"
    if not target.is_file():
        _write(list(paths.values()), target)
    return target


def record_files(
    *, root: str | Path, year: int, states: Sequence[str] | None = None
) -> dict[str, Path]:
    """The path of each state's records, which need not exist, from arguments of `person_table`."""
    valid = SAMPLE_STATES if root == SAMPLE else dict.fromkeys(YEARS, STATES)
    if year not in valid:
        raise FairbanditError(f"the census year must be one of {[*valid]}, got {year}")
    known = valid[year]
    chosen = known if states is None else states
    whole = root != SAMPLE or len(set(chosen)) == len(known)
    if not (chosen and whole and {*chosen} <= {*known}):
        which = "some" if root != SAMPLE else "all"
        raise FairbanditError(
            f"the census states of {year} must be {which} of {', '.join(known)}, or null; "
            f"got {chosen}"
        )
    if root == SAMPLE:
        return dict.fromkeys(known, Path(__file__).parent / SAMPLE / f"{year}.parquet")
    folder = Path(root, str(year), "1-Year")
    return {state: folder / f"psam_p{FIPS[state]:02}.csv" for state in known if state in chosen}


def _download(path: Path, year: int, state: str) -> None:
    """Downloads one file to a temporary folder, checks it, and moves it into place."""
    # imported here, since it takes half a second; the package hides the module behind a function
    folktables = import_module("folktables.load_acs")
    _log.info("downloading the %d census records of %s", year, state)
    name = f"csv_p{state.lower()}.zip"
    url = f"{_SITE}/{year}/1-Year/{name}"
    # what requests and zipfile raise of a failed download or a damaged archive
    damage = (OSError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)
    with _aside(path, "environment.root") as found:
        try:
            folktables.download_and_extract(url, str(found.parent), name, found.name)
            read_table(found, [*COLUMNS, FILTER_COLUMN])
        except (*damage, FairbanditError) as error:
            raise FairbanditError(
                f"the download of {url} failed; fetch it by other means and unpack it into "
                f"{path.parent}. The reason: {error or type(error).__name__}"
            ) from error


def _write(files: list[Path], target: Path) -> None:
    """Writes the table of the working adults."""
    columns = [np.concatenate(cells) for cells in zip(*map(_filtered, files), strict=True)]
    if not len(columns[0]):
        raise FairbanditError(
            f"no row is left after the filter AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1 "
            f"in {listed(list(map(str, files)), 5)}"
        )
    with _aside(target, "environment.cache") as path:
        table = pa.table(columns, names=COLUMNS)
        pq.write_table(table, path, compression="zstd", write_page_checksum=True)
    _log.info("wrote %d filtered census records to %s", len(columns[0]), target)


@contextmanager
def _aside(path: Path, setting: str) -> Iterator[Path]:
    """A path in a temporary folder, from which the file is moved to `path` once it is whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(dir=path.parent, prefix=".part-")
    except OSError as error:
        raise FairbanditError(
            f"cannot write into {path.parent} ({error.strerror}); set {setting} to a folder that "
            "can be written"
        ) from error
    with folder as name:
        yield Path(name, path.name)
        Path(name, path.name).replace(path)


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
