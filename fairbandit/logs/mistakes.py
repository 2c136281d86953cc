"""Notices of mistakes of rewards and groups that leave a trace in a log.

Each function returns a notice, or "". A log is not refused, since the trace may have another
reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fairbandit.logs.log import Floats, Ints, Log
from fairbandit.notices import remark
from fairbandit.tables.labels import normal

CODES = (-1.0, *(sign * (10.0**digits - 1) for digits in range(2, 7) for sign in (-1, 1)))
"""Numbers that programs write for a missing one: −1, ±99, ±999, …"""

FACTOR = 5.0  # the smallest change of a scale that is noted

LARGEST_GROUPS = 4  # the number of groups whose labels are compared in pairs

MOST_POOLS = 2_000  # the number of pools whose candidates' features are compared between groups


def note_mistakes(log: Log, name: str) -> None:
    """Notes mistakes of the rewards and of the groups of a log."""
    for find in (repeated_reward, changed_rewards, group_of_pick, swapped_labels):
        if text := find(log):
            remark(f"{name}: {text}")


def repeated_reward(log: Log) -> str:
    """Notes a value that is repeated among rewards that have a density.

    It must be ten times as frequent as any other reward but 0, and lie amid the others or be one of
    `CODES`: further zeros, and a limit that many rewards reach, are right.
    """
    rewards = log.rewards[~np.isnan(log.rewards)]
    values, counts = np.unique(rewards, return_counts=True)
    for at in counts.argsort()[:-3:-1]:
        rest = np.where((values == 0) | (np.arange(len(values)) == at), 0, counts)
        if np.count_nonzero(rest) < 20 or counts[at] < 10 * rest.max():
            continue
        amid = min(rest[:at].sum(), rest[at:].sum()) >= max(2, 0.005 * rest.sum())
        if amid or values[at] in CODES:
            return (
                f"{counts[at] / len(rewards):.0%} of the rewards are {values[at]:.6g}, and most "
                "others differ from each other: missing rewards must be empty cells or null"
            )
    return ""


def changed_rewards(log: Log) -> str:
    """Notes a jump of the size of rewards other than 0 by a factor of 5, or of their sign."""
    rewards = log.rewards[:, 0]
    places = np.flatnonzero(np.nan_to_num(rewards))
    sizes, signs = jump(np.log(np.abs(rewards[places]))), jump(np.sign(rewards[places]))
    if sizes is not None and abs(sizes.after - sizes.before) >= math.log(FACTOR):
        return (
            f"from about decision {log.names[places[sizes.place]]} on, rewards are "
            f"{math.exp(sizes.after - sizes.before):.3g} times as large as before: does their unit "
            "change?"
        )
    if signs is None or not signs.mirrored:
        return ""
    before, after = (1 + signs.before) / 2, (1 + signs.after) / 2
    return (
        f"{before:.0%} of the rewards other than 0 are positive before about decision "
        f"{log.names[places[signs.place]]}, and {after:.0%} after it: are some rewards costs?"
    )


def group_of_pick(log: Log) -> str:
    """Notes that no decision has candidates of two groups.

    If groups are independent of pools, at most one of 10,000 logs is noted. Pools may also be of
    one group by nature, such as the group of a user; the features of candidates who were not picked
    then differ between the groups.
    """
    groups = log.groups[log.starts]
    if (log.groups != groups[log.decisions]).any():
        return ""
    sizes, counts = np.unique(log.sizes, return_counts=True)
    shares = np.bincount(groups)[:, None] / len(log)
    chance = counts @ np.log((shares**sizes).sum(0))  # that no pool has two groups
    if chance > math.log(1e-4) or _differ(log, groups):
        return ""
    return (
        "no decision has candidates of two groups: was the group of the pick written to all "
        "candidates of its pool?"
    )


def _differ(log: Log, groups: Ints) -> bool:
    """Whether features of the candidates who were not picked differ between groups of pools.

    An F test must reject equal means at the level 0.01. The features must also explain the group at
    least a quarter as well as the features of the picks do, since the others depend on the picks.
    """
    from scipy.special import fdtrc

    pools = np.flatnonzero(log.slots < log.sizes)[:MOST_POOLS]
    log, group = log[pools], groups[pools]
    x, member = log.contexts, (group == group[:1]) * 1.0
    if x is None or member.all():
        return False
    explained = list[float]()
    for rows in (log.picked, ~log.picked):
        means = log.sums(x * rows[:, None]) / log.sums(rows)[:, None]
        within = [np.ptp(means[member == value], axis=0) for value in (0, 1)]
        means = means[:, np.max(within, 0) > 1e-9]  # without the group itself
        means -= means.mean(0)
        fit, _, rank, _ = np.linalg.lstsq(means, member - member.mean())
        explained.append(float((means @ fit).var() / member.var()))
    of_picks, of_others = explained
    free = len(pools) - int(rank) - 1
    if free < 1 or not rank:
        return bool(rank)
    statistic = of_others / rank / max((1 - of_others) / free, 1e-12)
    return bool(of_others >= of_picks / 4 and fdtrc(rank, free, statistic) < 0.01)


def swapped_labels(log: Log) -> str:
    """Notes a place at which two groups change places.

    Compares the numbers of candidates of the two groups in a pool, and the deviations of their
    features from the means of the pool.
    """
    groups = log.groups
    largest = np.bincount(groups).argsort()[::-1][:LARGEST_GROUPS].tolist()
    signs = {(a, b): (groups == a) * 1.0 - (groups == b) for a, b in combinations(largest, 2)}
    for column in _within_pools(log) if signs else ():
        for pair, sign in signs.items():
            change = jump(log.sums(column * sign), (len(log.features) + 1) * len(signs))
            if change is not None and change.mirrored:
                labels = " and ".join(normal(log.labels[group]) for group in pair)
                return (
                    f"from about decision {log.names[change.place]} on, the groups {labels} differ "
                    "in numbers or in a feature as much as before, the other way round: are their "
                    "labels swapped?"
                )
    return ""


def _within_pools(log: Log) -> Iterator[Floats]:
    """Yields 1/K for candidates of pools of K, and deviations of features from the pools' means."""
    yield (1.0 / log.sizes)[log.decisions]
    for column in () if log.contexts is None else log.contexts.T:
        deviations = column - (log.sums(column) / log.sizes)[log.decisions]
        yield np.where(np.abs(deviations) > 1e-9 * np.abs(column).max(), deviations, 0.0)


class Jump(NamedTuple):
    """The place at which the mean of a sequence jumps, and the means before it and from it on."""

    place: int
    before: float
    after: float

    @property
    def mirrored(self) -> bool:
        """Whether the means have different signs and sizes that differ by at most a half."""
        least, most = sorted([abs(self.before), abs(self.after)])
        return self.before * self.after < 0 and most <= 1.5 * least


def jump(values: Floats, of: int = 1) -> Jump | None:
    """Returns the jump of the mean of a sequence, unless it has none, or changes slowly.

    Let S(t) be the sum of the first t deviations from the mean, and σ the standard deviation. The
    place t of a jump maximises z(t) = |S(t)| / (σ √(t(n − t)/n)), and z² must exceed 25 + 2 ln(of)
    there, for the number `of` of sequences that are tested. If values are exchangeable and none is
    large, z(t) is nearly normal, and some z exceeds 5 with a probability below 1/10,000. The
    quarter of the values before t that is nearest to t, and the same after it, must differ by more
    than 0.7 times as much as all values; in a straight trend, they differ by 0.25 times as much.
    """
    n = len(values)
    least = max(20, n // 10)
    if n < 2 * least or not (spread := float(values.std())):
        return None
    t = np.arange(least, n - least + 1)
    sums = (values - values.mean()).cumsum()[t - 1]
    z = np.abs(sums) / (spread * np.sqrt(t * (n - t) / n))
    place = int(t[z.argmax()])
    before, after = float(values[:place].mean()), float(values[place:].mean())
    near = values[place : (3 * place + n) // 4].mean() - values[3 * place // 4 : place].mean()
    if z.max() ** 2 <= 25 + 2 * math.log(of) or near / (after - before) <= 0.7:
        return None
    return Jump(place, before, after)
