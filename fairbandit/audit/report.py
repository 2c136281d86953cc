"""Audits saved runs, and writes a table, a CSV file and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table
from rich.text import Text

from fairbandit.audit.figure import draw
from fairbandit.audit.parity import LEVEL, ParityResult, examine
from fairbandit.audit.picks import read_picks
from fairbandit.figures.draw import save
from fairbandit.results.scenes import policy_order
from fairbandit.results.table import write

CSV = "parity.csv"
"""The file with all estimates and tests."""


@dataclass(frozen=True)
class Report:
    """The outcome of an audit.

    Attributes:
        results: the result of each run.
        table: a table for the screen, with a row for each run.
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

    Raises:
        FairbanditError: no run, rows that are missing, or a folder that cannot be written to.
    """
    results = [examine(picks, level) for picks in read_picks([folder, *others])]
    results.sort(key=lambda result: policy_order(result.picks.policy))
    place = folder if out is None else out
    write(rows(results), place / CSV)
    pairs = [save(figure, place, name) for name, figure in draw(results).items()]
    return Report(tuple(results), overview(results), (place / CSV, *chain.from_iterable(pairs)))


def rows(results: Sequence[ParityResult]) -> pa.Table:
    """Makes a table with a row for each run, round and group; of pooled rounds, `round` is null.

    Columns: run, policy, environment, round, group, selected, received, rate, target (1/K), low,
    high, p_value (of the round), p_adjusted (by Holm's method over the run's rounds), verdict (of
    the run).
    """
    table = [row for result in results for row in _rows(result)]
    texts = dict.fromkeys(("run", "policy", "environment", "group", "verdict"), pa.string())
    types = texts | dict.fromkeys(("round", "selected", "received"), pa.int64())
    schema = pa.schema({name: types.get(name, pa.float64()) for name in table[0]})
    return pa.Table.from_pylist(table, schema=schema)


def _rows(result: ParityResult) -> Iterator[dict[str, Any]]:
    picks, own = result.picks, result.picks.own_places
    selected = picks.counts if own else picks.counts.sum(0, keepdim=True)
    for index, rates in enumerate(result.rates):
        for group, name in enumerate(picks.groups):
            yield {
                "run": picks.label,
                "policy": picks.policy,
                "environment": picks.environment,
                "round": index + 1 if own else None,
                "group": name,
                "selected": int(selected[index, group]),
                "received": picks.replicas if own else int(picks.received[group]),
                "rate": _known(rates[group]),
                "target": result.target,
                "low": _known(result.low[index, group]),
                "high": _known(result.high[index, group]),
                "p_value": _known(result.p[index]),
                "p_adjusted": _known(result.adjusted[index]),
                "verdict": result.verdict,
            }


def _known(value: Any) -> float | None:
    """Returns a number, or None for NaN."""
    number = float(value)
    return number if number == number else None


def overview(results: Sequence[ParityResult]) -> Table:
    """Makes the table for the screen, with one row for each run.

    A row shows the estimated pick probability of a candidate that is farthest from 1/K, and the
    verdict of the run's test, or why there was none.

    Args:
        results: of the runs, at least one, all tested at the same level.
    """
    table = Table(
        title=f"Demographic parity, family-wise level {results[0].level:g} a run",
        caption="binomial tests against 1/K, by Bonferroni's method over groups and Holm's over "
        "rounds; bands by Chernoff's bound",
        title_justify="left",
        caption_justify="left",
    )
    lines = [_overview(result) for result in results]
    for header in lines[0]:
        left = header in ("run", "environment", "verdict")
        table.add_column(header, justify="left" if left else "right", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line.values()))
    return table


def _overview(result: ParityResult) -> dict[str, str]:
    """A run's line of the table, by column."""
    picks = result.picks
    off = (result.rates - result.target).abs().nan_to_num()
    round_, group = divmod(int(off.argmax()), off.shape[1])
    when = f", round {round_ + 1}" if picks.own_places else ""
    low, high = result.low[round_, group], result.high[round_, group]
    least = _known(result.adjusted.min())
    rejected = int((result.adjusted <= result.level).sum())
    what = f"{rejected} of {len(result.p)} rounds" if picks.own_places else "rounds pooled"
    return {
        "run": picks.label,
        "environment": picks.environment,
        "rounds": f"{picks.rounds:,}",
        "replicas": f"{picks.replicas:,}",
        "1/K": f"{result.target:.4f}",
        "farthest estimate": (
            f"{result.rates[round_, group]:.4f} (group {picks.groups[group]}{when})"
        ),
        "band": "–" if _known(low) is None else f"{low:.4f} to {high:.4f}",
        "smallest p": "–" if least is None else f"{least:.3g}",
        "rejected": "–" if least is None else what,
        "verdict": result.verdict,
    }
