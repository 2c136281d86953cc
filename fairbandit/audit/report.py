"""Audits saved runs, and writes a CSV file and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.table import Table

from fairbandit.audit.figure import draw
from fairbandit.audit.parity import LEVEL, ParityResult, examine
from fairbandit.audit.picks import read_picks
from fairbandit.figures.draw import save
from fairbandit.results.table import write
from fairbandit.run.table import make_table

FILES = ("parity.csv", "parity.png", "parity.pdf")
"""What `report` writes."""


def report(folder: Path, *others: Path, out: Path | None = None, level: float = LEVEL) -> Table:
    """Audits every finished run in some folders, from its saved rows, and writes `FILES`.

    parity.csv has a row for each run, round and group: run, environment, round (empty where rounds
    are pooled), group, selected, received, rate, target (1/K), low, high, p_value (of the round),
    p_adjusted (by Holm's method over the run's rounds) and verdict (of the run).

    Args:
        folder: where runs are, at any depth.
        others: more of them.
        out: where the files go; the first folder by default.
        level: the family-wise level of each run.

    Returns:
        A table for the screen, with a row for each run: the estimated pick probability of a
        candidate that is farthest from 1/K, its interval, and the verdict.

    Raises:
        FairbanditError: no run, rows that are missing, or a folder that cannot be written to.
    """
    results = [examine(picks, level) for picks in read_picks([folder, *others])]
    place = folder if out is None else out
    write(pa.concat_tables(map(_rows, results)), place / "parity.csv")
    save(draw(results), place, "parity")
    return _overview(results)


def _rows(result: ParityResult) -> pa.Table:
    picks, own = result.picks, result.picks.own_places
    n, g = result.rates.shape
    known = {"rate": result.rates, "low": result.low, "high": result.high}
    tests = {"p_value": result.p, "p_adjusted": result.adjusted}
    columns = {
        "run": [picks.label] * n * g,
        "environment": [picks.environment] * n * g,
        "round": pa.array(np.repeat(range(1, n + 1), g) if own else [None] * g, pa.int64()),
        "group": list(picks.groups) * n,
        "selected": (picks.counts if own else picks.counts.sum(0)).ravel(),
        "received": np.tile(picks.received / n, n).astype(np.int64),
        "target": [result.target] * n * g,
        **{name: pa.array(values.ravel(), from_pandas=True) for name, values in known.items()},
        **{name: pa.array(p.repeat(g), from_pandas=True) for name, p in tests.items()},
        "verdict": [result.verdict] * n * g,
    }
    return pa.table(columns)


def _overview(results: Sequence[ParityResult]) -> Table:
    headers = ("run", "rounds", "1/K", "farthest estimate", "band", "smallest p", "verdict")
    return make_table(
        headers,
        map(_line, results),
        right=headers[1:-1],
        title=f"Demographic parity, family-wise level {results[0].level:g} a run",
        caption="binomial tests against 1/K, by Bonferroni's method over groups and Holm's over "
        "rounds; bands by Clopper and Pearson's",
        caption_justify="left",
    )


def _line(result: ParityResult) -> list[str]:
    """A run's row of the table."""
    picks, least = result.picks, result.adjusted.min()
    off = np.nan_to_num(np.abs(result.rates - result.target))
    at = index, group = np.unravel_index(off.argmax(), off.shape)
    when = f", round {index + 1}" if picks.own_places else ""
    return [
        picks.label,
        f"{len(picks.counts):,} × {picks.replicas:,}",
        f"{result.target:.4f}",
        f"{result.rates[at]:.4f} (group {picks.groups[group]}{when})",
        "–" if np.isnan(result.low[at]) else f"{result.low[at]:.4f} to {result.high[at]:.4f}",
        "–" if np.isnan(least) else f"{least:.3g}",
        result.verdict,
    ]
