"""Exposure in proportion to merit."""

from __future__ import annotations

from torch import Tensor

from fairbandit.maths.merit import MeritFunction
from fairbandit.registry import register
from fairbandit.scored import Ranked
from fairbandit.selectors.base import Selector, softmax


@register("selector", "proportional")
class Proportional(MeritFunction, Selector):
    """Every candidate with a probability proportional to the merit of its index.

    π_a = f(index_a) / Σ_b f(index_b) with f(x) = max(h(x), γ), where h(x) is x (identity),
    max(x, 0)^p (power) or exp(βx) (exponential). The paper requires f ≥ γ > 0 everywhere, which
    the identity and powers meet only by this clipping: a candidate whose h is below γ, as all with
    negative estimates, has the merit γ. Of m picks, π_a = min(1, c·f(index_a)) with the c for which
    they sum to m. The parameters are those of `MeritFunction`.
    """

    reference = "Wang, Bai, Sun, Joachims, Fairness of Exposure in Stochastic Bandits, ICML 2021"

    def _inclusion(self, ranked: Ranked, picks: int) -> Tensor:
        return softmax(self.merits(ranked.index.value, ranked.present), picks)
