"""The second moment of a pick: the constant λ_κ of an instance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fairbandit.environments import Environment
from fairbandit.errors import FairbanditError
from fairbandit.theory.constants import (
    BLOCKS,
    REPLICAS,
    ROUNDS,
    Estimate,
    context_factor,
    drawn_pools,
    least_eigenvalue,
)

KAPPAS = (0.0, 0.01, 0.02, 0.05, 0.1)
"""The κ that `fairbandit theory` takes."""


def pick_moments(environment: Environment, kappas: Sequence[float] = KAPPAS) -> list[Estimate]:
    """λ_κ of an environment: how large the second moment of a pick is in its weakest direction.

    M_κ = Σ_a E[X_a X_aᵀ (φ*_a − 2κ)₊^{K−1}] with φ*_a = F_{s_a}(⟨μ*, X_a⟩), the true rank of the
    candidate at place a, and λ_κ = λ_min(UᵀM_κU), where the columns of U span the range of Σ. M_0
    is the second moment of what the fair optimum picks. If all estimated ranks are within κ of the
    true ones, a candidate is picked with probability at least (φ*_a − 2κ)₊^{K−1}; so the second
    moment of a pick of Fair-Greedy is at least M_κ once ε + 3M‖μ̂ − μ*‖_V ‖x_max‖_{V⁻¹} ≤ κ, where
    ε is the error of the empirical CDFs. From then on bounds hold with 2λ_κ for q̄λ⁺_min(Σ).

    Means are over 65,536 drawn pools. The standard error is that of the mean of vᵀM_κv over blocks,
    v being the eigenvector of λ_κ.

    Args:
        environment: one whose pools have true ranks; it is bound to streams.
        kappas: κ, each at least 0.

    Returns:
        λ_κ for each κ; 0 where it is not above what rounding makes of 0.

    Raises:
        FairbanditError: a κ below 0 or not finite.
    """
    if not all(0 <= kappa < math.inf for kappa in kappas):
        raise FairbanditError(f"kappa must be at least 0 and finite, got {list(kappas)}")
    _, basis = least_eigenvalue(context_factor(environment))
    moments = []
    for pools in drawn_pools(environment):
        taken = pools.groups >= 0
        rows, ranks = pools.contexts[taken] @ basis.to(pools.contexts), pools.ranks[taken]
        powers = [(ranks - 2 * kappa).clamp(min=0) ** (environment.places - 1) for kappa in kappas]
        moments.append(torch.stack([rows.T @ (rows * power[:, None]) for power in powers]).cpu())
    by_block = torch.stack(moments, 1) / (REPLICAS * ROUNDS)  # (κ, blocks, r, r)
    how = f"from {BLOCKS * REPLICAS * ROUNDS:,} pools"
    found = []
    for blocks in by_block:
        values, vectors = torch.linalg.eigh(blocks.mean(0))
        if values[0] <= len(values) * torch.finfo(values.dtype).eps * values[-1]:
            found.append(Estimate(0.0, how))
            continue
        each = torch.einsum("bij,i,j->b", blocks, vectors[:, 0], vectors[:, 0])
        error = float(each.std()) / math.sqrt(BLOCKS)
        found.append(Estimate(float(values[0]), how, error))
    return found
