"""Mahalanobis bins: how far a drift of the model can move the scores of contexts.

For a drift Δ and any positive definite C, |⟨x − m, Δ⟩| ≤ ‖x − m‖_{C⁻¹}·‖Δ‖_C by Cauchy and Schwarz.
Contexts are put into bins by ‖x − m‖_{C⁻¹}, and the largest one in a bin bounds all of it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SHARES = (0.7, 0.96, 1.0)
"""About these shares of the contexts lie in the first bin, in the first two, and in all three."""

SLACK = 1e-11
"""Rounding allowed for in the bound, relative to the largest possible ‖x‖·‖θ‖."""

NORM_SLACK = 1e-6
"""Relative rounding allowed for in ‖x − m‖_{C⁻¹}, where C has a condition number of up to 1e6."""

SAMPLE = 2048
"""C and the ends of the bins are made of about so many of the contexts; the bound holds for any."""

CHUNK = 1 << 12
"""How many contexts are measured at a time, so that they stay in cache."""


class Bins(NamedTuple):
    """The bins of one group's contexts.

    Attributes:
        mean: m, (B, w).
        factor: the Cholesky factor of C, (B, w, w).
        bin: each context's bin, (B, L) int64.
        radius: the most by which a score in each bin moves for each unit of ‖Δ‖_C, (B, bins).
        rounding: by how much a score may be off for each unit of ‖θ‖, (B, 1).
    """

    mean: Tensor
    factor: Tensor
    bin: Tensor
    radius: Tensor
    rounding: Tensor


def bins_of(contexts: Tensor) -> Bins:
    """Puts contexts, (B, L, w), into bins; m is their mean, C the covariance of a sample."""
    step = max(1, contexts.shape[1] // SAMPLE)
    mean = contexts.mean(1, keepdim=True)
    some = contexts[:, ::step] - mean
    covariance = some.transpose(1, 2) @ some / some.shape[1]
    # a ridge, which is also a lower bound on the least eigenvalue of C
    least = covariance.diagonal(dim1=1, dim2=2).mean(1, keepdim=True).clamp(min=1e-300) * 1e-6
    unit = torch.eye(contexts.shape[2], dtype=contexts.dtype, device=contexts.device)
    factor = torch.linalg.cholesky(covariance + unit * least[..., None])
    whiten = torch.linalg.solve_triangular(factor, unit, upper=False).transpose(1, 2)
    white = ((chunk - mean) @ whiten for chunk in contexts.split(CHUNK, 1))
    norms = torch.cat([torch.linalg.vector_norm(chunk, dim=2) for chunk in white], 1)
    # an infinite bound times a drift of 0 would be NaN
    norms.mul_(1 + NORM_SLACK).clamp_(max=1e300)
    sampled = norms[:, ::step]
    ranks = [max(1, round(share * sampled.shape[1])) for share in SHARES[:-1]]
    edges = [sampled.kthvalue(rank, 1, keepdim=True).values for rank in ranks]
    largest = torch.cat([*edges, norms.amax(1, keepdim=True)], 1)
    inside = torch.stack([norms > edge for edge in edges]).sum(0)
    # ‖x‖ ≤ ‖m‖ + ‖x − m‖ ≤ ‖m‖ + ‖factor‖·‖x − m‖_{C⁻¹}
    size = torch.linalg.vector_norm(factor, dim=(1, 2))[:, None] * largest[:, -1:]
    rounding = SLACK * (torch.linalg.vector_norm(mean, dim=2) + size)
    # |score| ≤ ‖x‖(‖θ₀‖ + ‖Δ‖), and ‖Δ‖ is at most ‖Δ‖_C over the root of C's least eigenvalue
    return Bins(mean[:, 0], factor, inside, largest + rounding / least.sqrt(), rounding)
