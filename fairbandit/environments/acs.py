"""Finds, downloads, filters and caches person records of the American Community Survey.

Folders and files have the names that folktables gives them. This module downloads them itself,
because folktables saves even an error page, and reads only twelve of their some 286 columns.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import logging
import lzma
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock
from numpy.typing import NDArray

from fairbandit.environments.reading import Source, listed
from fairbandit.errors import FairbanditError

YEARS = range(2014, 2019)
"""The survey years that have RELP; in 2019 RELSHIPP replaced it, with other codes."""

COLUMNS = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "RELP", "WKHP", "SEX", "RAC1P", "PINCP")
"""The columns that are kept."""

FILTER_COLUMN = "PWGTP"
"""A further column, which only the filter reads."""

LARGEST_ARCHIVE = 1 << 29
"""The largest size of a state's archive in bytes, ten times that of California."""

LARGEST_RECORDS = 1 << 32
"""The largest size of a state's unpacked records in bytes, against zip bombs."""

DAMAGE = (
    *(OSError, EOFError, ValueError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)
"""The exceptions that a failed download, or a damaged or encrypted archive, raises."""

_FORMAT = 1  # raise it when the cached table changes
_ASIDE = ".download-"
_CHUNK = 1 << 20
_TIMEOUT = 60  # seconds to connect, and between two pieces
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
        root: folder with {year}/1-Year/psam_p{FIPS}.csv (ss{yy}p{state}.csv before 2017).
        year: survey year, one of `YEARS`.
        states: postal codes; None for the 50 states and PR. Their order does not matter.
        download: fetches files that are missing from the Census Bureau.
        cache: folder for the table; None for `default_cache()`.

    Returns:
        The table's path.

    Raises:
        FairbanditError: another year, an unknown state, a file that is missing, damaged, lacks a
            column or holds a bad cell, or no row left after the filter.

    Reference:
        Ding et al., "Retiring Adult: New Datasets for Fair Machine Learning", NeurIPS 2021.
    """
    if year not in YEARS:
        raise FairbanditError(
            f"the census year must be one of {', '.join(map(str, YEARS))}, got {year}; RELP was "
            "replaced in 2019"
        )
    paths = record_files(root=root, year=year, states=states)
    _require_files(paths, year, download)
    folder = default_cache() if cache is None else Path(cache)
    target = folder / f"acs-{year}-{_key(year, paths)}.parquet"
    if not _sound(target):
        with _locked(folder / f"{target.name}.lock", "environment.cache"):
            if not _sound(target):  # another process may have made it meanwhile
                _write(list(paths.values()), target)
    return target


def default_cache() -> Path:
    """The user's cache folder: $XDG_CACHE_HOME/fairbandit, or ~/.cache/fairbandit."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fairbandit"


def file_name(year: int, state: str) -> str:
    """The name that the person records of a state have in the Census Bureau's archive."""
    if year >= 2017:
        return f"psam_p{_folktables()._STATE_CODES[state]}.csv"
    return f"ss{year % 100}p{state.lower()}.csv"


def _folktables() -> Any:
    # imported here, since it takes half a second; the package hides the module behind a function
    return importlib.import_module("folktables.load_acs")


def record_files(
    *, root: str | Path, year: int, states: Sequence[str] | None = None
) -> dict[str, Path]:
    """The path of each state's person records, which need not exist, in the order of folktables.

    The arguments are those of `person_table`.

    Raises:
        FairbanditError: an unknown state.
    """
    known: list[str] = _folktables().state_list
    chosen = known if states is None else states
    unknown = [repr(state) for state in chosen if state not in known]
    if unknown or not chosen:
        problem = f"unknown state {listed(unknown)}" if unknown else "no state"
        raise FairbanditError(f"{problem}; the census states are {', '.join(known)}, or null: all")
    folder = Path(root, str(year), "1-Year")
    return {state: folder / file_name(year, state) for state in known if state in chosen}


def _require_files(paths: dict[str, Path], year: int, download: bool) -> None:
    """Downloads the files that are missing, or names them in an error."""
    lacking = [state for state, path in paths.items() if not path.is_file()]
    if not lacking:
        return
    folder = paths[lacking[0]].parent
    if not download:
        zips = listed([f"csv_p{state.lower()}.zip" for state in lacking], 5)
        raise FairbanditError(
            f"census records are missing: {listed([str(paths[state]) for state in lacking], 5)}. "
            "Download them with environment.download=true, or unpack "
            f"{zips} of {_SITE}/{year}/1-Year/ into {folder}, or set environment.root to a folder "
            "in folktables' layout that holds them"
        )
    with _locked(folder / ".download.lock", "environment.root"):
        for left in folder.glob(f"{_ASIDE}*"):  # by a process that was killed: we hold the lock
            shutil.rmtree(left, ignore_errors=True)
        for state in lacking:
            if not paths[state].is_file():  # another process may have fetched it meanwhile
                _download(paths[state], year, state)


def _download(path: Path, year: int, state: str) -> None:
    """Downloads one file to a temporary folder, checks it, and moves it into place."""
    _log.info("downloading the %d census records of %s", year, state)
    url, folder = f"{_SITE}/{year}/1-Year/csv_p{state.lower()}.zip", path.parent
    with tempfile.TemporaryDirectory(dir=folder, prefix=_ASIDE) as aside:
        archive, records = Path(aside, "archive.zip"), Path(aside, path.name)
        try:
            _fetch(url, archive)
            _unpack(archive, path.name, records)
            Source(records).require([*COLUMNS, FILTER_COLUMN])
        except DAMAGE as error:
            reason = " ".join(str(error).replace(aside, str(folder)).split())
            raise FairbanditError(
                f"the download of {url} failed; fetch it by other means and unpack it into "
                f"{folder}. The reason: {reason or type(error).__name__}"
            ) from error
        records.replace(path)


def _fetch(url: str, target: Path) -> None:
    """Writes the answer of a server into a file; refuses one that is incomplete or too large."""
    # imported here, since it takes a tenth of a second and few runs download anything
    import requests

    wanted = {"Accept-Encoding": "identity"}  # so that the announced size is the file's
    with requests.get(url, headers=wanted, stream=True, timeout=_TIMEOUT) as response:
        status = response.status_code
        if status != 200:
            raise FairbanditError(f"expected status 200, got {status} {response.reason}")
        announced = int(response.headers.get("Content-Length", -1))
        got = 0
        with target.open("wb") as file:
            for data in response.iter_content(_CHUNK):
                got += len(data)
                if max(got, announced) > LARGEST_ARCHIVE:
                    raise FairbanditError(f"expected at most {LARGEST_ARCHIVE} bytes, got more")
                file.write(data)
    if announced not in (-1, got):
        raise FairbanditError(f"{announced} bytes were announced, {got} came")


def _unpack(archive: Path, name: str, target: Path) -> None:
    """Writes the one member of an archive that has this name into a file.

    No other member is read, and no more bytes than the declared size are written.
    """
    with zipfile.ZipFile(archive) as opened:
        members = [member for member in opened.infolist() if member.filename == name]
        if len(members) != 1:
            names = listed([repr(member.filename) for member in opened.infolist()], 5)
            raise FairbanditError(
                f"expected one member {name!r} in the archive, got {len(members)} of {names}"
            )
        (member,) = members
        if member.file_size > LARGEST_RECORDS:
            raise FairbanditError(
                f"{name} would take {member.file_size} bytes; expected at most {LARGEST_RECORDS}"
            )
        with opened.open(member) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, _CHUNK)


def _key(year: int, paths: dict[str, Path]) -> str:
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths.values()]
    described = json.dumps([_FORMAT, year, list(paths), stats])
    return hashlib.sha256(described.encode()).hexdigest()[:20]


@contextlib.contextmanager
def _locked(lock: Path, setting: str) -> Iterator[None]:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(lock).acquire()
    except OSError as error:
        raise FairbanditError(
            f"cannot write into {lock.parent} ({error.strerror or error}); set {setting} to a "
            "folder that can be written"
        ) from error
    with held:
        yield


def _sound(path: Path) -> bool:
    """Whether a cached table exists and can be read to its end with valid checksums."""
    try:
        rows = sum(len(block) for block in Source(path).blocks(COLUMNS))
    except FairbanditError:
        return False
    return rows > 0


def _write(files: list[Path], target: Path) -> None:
    """Writes the table to a temporary file and moves it into place; on an error nothing is left."""
    aside = target.with_name(f"{target.name}.{os.getpid()}.part")
    schema = pa.schema([(name, pa.float64()) for name in COLUMNS])
    try:
        with pq.ParquetWriter(
            aside, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            rows = 0
            for columns in (piece for path in files for piece in _filtered(path)):
                writer.write_table(pa.table(list(columns), schema=schema))
                rows += columns.shape[1]
        if not rows:
            raise FairbanditError(
                f"no row is left after the filter AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1 "
                f"in {listed(list(map(str, files)), 5)}"
            )
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
    _log.info("wrote %d filtered census records to %s", rows, target)


def _filtered(path: Path) -> Iterator[NDArray[np.float64]]:
    """The working adults of one file in blocks, (columns, rows) each."""
    for block in Source(path).blocks([*COLUMNS, FILTER_COLUMN]):
        cells = {name: block.numbers(name, missing=True) for name in (*COLUMNS, FILTER_COLUMN)}
        # a comparison with a missing cell is false
        keep = (cells["AGEP"] > 16) & (cells["PINCP"] > 100)
        keep &= (cells["WKHP"] > 0) & (cells[FILTER_COLUMN] >= 1)
        for name in COLUMNS:
            block.require_finite(name, np.where(keep, cells[name], 0.0))
        yield np.stack([cells[name][keep] for name in COLUMNS])
