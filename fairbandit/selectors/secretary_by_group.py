"""The secretary rule with comparisons within groups."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import pad

from fairbandit.registry import register
from fairbandit.selectors.rolling import Candidates, Course, Places, Rolling


def observed_share(groups: int) -> float:
    """The share of the candidates that are only observed, with k groups of equal sizes.

    Suppose that candidates of k groups arrive at independent uniform times in [0, 1], and that the
    rule observes until t. No candidate is taken in (t, τ) if in each group the best candidate up to
    τ came before t, which has the probability (t/τ)^k. A best candidate of its whole group that
    comes at τ is then taken, so that the pick is the best of its group with the probability

        k ∫_t^1 (t/τ)^k dτ = k(t − t^k)/(k − 1),

    whose maximum is at t = k^(−1/(k − 1)), and equals t. For one group both are 1/e.

    >>> [round(observed_share(k), 3) for k in (1, 2, 3, 4)]
    [0.368, 0.5, 0.577, 0.63]
    """
    return math.exp(-1) if groups == 1 else groups ** (-1 / (groups - 1))


@register("selector", "secretary_by_group")
class SecretaryByGroup(Rolling):
    """Observes the first candidates, then takes the first that surpasses all of its own group.

    Of n expected candidates the first ⌊n·t⌋ are let go, with t = k^(−1/(k − 1)) for the k groups of
    the problem; see `observed_share`. After them a candidate is taken if and only if no earlier
    candidate of its group in this pool has a greater index, or if the places left are enough for
    all who may come. The rule needs no past and no comparison between groups. For one
    place and groups of equal sizes that arrive in random order, the pick is the best of its group
    with the probability t in the limit of many candidates, for each continuous law of each group's
    index, and this is optimal. Unequal groups would need a threshold each. For several places the
    rule is the same, without a guarantee. `Rolling` describes the rest.

    Args:
        count, candidates, epsilon: as for `rolling`.
    """

    reference = (
        "Correa, Cristi, Duetting and Norouzi-Fard, Fairness and Bias in Online Selection, ICML "
        "2021 (the multi-color secretary problem)"
    )

    def step(self, places: Places, candidate: Candidates) -> tuple[Places, Course]:
        """Compares a candidate with the earlier candidates of its group; see `Rolling.step`."""
        k = int(candidate.kinds.max())
        group = candidate.groups.clamp(min=0)[..., None]
        best = pad(places.best, (0, max(k - places.best.shape[-1], 0)), value=-torch.inf)
        earlier = best.gather(-1, group)
        observed = candidate.before < (candidate.total * observed_share(k)).floor()
        bars = earlier.where(~observed[..., None], torch.inf).expand_as(candidate.bars)
        bars = bars.where(candidate.bars > -torch.inf, -torch.inf)
        after, course = super().step(places, candidate._replace(bars=bars))
        best = best.scatter(-1, group, earlier.maximum(candidate.low[..., None]))
        return after._replace(best=best), course
