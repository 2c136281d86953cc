"""The report as a value, and the page of HTML that shows it.

Pictures are SVG in `<img>` elements, in which browsers run no script and load nothing. So a picture
may come from a file that is not trusted, and no value bypasses escaping.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fairbandit.errors import FairbanditError, visible
from fairbandit.figures.style import WIDTH, applied
from fairbandit.files.files import sha256, written_aside
from fairbandit.runs.sheets import Sheet, write
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Part: TypeAlias = "str | Sheet | Figure"  # A heading (`## …`), a paragraph, a table or a picture


@dataclass(frozen=True, eq=False)
class Report:
    """A report: the question that it answers, and then its parts.

    Attributes:
        title, question: the title, and the question.
        parts: headings, which begin with `## `, paragraphs, tables and pictures, in order.
        table: the numbers of the report, if they are one table.

    >>> Report("Trial", "Is 1 < 2?", ["## Answer", "Yes."]).html.count("Is 1 &lt; 2?")
    1
    """

    title: str
    question: str
    parts: Sequence[Part]
    table: pd.DataFrame | None = None

    @property
    def html(self) -> str:
        """The report as one page, which loads nothing."""
        return _PAGES.get_template("page.html.jinja").render(report=self, version=VERSION)

    def write(self, path: Path) -> None:
        """Writes the page to an .html file, or the table to a .csv or .parquet file.

        The file appears whole or not at all.

        Raises:
            FairbanditError: the name has another ending, or the report is not of one table.
            OSError: the file cannot be written.
        """
        if path.suffix in (".csv", ".parquet") and self.table is not None:
            write(self.table, path)
            return
        if path.suffix != ".html":
            endings = ".html" if self.table is None else ".html, .csv or .parquet"
            raise FairbanditError(f"{path} must end in {endings}: a report is one page of HTML")
        path.parent.mkdir(parents=True, exist_ok=True)
        content = self.html.encode()
        with written_aside(path) as file:
            file.write(content)


def facts_sheet(facts: Mapping[str, Any]) -> Sheet:
    """Returns the table of how a report was made."""
    return Sheet(("", ""), [*facts.items()], names=2)


def hashes(source: Path) -> dict[str, str]:
    """Returns the hashes of a file, or of the files in a folder, by their names."""
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    return {f"SHA-256 of {file.name}": sha256(file) for file in files if file.is_file()}


def _drawn(figure: Figure) -> dict[str, Any]:
    """Returns a figure as SVG, the same each time, its text and its share of the page's width."""
    import matplotlib

    file, none = BytesIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with applied(), matplotlib.rc_context({"svg.hashsalt": ""}):
        figure.savefig(file, format="svg", metadata=none)
    svg = re.sub(r"<!--.*?-->\n?", "", file.getvalue().decode(), flags=re.DOTALL)  # names
    axes = [(panel.get_ylabel(), panel.get_xlabel()) for panel in figure.axes]
    text = "; ".join(" over ".join(filter(None, names)) for names in axes)
    width = min(float(figure.get_figwidth()) / WIDTH, 1.0)
    return {"svg": svg, "text": text, "width": width}


_PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=visible,  # of each value that the template shows, before it is escaped
    trim_blocks=True,
    lstrip_blocks=True,
)
# the length of the longest word of a name, which is not broken up to 24 letters
_PAGES.filters["word"] = lambda text: min(max(map(len, text.split()), default=0), 24)
_PAGES.filters["base64"] = lambda text: b64encode(text.encode()).decode()
_PAGES.filters["drawn"] = _drawn
