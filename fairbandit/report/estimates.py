"""The report of an evaluation: what policies would give, to all and to each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.evaluation.choosing import LESS, best_of, of_groups, preferred
from fairbandit.evaluation.picture import draw_estimates
from fairbandit.evaluation.sums import LOGGED
from fairbandit.notices import listed
from fairbandit.report.decisions import facts_of
from fairbandit.report.groups import facts_sheet, hashes
from fairbandit.report.page import Part, Report
from fairbandit.runs.sheets import Sheet, bracketed, metric_header

if TYPE_CHECKING:
    import pandas as pd

    from fairbandit.logs import Log

_ESTIMATES = """\
Each estimate stands with its {confidence:.0%} interval, by one estimator for each measure: the one
that most policies have, and of several the first of anytime, dr, direct, snips and ips. Arrows
point in the better direction. ∞ is an end of an interval that the decisions do not bound. – stands
where there is no estimate: it was refused, and a note gives the reason, or the policy makes no such
picks."""

_BEST = """\
The policy with the best worst case is bold and shaded: the highest lower end or, if lower is
better, the lowest upper end. So is each policy whose interval overlaps the interval of this policy,
since the estimates do not show which of the two is better, unless its own worst case is no better
than the worst estimate of the row. No policy is marked if all intervals overlap that of the
best."""

_MEASURES = """\
The rank of a pick is the share of its own group with at most the pick's mean reward. Fair regret is
the best rank of a pool less the rank of the pick. Win is the probability that a pick has a higher
reward than a random candidate of its group."""

_ACROSS = """\
The intervals of selection ratio, reward gap and rank gap hold for all groups together (Bonferroni).
A gap of estimates is biased upwards: of several uncertain groups, one is the highest by luck."""

_BY_GROUP = """\
by group, with intervals; ∞ the decisions do not bound this end; – refused, or the policy picks no \
candidate of the group"""

_WEIGHTS = """\
Weighted estimates rest on decisions in which the log made the policy's own picks. Few effective
decisions, or a large weight, mean that few of them count."""


def of_evaluation(
    table: pd.DataFrame, log: Log, path: Path, words: Sequence[str], confidence: float = 0.95
) -> Report:
    """Reports a table of `evaluate`.

    Args:
        table: the table, whose `attrs` hold notes and assumptions.
        log, path: the log, and its file or folder.
        words, confidence: the settings of the command, and the confidence of the intervals.
    """
    import pandas as pd

    found, policies = table.attrs, [*dict.fromkeys(table["policy"])]
    decisions = f"the {len(log):,} decisions of {path.name}"
    names = [repr(name) if ", " in name else name for name in policies if name != LOGGED]
    judged = listed(names, 6)
    question = f"What would {judged} give in place of {decisions}?"
    whole = table[[":" not in measure for measure in table["measure"]]]
    measures = dict.fromkeys(whole["measure"])
    main = pd.concat([preferred(whole, measure).reset_index() for measure in measures])
    keys = ["measure", "estimator"]
    others = whole[~whole.set_index(keys).index.isin(main.set_index(keys).index)]
    chosen = found.get("chosen", "") or "none, since no policy is within the limits"
    configs = {n: found.get("policies", {}).get(n, n) for n in policies if n != LOGGED}
    further: list[Part] = ["## Other estimators", _estimates(others, policies)]
    parts: list[Part] = [
        "## Estimates",
        _estimates(main, policies, mark=True),
        _ESTIMATES.format(confidence=confidence),
        _BEST,
        _MEASURES,
        *([f"The choice is {chosen}."] if "chosen" in found else []),
        draw_estimates(table),
        *(further if len(others) else []),
        "## By group",
        groups_of(table),
        _ACROSS,
        "## How sure",
        *diagnostics_of(found["diagnostics"]),
        _WEIGHTS,
        *_calibration(found.get("calibration")),
        "## Assumptions",
        *(f"{names}: {text}." for names, text in found["assumptions"].items()),
        "## Notes",
        *(f"{note}." for note in found["notes"]),
        "## How it was made",
        facts_sheet({**facts_of(path, words, log, configs), **hashes(path)}),
    ]
    return Report(f"Evaluation of {path.name}", question, parts, table)


def _estimates(table: pd.DataFrame, policies: Sequence[str], *, mark: bool = False) -> Sheet:
    rows, best = list[list[str]](), list[tuple[int, int]]()
    for (measure, estimator), found in table.groupby(["measure", "estimator"], sort=False):
        cells = dict.fromkeys(policies, "–")
        for row in found.itertuples():
            cells[row.policy] = bracketed(row.value, row.low, row.high)
        marked = best_of(found.set_index("policy"), measure) if mark else ()
        best += [(len(rows), 2 + policies.index(name)) for name in marked]
        head = metric_header(measure, {"lower_is_better": measure in LESS})
        rows.append([head, estimator, *cells.values()])
    return Sheet(("", "estimator", *policies), rows, names=2, bold=best)


def _calibration(tenths: pd.DataFrame | None) -> list[Part]:
    if tenths is None:
        return []
    rows = [[f"{p:.3f}", f"{share:.3f}", f"{n:,.0f}"] for p, share, n in tenths.to_numpy()]
    title = "Estimated probabilities of tenths of the candidates, and the shares that were picked:"
    return [title, Sheet(tuple(tenths), rows, 0)]


def groups_of(table: pd.DataFrame) -> Sheet:
    """Returns a table of the groups side by side, with a row for each policy and group."""
    cells = dict[tuple[str, str], dict[str, str]]()
    for measure in ("share", "selection", "reward", "rank", "fair_regret", "win"):
        rows = of_groups(table, measure)
        head = f"{measure.replace('_', ' ')} ({', '.join(rows['estimator'].unique())})"
        for row in rows.itertuples():
            text = f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]"
            cells.setdefault((row.policy, row.group), {})[head] = text.replace("inf", "∞")
    heads = list(dict.fromkeys(head for own in cells.values() for head in own))
    lines = [(*names, *(own.get(head, "–") for head in heads)) for names, own in cells.items()]
    return Sheet(("policy", "group", *heads), lines, 2, below=_BY_GROUP)


def diagnostics_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a sentence for each policy on the weights of its estimates."""
    lines = []
    for row in found:
        if not row["ess"]:  # a notice tells why
            continue
        support = "unknown" if isnan(row["unsupported"]) else f"{row['unsupported']:.2g}"
        lines.append(
            f"{row['policy']}: {row['ess']:,.0f} effective decisions, largest weight "
            f"{row['largest_weight']:.3g}, share without support {support}"
        )
    return lines
