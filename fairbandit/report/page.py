"""The report as a value, its file, and the page of HTML that shows it.

Pictures are SVG in `<img>` elements, in which browsers run no script and load nothing. So a picture
may come from a file that is not trusted, and no value bypasses escaping.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fairbandit.errors import FairbanditError, visible
from fairbandit.figures.style import WIDTH, applied
from fairbandit.files.files import open_regular, written_aside
from fairbandit.files.formats import Sha256
from fairbandit.runs.sheets import Sheet
from fairbandit.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _Saved(msgspec.Struct):
    sha256: Sha256
    report: msgspec.Raw


class Picture(NamedTuple):
    """A picture as SVG, a text for readers who cannot see it, and its share of the page's width."""

    svg: str
    text: str
    width: float


class Report(msgspec.Struct, frozen=True):
    """A report: the question that it answers, then headings (`## …`), paragraphs, tables, pictures.

    >>> Report("Trial", "Is 1 < 2?", ["## Answer", "Yes."]).html.count("Is 1 &lt; 2?")
    1
    """

    title: str
    question: str
    parts: list[str | Sheet | Picture]

    @classmethod
    def of(cls, title: str, question: str, page: Iterable[str | Sheet | Figure]) -> Self:
        """Returns a report of texts, tables and figures, which are drawn as SVG."""
        parts = (part if isinstance(part, (str, Sheet)) else _drawn(part) for part in page)
        return cls(title, question, [*parts])

    @property
    def html(self) -> str:
        """The report as one page, which loads nothing."""
        return _PAGES.get_template("page.html.jinja").render(report=self, version=VERSION)

    def write(self, path: Path) -> None:
        """Writes the page to a file, which appears whole or not at all.

        Raises:
            FairbanditError: the name does not end in .html.
            OSError: the file cannot be written.
        """
        if path.suffix != ".html":
            raise FairbanditError(f"{path} must end in .html: a report is one page of HTML")
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path) as file:
            file.write(self.html.encode())

    def save(self, path: Path) -> Path:
        """Saves the report as JSON with its SHA-256, for `read_report`; returns the path."""
        plain = msgspec.to_builtins(self)
        content = json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")
        with written_aside(path) as file:
            digest = sha256(content).hexdigest().encode()
            file.write(b'{"sha256":"%s",\n"report":%s}\n' % (digest, content))
        return path


def read_report(path: Path) -> Report:
    """Reads a saved report.

    Raises:
        FairbanditError: the file cannot be read, or is damaged.
    """
    try:
        with open_regular(path) as file:
            saved = msgspec.json.decode(file.read(), type=_Saved)
        if saved.sha256 != sha256(saved.report).hexdigest():
            raise ValueError("its SHA-256 does not fit its contents")
        return msgspec.json.decode(saved.report, type=Report)
    except (ValueError, RecursionError) as error:
        raise FairbanditError(
            f"{path} is not a whole report ({error}); give the command again that wrote it"
        ) from error


def _drawn(figure: Figure) -> Picture:
    """Returns a figure as SVG, the same each time; names of axes describe it."""
    import matplotlib

    file, none = BytesIO(), dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with applied(), matplotlib.rc_context({"svg.hashsalt": ""}):
        figure.savefig(file, format="svg", metadata=none)
    svg = re.sub(r"<!--.*?-->\n?", "", file.getvalue().decode(), flags=re.DOTALL)  # names
    axes = [(panel.get_ylabel(), panel.get_xlabel()) for panel in figure.axes]
    text = "; ".join(" over ".join(filter(None, names)) for names in axes)
    return Picture(svg, text, min(float(figure.get_figwidth()) / WIDTH, 1.0))


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
