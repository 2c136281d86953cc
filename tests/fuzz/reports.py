"""Reports of hostile names, and of runs that are damaged.

A report is one page in which any name is text, or there is one refusal and no file.
"""

import random
import re
import shutil
import warnings
from pathlib import Path

from fairbandit.cli.report import report
from fairbandit.errors import FairbanditError
from tests.evaluation.logs import random_log
from tests.fuzz import files
from tests.fuzz.values import TEXTS, damaged
from tests.report.pages import Shown

EVIL: tuple[str, ...] = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u202ea",
    "\x1b]0;a\x07",
)
EVIL += ('" onload="alert(1)', "{{ 7 * 7 }}", "## a", "**a.** b", "$a_{b}$", "\u0301" * 90)


def reports(draw: random.Random, folder: Path) -> None:
    """The command `report`."""
    path, out = folder / "source", folder / "report.html"
    path.mkdir()
    makers = [_damaged_run, _table, _table]
    draw.choice(makers)(draw, path)
    with warnings.catch_warnings(action="ignore"):  # of characters that no font has
        try:
            report([str(path), f"out={out}"])
        except FairbanditError:
            assert [*folder.iterdir()] == [path], "a refusal leaves nothing behind"
            raise
    html = out.read_text("utf-8")
    shown = Shown(html)
    assert not shown.elements & {"script", "a", "iframe", "object", "svg", "form"}
    attributes = re.findall(r"<[a-z][^>]*?\b(on\w+|href|src)=\"(?!data:)", html)
    assert not attributes, attributes
    assert not set("\x00\x1b\u202e\x07") & {*html}


def _damaged_run(draw: random.Random, path: Path) -> None:
    shutil.copytree(files._whole() / "run", path / "run")
    file = draw.choice([one for one in (path / "run").rglob("*") if one.is_file()])
    file.write_bytes(damaged(draw, file.read_bytes()))


def _table(draw: random.Random, path: Path) -> None:
    """A table with hostile names of groups and of decisions, in a file with a hostile name."""
    frame = random_log(30, k=3).frame.astype(object)
    groups = {name: draw.choice(draw.choice([EVIL, EVIL, TEXTS])) for name in "abc"}
    decisions = {name: f"{draw.choice(EVIL)}{name}" for name in frame["decision"].unique()}
    frame["group"], frame["decision"] = (
        frame["group"].map(groups),
        frame["decision"].map(decisions),
    )
    name = draw.choice(["a.csv", "<b>.csv", "\x1b\u202e.csv"])
    frame.to_csv(path / name, index=False)
