"""Exposure in proportion to merit."""

from __future__ import annotations

from torch import Tensor

from fairbandit.registry import register
from fairbandit.selectors.base import Ranked, Selector, softmax
from fairbandit.selectors.merit import MeritFunction


@register("selector", "proportional")
class Proportional(MeritFunction, Selector):
    """Each candidate with a probability proportional to the merit of its index.

    π_a = f(index_a) / Σ_b f(index_b) with f(x) = max(h(x), γ), where h(x) is x (identity),
    max(x, 0)^p (power) or exp(βx) (exponential). The paper requires f ≥ γ > 0 everywhere; the
    identity and powers need the clipping for it. All candidates with h < γ, such as all with
    negative estimates, have the merit γ. For m picks, π_a = min(1, c·f(index_a)) with c such that
    π sums to m. The parameters are described in `MeritFunction`.
    """

    reference = "Wang, Bai, Sun, Joachims, Fairness of Exposure in Stochastic Bandits, ICML 2021"

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return softmax(self.merits(ranked.index.value, ranked.present), picks)
