"""The census environments, their records, and the sample inside the package."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fairbandit.environments import CensusGender
from fairbandit.environments import census as acs
from fairbandit.environments.census import COLUMNS, person_table
from fairbandit.errors import FairbanditError
from fairbandit.files.files import data_hash
from fairbandit.registry import create, describe
from fairbandit.streams import Streams
from tests import support
from tests.environments.data import census_file, census_root, census_rows, standardised
from tests.environments.make_sample import make_sample


@pytest.fixture
def root(tmp_path):
    return census_root(tmp_path)


def make(root: Any, tmp_path: Path, **changed: Any) -> Path:
    given: dict[str, Any] = {"root": root, "year": 2018, "states": ["DE", "WY"]}
    return person_table(**given | {"cache": tmp_path / "cache"} | changed)


def refused(root: Any, tmp_path: Path, **changed: Any) -> str:
    """The message; nothing may be left in the cache."""
    with pytest.raises(FairbanditError) as caught:
        make(root, tmp_path, **changed)
    assert not (tmp_path / "cache").exists() or not [*(tmp_path / "cache").iterdir()]
    return str(caught.value)


def kept(rows: list[dict[str, Any]]) -> list[list[float]]:
    return [
        [float(row[name]) for name in COLUMNS]
        for row in rows
        if row["AGEP"] > 16 and int(row["PINCP"] or 0) > 100 and row["WKHP"]
    ]


def read(path: Path) -> Any:
    table = pq.read_table(path)
    return np.column_stack([table[name].to_numpy() for name in COLUMNS]).tolist()


def census(name: str, **changed: Any) -> Any:
    environment = create("environment", {"name": name, "root": "sample", **changed})
    environment.bind(Streams(0, range(2)))
    return environment


def test_filtered_rows_in_order(root, tmp_path):
    wanted = kept(census_rows(300, seed=1) + census_rows(300, seed=2))
    assert 200 < len(wanted) < 600
    path = make(root, tmp_path)
    assert read(path) == wanted
    assert make(root, tmp_path, states=["WY", "DE"]) == path  # folktables' order


def test_edges_of_the_filter(tmp_path):
    rows = [row for row in census_rows(60, seed=1) if row["WKHP"]]
    for name, least in (("AGEP", 17), ("PINCP", 101), ("WKHP", 1), ("PWGTP", 1)):
        for value, count in ((least - 1, len(rows) - 1), (least, len(rows))):
            changed = [{**row, name: value} if at == 3 else row for at, row in enumerate(rows)]
            census_file(tmp_path, 2018, "DE", changed)
            assert len(read(make(tmp_path, tmp_path, states=["DE"]))) == count


def test_names_of_states_and_files_are_those_of_folktables(tmp_path):
    known = import_module("folktables.load_acs")
    assert list(acs.STATES) == known.state_list
    for year in acs.YEARS:
        for state, number in acs.FIPS.items():
            (tmp_path / f"psam_p{number:02}.csv").touch()
            known.initialize_and_download(str(tmp_path), state, year, "1-Year", "person")


def test_the_cache_follows_the_records(root, tmp_path):
    first = make(root, tmp_path)
    before = first.stat().st_mtime_ns
    assert make(root, tmp_path) == first
    assert first.stat().st_mtime_ns == before
    census_file(root, 2018, "WY", census_rows(301, seed=9))
    second = make(root, tmp_path)
    os.utime(root / "2018" / "1-Year" / "psam_p10.csv", ns=(1, 1))
    assert len({first, second, make(root, tmp_path), make(root, tmp_path, states=["DE"])}) == 4
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".parquet"}


def test_refused_surveys(root, tmp_path):
    message = refused(root, tmp_path, states=["DE", "XX"])
    assert "or some of AL, AK, AZ, AR, CA, CO, CT, DE, FL, GA, HI," in message
    message = refused(root, tmp_path, states=None)
    assert "psam_p06.csv and 44 more. Download them with environment.download=" in message
    assert "the only choice with environment.root=sample" in refused("sample", tmp_path)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The file that a web site on loopback has of Hawaii."""
    path = tmp_path / "site" / "2018" / "1-Year" / "csv_phi.zip"
    path.parent.mkdir(parents=True)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path / "site"))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(acs, "_SITE", f"http://127.0.0.1:{server.server_port}")
    yield path
    server.shutdown()
    thread.join()
    server.server_close()


def archive(text: str, *names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in names or ("psam_p15.csv",):
            opened.writestr(name, text)
    return made.getvalue()


def records(root: Path) -> str:
    return (root / "2018" / "1-Year" / "psam_p10.csv").read_text()


def test_download(root, tmp_path, site):
    folder = root / "2018" / "1-Year"
    site.write_bytes(archive(records(root), "readme.pdf", "psam_p15.csv"))
    path = make(root, tmp_path, states=["DE", "HI"], download=True)
    site.unlink()
    assert make(root, tmp_path, states=["DE", "HI"], download=True) == path
    assert (folder / "psam_p15.csv").read_text() == records(root)
    assert len(read(path)) == 2 * len(kept(census_rows(300, seed=1)))
    assert len([*folder.iterdir()]) == 3


def test_a_download_that_fails_leaves_nothing(root, tmp_path, site, monkeypatch):
    """folktables hides these failures, and would take half a file for a whole one."""
    whole, folder = archive(records(root)), root / "2018" / "1-Year"
    before = sorted(folder.iterdir())
    for body in (
        b"<html>403 Forbidden</html>",
        b"",
        archive("a,b\n1,2\n"),
        archive(records(root), "psam_p10.csv", "../psam_p15.csv"),
        whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:],
        whole[:-50],
        None,
    ):
        if body is None:
            monkeypatch.setattr(acs, "_SITE", "http://127.0.0.1:1")
        site.write_bytes(body or b"")
        message = refused(root, tmp_path, states=["HI"], download=True)
        assert "csv_phi.zip failed; fetch it by other means and unpack it into" in message
        assert sorted(folder.iterdir()) == before


def test_the_fingerprint_is_of_both_surveys(tmp_path):
    given = {"year": 2018, "scaler_year": None, "scaler_states": None}
    absent = {**given, "root": str(tmp_path), "states": ["VT"]}
    assert CensusGender.fingerprint(absent) is None
    packaged = {**given, "root": "sample", "states": None, "scaler_year": 2017}
    folder = Path(acs.__file__).parent / "sample"
    files = [folder / f"{year}.parquet" for year in (2018, 2017)]
    assert CensusGender.fingerprint(packaged) == data_hash(files) != data_hash(files[:1])


def test_the_sample_by_gender():
    made = census("census_gender")
    assert made.feature_names == (
        *("AGEP", "COW", "SCHL", *(f"MAR={code}" for code in range(1, 6)), "OCCP", "POBP"),
        *(*(f"RELP={code}" for code in range(1, 18)), "WKHP", "SEX=1", "SEX=2"),
        *(*(f"RAC1P={code}" for code in range(1, 10)), "bias"),
    )
    assert (made.features, made.places, made.rounds, made.exploration) == (40, 2, 5000, 0.1)
    assert made.group_names == ("male", "female")
    assert create("environment", describe(made)).members.contexts.equal(made.members.contexts)
    d2, d1 = (pq.read_table(path) for path in (made.path, made.scaler_path))
    for name, values in (("AGEP", made.members.contexts[:, 0]), ("PINCP", made.members.rewards)):
        wanted = standardised(d2[name].to_numpy(), d1[name].to_numpy())
        np.testing.assert_allclose(values.numpy(), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("least", "groups"), [(None, 7), (1000, 5)])
def test_the_sample_by_ethnicity(least, groups):
    made = census("census_ethnicity", min_group_size=least)
    assert len(made.group_names) == groups
    assert made.group_names[:3] == ("white", "black", "american_indian")
    assert create("environment", describe(made)).members.contexts.equal(made.members.contexts)
    assert (made.features, made.places, made.rounds, made.exploration) == (40, 10, 2500, 0.01)


@pytest.mark.all
def test_the_sample_is_that_of_the_records(tmp_path):
    make_sample(support.REPOSITORY.parent / "shared" / "acs", tmp_path)
    for year in acs.YEARS:
        packaged = Path(acs.__file__).parent / acs.SAMPLE / f"{year}.parquet"
        assert read(tmp_path / f"{year}.parquet") == read(packaged)
