"""Mahalanobis bins: how far a drift of the model can move the scores of contexts.

For a drift Δ and any positive definite C, |⟨x − m, Δ⟩| ≤ ‖x − m‖_{C⁻¹}·‖Δ‖_C by Cauchy and Schwarz.
Contexts are put into bins by ‖x − m‖_{C⁻¹}, and the largest one in a bin bounds all of it.
"""

from __future__ import annotations

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


class Norms:
    """The Mahalanobis norm ‖x − m‖_{C⁻¹} of contexts x of one group.

    Args:
        contexts: those whose mean is m, (B, L, w). The covariance of a sample of them, plus a small
            multiple of the identity, is C.

    Attributes:
        count: L.
        mean: m, (B, w).
        factor: the Cholesky factor of C, (B, w, w).
        least: a lower bound on the least eigenvalue of C, (B, 1).
    """

    def __init__(self, contexts: Tensor) -> None:
        self.count = contexts.shape[1]
        self.mean = contexts.mean(1)
        some = contexts[:, :: _step(self.count)] - self.mean[:, None]
        covariance = some.transpose(1, 2) @ some / some.shape[1]
        diagonal = covariance.diagonal(dim1=1, dim2=2)
        self.least = diagonal.mean(1, keepdim=True).clamp(min=1e-300) * 1e-6
        unit = torch.eye(contexts.shape[2], dtype=contexts.dtype, device=contexts.device)
        self.factor = torch.linalg.cholesky(covariance + unit * self.least[..., None])
        whiten = torch.linalg.solve_triangular(self.factor, unit, upper=False)
        self._whiten = whiten.transpose(1, 2)

    def of(self, contexts: Tensor) -> Tensor:
        """The norms of contexts (B, L, w), increased by the rounding error allowed for: (B, L)."""
        white = ((chunk - self.mean[:, None]) @ self._whiten for chunk in contexts.split(CHUNK, 1))
        norms = torch.cat([torch.linalg.vector_norm(chunk, dim=2) for chunk in white], 1)
        # an infinite bound times a drift of 0 would be NaN
        return norms.mul_(1 + NORM_SLACK).clamp_(max=1e300)


class Bins:
    """The bins of one group's contexts, (B, L, w).

    Args:
        norms: holds m and C.
        measured: the norm of each context, (B, L).
        added: how many contexts were measured after m and C were computed.

    Attributes:
        norms, measured, added: the arguments.
        bin: each context's bin, (B, L) int64.
        radius: the most by which a score in each bin moves for each unit of ‖Δ‖_C, (B, bins).
        rounding: by how much a score may be off for each unit of ‖θ‖, (B, 1).
    """

    def __init__(self, norms: Norms, measured: Tensor, added: int = 0) -> None:
        self.norms, self.measured, self.added = norms, measured, added
        sampled = measured[:, :: _step(measured.shape[1])]
        ranks = [max(1, round(share * sampled.shape[1])) for share in SHARES[:-1]]
        edges = [sampled.kthvalue(rank, 1, keepdim=True).values for rank in ranks]
        largest = torch.cat([*edges, measured.amax(1, keepdim=True)], 1)
        self.bin = torch.stack([measured > edge for edge in edges]).sum(0)
        # ‖x‖ ≤ ‖m‖ + ‖x − m‖ ≤ ‖m‖ + ‖factor‖·‖x − m‖_{C⁻¹}
        size = torch.linalg.vector_norm(norms.factor, dim=(1, 2))[:, None] * largest[:, -1:]
        mean = torch.linalg.vector_norm(norms.mean, dim=1, keepdim=True)
        self.rounding = SLACK * (mean + size)
        # |score| ≤ ‖x‖(‖θ₀‖ + ‖Δ‖), and ‖Δ‖ is at most ‖Δ‖_C over the root of C's least eigenvalue
        self.radius = largest + self.rounding / norms.least.sqrt()

    def moved(self, gone: int, contexts: Tensor) -> Bins:
        """The bins after the window of the group has moved on.

        Norms of contexts that stay in the window are kept. Once more contexts were added than m and
        C were computed from, all are computed from the new window.

        Args:
            gone: how many contexts, the oldest ones, have left the window.
            contexts: all contexts in the new window, (B, L, w), those that stay first.
        """
        kept = self.measured[:, gone:]
        further = contexts[:, kept.shape[1] :]
        added = self.added + further.shape[1]
        if added > self.norms.count:
            return bins_of(contexts)
        return Bins(self.norms, torch.cat([kept, self.norms.of(further)], 1), added)


def bins_of(contexts: Tensor) -> Bins:
    """The bins of contexts (B, L, w), with m and C computed from them."""
    norms = Norms(contexts)
    return Bins(norms, norms.of(contexts))


def _step(count: int) -> int:
    """The distance between the contexts of a sample, out of a number of contexts."""
    return max(1, count // SAMPLE)
