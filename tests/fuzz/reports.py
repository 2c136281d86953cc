"""Reports of hostile names, and of files that are damaged, or crafted with right hashes.

A report is one page in which any name is text, or there is one refusal and no file. A saved report
whose bytes were damaged must be refused, or give the same page.
"""

import json
import random
import re
import shutil
import tempfile
import warnings
from functools import cache
from hashlib import sha256
from pathlib import Path

from fairbandit.cli.report import report
from fairbandit.errors import FairbanditError
from fairbandit.evaluation import evaluate
from fairbandit.report import of_evaluation, of_log, read_report
from fairbandit.report.decisions import AUDIT
from fairbandit.report.estimates import EVALUATION
from tests.evaluation.logs import random_log
from tests.fuzz import files
from tests.fuzz.values import TEXTS, crafted, damaged
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
    makers = [_damaged_report, _crafted_report, _damaged_run, _table, _table]
    draw.choice(makers)(draw, path)
    with warnings.catch_warnings(action="ignore"):  # of characters that no font has
        try:
            report([str(path), "--out", str(out)])
        except FairbanditError:
            assert [*folder.iterdir()] == [path], "a refusal leaves nothing behind"
            raise
    html = out.read_text("utf-8")
    shown = Shown(html)
    assert not shown.elements & {"script", "a", "iframe", "object", "svg", "form"}
    attributes = re.findall(r"<[a-z][^>]*?\b(on\w+|href|src)=\"(?!data:)", html)
    assert not attributes, attributes
    assert not set("\x00\x1b\u202e\x07") & {*html}


@cache
def _whole() -> Path:
    """A folder with an audit and an evaluation."""
    folder, log = Path(_kept().name), random_log(40, k=3)
    of_log(log, folder, epsilon=0.1).save(folder / AUDIT)
    table = evaluate(log, ["uniform"], adaptive=False)
    of_evaluation(table, log, folder, ["policy=uniform"]).save(folder / EVALUATION)
    return folder


@cache
def _kept() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()  # removed when the process ends


def _damaged_report(draw: random.Random, path: Path) -> None:
    name = draw.choice([AUDIT, EVALUATION])
    whole = _whole() / name
    (path / name).write_bytes(damaged(draw, whole.read_bytes()))
    assert read_report(path / name) == read_report(whole)


def _crafted_report(draw: random.Random, path: Path) -> None:
    """A report of a stranger, whose hash is right."""
    name = draw.choice([AUDIT, EVALUATION])
    content = crafted(draw, json.loads((_whole() / name).read_text())["report"])
    if isinstance(content, dict) and isinstance(content.get("parts"), list):
        content["parts"].append(draw.choice([*EVIL, *TEXTS]))
    text = json.dumps(content).encode()
    (path / name).write_bytes(b'{"sha256":"%s","report":%s}' % (_hash(text), text))


def _hash(text: bytes) -> bytes:
    return sha256(text).hexdigest().encode()


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
