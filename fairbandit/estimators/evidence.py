"""The penalty λ of ridge regression that maximises the marginal likelihood.

Suppose rewards r = Xθ + ε with ε ~ N(0, σ²I) and the prior θ ~ N(0, σ²/λ·I). Then
r ~ N(0, σ²(I + XXᵀ/λ)). With the most likely σ² for each λ, the logarithm of the likelihood of n
rewards is, up to a constant,

    −n/2·ln Q(λ) − ½ Σⱼ ln(1 + sⱼ/λ),   Q(λ) = Σ r² − Σⱼ cⱼ²/(sⱼ + λ),

where sⱼ are the eigenvalues of XᵀX, and c = Uᵀb is b = Xᵀr in the basis of its eigenvectors U. The
maximum is searched on a grid. A few outcomes say little about λ: of one outcome, all λ have the
same likelihood. So λ has a wide prior around the mean square of a feature, with which the prior of
θ is worth one outcome.

References: MacKay, "Bayesian Interpolation", Neural Computation 1992 (the likelihood); Kass and
Wasserman, "A Reference Bayesian Test for Nested Hypotheses", JASA 1995 (a prior worth one outcome).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.regressions import Regressions, cholesky, solve, sums, up_to

DECADES = torch.arange(-4, 6.001, 0.25, dtype=torch.float64)
"""The grid: log10 of λ over the mean square of a feature."""

SPREAD = 2.0  # the standard deviation of the prior of log10 λ

LEAST = 1e-12
"""The smallest Q over Σ r² that is distinguished from 0: below it, Q is rounding error."""


class Evidence(NamedTuple):
    """The sums that give the likelihood of any λ: Σ [r x]ᵀ[r x], (B, d + 1, d + 1), and n, (B,)."""

    gram: Tensor
    n: Tensor

    def with_rows(self, rows: Tensor) -> Self:
        """The sums with more rows [r x], (B, n, d + 1); rows of zeros do not count."""
        return self._replace(gram=self.gram + rows.mT @ rows, n=self.n + _counted(rows).sum(1))

    def after(self, rows: Tensor, at: list[int]) -> Regressions:
        """The regressions with the first i of n more rows, for U ascending numbers i."""
        n, low, parts = up_to(self.n, _counted(rows), at), 0, list[tuple[Tensor, ...]]()
        for total in sums(self.gram, rows, at):
            penalty = likeliest(total, n[:, low : (low := low + total.shape[1])])
            gram = total.clone()
            gram.diagonal(dim1=2, dim2=3)[..., 1:] += penalty[..., None]
            parts.append((*solve(cholesky(gram), gram[..., 1:, 0]), penalty))
        theta, root, log_det, penalty = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        return Regressions(theta, root, log_det, at, penalty=penalty)


def likeliest(gram: Tensor, n: Tensor) -> Tensor:
    """The most likely λ, (…), for the sums Σ [r x]ᵀ[r x], (…, d + 1, d + 1), of n outcomes, (…)."""
    if not math.isfinite(float(gram.sum())):
        raise FairbanditError(
            "ridge regression broke down: the sums of rewards and features are not finite; use "
            "contexts of a smaller scale"
        )
    s, u = torch.linalg.eigh(gram[..., 1:, 1:])
    s, squares = s.clamp(min=0), (u.mT @ gram[..., 1:, :1])[..., 0].square()
    size = s.mean(-1) / n.clamp(min=1)  # the mean square of a feature
    decades = DECADES.to(gram.device)
    penalties = size.where(size > 0, 1.0)[..., None] * 10.0**decades
    shifted = s[..., None, :] + penalties[..., None]
    total = gram[..., 0, 0, None]
    left = (total - (squares[..., None, :] / shifted).sum(-1)).maximum(LEAST * total)
    likelihood = -n[..., None] * left.where(total > 0, 1.0).log()
    likelihood -= (shifted.log() - penalties.log()[..., None]).sum(-1)
    best = (likelihood / 2 - (decades / SPREAD).square() / 2).argmax(-1, keepdim=True)
    return penalties.gather(-1, best)[..., 0]


def _counted(rows: Tensor) -> Tensor:
    """1 for each row that counts, and 0 for empty slots, which are rows of zeros: (B, n)."""
    return rows.any(2).to(rows.dtype)
