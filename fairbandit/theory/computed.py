"""The constants of an environment: in closed form, over a table's members, or estimated."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from fairbandit.environments import Environment, Simulation, Table
from fairbandit.environments.table import PoolKind, RewardSource
from fairbandit.errors import FairbanditError
from fairbandit.maths.uniform_sum import uniform_sum_pdf
from fairbandit.theory.constants import Constants, Estimate
from fairbandit.theory.estimation import (
    greatest_density,
    smallest_direction,
    smallest_square,
    subgaussian,
)
from fairbandit.theory.laws import REPLICAS, ROUNDS, closed_form, drawn_pools, drawn_rewards

ALIKE = 1e-3
"""Places are taken to be drawn alike unless a test at this level says otherwise."""


def constants(environment: Environment) -> Constants:
    """The constants of an environment.

    The simulation's are exact, in closed form, but for M where a group has too many weights, or
    too uneven ones, for the closed form of its density: M is then estimated from drawn rewards.
    Those of a table are exact over its members, but for M. Any other environment's are estimated
    from pools that it draws, which binds it to streams.

    Raises:
        FairbanditError: an environment without a truth, or whose true rewards are not linear.
    """
    if environment.truth is None:
        raise FairbanditError(
            f"the theory of environment {environment.part_name!r} takes its true reward model, "
            "and it has no truth"
        )
    environment.truth.linear_theta()
    if isinstance(environment, Simulation) and type(environment)._pools is Simulation._pools:
        return _of_simulation(environment)
    if isinstance(environment, Table) and type(environment)._pools is Table._pools:
        return _of_table(environment)
    return sampled_constants(environment)


def _of_simulation(world: Simulation) -> Constants:
    """Moments of uniforms, and the weighted Irwin-Hall density at its centre."""
    closed = "closed form"
    norm = math.hypot(math.sqrt(world.slice), world.bias * (world.groups - 1))
    peaks = [_peak(world, group) for group in range(world.groups)]
    names = zip(world.group_names, world.weights, strict=True)
    constant = ", ".join(name for name, weights in names if not any(weights))
    caveat = (
        f"every candidate of group {constant} has one reward, and so no reward density "
        "(assumption iv): M is infinite, and so are the bounds; give the group a weight other "
        "than 0 in environment.theta"
    )
    return Constants(
        places=world.places,
        groups=world.groups,
        features=world.features,
        norm=Estimate.exactly(norm, closed),
        eigenvalue=Estimate.exactly(smallest_square(moment_factor(world))[0], closed),
        density=max(peaks, key=lambda peak: peak.value),
        noise=Estimate.exactly(world.noise, "standard deviation of the normal noise"),
        theta=math.hypot(*world.theta),
        caveats=(caveat,) if constant else (),
    )


def moment_factor(world: Simulation) -> Tensor:
    """A with AᵀA = Σ = K⁻¹ Σ_a E[X_a X_aᵀ] of the simulation, (d − 1 + K, d).

    E[X_a X_aᵀ] is the covariance, 1/12 for each feature of the group's slice, plus the outer square
    of the mean: 1/2 for each of these features, and bias·a for the last.
    """
    spread = torch.eye(world.features, dtype=torch.float64)[:-1] / math.sqrt(12)
    means = torch.zeros(world.groups, world.features, dtype=torch.float64)
    for a in range(world.groups):
        means[a, a * world.slice : (a + 1) * world.slice] = 1 / 2
        means[a, -1] = world.bias * a
    return torch.cat([spread, means]) / math.sqrt(world.groups)


def _peak(world: Simulation, group: int) -> Estimate:
    """The greatest density of a group's reward.

    A sum of independent uniforms is symmetric and, its density being log-concave, unimodal: the
    centre is a mode.
    """
    weights, offset = world.weights[group], world.offsets[group]
    name = world.group_names[group]
    if not any(weights):
        return Estimate.exactly(math.inf, f"group {name} has one reward")
    if not closed_form(world, group):
        drawn = greatest_density(drawn_rewards(world, group))
        return replace(drawn, how=f"{drawn.how} drawn, group {name}")
    centre = torch.tensor([offset + math.fsum(weights) / 2], dtype=torch.float64)
    value = float(uniform_sum_pdf(centre, weights, offset))
    return Estimate.exactly(value, f"closed form, group {name}")


def _of_table(world: Table) -> Constants:
    """Means over the members, from whom pools are drawn with replacement."""
    members = world.members
    rows = [members.groups == group for group in range(len(world.group_names))]
    eigenvalue, _ = smallest_direction([members.contexts[own].cpu() for own in rows])
    peaks = []
    for own, name in zip(rows, world.group_names, strict=True):
        peak = greatest_density(members.expected[own].cpu())
        peaks.append(replace(peak, how=f"{peak.how}, group {name}"))
    noise, bias = _table_noise(world, rows)
    caveats = ["finitely many members have no reward density (assumption iv): M is a smoothed one"]
    if world.rewards is RewardSource.column:
        caveats.append(
            "the noisy reward is a column, so its noise given the candidate is no mean-zero noise "
            f"(assumption i): R is that of a random member's; a group's mean is up to {bias:.2g}"
        )
    known = Constants(
        places=world.places,
        groups=len(rows),
        features=world.features,
        norm=Estimate.exactly(float(members.contexts.norm(dim=1).max()), "over all members"),
        eigenvalue=Estimate.exactly(eigenvalue, "over all members"),
        density=max(peaks, key=lambda peak: peak.value),
        noise=noise,
        theta=float(world.truth.linear_theta().norm()),
        caveats=tuple(caveats),
    )
    if world.pool is PoolKind.one_per_group:
        return known
    share, counted = float(members.sizes.min()) / len(members.groups), "share of the rarest group"
    candidates = Estimate.exactly(world.places * share, f"K × {counted}")
    balance = Estimate.exactly(len(rows) * share, f"G × {counted}")
    return replace(known, candidates=candidates, balance=balance, random=True)


def _table_noise(world: Table, rows: list[Tensor]) -> tuple[Estimate, float]:
    """R, and the largest mean that a group's noise has."""
    if world.rewards is RewardSource.model:
        return Estimate.exactly(world.noise, "standard deviation of the normal noise"), 0.0
    every = world.members.rewards - world.members.expected
    residuals = [every[own].cpu() for own in rows]
    constant, bias = max(map(subgaussian, residuals)), max(abs(r.mean().item()) for r in residuals)
    how = "over all members, centred by group"
    return Estimate.exactly(math.hypot(constant, world.noise), how), bias


def sampled_constants(environment: Environment) -> Constants:
    """Estimates of all constants from drawn pools.

    Intervals are 95 % ones: of λ⁺_min by its eigenvector's second moment, of M and R by
    resampling, of q_K and q_min by the counts' standard errors. L is the largest norm seen, so
    not above the true one. The environment has a truth, and is bound to streams here.

    Raises:
        FairbanditError: a group with fewer than two candidates among the pools.
    """
    pools = drawn_pools(environment)
    count = len(environment.group_names)
    rows = [(pools.groups == group).flatten() for group in range(count)]
    few = [name for name, own in zip(environment.group_names, rows, strict=True) if own.sum() < 2]
    if few:
        raise FairbanditError(
            f"among {REPLICAS * ROUNDS:,} pools of environment {environment.part_name!r} there are "
            f"fewer than two candidates of {', '.join(map(repr, few))}: too few to estimate from"
        )
    contexts, expected = pools.contexts.flatten(0, 2), pools.expected.flatten()
    groups = [contexts[own] for own in rows]
    drawn = f"{REPLICAS * ROUNDS:,} pools"
    largest = max(float(some.norm(dim=1).max()) for some in groups)
    peaks = [greatest_density(expected[own]) for own in rows]
    random, candidates, balance = _proportions(pools.groups, count, drawn)
    assert environment.truth is not None
    return Constants(
        places=environment.places,
        groups=count,
        features=environment.features,
        norm=Estimate.at_least(largest, f"largest of {drawn}"),
        eigenvalue=_eigenvalue(groups, drawn),
        density=max(peaks, key=lambda peak: peak.value),
        noise=_noise((pools.rewards - pools.expected)[pools.groups >= 0], drawn),
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
    ends = (candidates.value, candidates.low, candidates.high)
    value, low, high = (end * count / pools.shape[1] for end in ends)
    how = f"{drawn}; places taken to be drawn alike"
    return True, candidates, Estimate(value, low, high, how)


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
