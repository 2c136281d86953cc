"""Shows a report on the screen, and writes its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.text import Text

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import names_in
from fairbandit.report import Report
from fairbandit.runs.sheets import Sheet, console, named


def show(report: Report) -> None:
    """Prints the question, the headings, texts and tables of a report."""
    screen = console()
    for part in (report.question, *report.parts):
        if isinstance(part, Sheet):
            screen.print(part, end="\n\n")
        elif isinstance(part, str):
            words = part.removeprefix("## ").replace("\n", " ")  # rich wraps them at its width
            text = Text(words, style="bold" if part.startswith("## ") else "")
            screen.print(text, end="\n\n", width=min(screen.width, 100))


def write(report: Report, out: Any) -> None:
    """Writes a report to the files that `out` names, and prints their names."""
    for path in map(Path, names_in(out)):
        report.write(path)
        console().print(named("written", short(path.absolute())), soft_wrap=True)
