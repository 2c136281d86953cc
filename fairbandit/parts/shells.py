"""How far contexts lie from their mean, which bounds how much a drifting model may move them."""

from __future__ import annotations

import torch
from torch import Tensor

SHELLS = (0.7, 0.96, 1.0)
"""Up to which share of the contexts each shell reaches, by their distance from the mean."""

SLACK = 1e-11
"""Rounding allowed for in the bound, relative to the largest possible ‖x‖·‖θ‖."""

ROOM = 1e-6
"""Relative rounding allowed for in ‖x − m‖_{C⁻¹}; C may be as ill-conditioned as 1e6."""

SAMPLE = 2048
"""C is the covariance of about so many of the contexts; any would do."""

LOT = 1 << 12
"""Contexts are measured so many at a time, so that they stay in cache."""


class Shells:
    """The contexts of one group, each in the shell of its distance ‖x − m‖_{C⁻¹}.

    A context is measured once, when it comes; m and C are those of the first ones. The bound holds
    for any m and C, and is tight as long as later contexts are like the first.

    Args:
        contexts: the first ones, (B, L, d).

    Attributes:
        mean: m, (B, d).
        factor: the Cholesky factor of C, (B, d, d).
        shell: each context's, (B, L) int64.
        rounding: by how much a score may be off for each unit of ‖θ‖, (B, 1).
    """

    def __init__(self, contexts: Tensor) -> None:
        self.measured = contexts.shape[1]
        self.mean = contexts.mean(1)
        some = contexts[:, :: max(1, self.measured // SAMPLE)] - self.mean[:, None]
        covariance = some.transpose(1, 2) @ some / some.shape[1]
        # C's least eigenvalue is at least this
        self._least = covariance.diagonal(dim1=1, dim2=2).mean(1, keepdim=True).clamp(min=1e-300)
        self._least *= 1e-6
        ridge = torch.eye(contexts.shape[2], dtype=contexts.dtype, device=contexts.device)
        self.factor = torch.linalg.cholesky(covariance + ridge * self._least[..., None])
        whiten = torch.linalg.solve_triangular(self.factor, ridge, upper=False)
        self._whiten = whiten.transpose(1, 2)
        norms = self._norms(contexts)
        ranks = [max(1, round(share * self.measured)) for share in SHELLS]
        self._reach = torch.stack([norms.kthvalue(rank, 1).values for rank in ranks], 1)
        self.shell = self._shell_of(norms)
        self.rounding = self._rounding(contexts)

    def add(self, contexts: Tensor) -> None:
        """Measures further contexts, (B, L, d)."""
        norms = self._norms(contexts)
        self._reach[:, -1] = torch.maximum(self._reach[:, -1], norms.amax(1))
        self.shell = torch.cat([self.shell, self._shell_of(norms)], 1)
        self.rounding = torch.maximum(self.rounding, self._rounding(contexts))

    def drop(self, count: int) -> None:
        """Forgets the first contexts."""
        self.shell = self.shell[:, count:]

    @property
    def radius(self) -> Tensor:
        """The most by which a score of each shell moves for each unit of ‖Δ‖_C, (B, S)."""
        # |score| ≤ ‖x‖(‖θ₀‖ + ‖Δ‖), and ‖Δ‖ is at most ‖Δ‖_C over the root of C's least eigenvalue
        return self._reach + self.rounding / self._least.sqrt()

    def _norms(self, contexts: Tensor) -> Tensor:
        white = ((lot - self.mean[:, None]) @ self._whiten for lot in contexts.split(LOT, 1))
        norms = [torch.linalg.vector_norm(lot, dim=2) for lot in white]
        return torch.cat(norms, 1) * (1 + ROOM)

    def _shell_of(self, norms: Tensor) -> Tensor:
        return (norms[..., None] > self._reach[:, None, :-1]).sum(2)

    def _rounding(self, contexts: Tensor) -> Tensor:
        return SLACK * torch.linalg.vector_norm(contexts, dim=2).amax(1, keepdim=True)


class Measured:
    """The shells of every group's contexts, which move on with its window.

    Args:
        groups: G.
    """

    def __init__(self, groups: int) -> None:
        self._kept: list[tuple[int, Shells] | None] = [None] * groups

    def of(self, group: int, contexts: Tensor, after: int) -> Shells:
        """The shells of a group's contexts after a given one.

        Measures those that were not measured before; all of them anew once they have doubled.

        Args:
            group: the group.
            contexts: all of them, (B, L, d).
            after: which entry of the group's list the first one is, no less than in earlier calls.
        """
        length, kept = contexts.shape[1], self._kept[group]
        if kept is not None:
            first, shells = kept
            shells.drop(after - first)
            known = shells.shell.shape[1]
            if 0 < known <= length <= 2 * shells.measured:
                if known < length:
                    shells.add(contexts[:, known:])
                self._kept[group] = after, shells
                return shells
        shells = Shells(contexts)
        self._kept[group] = after, shells
        return shells
