"""An estimator with one fault: it centres the past rewards where they are kept."""

from fairbandit import register
from fairbandit.parts import Estimator, LinearModel, Outcomes


@register("estimator", "broken_outcomes")
class Centred(Estimator):
    """θ is the mean of the picks, weighed by their centred rewards."""

    reference = "these tests"
    needs = frozenset({"rewards"})

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> LinearModel:
        outcomes.rewards.sub_(outcomes.rewards.mean(1, keepdim=True))
        theta = (outcomes.contexts * outcomes.rewards[..., None]).mean(1, keepdim=True)
        return LinearModel(theta.expand(-1, len(n_train), -1))
