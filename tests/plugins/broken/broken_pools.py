"""An environment with one fault: it draws every pool into the same memory."""

import torch

from fairbandit import register
from fairbandit.environments import Environment, Pools
from fairbandit.streams import Purpose


@register("environment", "broken_pools")
class Overwriting(Environment):
    """One feature, uniform; one group; rewards without noise."""

    def __init__(self) -> None:
        self.features, self.places, self.group_names = 1, 2, ("all",)
        self.truth = None
        self._memory = torch.zeros(2, 256, 2, 1, dtype=torch.float64)

    def _pools(self, first: int, count: int) -> Pools:
        drawn = self.streams[Purpose.POOLS].uniform(first, count, 2)
        contexts = self._memory[: len(drawn), :count]
        contexts.copy_(drawn[..., None])
        groups = torch.zeros(drawn.shape, dtype=torch.int64)
        return Pools(contexts, groups, drawn, drawn, drawn)
