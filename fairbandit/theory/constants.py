"""The constants of a problem in the paper's bounds, with their accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard, TypeVar

import torch
from torch import Tensor

from fairbandit.environments import Environment, Simulation, Table
from fairbandit.environments.base import Pools
from fairbandit.environments.table import PoolKind, RewardSource
from fairbandit.errors import FairbanditError
from fairbandit.streams import Streams
from fairbandit.tables.population import CHUNK

REPLICAS, ROUNDS, BLOCKS = 32, 64, 32
"""Estimates use BLOCKS blocks of REPLICAS × ROUNDS pools, 65,536 pools in all."""

_POOLS = f"from {BLOCKS * REPLICAS * ROUNDS:,} pools"

KAPPAS = (0.0, 0.01, 0.02, 0.05, 0.1)  # the values of κ in `fairbandit theory`

Known = TypeVar("Known", Simulation, Table)


@dataclass(frozen=True)
class Constant:
    """A value, a short note on its computation, and its standard error (0 if not sampled)."""

    value: float
    how: str = ""
    error: float = 0.0


@dataclass(frozen=True)
class Constants:
    """The constants of a problem that the bounds depend on.

    The paper's first setting, with one candidate of each group in every pool, is the case G = K,
    q_K = 1 of the second, in which groups have several candidates.

    Attributes:
        places: K.
        groups: G.
        features: d.
        norm: x_max = sup ‖x‖₂ over the support of all groups (the theorems' L).
        eigenvalue: λ = λ⁺_min(Σ), the least positive eigenvalue of Σ = G⁻¹ Σ_i E[X̂_i X̂_iᵀ], where
            X̂_i is a context of group i.
        place_eigenvalue: λ̄ = λ⁺_min(K⁻¹ Σ_a E[X_a X_aᵀ]), where X_a is the context at place a;
            equal to λ in the first setting.
        density: M, the greatest density of the true rewards of any group.
        noise: R, the subgaussian constant of the reward noise.
        theta: ‖μ*‖₂.
        candidates: q_K = min_i Σ_a P(s_a = i), the mean number of candidates of the rarest group
            in a pool.
        random: whether some place's group is random (the indicator in `lm:chernoff`).
        ties: the greatest probability that two independent candidates of one group have equal true
            rewards; 0 for continuous rewards (assumption iv).
        caveats: the assumptions of the theorems that the problem violates.
    """

    places: int
    groups: int
    features: int
    norm: Constant
    eigenvalue: Constant
    place_eigenvalue: Constant
    density: Constant
    noise: Constant
    theta: float
    candidates: Constant = Constant(1.0, "one candidate a group")
    random: bool = False
    ties: float = 0.0
    caveats: tuple[str, ...] = ()

    @property
    def own_places(self) -> bool:
        """Whether G = K and each group has its own place, as `th:regret` assumes."""
        return not self.random and self.places == self.groups and self.candidates.value == 1

    @property
    def share(self) -> float:
        """q̄ = q_K·G/K: the rarest group's share of a pool, times G."""
        return self.candidates.value * self.groups / self.places

    def split(self, delta: float) -> float:
        """Returns δ₁ = δ₂ = δ/2 for random groups, else δ."""
        return delta / 2 if self.random else delta

    def counted(self, alpha: float) -> float:
        """Returns αq_K, the candidates of a group that bounds rely on; α is 1 unless `random`."""
        return (alpha if self.random else 1.0) * self.candidates.value


def constants(environment: Environment) -> Constants:
    """Computes the constants of a simulation in closed form, or of a table over all its members.

    M is the greatest density of `Environment.reward_distribution`, which smooths the rewards of a
    table.

    Raises:
        FairbanditError: the environment is neither a simulation nor a table.
    """
    if _draws_as(environment, Simulation):
        how, complete = "closed form", partial(_of_simulation, environment)
    elif _draws_as(environment, Table):
        how, complete = "over all members", partial(_of_table, environment)
    else:
        raise FairbanditError(
            f"the constants of {environment} are not known; they are known only for simulation, "
            "table and both census environments"
        )
    value, _ = least_eigenvalue(context_factor(environment))
    place_value, _ = least_eigenvalue(context_factor(environment, by_place=True))
    assert environment.truth is not None
    fixed = partial(
        Constants,
        places=environment.places,
        groups=len(environment.group_names),
        features=environment.features,
        theta=float(environment.truth.linear_theta().norm()),
        eigenvalue=Constant(value, how),
        place_eigenvalue=Constant(place_value, how),
        density=_density(environment),
    )
    return complete(fixed)


def pick_moments(environment: Environment, kappas: Sequence[float] = KAPPAS) -> list[Constant]:
    """Estimates λ_κ, the least eigenvalue of a lower bound on the second moment of picks.

    M_κ = Σ_a E[X_a X_aᵀ (φ*_a − 2κ)₊^{K−1}] with φ*_a = F_{s_a}(⟨μ*, X_a⟩), the true rank of the
    candidate at place a, and λ_κ = λ_min(UᵀM_κU), where the columns of U span the range of Σ. M_0
    is the second moment of the fair optimum's picks. If all estimated ranks are within κ of the
    true ranks, a candidate is picked with probability at least (φ*_a − 2κ)₊^{K−1}. So the second
    moment of Fair-Greedy's picks is at least M_κ once ε + 3M‖μ̂ − μ*‖_V ‖x_max‖_{V⁻¹} ≤ κ, where
    ε is the error of the empirical CDFs. From then on, bounds hold with 2λ_κ for q̄λ⁺_min(Σ).

    Means are over 65,536 drawn pools. The standard error is computed from the values of vᵀM_κv in
    blocks, where v is the eigenvector of λ_κ.

    Args:
        environment: an environment whose pools have true ranks; it is bound to new streams.
        kappas: the values of κ, each at least 0.

    Returns:
        λ_κ for each κ; 0 if it cannot be distinguished from 0 in floating point.
    """
    _, basis = least_eigenvalue(context_factor(environment))
    moments = []
    for pools in drawn_pools(environment):
        taken = pools.groups >= 0
        rows, ranks = pools.contexts[taken] @ basis.to(pools.contexts), pools.ranks[taken]
        powers = [(ranks - 2 * kappa).clamp(min=0) ** (environment.places - 1) for kappa in kappas]
        moments.append(torch.stack([rows.T @ (rows * power[:, None]) for power in powers]).cpu())
    by_block = torch.stack(moments, 1) / (REPLICAS * ROUNDS)  # (κ, blocks, r, r)
    estimates = []
    for blocks in by_block:
        values, vectors = torch.linalg.eigh(blocks.mean(0))
        if values[0] <= len(values) * torch.finfo(values.dtype).eps * values[-1]:
            estimates.append(Constant(0.0, _POOLS))
            continue
        each = torch.einsum("bij,i,j->b", blocks, vectors[:, 0], vectors[:, 0])
        error = float(each.std()) / math.sqrt(BLOCKS)
        estimates.append(Constant(float(values[0]), _POOLS, error))
    return estimates


def _draws_as(environment: Environment, kind: type[Known]) -> TypeGuard[Known]:
    return isinstance(environment, kind) and type(environment)._pools is kind._pools


def drawn_pools(environment: Environment, blocks: int = BLOCKS) -> Iterator[Pools]:
    """Yields blocks of REPLICAS × ROUNDS pools, the same in every call; rebinds the environment."""
    environment.bind(Streams(0, range(REPLICAS)))
    for block in range(blocks):
        yield environment.pools(1 + block * ROUNDS, ROUNDS)


def _of_simulation(world: Simulation, fixed: partial[Constants]) -> Constants:
    largest = math.hypot(math.sqrt(world.slice), world.bias * (world.groups - 1))
    names = zip(world.group_names, world.weights, strict=True)
    if flat := [name for name, row in names if not any(row)]:
        caveat = (
            f"all candidates of group {', '.join(flat)} have the same reward and lack a reward "
            "density (assumption iv): M and the bounds are infinite; give the group a nonzero "
            "weight in environment.theta"
        )
        density = Constant(math.inf, "a group has a single reward")
        fixed = partial(fixed, density=density, ties=1.0, caveats=(caveat,))
    return fixed(norm=Constant(largest, "closed form"), noise=Constant(world.noise, "normal noise"))


def _of_table(world: Table, fixed: partial[Constants]) -> Constants:
    """Computes the constants as means over the members, who are drawn with replacement."""
    members = world.members
    caveats = [
        "finitely many members lack a reward density (assumption iv): M is computed from smoothed "
        "rewards, and strictly the bounds do not hold for a table"
    ]
    noise = Constant(world.noise, "normal noise")
    if world.rewards is RewardSource.column:
        residuals = members.rewards - members.expected
        by_group = [residuals[members.groups == g] for g in range(len(world.group_names))]
        half = max(float(noises.max() - noises.min()) for noises in by_group) / 2
        how = "half the range of the column's noise (Hoeffding)"
        noise = Constant(math.hypot(half, world.noise), how)
        caveats.append(
            "the noisy reward is a column, so its noise given the candidate does not have mean "
            "zero (assumption i): R refers to a random member of a group"
        )
    if world.pool is PoolKind.random:
        counts = torch.bincount(members.groups, minlength=len(world.group_names))
        rarest = world.places * float(counts.min()) / len(members.groups)
        candidates = Constant(rarest, "K × share of the rarest group")
        fixed = partial(fixed, random=True, candidates=candidates)
    ranks = [members.ranks[members.groups == g] for g in range(len(world.group_names))]
    shares = [group.unique(return_counts=True)[1].double() / len(group) for group in ranks]
    return fixed(
        norm=Constant(float(members.contexts.norm(dim=1).max()), "over all members"),
        noise=noise,
        ties=max(float(share.square().sum()) for share in shares),
        caveats=tuple(caveats),
    )


def _density(world: Environment) -> Constant:
    laws = {name: world.reward_distribution(g) for g, name in enumerate(world.group_names)}
    peaks = {name: float(law.density.max()) for name, law in laws.items() if law is not None}
    name = max(peaks, key=peaks.__getitem__)
    return Constant(peaks[name], f"group {name}, on a grid of rewards")


def context_factor(environment: Environment, *, by_place: bool = False) -> Tensor:
    """Returns a factor A, (n, d), of a mean second moment of contexts: AᵀA = Σ.

    Σ is G⁻¹ Σ_i E[X̂_i X̂_iᵀ] or, by place, K⁻¹ Σ_a E[X_a X_aᵀ], where groups are weighted by their
    frequency. AᵀA is never formed, since this would square the condition number: small eigenvalues
    could then not be distinguished from 0.
    """
    if _draws_as(environment, Simulation):
        return _simulated_factor(environment)
    if _draws_as(environment, Table):
        blocks = iter([(environment.members.contexts, environment.members.groups)])
        by_place = by_place and environment.pool is PoolKind.random
    else:
        drawn = drawn_pools(environment)
        blocks = ((pools.contexts.flatten(0, 2), pools.groups.flatten()) for pools in drawn)
    count, places = len(environment.group_names), 0
    factors = [torch.zeros(0, environment.features, dtype=torch.float64)] * count
    sizes = [0] * count
    for contexts, groups in blocks:
        places += len(groups)
        for g in range(count):
            rows = contexts[groups == g].cpu()
            sizes[g] += len(rows)
            for chunk in rows.split(CHUNK):
                factors[g] = torch.linalg.qr(torch.cat([factors[g], chunk]), mode="r").R
    means = [places if by_place else count * size for size in sizes]
    return torch.cat([factor / math.sqrt(n) for factor, n in zip(factors, means, strict=True) if n])


def _simulated_factor(world: Simulation) -> Tensor:
    """Returns a factor of the simulation's Σ in closed form, (d − 1 + K, d).

    E[X_a X_aᵀ] is the covariance plus the outer product of the mean with itself. The features of
    the group's slice have variance 1/12 and mean 1/2, and the last feature has mean bias·a.
    """
    spread = torch.eye(world.features, dtype=torch.float64)[:-1] / math.sqrt(12)
    slices = torch.eye(world.groups, dtype=torch.float64).repeat_interleave(world.slice, 1) / 2
    last = world.bias * torch.arange(world.groups, dtype=torch.float64)
    means = torch.cat([slices, last[:, None]], 1)
    return torch.cat([spread, means]) / math.sqrt(world.groups)


def least_eigenvalue(factor: Tensor) -> tuple[float, Tensor]:
    """Returns λ⁺_min(Σ) of Σ = AᵀA for a factor A, (n, d) float64, and a basis of the range of Σ.

    λ⁺_min is the square of the smallest singular value of A that is positive beyond rounding
    errors, or 0 if there is none. The columns of the basis, (d, r), are orthonormal.

    >>> value, basis = least_eigenvalue(torch.diag(torch.tensor([0.0, 2.0, 3.0]).double()))
    >>> round(value, 12), tuple(basis.shape)
    (4.0, (3, 2))
    """
    _, singular, vectors = torch.linalg.svd(factor, full_matrices=False)
    rounding = CHUNK * torch.finfo(singular.dtype).eps * singular[0]
    rank = int((singular > rounding).sum())
    return float(singular[rank - 1]) ** 2 if rank else 0.0, vectors[:rank].T
