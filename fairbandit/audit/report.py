"""The audit of saved runs: a table for the screen, a CSV and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from fairbandit.audit.figure import draw
from fairbandit.audit.parity import LEVEL, ParityResult, examine
from fairbandit.audit.picks import read_picks
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import save
from fairbandit.results.scenes import policy_order
from fairbandit.results.table import write

CSV = "parity.csv"
"""The file of all estimates and tests."""


@dataclass(frozen=True)
class Report:
    """What an audit leaves behind.

    Attributes:
        results: of each run.
        table: a row a run, for the screen.
        files: the CSV and the figures.
    """

    results: tuple[ParityResult, ...]
    table: Table
    files: tuple[Path, ...]


def report(folder: Path, *others: Path, out: Path | None = None, level: float = LEVEL) -> Report:
    """Audits every finished run in some folders, from its saved rows.

    Args:
        folder: where runs are, at any depth.
        others: more of them.
        out: where parity.csv, parity.png and parity.pdf go (parity_groups.png and .pdf for groups
            mixed at random); the first folder by default.
        level: the family-wise level of each run.

    Returns:
        The results, their table, and the files.

    Raises:
        FairbanditError: no run, rows that are missing, or a folder that cannot be written to.
    """
    results = [examine(picks, level) for picks in read_picks([folder, *others])]
    results.sort(key=lambda result: policy_order(result.picks.policy))
    place = folder if out is None else out
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FairbanditError(f"cannot write to {place}: {error.strerror}") from error
    write(rows(results), place / CSV)
    files = [save(figure, place, name) for name, figure in draw(results).items()]
    return Report(
        tuple(results),
        overview(results),
        (place / CSV, *(path for pair in files for path in pair)),
    )


def rows(results: Sequence[ParityResult]) -> pa.Table:
    """All estimates, a row for each run, round and group; `round` is null where rounds are pooled.

    Columns: run, policy, environment, round, group, selected, received, rate, target (1/K), low,
    high, p_value (of the round), p_adjusted (by Holm's method over the run's rounds), verdict (of
    the run).
    """
    table = [row for result in results for row in _rows(result)]
    return pa.Table.from_pylist(table, schema=_SCHEMA)


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "policy", "environment")),
        ("round", pa.int64()),
        ("group", pa.string()),
        *((name, pa.int64()) for name in ("selected", "received")),
        *((name, pa.float64()) for name in ("rate", "target", "low", "high")),
        *((name, pa.float64()) for name in ("p_value", "p_adjusted")),
        ("verdict", pa.string()),
    ]
)


def _rows(result: ParityResult) -> list[dict[str, Any]]:
    picks = result.picks
    own = picks.own_places
    selected = picks.counts if own else picks.counts.sum(0, keepdim=True)
    made = []
    for index in range(len(result.rates)):
        for group, name in enumerate(picks.groups):
            made.append(
                {
                    "run": picks.label,
                    "policy": picks.policy,
                    "environment": picks.environment,
                    "round": index + 1 if own else None,
                    "group": name,
                    "selected": int(selected[index, group]),
                    "received": picks.replicas if own else int(picks.received[group]),
                    "rate": _known(result.rates[index, group]),
                    "target": result.target,
                    "low": _known(result.low[index, group]),
                    "high": _known(result.high[index, group]),
                    "p_value": _known(result.p[index]),
                    "p_adjusted": _known(result.adjusted[index]),
                    "verdict": result.verdict,
                }
            )
    return made


def _known(value: Any) -> float | None:
    """A number, or None for NaN."""
    number = float(value)
    return number if number == number else None


def overview(results: Sequence[ParityResult]) -> Table:
    """A row a run: how far from 1/K it was at worst, the test, and what follows."""
    level = results[0].level
    table = Table(
        title=f"Demographic parity, family-wise level {level:g} a run",
        caption="binomial tests against 1/K, by Bonferroni's method over groups and Holm's over "
        "rounds; bands by Chernoff's bound",
        title_justify="left",
        caption_justify="left",
    )
    for header in ("run", "environment"):
        table.add_column(header, overflow="fold")
    for header in (
        "rounds",
        "replicas",
        "1/K",
        "farthest estimate",
        "band",
        "smallest p",
        "rejected",
    ):
        table.add_column(header, justify="right", overflow="fold")
    table.add_column("verdict", overflow="fold")
    for result in results:
        table.add_row(*map(Text, _overview(result)))
    return table


def _overview(result: ParityResult) -> list[str]:
    picks, (round_, group) = result.picks, result.worst
    when = f", round {round_ + 1}" if picks.own_places else ""
    low, high = result.low[round_, group], result.high[round_, group]
    least = _known(result.adjusted.min())
    tested = len(result.p)
    what = f"{result.rejected} of {tested} rounds" if picks.own_places else "rounds pooled"
    return [
        picks.label,
        picks.environment,
        f"{picks.rounds:,}",
        f"{picks.replicas:,}",
        f"{result.target:.4f}",
        f"{result.rates[round_, group]:.4f} (group {picks.groups[group]}{when})",
        "–" if _known(low) is None else f"{low:.4f} to {high:.4f}",
        "–" if least is None else f"{least:.3g}",
        "–" if least is None else what,
        result.verdict,
    ]
