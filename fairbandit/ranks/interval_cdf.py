"""A group's empirical CDF with confidence bounds on the true relative rank."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.estimators.ties import Approximate
from fairbandit.ranks.base import Rank, Scored
from fairbandit.registry import InnerShare, register


@register("rank", "interval_cdf")
@dataclass(kw_only=True, eq=False)
class IntervalCdf(Rank):
    """Optimistic relative rank: the upper end of a confidence interval for the true rank.

    If the round's window holds n contexts x′ of the group of a candidate x, the interval is

        [n⁻¹ Σ 1{upper(x′) ≤ lower(x)} − ε_n,  n⁻¹ Σ 1{lower(x′) ≤ upper(x)} + ε_n],
        ε_n = √(ln(2G·n(n + 1)/δ)/(2n)),

    clipped to [0, 1]; for n = 0 it is [0, 1]. lower and upper are the confidence bounds of the
    round's reward model. The index is the upper end of the interval. To allow for rounding, the
    candidate's bounds are widened by the distance up to which its score ties.

    Guarantee. Suppose that all bounds of the reward model hold in all rounds with probability
    1 − δ₁, and that the contexts of each group are independent and identically distributed, in
    order of arrival. Let μ be the true reward of a candidate. Then, with probability 1 − δ₁ − δ,
    the true relative rank F_g(μ) of every candidate lies in its interval in every round.

    Proof. Let F̂_n be the empirical CDF of the true rewards of the group's first n contexts.
    1. If the bounds hold, upper(x′) ≤ lower(x) implies μ′ ≤ μ, and μ′ ≤ μ implies lower(x′) ≤
    upper(x). F̂_n(μ) therefore lies between the two shares. 2. By the inequality of Dvoretzky,
    Kiefer and Wolfowitz with Massart's constant, sup |F̂_n − F_g| exceeds ε_n with probability at
    most 2·exp(−2n·ε_n²) = δ/(G·n(n + 1)). Since 1/(n(n + 1)) sums to 1 over n ≥ 1, with probability
    1 − δ it exceeds ε_n for no group and no n. 3. In every round, every candidate is compared with
    the first n contexts of its group for some n, and step 2 covers all values at once. Places and
    rounds therefore need no further union bound. Rounds of the window may train the model, too,
    since F̂_n does not depend on the model.

    The window of every round must therefore begin with round 1. If groups appear online, G is the
    number of groups so far, and the guarantee holds in the rounds after the last new group.

    Args:
        delta: δ in (0, 1), the probability that the empirical CDF of true rewards of any group
            leaves its band. The probability that the reward bounds fail is added to δ.

    Raises:
        FairbanditError: in a decision, a window that begins after round 1.
    """

    reference = (
        "Kearns, Roth and Wu, Meritocratic Fairness for Cross-Population Selection, ICML 2017 "
        "(ranks within populations); Joseph, Kearns, Morgenstern, Neel and Roth, Fair Algorithms "
        "for Infinite and Contextual Bandits, AIES 2018 (intervals of rewards); their combination "
        "is ours; Massart, The tight constant in "
        "the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability 1990"
    )
    needs = frozenset({"contexts"})

    delta: InnerShare = 0.025

    def _index(self, scored: Scored) -> Tensor:
        late = int(scored.rank_window[0].amax())
        if late > 0:
            raise FairbanditError(
                f"{self}: expected rank windows that begin with round 1, as under "
                f"split 'full'; got a window that begins with round {late + 1}, for which the "
                "confidence intervals do not hold"
            )
        highest = Approximate(scored.bounds()[1], scored.scores.slack).greatest_tie
        share = scored.past.count_le(highest, of="lower") / scored.past.count.clamp(min=1)
        return (share + self.width(scored)).clamp(max=1)

    def _bounds(self, scored: Scored, index: Approximate) -> tuple[Tensor, Tensor]:
        least = Approximate(scored.bounds()[0], scored.scores.slack).least_tie
        share = scored.past.count_le(least, of="upper") / scored.past.count.clamp(min=1)
        return (share - self.width(scored)).clamp(min=0), index.value

    def width(self, scored: Scored) -> Tensor:
        """ε_n of each candidate, (B, N, K); 1 where n = 0."""
        n = scored.past.count
        count = n.clamp(min=1)
        union = 2 * scored.problem.groups * count * (count + 1) / self.delta
        return (union.log() / (2 * count)).sqrt().where(n > 0, 1)
