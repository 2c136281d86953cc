"""Reports of logged decisions, and of audits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.audit.logged import attributes_of
from fairbandit.audit.report import Page, log_page
from fairbandit.conformance.group import READS, answers, in_words
from fairbandit.evaluation.estimates import Moments
from fairbandit.logs import Log, own_lines
from fairbandit.logs.events import Header
from fairbandit.logs.own import is_own
from fairbandit.report.page import Report
from fairbandit.runs.intervals import UNBOUNDED
from fairbandit.runs.naming import shown
from fairbandit.runs.separation import holds_group
from fairbandit.runs.settings import dotted
from fairbandit.runs.sheets import Sheet, bracketed

AUDIT = "audit.json"
"""The report of an audit in its folder."""

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
    page, _ = log_page(log, path, confidence, **options)
    return of_log_audit(page, log, path, words, confidence)


def of_log_audit(
    page: Page, log: Log, path: Path, words: Sequence[str], confidence: float = 0.95
) -> Report:
    """Reports the page of a log's audit; see `of_log`."""
    question = f"How did each group fare in the {len(log):,} decisions of {path.name}?"
    _, facts, said, rates, figure, *texts = page
    assert isinstance(facts, Sheet)
    rewards = _rewards(log, confidence), _REWARDS.format(confidence=confidence)
    made = facts_of(path, words, log)
    parts: list[Any] = ["## By group", said, rates, figure, *rewards, "## How sure"]
    parts += [str(text).replace("**", "") for text in texts]  # the marks of bold words
    parts += ["## Notes", *log.notes] if log.notes else []
    parts += ["## How it was made", replace(facts, rows=[*facts.rows, *made.items()])]
    parts += [_CHAIN] if len(made) > 2 else []
    return Report.of(f"Report of {path.name}", question, parts)


def facts_of(
    path: Path, words: Sequence[str], log: Log, policies: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Returns the settings, the policy and last hash of each log of an agent, and group readers.

    Args:
        path, words, log: as for `of_log`.
        policies: the configs of further policies, by name.
    """
    facts, configs = {"settings": " ".join(words)}, dict[str, Any]()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file() and is_own(file):
            lines = own_lines(file)
            first = next(lines)
            assert isinstance(first.event, Header)
            (last,) = deque(chain([first], lines), maxlen=1)
            configs[f"logged by {file.name}"] = first.event.config
            config = dotted(first.event.config)
            facts[f"policy of {file.name}"] = ", ".join(f"{k}={shown(v)}" for k, v in config)
            facts[f"last hash of {file.name}"] = last.at.sha256
    found = {} if configs else {"not known, since the log does not name its policy": ["logged"]}
    found |= answers({**configs, **(policies or {})}, _group_feature(log), max(len(log.labels), 2))
    return {**facts, READS: in_words(found)}


def _group_feature(log: Log) -> bool | None:
    """Whether the features hold the group; None if the log does not show it."""
    if log.encoder is not None and log.encoder.labels:
        return True
    x = log.contexts
    return None if x is None else holds_group(x, log.groups)


def _rewards(log: Log, confidence: float) -> Sheet:
    rows, known = list[tuple[str, ...]](), (log.picks >= 0) & ~np.isnan(log.rewards)
    rewards = log.rewards[known]
    span = rewards.min(initial=math.inf), rewards.max(initial=-math.inf)
    if not span[0] < span[1]:  # it is not known which other rewards are possible
        span = UNBOUNDED
    for attribute, (groups, labels) in attributes_of(log).items():
        for code, label in enumerate(labels):
            own = known & (log.at_picks(groups) == code)
            sums = np.stack([np.where(own, log.rewards, 0.0).sum(1), own.sum(1)])
            mean = "–"
            if count := int(own.sum()):
                n = int(own.any(1).sum())
                mean_of = Moments.of(sums).ratio(0, 1, 1, n, span)
                mean = bracketed(mean_of.value, *mean_of.ends(confidence))
            rows.append((attribute, label, f"{count:,}", mean))
    return Sheet(("attribute", "group", "picks with a reward", "mean reward"), rows, names=2)
