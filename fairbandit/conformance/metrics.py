"""Checks on metrics: the same rounds are judged whole, in pieces and after a saved state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.watch import HeldStreams, Watch, watched
from fairbandit.conformance.world import REPLICAS, ConformanceError, Scattered, Spec
from fairbandit.environments.base import Pools
from fairbandit.metrics import REDUCTIONS, Dimensions, Judged, Metric
from fairbandit.streams import Purpose, Streams

JUDGED = 60
"""How many rounds a metric judges."""

PIECES = (1, 7, 32, 20)
"""The lengths of the pieces in which it judges them again."""

CLOSE = 1e-9
"""Sums of pieces may differ from sums of the whole by some roundings."""


@dataclass(frozen=True)
class Rounds:
    """Rounds that were decided at random.

    Attributes:
        pools: the candidates of all rounds.
        actions: the places picked, (B, N) int64.
        propensities: the probability of each pick, (B, N).
        probabilities: the probability of each place, (B, N, K).
    """

    pools: Pools
    actions: Tensor
    propensities: Tensor
    probabilities: Tensor

    def judged(self, metric: Metric, first: int, count: int) -> Judged:
        """Returns rounds first … first+count−1 as a metric sees them."""
        at = slice(first - 1, first - 1 + count)
        shown = self.probabilities[:, at] if metric.needs_probabilities else None
        return Judged(first, self.pools[at], self.actions[:, at], self.propensities[:, at], shown)


def judges_soundly(kind: str, spec: Spec) -> None:
    """Gives a finite number for each round and replica, and declares how they are reduced."""
    metric = _metric(spec)
    if metric.reduce not in REDUCTIONS:
        raise ConformanceError(
            f"reduce = {metric.reduce!r}; expected one of {', '.join(REDUCTIONS)}"
        )
    _judge(metric, random_rounds(), (JUDGED,))


def pieces_agree(kind: str, spec: Spec) -> None:
    """Judges rounds in pieces of any length as it judges them at once, also after `bind` again."""
    metric, rounds = _metric(spec), random_rounds()
    whole = _judge(metric, rounds, (JUDGED,))
    metric.bind(_dimensions(REPLICAS))
    _same(whole, _judge(metric, rounds, PIECES), "the whole and pieces")


def judges_replicas_alone(kind: str, spec: Spec) -> None:
    """Judges each of B replicas as it judges that replica alone."""
    together = _judge(_metric(spec), random_rounds(), PIECES)
    for replica in range(REPLICAS):
        alone = _judge(_metric(spec, 1), random_rounds([replica]), PIECES)
        _same(together[replica : replica + 1], alone, f"replica {replica} in company and alone")


def resumes_judging(kind: str, spec: Spec) -> None:
    """Goes on from a saved state, plain tensors and numbers, as if never stopped."""
    rounds = random_rounds()
    whole = _judge(_metric(spec), rounds, PIECES)
    first, second = _metric(spec), _metric(spec)
    head = _judge(first, rounds, PIECES[:2])
    state = first.state()
    for key, value in state.items():
        if not isinstance(value, (Tensor, int, float)):
            raise ConformanceError(
                f"its state has a {type(value).__name__} under {key!r}; "
                "expected tensors and numbers only"
            )
    held = {key: v.clone() if isinstance(v, Tensor) else v for key, v in state.items()}
    second.load_state(held)
    tail = _judge(second, rounds, PIECES[2:], sum(PIECES[:2]) + 1)
    _same(whole, torch.cat([head, tail], 1), "a run never stopped and one resumed from its state")


def live(spec: Spec, watch: Watch) -> None:
    """Lets a metric judge rounds and hand over its state under watch."""
    note = watch.before(None, {})
    made: list[Any] = [registry.create("metric", spec) for _ in range(2)]
    watch.after("__init__", None, note)
    rounds = random_rounds(hold=watch.hold)
    for metric in made:
        watched("metric", metric, watch)
        metric.bind(_dimensions(REPLICAS))
    _judge(made[0], rounds, PIECES[:2])
    made[1].load_state(made[0].state())
    for metric in made:
        _judge(metric, rounds, PIECES[2:], sum(PIECES[:2]) + 1)


def random_rounds(
    replicas: list[int] | None = None,
    count: int = JUDGED,
    hold: Callable[[Tensor, str], None] | None = None,
) -> Rounds:
    """Draws rounds of the suite's problem, and picks a candidate of each at random.

    Args:
        replicas: the replicas' numbers; the first `REPLICAS` by default.
        count: how many rounds.
        hold: is told of every tensor of draws, and how a metric reaches it.
    """
    numbers = list(range(REPLICAS)) if replicas is None else replicas
    world = Scattered()
    streams = Streams(1, numbers) if hold is None else HeldStreams(1, numbers, hold)
    world.bind(streams)
    pools = world.pools(1, count)
    drawn = streams[Purpose.SELECTOR].uniform(1, count, world.places + 1)
    weights = drawn[..., :-1].masked_fill(pools.groups < 0, 0)
    probabilities = weights / weights.sum(2, keepdim=True)
    actions = (probabilities.cumsum(2) > drawn[..., -1:]).to(torch.uint8).argmax(2)
    propensities = probabilities.gather(2, actions[..., None]).squeeze(2)
    return Rounds(pools, actions, propensities, probabilities)


def judging_seconds(spec: Spec, count: int) -> float:
    """Returns the seconds in which a metric judges so many rounds at once."""
    rounds, metric = random_rounds(count=count), _metric(spec, rounds=count)
    start = perf_counter()
    metric.values(rounds.judged(metric, 1, count))
    return perf_counter() - start


def _metric(spec: Spec, replicas: int = REPLICAS, rounds: int = JUDGED) -> Metric:
    metric: Metric = registry.create("metric", spec)
    metric.bind(_dimensions(replicas, rounds))
    return metric


def _dimensions(replicas: int, rounds: int = JUDGED) -> Dimensions:
    world = Scattered()
    return Dimensions(
        replicas=replicas,
        rounds=rounds,
        places=world.places,
        groups=len(world.group_names),
        features=world.features,
        device=torch.device("cpu"),
    )


def _judge(metric: Metric, rounds: Rounds, pieces: tuple[int, ...], first: int = 1) -> Tensor:
    """The values of pieces of rounds, one after the other, (B, N)."""
    values = []
    for count in pieces:
        values.append(metric.values(rounds.judged(metric, first, count)))
        first += count
    return torch.cat(values, 1)


def _same(one: Tensor, other: Tensor, what: str) -> None:
    apart = ~one.isclose(other, rtol=CLOSE, atol=CLOSE)
    if bool(apart.any()):
        place, replica = apart.T.nonzero()[0].tolist()
        raise ConformanceError(
            f"{what} are judged differently, first at round {place + 1}: replica {replica} of the "
            f"batch has {one[replica, place]:.9g} and {other[replica, place]:.9g}"
        )
