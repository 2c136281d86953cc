"""Finds, downloads, filters and caches person records of the American Community Survey.

Folders and files have the names that folktables gives them, and folktables downloads them. Its
loader is not used: it holds all of some 286 columns in memory, and hides a failed download.
"""

from __future__ import annotations

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

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.errors import FairbanditError
from fairbandit.files.files import hash_of
from fairbandit.notices import listed
from fairbandit.tables import cells
from fairbandit.tables.reading import read_table

YEARS = (2017, 2018)
"""The years whose files are named as here and have RELP, which became RELSHIPP in 2019."""

COLUMNS = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P", "PINCP")

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

SAMPLE = "sample"
"""The value of `root` that selects the records inside the package."""

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

    The Adult-style filter is AGEP > 16, PINCP > 100, WKHP > 0, PWGTP ≥ 1. The name of the table has
    a hash of the year, the states, and the names, sizes and times of the source files, so that a
    change of any of them makes a new table. See `CensusGender` for the arguments.

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
    key = hash_of([json.dumps([year, list(paths), stats])])[:20]
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fairbandit")
    target = Path(cache or default) / f"acs-{year}-{key}.parquet"
    if not target.is_file():
        table = pa.concat_tables(map(_filtered, paths.values()))
        with _moved_when_whole(target) as path:
            pq.write_table(table, path, compression="zstd", write_page_checksum=True)
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
    with _moved_when_whole(path) as target:
        try:
            folktables.download_and_extract(url, str(target.parent), name, target.name)
            cells.need(read_table(target, columns=_READ), _READ)
        except (FairbanditError, *_DAMAGE) as error:
            raise FairbanditError(
                f"the download of {url} failed; fetch it by other means and unpack it into "
                f"{path.parent}. The reason: {error or type(error).__name__}"
            ) from error


@contextmanager
def _moved_when_whole(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=".part-") as folder:
        yield Path(folder, path.name)
        Path(folder, path.name).replace(path)


def _filtered(path: Path) -> pa.Table:
    records = read_table(path, columns=_READ)
    cells.need(records, _READ)
    values = {name: cells.numbers(records, name) for name in _READ}
    # a comparison with a missing cell is false
    keep = (values["AGEP"] > 16) & (values["PINCP"] > 100)
    keep &= (values["WKHP"] > 0) & (values["PWGTP"] >= 1)
    return pa.table({name: values[name][keep] for name in COLUMNS})
