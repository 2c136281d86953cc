"""Notices of plausible mistakes in the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairbandit.environments import Environment, Table
from fairbandit.notices import listed, remark
from fairbandit.policy.build import preset, presets
from fairbandit.policy.policy import Policy
from fairbandit.ranks import EmpiricalCdf
from fairbandit.registry import PART_KINDS, lookup
from fairbandit.runs.record import Record
from fairbandit.tables.labels import is_unknown

STEPS = 10
"""The number of steps in the best m/K of all ranks that keeps the excess of picks below 5 %."""


def note_settings(policy: Policy, environment: Environment, rounds: int, picks: int) -> None:
    """Notes plausible mistakes in the settings of a run, such as one rank for a whole sweep."""
    named = preset(policy.name) if policy.name in presets() else {}
    preset_parts = {key: part["name"] for key, part in named.items() if key in PART_KINDS}
    if any("truth" in lookup(kind, name).needs for kind, name in preset_parts.items()):
        for kind, name in preset_parts.items():
            if (part := policy.parts[kind]._name) != name:
                remark(f"policy {policy.name} has the {kind} {part} and not its own, {name}")
    if isinstance(environment, Table) and environment.features > rounds:
        remark(
            f"{environment.features:,} features are more than the {rounds:,} rounds: ids "
            "or names may be among them; environment.exclude=[…] leaves columns out"
        )
    if picks >= environment.places:
        remark(
            f"picks={picks} from pools of at most {environment.places} candidates: all "
            "candidates are picked"
        )


def unknown_rates(picks: Mapping[str, tuple[float, float]]) -> str:
    """Returns a note of the selection rates of people whose group is unknown and of the others.

    The numbers are picks and candidates by group; without people of either kind, the note is empty.

    >>> unknown_rates({"f": (30, 200), "m": (50, 200), "unknown": (3, 100)})
    '3.0 % of the 100 people whose group is unknown are picked, and 20.0 % of the others'
    """
    sums = np.zeros((2, 2))
    for group, counts in picks.items():
        sums[int(is_unknown(group))] += counts
    (rate, unsaid), received = 100 * sums[:, 0] / sums[:, 1].clip(1e-9), sums[:, 1]
    note = f"{unsaid:.1f} % of the {received[1]:,.0f} people whose group is unknown are picked"
    return f"{note}, and {rate:.1f} % of the others" if received.all() else ""


def note_unknown(policy: Policy, record: Record) -> None:
    """Notes how often people are picked whose group is unknown."""
    counts = [record.by_group(measure).sum(0).tolist() for measure in ("selected", "received")]
    pairs = zip(*counts, strict=True)
    if note := unknown_rates(dict(zip(record.group_names, pairs, strict=True))):
        remark(f"{policy.name}: {note}")


def note_rare_groups(
    policy: Policy, environment: Environment, record: Record, rounds: int, picks: int
) -> None:
    """Notes groups that `empirical_cdf` ranks in too coarse steps at the last round.

    A candidate of a group with n independent past contexts has the rank i/n with probability
    1/(n + 1), for i = 0 … n; in a table, n is at most the number of the group's members. If the
    best m of K candidates are picked, the share of the picks of this group exceeds its share of
    the candidates by a factor of about 1 + (K/2m − 1)/n, which is below 1.05 from n = `STEPS`·K/m
    on. If all groups have fewer contexts, the run is short, and the groups are alike.
    """
    if not isinstance(policy.rank, EmpiricalCdf):
        return
    plan = policy.plan(rounds, 1)
    start, stop = int(plan.rank_start[0]), int(plan.rank_stop[0])
    counts = record.by_group("received").mean(0) * (stop - start) / rounds
    n = counts.clamp(min=1, max=policy.rank.max_contexts)
    if isinstance(environment, Table):  # a person who comes again does not add a context
        n = n.minimum(environment.members.sizes.to(n))
    needed = STEPS * environment.places / picks
    names = [name for name, few in zip(record.group_names, n < needed, strict=True) if few]
    if 0 < len(names) < len(n):
        least = float(n.min())
        remark(
            f"{policy.rank} is coarse for {listed([*map(repr, names)])}: {least:,.0f} different "
            f"past contexts at the last round make steps of up to {1 / least:.2g}. With {picks} "
            f"of {environment.places} candidates picked, a group with "
            f"fewer than {needed:,.0f} is picked too often. Ranks are finer in a run of "
            f"{policy.name} alone with policy/rank=smoothed_cdf, or with shrunk_cdf where all "
            "groups have one shape (docs/rare.md)"
        )
