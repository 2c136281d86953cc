"""Estimates the constants of an environment from pools that it draws."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import Constants, Estimate
from fairbandit.theory.estimation import greatest_density, smallest_direction, subgaussian
from fairbandit.theory.laws import REPLICAS, ROUNDS, drawn_pools

ALIKE = 1e-3
"""Places are taken to be drawn alike unless a test at this level says otherwise."""


def sampled_constants(environment: Environment, seed: int = 0) -> Constants:
    """Estimates of all constants from drawn pools.

    Intervals are 95 % ones: of λ⁺_min by its eigenvector's second moment, of M and R by
    resampling, of q_K and q_min by the counts' standard errors. L is the largest norm seen, so
    not above the true one.

    Args:
        environment: has a truth; it is bound to streams here.
        seed: of the pools.

    Raises:
        FairbanditError: a group with fewer than two candidates among the pools.
    """
    pools = drawn_pools(environment, seed)
    count = len(environment.group_names)
    rows = [(pools.groups == group).flatten() for group in range(count)]
    few = [name for name, here in zip(environment.group_names, rows, strict=True) if here.sum() < 2]
    if few:
        raise FairbanditError(
            f"among {REPLICAS * ROUNDS:,} pools of environment {environment.part_name!r} there are "
            f"fewer than two candidates of {', '.join(map(repr, few))}: too few to estimate from"
        )
    contexts = pools.contexts.flatten(0, 2).cpu()
    groups = [contexts[here.cpu()] for here in rows]
    drawn = f"{REPLICAS * ROUNDS:,} pools"
    largest = max(float(some.norm(dim=1).max()) for some in groups)
    peaks = [greatest_density(pools.expected.flatten()[here].cpu()) for here in rows]
    present = pools.groups >= 0
    random, candidates, balance = _proportions(pools.groups.cpu(), count, drawn)
    assert environment.truth is not None
    return Constants(
        places=environment.places,
        groups=count,
        features=environment.features,
        norm=Estimate.at_least(largest, f"largest of {drawn}"),
        eigenvalue=_eigenvalue(groups, drawn),
        density=max(peaks, key=lambda peak: peak.value),
        noise=_noise((pools.rewards - pools.expected)[present].cpu(), drawn),
        theta=float(environment.truth.linear_theta().norm()),
        candidates=candidates,
        balance=balance,
        random=random,
        caveats=("estimated from drawn pools; the paper's assumptions are taken for granted",),
    )


def _eigenvalue(groups: list[Tensor], drawn: str) -> Estimate:
    value, direction = smallest_direction(groups)
    squares = [(rows @ direction) ** 2 for rows in groups]
    variance = math.fsum(float(some.var()) / len(some) for some in squares)
    return Estimate.within(value, math.sqrt(variance) / len(groups), drawn)


def _noise(residuals: Tensor, drawn: str) -> Estimate:
    """R of the residuals; its error from ten parts of them."""
    parts = [subgaussian(part) for part in residuals.chunk(10)]
    error = float(torch.tensor(parts).std()) / math.sqrt(len(parts))
    return Estimate.within(subgaussian(residuals), error, drawn)


def _proportions(groups: Tensor, count: int, drawn: str) -> tuple[bool, Estimate, Estimate | None]:
    """Whether groups are random, q_K, and q_min where places are drawn alike."""
    pools = groups.flatten(0, 1)
    shown = torch.nn.functional.one_hot(pools + 1, count + 1)[..., 1:].double()
    by_place = shown.sum(0)  # (K, G)
    random = bool(((pools != pools[0]).any(0)).any())
    in_pool = shown.sum(1)
    rarest = int(in_pool.mean(0).argmin())
    value = float(in_pool[:, rarest].mean())
    if not random:
        return False, Estimate.exactly(value, "the same groups in every pool"), None
    error = float(in_pool[:, rarest].std()) / math.sqrt(len(pools))
    candidates = Estimate.scaled(value, error, drawn)
    if not _alike(by_place, len(pools)):
        return True, candidates, None
    scale = count / pools.shape[1]
    return (
        True,
        candidates,
        replace(
            candidates,
            value=candidates.value * scale,
            low=candidates.low * scale,
            high=candidates.high * scale,
            how=f"{drawn}; places taken to be drawn alike",
        ),
    )


def _alike(by_place: Tensor, pools: int) -> bool:
    """A chi-square test of homogeneity; empty places count as a group of their own."""
    counts = torch.cat([by_place, pools - by_place.sum(1, keepdim=True)], 1)
    counts = counts[:, counts.sum(0) > 0]
    expected = counts.mean(0)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = torch.tensor((counts.shape[0] - 1) * (counts.shape[1] - 1), dtype=torch.float64)
    if not freedom:
        return True
    return float(torch.special.gammaincc(freedom / 2, statistic / 2)) > ALIKE
