"""Reports of audits as Markdown, CSV and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.audit.logged import Audit, audit
from fairbandit.audit.processes import FIRST
from fairbandit.audit.rates import CONFIDENCE_OF_RUNS, compared, examine_counts, in_words
from fairbandit.errors import FairbanditError, renamed
from fairbandit.evaluation.estimates import Ends
from fairbandit.evaluation.groups import SMALL
from fairbandit.figures.draw import save
from fairbandit.figures.style import WIDTH, applied, group_line, shortened, write_numbers
from fairbandit.files.files import sha256, written_aside
from fairbandit.logs import Log
from fairbandit.policy.build import build_policy, policy_label
from fairbandit.runs import PooledRuns, read_scenes
from fairbandit.runs.intervals import CONFIDENCE
from fairbandit.runs.sheets import Sheet, write
from fairbandit.runs.tables import column_of, rate_ends
from fairbandit.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Page = Sequence["str | Sheet | Figure"]
"""Headings, paragraphs, tables and pictures."""

_FORMS = {
    **dict.fromkeys(("round", "received", "selected", "drift_at", "order_at", "parity_at"), ","),
    **dict.fromkeys(("above_median", "shortfall"), ","),
    **dict.fromkeys(("rate", "low", "high", "target", "margin"), ".4f"),
    **dict.fromkeys(("share", "picked_share"), ".1%"),
    "gap": "+.1%",
    **dict.fromkeys(("impact_ratio", "scoring_rate", "scoring_ratio"), ".3f"),
    **dict.fromkeys(("ratio_low", "ratio_high"), ".2f"),
    **dict.fromkeys(("drift_p", "order_p", "parity_p", "fisher_p"), ".2g"),
    **dict.fromkeys(("four_fifths", "verdict"), ""),
}
"""The number formats of the columns of tables."""

RATES = f"""\
Rate: {{rate}}, with its interval from low to high. Share: the group's share of all {{people}}.
Impact ratio: the rate ÷ the highest rate of the larger groups, with its interval from ratio low to
ratio high. A rate may be the highest by chance, so the interval is corrected for the number of
groups (Bonferroni). A * marks small groups, with less than {SMALL:.0%} of the {{people}}."""

OF_PICKS = """\
 Picked share: the group's share of all picks. The report does not judge these numbers by a
threshold; New York's Local Law 144, which requires them, sets none."""

RATE = "selected ÷ received"

RATE_OF_RUNS = "the mean over replicas of selected ÷ received, which are summed in the table"

SCORING = " Scoring rate: the share of candidates whose score is above the median of all scores."

TESTS = """\
Each p is the smallest level at which the test has rejected so far, corrected for all {rows} rows.
The column "at" is the first decision, counted from 1, at which p was at most {level:g}: there the
wealth crosses the line in the picture. The audit of a growing log may be repeated every day: by
Ville's inequality each test ever rejects a true hypothesis with probability at most {level:g},
unless a group joins, which raises the number of rows and therefore every p. Intervals assume
independent decisions or, if a policy learns, are for the mean of its probabilities. The audit does
not examine whether the log is complete and true, or who was the better candidate."""

DRIFT = """\
**Drift.** Hypothesis: the pools are independent of each other over time, and any number of
candidates of the group who are drawn from a pool at random always have the same joint distribution.
The candidates of one pool may be alike, if they always are to the same degree, and the sizes of
pools may change. A model of the mean reward is trained on past
decisions and frozen. From each later pool 1, 2, 4, 8 or more candidates of the group are drawn, and
the test bets on the rank of their total score among the totals of equally many candidates since the
freeze. If pools are independent over time, a small p means that the candidates have changed in the
features that the model values, or in how alike those of a pool are, not that a candidate was
treated wrongly. Candidates who apply again
violate the hypothesis, and so do good and bad times that last for several pools. Changes in the
first 100 decisions cannot be detected, nor changes after too few pools since a freeze. Late rewards
retrain old models, so earlier results may change."""

ORDER = """\
**Order of arrival.** Hypothesis: given who is in a pool, the candidates of a group come in any
order with equal probability. The test bets on the difference in rank of those who came early and
those who came late. A small p means that better candidates come earlier, or later. Then threshold
rules lose reward, and the time of arrival changes a person's chance."""

PARITY = """\
**Parity of selection.** Hypothesis: at each decision with a choice, the group's share of the picks
differs from its share of the candidates by at most ε = {epsilon:g} on average, given all earlier
decisions. A small p means that at some time the group was picked more often, or less often, than
that. A large p does not prove parity: the log may be short, and ε large. The column "gap" is the
mean difference in the log. The test does not explain why: groups may differ in the
qualities that were demanded."""

NOT_TESTED = {
    "drift": "Drift was not tested: the test needs contexts and rewards.",
    "parity": "Parity of selection was not tested: no epsilon was given.",
}

RUNS = """\
Rates are means over replicas with 95 % intervals, which cover the draws of pools and noise, but not
the choice of the people in a table. Parity is tested at the family-wise level {level:g} for each
run. It is rejected if any band (Clopper and Pearson, with Bonferroni's correction over groups
and rounds) misses 1/K, or m/K for m picks. The row of a tested run shows the estimate farthest from
this value among all groups and rounds, which is far by chance alone. The margin is the largest
departure from this value that the bands allow: if it is large, the run shows little, though parity
is not rejected. A run with too few replicas is not tested, since no picks at all would reject
parity."""


def report_log(
    log: Log, out: Path, source: Path | None = None, confidence: float = 0.95, **options: Any
) -> tuple[Page, list[Path]]:
    """Writes audit.md, .csv, .png and .pdf of `log_page` to a folder; returns page and paths."""
    page, table = log_page(log, source, confidence, **options)
    return page, write_page(page, table, out)


def log_page(
    log: Log, source: Path | None = None, confidence: float = 0.95, **options: Any
) -> tuple[Page, pd.DataFrame]:
    """Returns the page of the `audit` of a log, and its table.

    `source` is the log's file or folder, whose hashes the page lists.
    """
    audited = audit(log, confidence=confidence, **options)
    facts = {
        "policy": ", ".join(map(policy_label, log.policies)) or "not named in the log",
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}",
        **({"made": " to ".join(log.period).replace("+00:00", " UTC")} if log.period else {}),
        "candidates, selected": f"{log.sizes.sum():,}, {log.slots.sum():,}",
        "known rewards": f"{1 - log.missing:.1%}",
        f"fairbandit {VERSION}": ", ".join(f"{key}={value}" for key, value in options.items()),
        **hashes(source),
    }
    words = {"drift": DRIFT, **({"order": ORDER} if options.get("order") else {})}
    words |= {"parity": PARITY.format(epsilon=options.get("epsilon") or 0)}
    without = NOT_TESTED
    if len(log) <= FIRST[0]:
        few = f"was not tested: {len(log)} decisions, {FIRST[0] + 1} are needed."
        without = {**NOT_TESTED, "drift": f"Drift {few}", "order": f"Order of arrival {few}"}
    page: Page = [
        "# Audit of decisions",
        Sheet(("", ""), [*facts.items()], names=2),
        Sheet(("in words",), [[words] for words in audited.table["words"]]),
        sheet_of(audited.table, "attribute"),
        draw_log(audited, confidence),
        RATES.format(rate=RATE, people="candidates")
        + SCORING * ("scoring_rate" in audited.table)
        + OF_PICKS,
        TESTS.format(rows=len(audited.table), level=1 - confidence),
        *(words[test] if test in audited.wealth else without[test] for test in words),
    ]
    return page, audited.table


def hashes(source: Path | None) -> dict[str, str]:
    """Returns the hashes of a log's file, or of the files in its folder, by their names."""
    files = sorted(source.iterdir()) if source and source.is_dir() else [source]
    return {f"SHA-256 of {file.name}": sha256(file) for file in files if file and file.is_file()}


@renamed
def report(
    folders: Sequence[Path], out: Path | None = None, *, confidence: float = CONFIDENCE_OF_RUNS
) -> tuple[Page, list[Path]]:
    """Audits every finished run in some folders, from its round log.

    Writes audit.md, audit.csv with selection rates, and parity.csv with rows of `examine_counts`
    to a folder, by default the first; returns the page and the paths. Folders contain runs at any
    depth, and `confidence` is the family-wise confidence of each run's test.

    Raises:
        FairbanditError: no run was found, or rows of a round log are missing.
    """
    import pandas as pd

    tables, tests, rates = list[pd.DataFrame](), list[pd.DataFrame](), list[Ends]()
    for scene, run in ((each, run) for each in read_scenes(folders) for run in each.runs):
        test = examine_run(run, confidence)
        table = test.groupby("group", sort=False)[["received", "selected"]].sum().reset_index()
        table["rate"], stds = run.by_group("selection_rate")
        counts = [run.spreads[column_of("selection_rate", group)]["n"] for group in run.groups]
        received = run.by_group("received")[0]
        parts = zip(table["rate"], stds, counts, received, strict=True)
        rates += (ends := [partial(rate_ends, *part) for part in parts])
        table[["low", "high"]] = [end(CONFIDENCE) for end in ends]
        for frame, frames in ((table, tables), (test, tests)):
            frame.insert(0, "run", run.label)
            frame.insert(1, "environment", scene.name)
            frames.append(frame)
    names, place = ["run", "environment"], out or folders[0]
    table = compared(pd.concat(tables, ignore_index=True), names, rates, CONFIDENCE)
    small = bool(table["small"].any())
    table["words"] = [in_words(row, CONFIDENCE, small=small) for row in table.to_dict("records")]
    far = pd.DataFrame([test.loc[(test["rate"] - test["target"]).abs().idxmax()] for test in tests])
    estimates = ["group", "round", "selected", "received", "rate", "low", "high"]
    tested = ~far["verdict"].str.startswith("not tested")
    far = far.astype(dict.fromkeys(estimates[1:4], "Int64"))
    bands = [test[["low", "high"]].sub(test["target"], axis=0).abs() for test in tests]
    far.insert(len(far.columns) - 1, "margin", [band.max(axis=None) for band in bands])
    estimates.append("margin")
    far[estimates] = far[estimates].where(tested)  # the extreme of a run reads like a finding
    far = far.dropna(axis=1, how="all").assign(group=far["group"].fillna("–"), small=False)
    page: Page = [
        "# Audit of runs",
        Sheet(("in words",), [[words] for words in table["words"]]),
        sheet_of(table, *names),
        RATES.format(rate=RATE_OF_RUNS, people="candidates") + OF_PICKS,
        "## Demographic parity",
        sheet_of(far, *names),
        RUNS.format(level=1 - confidence),
    ]
    write(pd.concat(tests), place / "parity.csv")
    return page, [*write_page(page, table, place), place / "parity.csv"]


def examine_run(run: PooledRuns, confidence: float = CONFIDENCE_OF_RUNS) -> pd.DataFrame:
    """Applies `examine_counts` to the picks of a run; the parts declare if they read the past.

    Raises:
        FairbanditError: rows of the round log are missing.
    """
    mean, spread = run.by_group("received")
    config = run.runs[0].summary["config"]
    try:
        past = build_policy(config["policy"]).reads_past
    except FairbanditError:  # a plugin that is not loaded
        past = True
    return examine_counts(
        run.picks(),
        (mean * run.replicas).round(),
        run.groups,
        # one candidate of each group in every pool: the paper's first setting
        own_places=bool((mean == run.rounds).all()) and not bool((spread > 0).any()),
        reads_past=past,
        picks=config.get("picks", 1),
        confidence=confidence,
    )


def sheet_of(table: pd.DataFrame, *names: str) -> Sheet:
    """Returns `names`, the group, and the columns of a table that have a format."""
    forms = {name: _FORMS[name] for name in table if name in _FORMS}
    rows = [
        [*(row[name] for name in names), row["group"] + " *" * row["small"]]
        + ["–" if row[name] is None else f"{row[name]:{form}}" for name, form in forms.items()]
        for row in table.astype(object).where(table.notna(), None).to_dict("records")
    ]
    headers = [name.replace("_", " ") for name in (*names, "group", *forms)]
    return Sheet(headers, rows, names=len(names) + 1)


def write_page(page: Page, table: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes a page as audit.md, its pictures, and its table as audit.csv; returns the paths."""
    write(table, folder / "audit.csv")
    texts, pictures = list[str](), list[Path]()
    for part in page:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, Sheet):
            texts.append(part.exported("markdown").strip())
        else:
            pictures += save(part, folder, "audit")
            texts.append(f"![Rates and tests]({pictures[0].name})")
    with written_aside(folder / "audit.md") as file:
        file.write(("\n\n".join(texts) + "\n").encode())
    return [folder / "audit.md", folder / "audit.csv", *pictures]


def draw_log(audited: Audit, confidence: float) -> Figure:
    """Draws a row for each attribute: rates with intervals, and the wealth of each test."""
    from matplotlib.figure import Figure

    table, tests = audited.table, audited.wealth
    by = list(table.groupby("attribute", sort=False))
    with applied(text="".join([*table["attribute"], *table["group"]])):
        heights = [height_of(rows["group"]) for _, rows in by]
        size = (WIDTH * (1 + len(tests)) / 3, sum(heights))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(by), 1 + len(tests), squeeze=False, height_ratios=heights)
        for (first, *panels), (attribute, rows) in zip(grid, by, strict=True):
            looks = draw_rates(first, rows)
            first.set(xlabel=RATE, title=attribute)
            for panel, test in zip(panels, tests, strict=True):
                n = tests[test][attribute].shape[1]
                at = np.unique(np.linspace(0, n - 1, 2000).astype(np.int64))
                for wealth, look in zip(tests[test][attribute], looks, strict=True):
                    panel.plot(at + 1, wealth[at] / math.log(10), **look)
                line = math.log10(len(table) / (1 - confidence))
                panel.axhline(line, color="black", linewidth=0.6)
                where = {"transform": panel.get_yaxis_transform(), "va": "bottom", "ha": "right"}
                panel.text(0.98, line, f"rejected at {1 - confidence:g}", fontsize="small", **where)
                panel.set(xlabel="decision", ylabel="log₁₀ wealth", title=f"test of {test}")
                write_numbers(panel, WIDTH / 8)
            if panels:
                panels[-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_rates(panel: Axes, rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Draws the rate of each group with its interval; returns the looks of the groups."""
    groups = rows["group"].tolist()
    looks = [group_line(code, groups) for code in range(len(groups))]
    for row, look, y in zip(rows.itertuples(), looks, range(len(groups)), strict=True):
        look["label"] = _in_lines(look["label"])
        arms = [[row.rate - row.low], [row.high - row.rate]]
        panel.errorbar(row.rate, y, xerr=arms, marker="o", color=look["color"])
    panel.set_yticks(range(len(groups)), [look["label"] for look in looks])
    panel.set_ylim(len(groups) - 0.5, -0.5)
    return looks


def height_of(groups: Sequence[str]) -> float:
    """Returns the height of a panel of `draw_rates` with its title, in inches."""
    lines = max(1 + _in_lines(group).count("\n") for group in groups)
    return 0.7 + max(0.9, 0.17 * lines * len(groups))


def _in_lines(label: str) -> str:
    return shortened(label, WIDTH / 6, most=2)
