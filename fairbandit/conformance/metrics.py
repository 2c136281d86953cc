"""Checks on metrics: the same rounds are judged whole, in pieces and after a saved state."""

from __future__ import annotations

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import (
    REPLICAS,
    ConformanceError,
    Scattered,
    Spec,
    check_same,
    check_state,
)
from fairbandit.environments.base import Pools
from fairbandit.metrics import REDUCTIONS, Dimensions, Judged, Metric
from fairbandit.parts import Selection
from fairbandit.streams import Purpose, Streams

JUDGED, PIECES = 60, (1, 7, 32, 20)
"""How many rounds a metric judges, and the lengths of the pieces in which it judges them again."""

Rounds = tuple[Pools, Selection]
"""Rounds with their picks."""


def judges_soundly(kind: str, spec: Spec) -> None:
    """Gives a finite number for each round and replica, and declares how they are reduced."""
    metric = bound(registry.create(kind, spec))
    if metric.reduce not in REDUCTIONS:
        raise ConformanceError(
            f"reduce = {metric.reduce!r}; expected one of {', '.join(REDUCTIONS)}"
        )
    judge(metric, random_rounds(), (JUDGED,))


def pieces_agree(kind: str, spec: Spec) -> None:
    """Judges rounds in pieces of any length as it judges them at once, also after `bind` again."""
    metric, rounds = registry.create(kind, spec), random_rounds()
    whole = judge(bound(metric), rounds, (JUDGED,))
    check_same(whole, judge(bound(metric), rounds, PIECES), "the whole and pieces")


def judges_replicas_alone(kind: str, spec: Spec) -> None:
    """Judges each of B replicas as it judges that replica alone."""
    together = judge(bound(registry.create(kind, spec)), random_rounds(), PIECES)
    for replica in range(REPLICAS):
        rounds = random_rounds(Streams(1, [replica]))
        alone = judge(bound(registry.create(kind, spec), replicas=1), rounds, PIECES)
        check_same(together[replica, None], alone, f"replica {replica} in company and alone")


def resumes_judging(kind: str, spec: Spec) -> None:
    """Continues from a saved state, plain tensors and numbers, as if it had never stopped."""
    rounds = random_rounds()
    whole, first, second = (bound(registry.create(kind, spec)) for _ in range(3))
    head = judge(first, rounds, PIECES[:2])
    state = first.state()
    check_state(state)
    second.load_state({key: v.clone() if isinstance(v, Tensor) else v for key, v in state.items()})
    resumed = torch.cat([head, judge(second, rounds, PIECES[2:], sum(PIECES[:2]) + 1)], 1)
    what = "a run never stopped and one resumed from its state"
    check_same(judge(whole, rounds, PIECES), resumed, what)


def random_rounds(streams: Streams | None = None, count: int = JUDGED) -> Rounds:
    """Draws rounds of the suite's problem, and picks a candidate of each at random."""
    world, streams = Scattered(), streams or Streams(1, range(REPLICAS))
    world.bind(streams)
    pools = world.pools(1, count)
    drawn = streams[Purpose.SELECTOR].uniform(1, count, world.places + 1)
    weights = drawn[..., :-1].masked_fill(pools.groups < 0, 0)
    probabilities = weights / weights.sum(2, keepdim=True)
    actions = (probabilities.cumsum(2) > drawn[..., -1:]).to(torch.uint8).argmax(2)
    propensities = probabilities.gather(2, actions[..., None]).squeeze(2)
    return pools, Selection(actions, propensities, weights)


def bound(metric: Metric, replicas: int = REPLICAS, rounds: int = JUDGED) -> Metric:
    """Binds a metric to rounds of the suite's problem, and returns it."""
    world = Scattered()
    sizes = world.places, len(world.group_names), world.features
    metric.bind(Dimensions(replicas, rounds, *sizes, device=torch.device("cpu")))
    return metric


def judged(metric: Metric, rounds: Rounds, first: int = 1, count: int = JUDGED) -> Judged:
    """Rounds first … first+count−1 as a metric sees them."""
    (pools, selection), at = rounds, slice(first - 1, first - 1 + count)
    shown = selection.probabilities[:, at] if metric.needs_probabilities else None
    picks = selection.actions[:, at], selection.propensities[:, at]
    return Judged(first, pools[at], *picks, shown)


def judge(metric: Metric, rounds: Rounds, pieces: tuple[int, ...], first: int = 1) -> Tensor:
    """A metric's values of pieces of rounds, one after the other, (B, N)."""
    values = []
    for count in pieces:
        values.append(metric.values(judged(metric, rounds, first, count)))
        first += count
    return torch.cat(values, 1)
