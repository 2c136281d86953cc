"""The table, and results kept for a later commit to be set beside."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from fairbandit.files.files import written_aside
from fairbandit.runs.execute import THREADS
from tests import support
from tests.benchmarks.rows import Row

PACKAGES = ("fairbandit", "torch", "numpy", "vowpalwabbit", "mabwiser")

CAPTION = (
    "Each ratio is of two times from this one run. In brackets: a target judged at a smaller size "
    "than it is stated for. Only a quiet machine gives ratios that mean anything: {}."
)


def busyness() -> str:
    """How busy the machine is."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores when it began"


def table(rows: Sequence[Row], busy: str = "", before: Mapping[str, float] | None = None) -> Table:
    """All rows, and how busy the machine was.

    With saved seconds, what they were and how many times as long it takes now.
    """
    caption = CAPTION.format(busy)
    made = Table(title="fairbandit's benchmarks", caption=caption, box=box.SIMPLE_HEAD)
    made.add_column("what", overflow="fold")
    for column in ("time", "yardstick", "its time", "ratio", "peak"):
        made.add_column(column, justify="left" if column == "yardstick" else "right")
    for column in ("before", "now/before") if before is not None else ():
        made.add_column(column, justify="right")
    for column in ("target", "holds", "note"):
        made.add_column(column)
    for row in rows:
        made.add_row(*_cells(row, before))
    return made


def _cells(row: Row, before: Mapping[str, float] | None) -> list[str]:
    kind = "longer" if row.longer else "faster"
    cells = [
        row.name,
        duration(row.seconds),
        row.beside,
        duration(row.yardstick),
        "" if row.ratio is None else f"{row.ratio:.3g} × {kind}",
        "" if row.peak is None else f"{row.peak / 1e9:.2f} GB",
    ]
    if before is not None:
        past = before.get(row.name)
        known = past is not None and row.seconds is not None
        cells += [duration(past), f"{row.seconds / past:.2f}" if known else ""]  # type: ignore[operator]
    verdicts = [_verdict(row.holds(target), row.stated) for target in row.targets]
    return [*cells, "\n".join(map(str, row.targets)), "\n".join(verdicts), row.note]


def _verdict(holds: bool | None, stated: bool) -> str:
    word = {True: "yes", False: "NO", None: "?"}[holds]
    return word if stated else f"({word})"


def duration(seconds: float | None) -> str:
    """Seconds in a unit that suits them."""
    if seconds is None:
        return ""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:.3g} {unit}" if seconds < 100 else f"{seconds:.0f} s"
    raise AssertionError


def about(busy: str) -> dict[str, Any]:
    """What the figures hold for: versions, the commit, the machine, the date."""
    installed = {found.metadata["name"]: found.version for found in metadata.distributions()}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git("describe", "--always", "--dirty"),
        "versions": {name: installed.get(name) for name in PACKAGES},
        "system": f"{platform.system()}, Python {platform.python_version()}, {THREADS} threads",
        "busy": busy,
    }


def _git(*words: str) -> str | None:
    """What git says of this checkout; None where it is none."""
    command = ["git", "-C", str(support.REPOSITORY), *words]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def save(rows: Sequence[Row], path: Path, busy: str) -> None:
    """Writes the results, whole or not at all."""
    kept = []
    for row in rows:
        targets = [{"target": str(one), "holds": row.holds(one)} for one in row.targets]
        kept.append(asdict(row) | {"targets": targets, "ratio": row.ratio})
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"about": about(busy), "rows": kept}, indent=2, ensure_ascii=False)
    with written_aside(path) as file:
        file.write(f"{text}\n".encode())


def saved(path: Path) -> dict[str, float]:
    """The seconds of each row that was saved, by its name."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row["name"]: row["seconds"] for row in rows if row["seconds"] is not None}
