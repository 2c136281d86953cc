"""Mahalanobis bins: how far a drift of the model can move the scores of contexts.

For a drift Δ and any positive definite C, |⟨x − m, Δ⟩| ≤ ‖x − m‖_{C⁻¹}·‖Δ‖_C by Cauchy and Schwarz.
Contexts are put into bins by ‖x − m‖_{C⁻¹}, and the largest one in a bin bounds all of it.
"""

from __future__ import annotations

import torch
from torch import Tensor

SHARES = (0.7, 0.96, 1.0)
"""The bins end at these quantiles of ‖x − m‖_{C⁻¹}."""

SLACK = 1e-11
"""Rounding allowed for in the bound, relative to the largest possible ‖x‖·‖θ‖."""

NORM_SLACK = 1e-6
"""Relative rounding allowed for in ‖x − m‖_{C⁻¹}, where C has a condition number of up to 1e6."""

SAMPLE = 2048
"""C is the covariance of about so many of the contexts; the bound holds for any C."""

CHUNK = 1 << 12
"""How many contexts are measured at a time, so that they stay in cache."""


class Bins:
    """The bin of every context of one group.

    A context is measured once, when it is added. The mean m and the covariance C are those of the
    first contexts. The bound holds for any m and C. It is tight while later contexts are like the
    first ones.

    Args:
        contexts: the first ones, (B, L, w).

    Attributes:
        mean: m, (B, w).
        factor: the Cholesky factor of C, (B, w, w).
        bin: each context's bin, (B, L) int64.
        rounding: by how much a score may be off for each unit of ‖θ‖, (B, 1).
        measured: how many contexts m and the bins were made of.
    """

    def __init__(self, contexts: Tensor) -> None:
        self.measured = contexts.shape[1]
        self.mean = contexts.mean(1)
        some = contexts[:, :: max(1, self.measured // SAMPLE)] - self.mean[:, None]
        covariance = some.transpose(1, 2) @ some / some.shape[1]
        # a ridge, which is also a lower bound on the least eigenvalue of C
        self._least = covariance.diagonal(dim1=1, dim2=2).mean(1, keepdim=True).clamp(min=1e-300)
        self._least *= 1e-6
        unit = torch.eye(contexts.shape[2], dtype=contexts.dtype, device=contexts.device)
        self.factor = torch.linalg.cholesky(covariance + unit * self._least[..., None])
        whiten = torch.linalg.solve_triangular(self.factor, unit, upper=False)
        self._whiten = whiten.transpose(1, 2)
        norms = self._norms(contexts)
        ranks = [max(1, round(share * self.measured)) for share in SHARES]
        self._largest = torch.stack([norms.kthvalue(rank, 1).values for rank in ranks], 1)
        self.bin = self._bin(norms)
        self.rounding = self._rounding(contexts)

    def add(self, contexts: Tensor) -> None:
        """Measures further contexts, (B, L, w)."""
        norms = self._norms(contexts)
        self._largest[:, -1] = torch.maximum(self._largest[:, -1], norms.amax(1))
        self.bin = torch.cat([self.bin, self._bin(norms)], 1)
        self.rounding = torch.maximum(self.rounding, self._rounding(contexts))

    def drop(self, count: int) -> None:
        """Forgets the bins of the first contexts."""
        self.bin = self.bin[:, count:]

    @property
    def radius(self) -> Tensor:
        """The most by which a score in each bin moves for each unit of ‖Δ‖_C, (B, bins)."""
        # |score| ≤ ‖x‖(‖θ₀‖ + ‖Δ‖), and ‖Δ‖ is at most ‖Δ‖_C over the root of C's least eigenvalue
        return self._largest + self.rounding / self._least.sqrt()

    def _norms(self, contexts: Tensor) -> Tensor:
        white = ((chunk - self.mean[:, None]) @ self._whiten for chunk in contexts.split(CHUNK, 1))
        norms = [torch.linalg.vector_norm(chunk, dim=2) for chunk in white]
        return torch.cat(norms, 1) * (1 + NORM_SLACK)

    def _bin(self, norms: Tensor) -> Tensor:
        return (norms[..., None] > self._largest[:, None, :-1]).sum(2)

    def _rounding(self, contexts: Tensor) -> Tensor:
        return SLACK * torch.linalg.vector_norm(contexts, dim=2).amax(1, keepdim=True)


class GroupBins:
    """The bins of every group, kept while its window moves on.

    Args:
        groups: G.
    """

    def __init__(self, groups: int) -> None:
        self._kept: list[tuple[int, Bins] | None] = [None] * groups

    def of(self, group: int, contexts: Tensor, start: int) -> Bins:
        """The bins of a segment of a group's contexts.

        Only contexts that were not in the segment of the last call are measured. All are measured
        anew once their number has doubled.

        Args:
            group: the group.
            contexts: the segment, (B, L, w).
            start: the entry at which it starts, no less than in earlier calls.
        """
        length, kept = contexts.shape[1], self._kept[group]
        if kept is not None:
            first, bins = kept
            bins.drop(start - first)
            known = bins.bin.shape[1]
            if 0 < known <= length <= 2 * bins.measured:
                if known < length:
                    bins.add(contexts[:, known:])
                self._kept[group] = start, bins
                return bins
        bins = Bins(contexts)
        self._kept[group] = start, bins
        return bins
