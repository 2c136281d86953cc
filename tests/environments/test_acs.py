from __future__ import annotations

import contextlib
import io
import logging
import os
import socket
import struct
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fairbandit.environments import acs
from fairbandit.environments.acs import COLUMNS, default_cache, file_name, person_table
from fairbandit.errors import FairbanditError
from tests.environments.data import (
    ACS_HEADER,
    RECORDS,
    TRIAL_STATES,
    census_file,
    census_root,
    census_rows,
    needs_records,
)

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def root(tmp_path):
    return census_root(tmp_path)


def make(root: Path, tmp_path: Path, **changed: Any) -> Path:
    given: dict[str, Any] = {
        "root": root,
        "year": 2018,
        "states": ["DE", "WY"],
        "cache": tmp_path / "cache",
    }
    return person_table(**{**given, **changed})


def refused(root: Path, tmp_path: Path, **changed: Any) -> str:
    """The message; nothing but locks may be left in the cache."""
    with pytest.raises(FairbanditError) as caught:
        make(root, tmp_path, **changed)
    cache = tmp_path / "cache"
    left = [path.suffix for path in cache.iterdir()] if cache.is_dir() else []
    assert set(left) <= {".lock"}
    return str(caught.value)


def kept(rows: list[dict[str, Any]]) -> list[list[float]]:
    return [
        [float(row[name]) for name in COLUMNS]
        for row in rows
        if row["AGEP"] > 16 and int(row["PINCP"] or 0) > 100 and row["WKHP"]
    ]


def read(path: Path) -> Any:
    table = pq.read_table(path)
    assert table.schema.names == list(COLUMNS)
    return np.column_stack([table[name].to_numpy() for name in COLUMNS]).tolist()


def test_filtered_rows_in_order(root, tmp_path):
    rows = census_rows(300, seed=1) + census_rows(300, seed=2)
    wanted = kept(rows)
    assert 200 < len(wanted) < 600
    assert read(make(root, tmp_path)) == wanted
    assert read(make(root, tmp_path, states=["WY", "DE"])) == wanted  # folktables' order


@pytest.mark.parametrize(
    ("name", "dropped", "retained"),
    [("AGEP", 16, 17), ("PINCP", 100, 101), ("WKHP", 0, 1), ("PWGTP", 0, 1)],
)
def test_edges_of_the_filter(tmp_path, name, dropped, retained):
    rows = [row for row in census_rows(60, seed=1) if row["WKHP"]]
    for value, count in ((dropped, len(rows) - 1), (retained, len(rows))):
        rows[3][name] = value
        census_file(tmp_path, 2018, "DE", rows)
        assert len(read(make(tmp_path, tmp_path, states=["DE"]))) == count


def test_file_names_are_those_of_folktables(tmp_path):
    known = acs._folktables()
    for year in acs.YEARS:
        for state in known.state_list:
            (tmp_path / file_name(year, state)).touch()
            known.initialize_and_download(str(tmp_path), state, year, "1-Year", "person")
    assert file_name(2016, "NM") == "ss16pnm.csv"
    assert file_name(2017, "NM") == "psam_p35.csv"


def test_early_files_hold_blanks(tmp_path):
    rows = [{k: f" {v}" for k, v in row.items()} for row in census_rows(50, seed=1)]
    census_file(tmp_path, 2015, "DE", rows)
    assert read(make(tmp_path, tmp_path, year=2015, states=["DE"])) == kept(census_rows(50, seed=1))


def test_cache_is_used_and_follows_the_sources(root, tmp_path, caplog):
    caplog.set_level(logging.INFO, "fairbandit")
    first = make(root, tmp_path)
    before = first.stat().st_mtime_ns
    assert make(root, tmp_path) == first
    assert make(root, tmp_path, states=["WY", "DE"]) == first
    assert first.stat().st_mtime_ns == before
    assert caplog.text.count("wrote ") == 1
    census_file(root, 2018, "WY", census_rows(301, seed=9))
    second = make(root, tmp_path)
    assert second != first
    assert len({first, second, make(root, tmp_path, states=["DE"])}) == 3
    moved = root / "2018" / "1-Year" / file_name(2018, "DE")
    os.utime(moved, ns=(1, 1))
    assert make(root, tmp_path) not in (first, second)


@pytest.mark.parametrize("damage", ["cut", "garbled", "emptied", "other"])
def test_corrupt_cache_is_remade(root, tmp_path, damage):
    path = make(root, tmp_path)
    whole = path.read_bytes()
    middle = bytearray(whole)
    middle[200] ^= 0xFF
    content = {"cut": whole[:-20], "garbled": bytes(middle), "emptied": b"", "other": b"a,b\n"}
    path.write_bytes(content[damage])
    assert make(root, tmp_path) == path
    assert path.read_bytes() == whole


def test_two_processes_write_it_once(root, tmp_path):
    script = (
        "import logging, sys\n"
        "logging.basicConfig(level=logging.INFO, stream=sys.stdout)\n"
        "from fairbandit.environments.acs import person_table\n"
        "sys.stdin.readline()\n"
        "person_table(root=sys.argv[1], year=2018, states=['DE', 'WY'], cache=sys.argv[2])\n"
    )
    command = [sys.executable, "-c", script, str(root), str(tmp_path / "cache")]
    running = [
        subprocess.Popen(
            command, cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    for process in running:  # both are let go when both are there
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = "".join(process.communicate(timeout=120)[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert printed.count("wrote ") == 1
    assert sorted(path.suffix for path in (tmp_path / "cache").iterdir()) == [".lock", ".parquet"]


def test_default_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "fairbandit"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache" / "fairbandit"


def test_cache_that_cannot_be_written(root, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(FairbanditError, match=r"cannot write into .*; set environment\.cache"):
        make(root, tmp_path)


@pytest.mark.parametrize("year", [2013, 2019, 18])
def test_year(root, tmp_path, year):
    message = refused(root, tmp_path, year=year)
    assert f"one of 2014, 2015, 2016, 2017, 2018, got {year}" in message


def test_unknown_state(root, tmp_path):
    message = refused(root, tmp_path, states=["DE", "XX", "de"])
    assert "unknown state 'XX', 'de'; the census states are AL, AK, " in message
    assert "no state; the census states are AL" in refused(root, tmp_path, states=[])


def test_missing_files(root, tmp_path):
    message = refused(root, tmp_path, states=None)
    assert f"{root / '2018' / '1-Year' / 'psam_p01.csv'}" in message
    assert "and 44 more" in message
    assert "environment.download=true" in message
    assert "csv_pal.zip" in message
    assert "environment.root" in message


def test_lacking_column(root, tmp_path):
    header = [name for name in ACS_HEADER if name != "RELP"]
    census_file(root, 2018, "WY", census_rows(20, seed=1), header)
    message = refused(root, tmp_path)
    assert "psam_p56.csv has no column 'RELP'; it has 'RT', 'PWGTP'" in message


def test_truncated_file(root, tmp_path):
    path = root / "2018" / "1-Year" / "psam_p56.csv"
    path.write_text(path.read_text().rstrip()[:-20])
    message = "psam_p56.csv, column 'POBP', line 301: the file ends without a line end"
    assert message in refused(root, tmp_path)


def test_empty_file(root, tmp_path):
    (root / "2018" / "1-Year" / "psam_p56.csv").write_text("")
    assert "psam_p56.csv is empty" in refused(root, tmp_path)


def test_text_cell(root, tmp_path):
    rows = census_rows(50, seed=1)
    rows[7]["COW"] = "private"
    census_file(root, 2018, "WY", rows)
    assert "column 'COW', line 9: expected a number, got the text 'private'" in refused(
        root, tmp_path
    )


def test_empty_cell_after_the_filter(root, tmp_path):
    rows = census_rows(50, seed=1)
    row = next(index for index, row in enumerate(rows) if row["WKHP"])
    rows[row]["OCCP"] = ""
    census_file(root, 2018, "WY", rows)
    message = refused(root, tmp_path)
    assert f"psam_p56.csv, column 'OCCP', line {row + 2}: expected a number" in message


def test_no_row_left(root, tmp_path):
    rows = [row for row in census_rows(50, seed=1) if not row["WKHP"]]
    census_file(root, 2018, "WY", rows)
    message = refused(root, tmp_path, states=["WY"])
    assert "no row is left after the filter AGEP > 16, PINCP > 100, WKHP > 0, PWGTP >= 1" in message
    census_file(root, 2018, "DE", [])
    assert "no row is left" in refused(root, tmp_path)


class Site:
    """A web site on loopback that gives every request the same answer."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.announced: int | None = None  # None: the body's length
        self.asked: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                self.send_response(site.status)
                announced = len(site.body) if site.announced is None else site.announced
                if announced >= 0:  # below: not announced
                    self.send_header("Content-Length", str(announced))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # the other side may have had enough
                    self.wfile.write(site.body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def site(monkeypatch):
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(acs, "_SITE", made.address)
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def archive(text: str, *names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as opened:
        for name in names or ("psam_p15.csv",):
            opened.writestr(name, text)
    return made.getvalue()


def records(root: Path) -> str:
    return (root / "2018" / "1-Year" / "psam_p10.csv").read_text()


def failed(root: Path, tmp_path: Path) -> str:
    """The reason why a download failed; it leaves nothing but its lock."""
    folder = root / "2018" / "1-Year"

    def there() -> list[Path]:
        return sorted(path for path in folder.iterdir() if path.name != ".download.lock")

    before = there()
    with pytest.raises(FairbanditError) as caught:
        make(root, tmp_path, states=["HI"], download=True)
    assert there() == before
    message = str(caught.value)
    assert "csv_phi.zip failed; fetch it by other means and unpack it into" in message
    assert "\n" not in message
    return message.split("The reason: ")[1]


def test_download(root, tmp_path, site):
    folder = root / "2018" / "1-Year"
    site.body = archive(records(root), "readme.pdf", "psam_p15.csv")
    path = make(root, tmp_path, states=["DE", "HI"], download=True)
    assert site.asked == ["/2018/1-Year/csv_phi.zip"]
    assert (folder / "psam_p15.csv").read_text() == records(root)
    assert len(read(path)) == 2 * len(kept(census_rows(300, seed=1)))
    make(root, tmp_path, states=["DE", "HI"], download=True)
    assert len(site.asked) == 1
    assert not (folder / "readme.pdf").exists()


@pytest.mark.parametrize("status", [201, 403, 404, 503])
def test_download_of_another_status(root, tmp_path, site, status):
    site.status = status
    site.body = archive(records(root))
    assert f"expected status 200, got {status}" in failed(root, tmp_path)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>403 Forbidden</html>", "not a zip file"),
        (b"", "not a zip file"),
        (archive("a,b\n1,2\n"), "psam_p15.csv has no column 'AGEP', "),
        (archive(""), "psam_p15.csv is empty"),
        (archive("x", "psam_p10.csv", "../psam_p15.csv"), "expected one member 'psam_p15.csv'"),
    ],
)
def test_download_of_something_else(root, tmp_path, site, body, reason):
    site.body = body
    assert reason in failed(root, tmp_path)


def test_download_of_two_members_of_one_name(root, tmp_path, site):
    with pytest.warns(UserWarning, match="Duplicate name"):
        site.body = archive(records(root), "psam_p15.csv", "psam_p15.csv")
    assert "expected one member 'psam_p15.csv' in the archive, got 2" in failed(root, tmp_path)


def test_damaged_archive(root, tmp_path, site):
    whole = archive(records(root))
    draw = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[draw.integers(30 + len("psam_p15.csv"), len(whole))] ^= 1 << int(draw.integers(8))
        (tmp_path / "damaged.zip").write_bytes(damaged)
        target = tmp_path / "records.csv"
        try:
            acs._unpack(tmp_path / "damaged.zip", "psam_p15.csv", target)
        except acs.DAMAGE:
            continue
        assert target.read_text() == records(root)  # the bit was one that means nothing
    site.body = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
    assert failed(root, tmp_path)
    site.body = whole[:-50]
    assert "not a zip file" in failed(root, tmp_path)


def test_download_that_breaks_off(root, tmp_path, site):
    site.body = archive(records(root))
    site.announced = len(site.body) + 10
    assert failed(root, tmp_path)


def test_server_that_is_not_there(root, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setattr(acs, "_SITE", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "refused" in failed(root, tmp_path)


@pytest.mark.parametrize("announced", [None, -1])
def test_archive_that_is_too_large(root, tmp_path, site, monkeypatch, announced):
    monkeypatch.setattr(acs, "LARGEST_ARCHIVE", 1000)
    site.body = archive(records(root))
    site.announced = announced
    assert "expected at most 1000" in failed(root, tmp_path)


def test_records_that_are_too_large(root, tmp_path, site, monkeypatch):
    monkeypatch.setattr(acs, "LARGEST_RECORDS", 1000)
    site.body = archive(records(root))
    size = len(records(root).encode())
    assert f"would take {size} bytes; expected at most 1000" in failed(root, tmp_path)


def test_declared_size_binds_what_is_unpacked(tmp_path):
    """A member that declares ten bytes and holds more is no member at all."""
    whole = archive("x" * 5000)
    size = struct.pack("<L", 5000)
    (tmp_path / "lying.zip").write_bytes(whole.replace(size, struct.pack("<L", 10)))
    with pytest.raises(acs.DAMAGE):
        acs._unpack(tmp_path / "lying.zip", "psam_p15.csv", tmp_path / "records.csv")
    assert (tmp_path / "records.csv").stat().st_size <= 10


def test_download_clears_what_a_killed_one_left(root, tmp_path, site):
    left = root / "2018" / "1-Year" / ".download-killed"
    left.mkdir()
    (left / "archive.zip").write_bytes(b"half")
    site.body = archive(records(root))
    make(root, tmp_path, states=["HI"], download=True)
    assert not left.exists()


def test_absurd_income(root, tmp_path):
    rows = census_rows(50, seed=1)
    row = next(index for index, row in enumerate(rows) if row["WKHP"])
    rows[row]["PINCP"] = "1e308"
    census_file(root, 2018, "WY", rows)
    message = refused(root, tmp_path)
    assert f"column 'PINCP', line {row + 2}: expected a number of at most 1e+100" in message


@needs_records
def test_real_records(tmp_path):
    path = person_table(root=RECORDS, year=2018, states=TRIAL_STATES, cache=tmp_path)
    table = pq.read_table(path)
    assert table.num_rows == 32_885
    codes, counts = np.unique(table["RAC1P"].to_numpy(), return_counts=True)
    expected = {1: 22872, 2: 1177, 3: 1659, 4: 6, 5: 71, 6: 3334, 7: 809, 8: 806, 9: 2151}
    assert dict(zip(codes.tolist(), counts.tolist(), strict=True)) == expected
    other = person_table(root=RECORDS, year=2017, states=["AL"], cache=tmp_path)
    assert pq.read_metadata(other).num_rows == 2_321
