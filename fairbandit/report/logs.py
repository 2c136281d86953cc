"""Reports of logs: the audit of logged decisions, and the evaluation of other policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairbandit.audit.logged import attributes_of, audit
from fairbandit.audit.processes import FIRST_FREEZES
from fairbandit.conformance.group import READS, answers, in_words
from fairbandit.evaluation.choosing import LESS, best_of, of_groups, preferred
from fairbandit.evaluation.estimates import Moments
from fairbandit.evaluation.picture import draw_estimates
from fairbandit.evaluation.sums import LOGGED
from fairbandit.evaluation.whole import MEASURES
from fairbandit.logs import Log, own_lines
from fairbandit.logs.events import Header
from fairbandit.logs.own import is_own
from fairbandit.notices import listed
from fairbandit.policy.build import policy_label
from fairbandit.report.page import Part, Report, facts_sheet, hashes
from fairbandit.report.people import draw_rates, rates_of
from fairbandit.runs.intervals import UNBOUNDED
from fairbandit.runs.naming import shown
from fairbandit.runs.separation import holds_group
from fairbandit.runs.settings import dotted
from fairbandit.runs.sheets import Sheet, bracketed, metric_header

if TYPE_CHECKING:
    import pandas as pd

_OF_PICKS = """\
Picked share: the group's share of all picks. The report does not judge these numbers by a
threshold; New York's Local Law 144, which requires them, sets none."""

_TESTS = """\
Each p is the smallest level at which the test has rejected so far, corrected for all {rows} rows.
The column "at" is the first decision, counted from 1, at which p was at most {level:g}: there the
wealth crosses the line in the picture. The audit of a growing log may be repeated every day: by
Ville's inequality each test ever rejects a true hypothesis with probability at most {level:g},
unless a group joins, which raises the number of rows and therefore every p. Intervals assume
independent decisions or, if a policy learns, are for the mean of its probabilities. The audit does
not examine whether the log is complete and true, or who was the better candidate."""

_OF_TEST = {
    "drift": """\
Drift. Hypothesis: the pools are independent of each other over time, and any number of
candidates of the group who are drawn from a pool at random always have the same joint distribution.
The candidates of one pool may be alike, if they always are to the same degree, and the sizes of
pools may change. A model of the mean reward is trained on past
decisions and frozen. From each later pool 1, 2, 4, 8 or more candidates of the group are drawn, and
the test bets on the rank of their total score among the totals of equally many candidates since the
freeze. If pools are independent over time, a small p means that the candidates have changed in the
features that the model values, or in how alike the candidates of a pool are, not that a candidate
was treated wrongly. Candidates who apply again
violate the hypothesis, and so do good and bad times that last for several pools. Changes in the
first 100 decisions cannot be detected, nor changes after too few pools since a freeze. Late rewards
retrain old models, so earlier results may change.""",
    "order": """\
Order of arrival. Hypothesis: given who is in a pool, the candidates of a group come in any
order with equal probability. The test bets on the difference in rank of those who came early and
those who came late. A small p means that better candidates come earlier, or later. Then threshold
rules lose reward, and the time of arrival changes a person's chance.""",
    "parity": """\
Parity of selection. Hypothesis: at each decision with a choice, the group's share of the picks
differs from its share of the candidates by at most ε = {epsilon} on average, given all earlier
decisions. A small p means that at some time the group was picked more often, or less often, than
that. A large p does not prove parity: the log may be short, and ε large. The column "gap" is the
mean difference in the log. The test does not explain why: groups may differ in the
qualities that were demanded.""",
}

_NOT_TESTED = {
    "drift": "Drift was not tested: the test needs contexts and rewards.",
    "parity": "Parity of selection was not tested: no epsilon was given.",
}

_REWARDS = """\
The mean of the known rewards of each group's picks, with its {confidence:.0%} interval by decision.
It compares the outcomes of picks, not the candidates, and rewards of different groups may not be
comparable. ∞ is an end that so few picks do not bound, and – stands for a group without a known
reward."""

_CHAIN = """\
The last hash covers every line of the log. A copy of the hash that was kept elsewhere shows whether
a line was changed, and `fairbandit replay` plays every decision again."""


def of_log(
    log: Log, path: Path, words: Sequence[str] = (), *, confidence: float = 0.95, **options: Any
) -> Report:
    """Reports logged decisions: their audit, and the rewards of each group's picks.

    Args:
        log, path, words: the log, its file or folder, and the settings of the command.
        confidence, options: the arguments of `audit`.

    Raises:
        FairbanditError: a value is out of range, or the log is empty.
    """
    table, wealth = audit(log, confidence=confidence, **options)
    made = facts_of(path, words or [f"{k}={v}" for k, v in options.items()], log)
    facts = {
        "policy": ", ".join(map(policy_label, log.policies)) or "not named in the log",
        "decisions": f"{len(log):,}, from {log.names[0]} to {log.names[-1]}",
        **({"made": " to ".join(log.period).replace("+00:00", " UTC")} if log.period else {}),
        "candidates, selected": f"{log.sizes.sum():,}, {log.slots.sum():,}",
        "known rewards": f"{1 - log.missing:.1%}",
        **hashes(path),
        **made,
    }
    epsilon, without = options.get("epsilon"), _NOT_TESTED
    if len(log) <= FIRST_FREEZES[0]:
        note = f"was not tested: {len(log)} decisions, {FIRST_FREEZES[0] + 1} are needed."
        without = {**_NOT_TESTED, "drift": f"Drift {note}", "order": f"Order of arrival {note}"}
    rows = len(set(zip(table["attribute"], table["group"], strict=True)))
    parts: list[Part] = [
        "## By group",
        *rates_of(table, "candidates"),
        _OF_PICKS,
        draw_rates(table, wealth, confidence),
        _rewards(log, confidence),
        _REWARDS.format(confidence=confidence),
        "## How sure",
        _TESTS.format(rows=rows, level=1 - confidence),
        *(
            _OF_TEST[test].format(epsilon=epsilon) if test in wealth else without[test]
            for test in _OF_TEST
            if test != "order" or options.get("order")
        ),
        *(["## Notes", *log.notes] if log.notes else []),
        "## How it was made",
        facts_sheet(facts),
        *([_CHAIN] if len(made) > 2 else []),
    ]
    question = f"How did each group fare in the {len(log):,} decisions of {path.name}?"
    return Report(f"Report of {path.name}", question, parts, table)


def facts_of(
    path: Path, words: Sequence[str], log: Log, policies: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Returns the settings, the policy and last hash of each log of an agent, and group readers.

    The `policies` are the configs of further policies, by name; for the others, see `of_log`.
    """
    facts, configs = {"settings": " ".join(words)}, dict[str, Any]()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file() and is_own(file):
            for line in own_lines(file):
                if isinstance(line.event, Header):
                    config = line.event.config
            configs[f"logged by {file.name}"] = config
            settings = (f"{key}={shown(value)}" for key, value in dotted(config))
            facts[f"policy of {file.name}"] = ", ".join(settings)
            facts[f"last hash of {file.name}"] = line.at.sha256
    readers = {} if configs else {"not known, since the log does not name its policy": ["logged"]}
    feature = None if log.contexts is None else holds_group(log.contexts, log.groups)
    if log.encoder is not None and log.encoder.labels:
        feature = True
    readers |= answers({**configs, **(policies or {})}, feature, max(len(log.labels), 2))
    return {**facts, READS: in_words(readers)}


def _rewards(log: Log, confidence: float) -> Sheet:
    rows, rewarded = list[tuple[str, ...]](), (log.picks >= 0) & ~np.isnan(log.rewards)
    rewards = log.rewards[rewarded]
    span = rewards.min(initial=math.inf), rewards.max(initial=-math.inf)
    if not span[0] < span[1]:  # it is not known which other rewards are possible
        span = UNBOUNDED
    for attribute, (groups, labels) in attributes_of(log).items():
        for code, label in enumerate(labels):
            here, mean = rewarded & (log.at_picks(groups) == code), "–"
            if here.any():
                sums = Moments.of(np.stack([np.where(here, log.rewards, 0.0).sum(1), here.sum(1)]))
                mean_of = sums.ratio(0, 1, 1, int(here.any(1).sum()), span)
                mean = bracketed(mean_of.value, *mean_of.ends(confidence))
            rows.append((attribute, label, f"{here.sum():,}", mean))
    return Sheet(("attribute", "group", "picks with a reward", "mean reward"), rows, names=2)


_ESTIMATES = """\
Each estimate stands with its {confidence:.0%} interval. Each measure has one estimator: the
estimator that most policies have, and of several the first of anytime, dr, direct, snips and ips.
Arrows point in the better direction. ∞ is an end of an interval that the decisions do not bound.
– stands where an estimate is missing: it was refused, and a note gives the reason, or the policy
makes no such picks."""

_BEST = """\
The policy with the best worst case is bold and shaded: the highest lower end or, if lower is
better, the lowest upper end. So is each policy whose interval overlaps the interval of this policy,
since the estimates do not show which of the two is better, unless its own worst case is no better
than the worst estimate of the row. No policy is marked if all intervals overlap the interval
of the best."""

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

_TENTHS = "Estimated probabilities of tenths of the candidates, and the shares that were picked:"

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
    attrs, policies = table.attrs, [*dict.fromkeys(table["policy"])]
    names = [repr(name) if ", " in name else name for name in policies if name != LOGGED]
    decisions = f"the {len(log):,} decisions of {path.name}"
    question = f"What would {listed(names, 6)} give in place of {decisions}?"
    whole = table[[":" not in measure for measure in table["measure"]]]
    best = {of: preferred(whole, of)["estimator"].iloc[0] for of in whole["measure"].unique()}
    main = whole["estimator"] == whole["measure"].map(best)
    further = _estimates(whole[~main], policies)

    def in_order(measures: pd.Series[str]) -> pd.Series[int]:
        return measures.map(MEASURES.index)

    configs = {n: attrs.get("policies", {}).get(n, n) for n in policies if n != LOGGED}
    parts: list[Part] = [
        "## Estimates",
        _estimates(whole[main].sort_values("measure", key=in_order, kind="stable"), policies, True),
        _ESTIMATES.format(confidence=confidence),
        _BEST,
        _MEASURES,
    ]
    if "chosen" in attrs:
        chosen = attrs["chosen"] or "none, since no policy is within the limits"
        parts += [f"The choice is {chosen}."]
    parts += [draw_estimates(table)]
    parts += ["## Other estimators", further] if further.rows else []
    parts += ["## By group", groups_of(table), _ACROSS, "## How sure"]
    parts += [*diagnostics_of(attrs["diagnostics"]), _WEIGHTS]
    if (tenths := attrs.get("calibration")) is not None:
        rows = [[f"{p:.3f}", f"{share:.3f}", f"{n:,.0f}"] for p, share, n in tenths.to_numpy()]
        parts += [_TENTHS, Sheet(tuple(tenths), rows, 0)]
    parts += ["## Assumptions", *(f"{of}: {text}." for of, text in attrs["assumptions"].items())]
    parts += ["## Notes", *(f"{note}." for note in attrs["notes"]), "## How it was made"]
    parts += [facts_sheet({**facts_of(path, words, log, configs), **hashes(path)})]
    return Report(f"Evaluation of {path.name}", question, parts, table)


def _estimates(table: pd.DataFrame, policies: Sequence[str], mark: bool = False) -> Sheet:
    rows, best = list[list[str]](), list[tuple[int, int]]()
    for (measure, estimator), estimates in table.groupby(["measure", "estimator"], sort=False):
        cells = dict.fromkeys(policies, "–")
        for row in estimates.itertuples():
            cells[row.policy] = bracketed(row.value, row.low, row.high)
        marked = best_of(estimates.set_index("policy"), measure) if mark else ()
        best += [(len(rows), 2 + policies.index(name)) for name in marked]
        head = metric_header(measure, {"lower_is_better": measure in LESS})
        rows.append([head, estimator, *cells.values()])
    return Sheet(("", "estimator", *policies), rows, names=2, bold=best)


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


def diagnostics_of(diagnostics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a sentence for each policy on the weights of its estimates."""
    lines = []
    for row in diagnostics:
        support = "unknown" if math.isnan(row["unsupported"]) else f"{row['unsupported']:.2g}"
        line = f"{row['policy']}: {row['ess']:,.0f} effective decisions, largest weight "
        line += f"{row['largest_weight']:.3g}, share without support {support}"
        lines += [line] if row["ess"] else []  # without, a notice tells why
    return lines
