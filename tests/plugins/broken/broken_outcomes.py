"""An estimator with one fault: it centres the past rewards where they are kept."""

from fairbandit import register
from fairbandit.parts import Estimator, History, LinearModel


@register("estimator", "broken_outcomes")
class Centred(Estimator):
    """θ is the mean of the picks, weighed by their centred rewards."""

    reference = "these tests"

    def _models(self, nodes: list[int], history: History) -> LinearModel:
        past = history.outcomes(0, nodes[-1])
        past.rewards.sub_(past.rewards.mean(1, keepdim=True))
        theta = (past.contexts * past.rewards[..., None]).mean(1, keepdim=True)
        return LinearModel(theta.expand(-1, len(nodes), -1))
