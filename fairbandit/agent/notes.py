"""Notices of doubtful input of agents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairbandit.agent.learning import keys
from fairbandit.agent.state import State
from fairbandit.environments import Encoder
from fairbandit.errors import did_you_mean
from fairbandit.logs import Floats
from fairbandit.logs.events import Observed
from fairbandit.notices import listed, remark
from fairbandit.policy.policy import Policy
from fairbandit.tables.labels import Codes, is_unknown, normal

FEW = 5
"""Fewer observed rounds are not compared with earlier ones."""

FAR = 3.29
"""With probability 0.001, a normal variable is more standard deviations away from its mean."""


def new_groups(encoder: Encoder | None, groups: Codes, first: int) -> None:
    """Notes groups that the table of the encoder lacks, from number `first` on."""
    if any(map(is_unknown, [*groups][first:])):
        remark(
            "people whose group is unknown are one more group, and are ranked among themselves "
            "(docs/unknown.md); an audit of the log gives their selection rate"
        )
    labels = encoder.labels if encoder else ()
    for label in [*groups][first:] if labels else ():
        if label not in labels:
            guess = did_you_mean(label, labels)
            remark(f"new group {label!r}{guess}: the encoder's table has {listed(labels)}")


def observed(policy: Policy, state: State, event: Observed) -> None:
    """Notes observed rounds that are sorted, or of which most equal rounds that were observed."""
    if all(len(pool) == 1 for pool in event.groups):
        order(policy, [label for (label,) in event.groups], np.array(event.rewards))
    get, n = state.remembered.get, len(event.groups)
    known = sum(get(key) is not None for key in keys(event, state.groups))
    if n >= FEW and known > n / 2:
        remark(
            f"{known / n:.0%} of the observed rounds equal rounds that were observed before; if "
            "they are the same, they count again"
        )


def order(policy: Policy, labels: Sequence[Any], rewards: Floats) -> None:
    """Notes n observed rounds of one candidate each that are sorted, by group or by reward.

    This matters to a policy that learns from early rounds and ranks among later candidates. Under a
    random order, the mean of the first h = n/2 values is √((1 − h/n)/h)·S away from the mean of
    all, where S is their standard deviation. The notice names the values that are farthest away, if
    this is beyond `FAR` times that distance: the rewards, or the indicators of a group.
    """
    n, h = len(rewards), len(rewards) // 2
    plan = policy.plan(n + 1, 1)
    if not h or not policy.learns or plan.n_train[0] == n == plan.rank_stop[0] - plan.rank_start[0]:
        return
    names, values = [normal(label) for label in labels], {"mean reward": rewards}
    for name in dict.fromkeys(names):
        values[f"share of group {name!r}"] = np.array([float(label == name) for label in names])
    farthest, what = FAR, ""
    for name, series in values.items():
        early, mean, deviation = series[:h].mean(), series.mean(), series.std(ddof=1)
        distance = abs(early - mean) / (deviation * math.sqrt((1 - h / n) / h) or 1)
        if distance > farthest:
            farthest = distance
            what = f"the {name} is {early:.3g} in their first half, and {mean:.3g} in all"
    if what:
        remark(
            f"the observed rounds seem sorted: {what}; this policy learns from early rounds and "
            "ranks among later ones, so shuffle them, as by table.sample(frac=1, random_state=0)"
        )
