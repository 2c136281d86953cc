"""An index over past contexts: exact counts under a model that drifts slowly, without a full scan.

A stretch of a group's contexts is sorted once by its scores under a reference model θ₀. Under a
later θ = θ₀ + Δ a score moves by ⟨x, Δ⟩ = ⟨m, Δ⟩ + ⟨x − m, Δ⟩, m being the stretch's mean, and by
Cauchy-Schwarz |⟨x − m, Δ⟩| ≤ ‖x − m‖_{C⁻¹}·‖Δ‖_C for any positive definite C; here C is the
stretch's covariance, which makes the bound tight. So all contexts whose reference score lies below
a candidate's by more than the bound count, all above do not, and only the few in between are
scored again. The few contexts that lie far out, for which the bound would be loose, are kept apart
and always scored again.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

FAR = 1 / 64
"""The share of contexts that is kept apart."""

SLACK = 1e-11
"""Rounding allowed for in the bound, relative to the largest possible Σᵢ|xᵢθᵢ|."""

AT_ONCE = 1 << 17
"""How many contexts are scored again at a time."""

SORTING = 80.0
"""Sorting one context in, in units of scoring one context under one model."""

WHITENING = 1 / 16
"""Bounding one context, in the same unit, for each of d² products."""

SHORTEST = 256
"""The least common part of all windows worth sorting."""

OVERHEAD = 1.5e6
"""Using the index at all, in the same unit."""


class SortedStretch:
    """The contexts of one group in one stretch of its entries, sorted under a reference model.

    Args:
        contexts: (B, L, d), all finite.
        theta: the reference θ₀, (B, d).
    """

    def __init__(self, contexts: Tensor, theta: Tensor) -> None:
        _, length, d = contexts.shape
        self._theta = theta
        self._mean = contexts.mean(1)
        centred = contexts - self._mean[:, None]
        covariance = centred.transpose(1, 2) @ centred / length
        scale = covariance.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-300)
        ridge = torch.eye(d, dtype=theta.dtype, device=theta.device) * (1e-6 * scale)[:, None, None]
        self._factor = torch.linalg.cholesky(covariance + ridge)
        white = torch.linalg.solve_triangular(self._factor, centred.transpose(1, 2), upper=False)
        norms = white.square().sum(1)
        far = int(length * FAR)
        near = length - far
        out = norms.topk(far + 1, 1)
        self._radius = out.values[:, -1:].sqrt()
        scores = (contexts @ theta[..., None])[..., 0]
        scores.scatter_(1, out.indices[:, :-1], torch.inf)  # those far out go last
        scores, rank = scores.sort(1)
        self._scores = scores[:, :near].contiguous()
        ordered = _rows(contexts, rank)
        self._contexts, self._far = ordered[:, :near].contiguous(), ordered[:, near:]
        self._largest = contexts.abs().amax(1)

    def at_most(
        self, values: Tensor, theta: Tensor, budget: float = torch.inf
    ) -> tuple[Tensor, int] | None:
        """How many of the contexts score no higher than given values, exactly.

        Args:
            values: (B, U, S), NaN where nothing is asked.
            theta: θ of U linear models, (B, U, d).
            budget: the most contexts to score again.

        Returns:
            Counts, (B, U, S) float64, and how many contexts were scored again for them; None if
            they would be more than the budget.
        """
        b, u, s = values.shape
        drift = theta - self._theta[:, None]
        spread = self._radius * (drift @ self._factor).square().sum(-1).sqrt()
        rounding = SLACK * (
            (theta.abs() + self._theta.abs()[:, None]) * self._largest[:, None]
        ).sum(-1)
        margin = (spread + rounding)[..., None]
        centre = values - (drift @ self._mean[..., None])
        low = torch.searchsorted(self._scores, (centre - margin).view(b, u * s))
        high = torch.searchsorted(self._scores, (centre + margin).view(b, u * s), right=True)
        asked = ~values.isnan().view(b, u * s)
        low, high = low * asked, high * asked
        width = high - low
        again = int(width.sum()) + self._far.shape[1] * b * u
        if again > budget:
            return None
        counts = low.to(values.dtype)
        self._score_again(counts, low, width.flatten(), values, theta)
        counts = counts.view(b, u, s)
        if self._far.shape[1]:
            scores = theta @ self._far.transpose(1, 2)
            counts = counts + (scores[:, :, None] <= values[..., None]).sum(-1)
        return counts, again

    def _score_again(
        self, counts: Tensor, low: Tensor, width: Tensor, values: Tensor, theta: Tensor
    ) -> None:
        """Adds those of `width` contexts from `low` on that do score no higher, query by query."""
        b, u, s = values.shape
        flat, bar, model = counts.view(-1), values.reshape(-1), theta.reshape(b * u, -1)
        ends = width.cumsum(0)
        near = self._contexts.shape[1]
        contexts = self._contexts.reshape(b * near, -1)
        total = int(ends[-1])
        for start in range(0, total, AT_ONCE):
            item = torch.arange(start, min(start + AT_ONCE, total), device=values.device)
            query = torch.searchsorted(ends, item, right=True)
            place = low.view(-1)[query] + item - (ends - width)[query]
            rows = contexts[query // (u * s) * near + place]
            scores = (rows * model[query // s]).sum(-1)
            flat.index_add_(0, query, (scores <= bar[query]).to(flat.dtype))


def _rows(contexts: Tensor, index: Tensor) -> Tensor:
    """Rows of (B, L, d) by an index (B, M): (B, M, d)."""
    b, length, d = contexts.shape
    start = torch.arange(b, device=index.device)[:, None] * length
    return contexts.reshape(b * length, d)[index + start]


class GroupIndex:
    """The sorted stretch of one group's entries, and when it pays to sort anew, or not to.

    Windows move on and models drift, so that ever more entries beside the stretch are scanned and
    ever more of it is scored again. Once that work has cost as much as sorting, the stretch is
    sorted anew over the windows' common part. Where scanning everything is cheaper, the index is
    given up until windows have grown.

    Attributes:
        start, stop: the stretch is entries start+1 … stop; both 0 while there is none.
    """

    def __init__(self) -> None:
        self.start = self.stop = 0
        self._stretch: SortedStretch | None = None
        self._spent = self._saved = 0.0
        self._least = 0.0  # scans cheaper than this are not worth an index

    def at_most(
        self,
        values: Tensor,
        theta: Tensor,
        bounds: tuple[int, int, int, int],
        entries: Callable[[int, int], Tensor],
    ) -> Tensor | None:
        """How many entries of the stretch score no higher than the values.

        Args:
            values: (B, U, S), NaN where nothing is asked.
            theta: (B, U, d).
            bounds: least and greatest start, least and greatest stop of the windows.
            entries: gives entries after+1 … until, (B, until − after, d).

        Returns:
            Counts over the stretch `start`, `stop`, (B, U, S); None where scanning the windows
            whole is the better way.
        """
        first, latest, earliest, last = bounds
        b, u, d = theta.shape
        scan = float(b * u * (last - first))
        if scan < max(2 * OVERHEAD, self._least) or earliest - latest < SHORTEST:
            return None
        price = b * (earliest - latest) * (SORTING + WHITENING * d * d)
        if self._stretch is None or self._spent > price:
            if self._stretch is not None and self._spent + price > self._saved:
                self._give_up(scan)
                return None
            self.start, self.stop = latest, earliest
            self._stretch = SortedStretch(entries(latest, earliest), theta[:, -1])
            self._spent = self._saved = 0.0
        beside = b * u * (abs(latest - self.start) + abs(last - self.stop))
        each = 4 + d / 4  # scoring again gathers rows one by one
        found = self._stretch.at_most(values, theta, (scan - beside) / each)
        if found is None:
            self._give_up(scan)
            return None
        counts, again = found
        self._saved += scan
        self._spent += OVERHEAD + beside + again * each
        return counts

    def _give_up(self, scan: float) -> None:
        self.start = self.stop = 0
        self._stretch, self._least = None, 1.5 * scan
