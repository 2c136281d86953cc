"""A group's empirical CDF with confidence bounds on the true relative rank."""

from __future__ import annotations

from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.ranks.base import Rank
from fairbandit.registry import register
from fairbandit.scored import Scored
from fairbandit.ties import Approximate


@register("rank", "interval_cdf")
class IntervalCdf(Rank):
    """Optimistic relative rank: the upper end of a confidence interval of the true one.

    For a candidate x of a group of which the round's window holds n contexts x′, the interval is

        [n⁻¹ Σ 1{upper(x′) ≤ lower(x)} − ε_n,  n⁻¹ Σ 1{lower(x′) ≤ upper(x)} + ε_n],
        ε_n = √(ln(2G·n(n + 1)/δ)/(2n)),

    cut to [0, 1], which is also the interval of n = 0; lower and upper are the reward model's
    confidence bounds under this round's model. The index is the upper end. Rounding widens the
    interval: the candidate's bounds are those up to which its score ties.

    What is guaranteed. Let all bounds of the reward model hold in all rounds with probability
    1 − δ₁, and let the contexts of each group, in the order in which they come, be independent and
    identically distributed. Then, with probability 1 − δ₁ − δ, the true relative rank F_g(μ) of
    every candidate lies in its interval in every round, μ being its true reward.

    Proof. Let F̂_n be the empirical CDF of the true rewards of the group's first n contexts.
    1. While the bounds hold, upper(x′) ≤ lower(x) implies μ′ ≤ μ, which implies lower(x′) ≤
    upper(x). The two shares therefore have F̂_n(μ) between them. 2. By the inequality of
    Dvoretzky, Kiefer and Wolfowitz with Massart's constant, |F̂_n − F_g| exceeds ε_n anywhere with
    probability at most 2·exp(−2n·ε_n²) = δ/(G·n(n + 1)). As 1/(n(n + 1)) sums to 1 over n ≥ 1, it
    does so for no group and no n with probability 1 − δ. 3. Every candidate of every round is
    compared with the first n contexts of its group for some n, and the inequality holds at all
    values at once: neither places nor rounds need another union. Nor does it matter that the
    rounds which rank have trained the model too, since F̂_n depends on no model.

    The window of a round must therefore begin with round 1. Where groups appear online, G is their
    number so far, and the guarantee is for the rounds after the last group has appeared.

    Args:
        delta: δ in (0, 1), the probability that any of the empirical CDFs of true rewards leaves
            its band. The probability that the bounds of the rewards fail adds to it.

    Raises:
        FairbanditError: a delta out of range; a split whose windows begin later than round 1.
    """

    reference = (
        "Kearns, Roth and Wu, Meritocratic Fairness for Cross-Population Selection, ICML 2017 "
        "(ranks within populations); Joseph, Kearns, Morgenstern, Neel and Roth, Fair Algorithms "
        "for Infinite and Contextual Bandits, AIES 2018 (intervals of rewards); their combination "
        "is ours; Massart, The tight constant in "
        "the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability 1990"
    )
    needs = frozenset({"contexts"})

    def __init__(self, *, delta: float = 0.025) -> None:
        if not 0 < delta < 1:
            raise FairbanditError(f"delta (δ) must be above 0 and below 1, got {delta}")
        self.delta = delta

    def _index(self, scored: Scored) -> Tensor:
        late = int(scored.rank_window[0].amax())
        if late > 0:
            raise FairbanditError(
                f"{self}: expected rank windows that begin with round 1, as those "
                f"of split 'full'; got one that begins with round {late + 1}, for which its "
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
