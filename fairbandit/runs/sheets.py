"""Results on the screen, in Markdown and LaTeX, and in files, and progress bars of runs."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from fairbandit.errors import printable
from fairbandit.files.files import written_aside
from fairbandit.tables.labels import NUMBER

if TYPE_CHECKING:
    import pandas as pd

# widths in characters
_WIDE, _NARROW = 160, 80  # of the screen and of a sheet without a terminal
_WIDEST = 28  # of a column that names the rows
_BETWEEN = 2  # between two columns of a sheet

_ROUNDING = 1e-9
_DECIMALS = 4

# the special characters of Markdown, and the characters that turn bare addresses into links
_MARKDOWN = re.compile(r"([\\`*_\[\]#|<>~$&@]|:(?=//)|(?<=(?i:www))\.)")

_LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "{}$&#%_"}
    | {"[": "{[}"}  # after the end of a row, a bare [ would begin an option
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "–": "--"}
)

# matches texts that a spreadsheet would run as formulas
_FORMULA = re.compile(rf"\A(?=[-+=@\t\r＝＋－＠])(?!{NUMBER}\Z)")

MEANING = {
    "cost per pick": "cost per pick: the standard regret of a pick, in the unit of the reward",
    "cost of pick": "cost of pick: the true reward that it loses against the best candidate of"
    " its pool, in the unit of the reward",
    "±": "mean ± standard deviation over replicas, after the last round",
    "[%]": "[%] of the group's candidates who were picked",
    "↓": "↓ lower is better",
    "↑": "↑ higher is better",
    "–": "– not known",
    "*": "* the policy knows the truth",
}
"""The meaning of each sign in tables of results, printed below the tables that contain it."""


class _Screen(Console):
    def render(self, *given: Any, **options: Any) -> Iterable[Any]:
        for part in super().render(*given, **options):  # names from data may hold control codes
            yield part if part.control else part._replace(text=printable(part.text))


def console() -> Console:
    """Returns a console on standard output that prints text literally; wide without a terminal."""
    screen = _Screen(markup=False, emoji=False)  # names of groups and files may look like markup
    return screen if screen.is_terminal else _Screen(width=_WIDE, markup=False, emoji=False)


_screen = Console(stderr=True)


@contextmanager
def progress_bar(title: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Yields a function that advances a bar of the progress, which only terminals show.

    A bar that begins while another is shown, such as a run in a sweep, appears on the line below.
    """
    name, left = TextColumn("{task.description}", markup=False), TimeRemainingColumn(compact=True)
    columns = name, BarColumn(), MofNCompleteColumn(), left
    hidden = not (shown and _screen.is_terminal)
    with Progress(*columns, console=_screen, transient=True, disable=hidden) as bars:
        yield partial(bars.advance, bars.add_task(title, total=total))


def named(name: str, value: str | Path) -> Text:
    """Returns a line with a bold name and its value, such as a path."""
    return Text.assemble((name, "bold"), "  ", str(value))


def make_table(
    headers: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    right: Collection[str] = (),
    **options: Any,
) -> Table:
    """Returns a table of rich that folds long words; the columns in `right` are right-aligned."""
    table = Table(title_justify="left", **options)
    for header in headers:
        justify: JustifyMethod = "right" if header in right else "left"
        table.add_column(header, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


@dataclass(frozen=True)
class Sheet:
    """A table of results with its remarks.

    The first `names` columns name the rows. On the screen, columns that do not fit continue in a
    block below, where the names are repeated; without a terminal, the table is 80 characters wide.
    The cells of `bold`, by row and column, are bold in exported tables and reports.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    above: str = ""
    below: str = ""
    bold: Collection[tuple[int, int]] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the table and its remarks to rich."""
        width = options.max_width if console.is_terminal else _NARROW
        columns = enumerate(zip(self.headers, *self.rows, strict=True))
        sizes = [self._size(at, cells, width) for at, cells in columns]
        if self.above:
            yield Text(textwrap.fill(self.above, width))
        for block in self._blocks(sizes, width):
            table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
            table.show_header = any(self.headers)
            for at in block:
                justify: JustifyMethod = "left" if at < self.names else "right"
                style: Any = {"justify": justify, "overflow": "fold", "width": sizes[at]}
                table.add_column(self.headers[at], **style)
            for row in self.rows:
                table.add_row(*(row[at] for at in block))
            yield table
        if self.below:
            yield Text(textwrap.fill(self.below, width))

    def _size(self, at: int, cells: Sequence[str], width: int) -> int:
        header, *others = cells
        size = max(map(cell_len, (*header.split(), *others)), default=0)
        if len(self.headers) == 1:
            return min(size, width)
        return min(size, _WIDEST if at < self.names < len(self.headers) else width // 2)

    def _blocks(self, sizes: Sequence[int], width: int) -> Iterable[list[int]]:
        block = names = list(range(self.names))
        for at in range(self.names, len(sizes)):
            taken = sum(sizes[column] + _BETWEEN for column in block)
            if taken + sizes[at] > width and len(block) > self.names:
                yield block
                block = names
            block = [*block, at]
        yield block

    def exported(self, form: str) -> str:
        """Returns the table as `markdown` or as `latex`, which needs the package booktabs."""
        import pandas as pd

        def escaped(cell: str) -> str:
            text = printable(" ".join(cell.split()))
            return text.translate(_LATEX) if form == "latex" else _MARKDOWN.sub(r"\\\1", text)

        table = pd.DataFrame(self.rows, columns=self.headers).map(escaped).rename(columns=escaped)
        left, right = (r"\textbf{", "}") if form == "latex" else ("**", "**")
        for row, column in self.bold:
            table.iat[row, column] = f"{left}{table.iat[row, column]}{right}"
        above, below = escaped(self.above), escaped(self.below)
        sides = ["left"] * self.names + ["right"] * (len(self.headers) - self.names)
        if form == "latex":
            remarks = "".join(f"% {text}\n" for text in (above, below) if text)
            letters = "".join(side[0] for side in sides)
            return remarks + table.to_latex(index=False, escape=False, column_format=letters)
        printed = table.to_markdown(index=False, disable_numparse=True, colalign=sides)
        return "\n\n".join(filter(None, (above, printed, below))) + "\n"


def write(result: pd.DataFrame | Sheet, path: Path) -> None:
    """Writes a table atomically: as CSV, LaTeX or Markdown by the file's suffix, or as Parquet.

    A column that holds more than numbers becomes texts. In CSV, an apostrophe is put before a text
    that a spreadsheet would run as a formula.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as file:
        if isinstance(result, Sheet):
            file.write(result.exported("latex" if path.suffix == ".tex" else "markdown").encode())
            return
        csv, texts = path.suffix == ".csv", result.select_dtypes(exclude="number").columns
        columns = {key: [_text(value, csv) for value in result[key]] for key in texts}
        table = result.assign(**columns)
        if csv:
            headed = table.rename(columns=lambda name: _text(name, csv))
            file.write(headed.to_csv(index=False).encode())
        else:
            table.to_parquet(file, index=False, write_page_checksum=True)


def _text(value: Any, csv: bool) -> str | None:
    text = value if isinstance(value, str) else None if value != value else json.dumps(value)
    return _FORMULA.sub("'", text) if csv and text is not None else text


def metric_header(column: str, metric: Mapping[str, Any]) -> str:
    """Returns the header of a metric, with an arrow that points in the better direction."""
    return f"{column.replace('_', ' ')} {'↓' if metric['lower_is_better'] else '↑'}"


def meanings(cells: Iterable[str]) -> str:
    """Explains the signs that occur in the cells."""
    text = " ".join(cells)
    return "; ".join(meaning for sign, meaning in MEANING.items() if sign in text)


def numeral(value: float, std: float | None = None) -> str:
    """Formats a number to two digits of its standard deviation, or without it to four digits.

    >>> numeral(1234.56, 7.891), numeral(7.891, 7.891), numeral(512.3, 1600.0), numeral(0.25)
    ('1,234.6', '7.9', '512', '0.25')
    >>> numeral(-0.0, 0.0), numeral(1e-7), numeral(2.5e9), numeral(math.inf)
    ('0', '1.00e-07', '2.50e+09', 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    size = std or abs(value)
    exact = not std
    power = math.floor(math.log10(size)) if size else 0
    if value and not 10.0**-_DECIMALS <= max(abs(value), std or 0.0) < 10.0**7:
        return f"{value:.2e}"
    decimals = min(max((3 if exact else 1) - power, 0), _DECIMALS)
    text = f"{round(value, decimals) + 0.0:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if exact and decimals else text


def spread(value: Mapping[str, float | None]) -> str:
    """Formats mean ± std, or a dash if the mean is unknown.

    >>> spread({"mean": 1234.56, "std": 7.89}), spread({"mean": 2.0, "std": None})
    ('1,234.6 ± 7.9', '2')
    """
    mean, std = value["mean"], value["std"]
    if mean is None:
        return "–"
    if std is None:
        return numeral(mean)
    deviation = 0.0 if std <= _ROUNDING * max(abs(mean), _ROUNDING) else std
    return f"{numeral(mean, deviation)} ± {numeral(deviation, deviation)}"


def bracketed(value: float, low: float, high: float) -> str:
    """Returns a value and its interval, with as many digits as the interval determines.

    >>> bracketed(3.7582, 3.3687, 4.1477), bracketed(0.25, 0.0, float("inf"))
    ('3.76 [3.37, 4.15]', '0.25 [0, ∞]')
    >>> bracketed(0.25, float("nan"), float("nan"))
    '0.25 [–]'
    """
    if math.isnan(high - low):
        return f"{numeral(value)} [–]"
    half = (high - low) / 2 if math.isfinite(high - low) else None
    text = "{} [{}, {}]".format(*(numeral(number, half) for number in (value, low, high)))
    return text.replace("inf", "∞")


def estimate(value: Mapping[str, float | None]) -> str:
    """Formats a mean and its interval, or the mean alone if the interval is unknown."""
    mean, low, high = (value.get(part) for part in ("mean", "low", "high"))
    if mean is None or low is None or high is None:
        return spread({"mean": mean, "std": None})
    return bracketed(mean, low, high)
