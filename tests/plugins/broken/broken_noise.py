"""An environment with one fault: it centres the random draws that it was given."""

import torch

from fairbandit import register
from fairbandit.environments import Environment, Pools
from fairbandit.streams import Purpose


@register("environment", "broken_noise")
class Centring(Environment):
    """One feature, uniform; one group; rewards without noise."""

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 1, 2, ("all",)
        self.truth = None

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, 2).sub_(0.5)
        groups = torch.zeros(drawn.shape, dtype=torch.int64)
        return Pools(drawn[..., None].clone(), groups, drawn.clone(), drawn.clone(), drawn + 0.5)
