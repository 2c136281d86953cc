"""Reports of audits that can be handed in: Markdown, CSV and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.rates import LEVEL, SMALL, compared, examine
from fairbandit.building import build_policy
from fairbandit.errors import FairbanditError
from fairbandit.figures.draw import save
from fairbandit.figures.style import WIDTH, applied, group_line
from fairbandit.files import sha256, written_aside
from fairbandit.logs import Log
from fairbandit.results import PooledRuns, read_scenes
from fairbandit.results.table import write
from fairbandit.run.table import Sheet
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Page = Sequence[str | Sheet]
"""Headings, paragraphs and tables."""

_FORMS = {
    **dict.fromkeys(("round", "received", "selected", "drift_at", "parity_at"), ","),
    **dict.fromkeys(("rate", "low", "high", "target"), ".4f"),
    **dict.fromkeys(("impact_ratio", "scoring_rate", "scoring_ratio"), ".3f"),
    **dict.fromkeys(("drift_p", "parity_p"), ".2g"),
    "verdict": "",
}
"""How the columns of tables are written."""

RATES = f"""\
Rate: selected ÷ received, with its interval from low to high. Impact ratio: the rate ÷ the highest
rate of groups without *, which marks those under {SMALL:.0%} of the candidates. Scoring rate: the
share of candidates whose score is above the median of all. No threshold is declared for any of
them: none is in New York's Local Law 144, which asks for them."""

TESTS = """\
Each p is the least level at which a test has rejected so far, over all {rows} rows together; the
column "at" has the first decision, from 1, at which that was {level:g} or less: where the wealth
crosses the line in the picture. A log that grows may be looked at every day: by Ville's inequality
each test ever rejects a true hypothesis with probability at most {level:g}, as long as no group
joins; a group that joins raises the number of rows, and every p with it. Intervals take decisions
as independent or, where a policy learns, are for the mean of its probabilities. Whether the log is
complete and true, and who was the better candidate, is not examined here."""

DRIFT = """\
**Drift.** Hypothesis: the candidates of a group are independent and of one distribution. A model of
the mean reward is trained on past decisions and frozen; bets are made on the ranks of its scores of
later candidates. A small p says that those who came have changed in what the model values, not that
anybody was treated wrongly. A change is not seen in the first 100 decisions, nor where too few
candidates came between a freeze and the change. Candidates who come again break the hypothesis.
Rewards that come late train old models anew, so that earlier looks may differ."""

PARITY = """\
**Parity of selection.** Hypothesis: at each decision with a choice, the group's share of the picks
differs from its share of the candidates by at most ε = {epsilon:g} on average, given all decisions
before. A small p says that at some time the group was picked more, or less, often than that. It
does not say why: groups may differ in what was asked for."""

NOT_TESTED = {
    "drift": "Drift was not tested: it takes contexts and rewards.",
    "parity": "Parity of selection was not tested: no epsilon was given.",
}

RUNS = """\
Rates are means over replicas with 95 % intervals. Parity is tested at family-wise level {level:g}
a run, and rejected where one of its bands, which are Clopper and Pearson's with Bonferroni's
correction over groups and rounds, misses 1/K, or m/K of m picks. The row is that of the estimate
farthest from it."""


def report_log(
    log: Log, out: Path, source: Path | None = None, level: float = 0.05, **options: Any
) -> tuple[Page, list[Path]]:
    """Writes audit.md, audit.csv, audit.png and audit.pdf of a log; returns the page and the paths.

    Args:
        log, level, options: as for `audit`.
        out, source: the folder of the files, and the log's file or folder, whose hashes it names.

    Raises:
        FairbanditError: as `audit`.
    """
    found = audit(log, level=level, **options)
    files = sorted(source.iterdir()) if source and source.is_dir() else [source]
    facts = {
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}",
        "candidates, selected": f"{(log.groups >= 0).sum():,}, {(log.picks >= 0).sum():,}",
        "known rewards": f"{1 - log.missing:.1%}",
        f"fairbandit {VERSION}": ", ".join(f"{key}={value}" for key, value in options.items()),
        **{f"SHA-256 of {one.name}": sha256(one) for one in files if one and one.is_file()},
    }
    words = {"drift": DRIFT, "parity": PARITY.format(epsilon=options.get("epsilon") or 0)}
    page: Page = [
        "# Audit of decisions",
        Sheet(("", ""), [*facts.items()], names=2),
        _sheet(found.table, "attribute"),
        "![Rates and tests](audit.png)",
        RATES,
        TESTS.format(rows=len(found.table), level=level),
        *(words[one] if one in found.wealth else NOT_TESTED[one] for one in words),
    ]
    return page, [*_write(page, found.table, out), *save(draw_log(found, level), out, "audit")]


def report(
    folders: Sequence[Path], out: Path | None = None, *, level: float = LEVEL
) -> tuple[Page, list[Path]]:
    """Audits every finished run in some folders, from its saved rows.

    Writes audit.md, audit.csv with the selection rates and parity.csv with the rows of `examine`;
    returns the page and the paths.

    Args:
        folders: where runs are, at any depth.
        out, level: where the files go, by default the first folder; family-wise, of each run.

    Raises:
        FairbanditError: no run, or rows that are missing.
    """
    import pandas as pd

    tables, tests = list[pd.DataFrame](), list[pd.DataFrame]()
    for scene, run in ((one, run) for one in read_scenes(folders) for run in one.runs):
        test = examine_run(run, level)
        table = test.groupby("group", sort=False)[["received", "selected"]].sum().reset_index()
        rates = [run.spreads[f"selection_rate_{group}"] for group in run.groups]
        table[["rate", "low", "high"]] = pd.DataFrame(rates, dtype=float)[["mean", "low", "high"]]
        for found, every in ((table, tables), (test, tests)):
            found.insert(0, "run", run.label)
            found.insert(1, "environment", scene.name)
            every.append(found)
    names, place = ["run", "environment"], out or folders[0]
    table = compared(pd.concat(tables, ignore_index=True), names)
    far = pd.DataFrame([one.loc[(one["rate"] - one["target"]).abs().idxmax()] for one in tests])
    page: Page = [
        "# Audit of runs",
        _sheet(table, *names),
        RATES,
        "## Demographic parity",
        _sheet(far.assign(small=False), *names),
        RUNS.format(level=level),
    ]
    write(pa.Table.from_pandas(pd.concat(tests), preserve_index=False), place / "parity.csv")
    return page, [*_write(page, table, place), place / "parity.csv"]


def examine_run(run: PooledRuns, level: float = LEVEL) -> pd.DataFrame:
    """The picks of a run, examined; its parts say whether picks may depend on the past.

    Raises:
        FairbanditError: rows are missing.
    """
    mean, spread = run.by_group("received")
    config = run.runs[0].summary["config"]
    try:
        past = build_policy(config["policy"]).reads_past
    except FairbanditError:  # a plugin that is not loaded
        past = True
    return examine(
        run.picks(),
        (mean * run.replicas).round(),
        run.groups,
        # one candidate of each group in every pool: the paper's first setting
        own_places=bool((mean == run.rounds).all()) and not bool((spread > 0).any()),
        reads_past=past,
        picks=config.get("picks", 1),
        level=level,
    )


def _sheet(table: pd.DataFrame, *names: str) -> Sheet:
    """The columns of a table that have a form, after `names` and the group."""
    forms = {name: _FORMS[name] for name in table if name in _FORMS}
    rows = [
        [*(row[name] for name in names), row["group"] + " *" * row["small"]]
        + ["–" if row[name] is None else f"{row[name]:{form}}" for name, form in forms.items()]
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    ]
    headers = [name.replace("_", " ") for name in (*names, "group", *forms)]
    return Sheet(headers, rows, names=len(names) + 1)


def _write(page: Page, table: pd.DataFrame, folder: Path) -> list[Path]:
    write(pa.Table.from_pandas(table, preserve_index=False), folder / "audit.csv")
    texts = [one if isinstance(one, str) else one.exported("markdown").strip() for one in page]
    with written_aside(folder / "audit.md") as file:
        file.write(("\n\n".join(texts) + "\n").encode())
    return [folder / "audit.md", folder / "audit.csv"]


def draw_log(found: Audit, level: float) -> Figure:
    """Draws a row for each attribute: rates with intervals, and the wealth of each test."""
    from matplotlib.figure import Figure

    table, tests = found.table, found.wealth
    by = list(table.groupby("attribute", sort=False))
    heights = [0.7 + max(0.9, 0.17 * len(own)) for _, own in by]
    with applied():
        size = (WIDTH * (1 + len(tests)) / 3, sum(heights))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(by), 1 + len(tests), squeeze=False, height_ratios=heights)
        for (first, *panels), (attribute, own) in zip(grid, by, strict=True):
            groups = own["group"].tolist()
            looks = [group_line(code, groups) for code in range(len(groups))]
            for row, look, y in zip(own.itertuples(), looks, range(len(groups)), strict=True):
                arms = [[row.rate - row.low], [row.high - row.rate]]
                first.errorbar(row.rate, y, xerr=arms, marker="o", color=look["color"])
            first.set_yticks(range(len(groups)), [look["label"] for look in looks])
            first.set(xlabel="selected ÷ received", title=attribute, ylim=(len(groups) - 0.5, -0.5))
            for panel, test in zip(panels, tests, strict=True):
                n = tests[test][attribute].shape[1]
                at = np.unique(np.linspace(0, n - 1, 2000).astype(np.int64))
                for wealth, look in zip(tests[test][attribute], looks, strict=True):
                    panel.plot(at + 1, wealth[at] / math.log(10), **look)
                panel.axhline(math.log10(len(table) / level), color="black", linewidth=0.6)
                panel.set(xlabel="decision", ylabel="log₁₀ wealth", title=f"test of {test}")
    return figure
