"""The distribution of rewards that runs observed, for environments that know no true rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fairbandit.environments.distribution import of_sample
from fairbandit.results.files import row_groups
from fairbandit.results.pooling import PooledRuns
from fairbandit.results.runs import RewardDistribution, SavedRun

MOST_SAMPLES = 1_000_000
"""About the largest number of rewards that are read; of longer logs only every n-th round is."""

SAMPLER = "uniform"
"""The policy whose picks are a random sample of the candidates."""


def sampled_rewards(runs: Sequence[PooledRuns]) -> tuple[RewardDistribution | None, ...]:
    """Estimates the distribution of the observed, noisy rewards of each group's picks.

    They are those of the policy `uniform` if there is one, whose picks are a random sample of the
    candidates, and else those of all runs, where better candidates are picked more often.

    Args:
        runs: runs in one environment.

    Returns:
        A distribution for each group in order of codes; None for a group that was never picked.

    Raises:
        FairbanditError: a file is damaged, or rounds are missing.
    """
    pools = [pool for pool in runs if pool.policy == SAMPLER] or runs
    logs = [run for pool in pools for run in pool.runs]
    total = sum(log.summary["rounds"] * log.summary["replicas"] for log in logs)
    step = math.ceil(total / MOST_SAMPLES)
    parts = [_read(log, step) for log in logs]
    groups, rewards = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return tuple(_estimate(rewards[groups == code]) for code in range(len(runs[0].groups)))


def _estimate(rewards: torch.Tensor) -> RewardDistribution | None:
    if not len(rewards):
        return None
    found = of_sample(rewards.sort().values)
    return RewardDistribution(*(part.numpy() for part in (found.values, found.density, found.cdf)))


def _read(run: SavedRun, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads groups and rewards of every step-th round of a log, (n,) each."""
    kept = []
    for first, columns in row_groups(run.folder, run.summary, ["group", "reward"]):
        picked = slice(-first % step, None, step)
        kept.append([columns[name][:, picked].flatten() for name in ("group", "reward")])
    groups, rewards = (torch.cat(parts) for parts in zip(*kept, strict=True))
    return groups, rewards
