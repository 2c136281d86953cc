"""An estimator with one fault: it flips the contexts whose rewards come late."""

from fairbandit import register
from fairbandit.parts import Outcomes, Ridge


@register("estimator", "broken_absorb")
class Flipping(Ridge):
    """Ridge regression, which is the same for −x with −r as for x with r."""

    reference = "these tests"

    def absorb(self, n: int, outcomes: Outcomes) -> None:
        flipped = outcomes.contexts.neg_(), outcomes.groups, -outcomes.rewards
        super().absorb(n, Outcomes(*flipped))
