"""Checks that compare what a part gives in several runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from itertools import chain, pairwise

import torch
from torch import Tensor

from fairbandit import registry
from fairbandit.conformance.world import (
    CLOSE,
    REPLICAS,
    ROUNDS,
    ConformanceError,
    Spec,
    check_same,
    class_of,
    engine_with,
    grow,
    play,
    run,
)
from fairbandit.engine import Engine
from fairbandit.maths.picks import of_pick
from fairbandit.parts import Estimator, Outcomes

LATE = (2, 7, ROUNDS - 3)
"""The rounds whose rewards come late, in checks of late rewards."""


def plays(kind: str, spec: Spec) -> None:
    """Plays some rounds without breaking a contract that the public methods check."""
    for split in ("halves", "full"):
        play(kind, spec, split=split)


def repeats(kind: str, spec: Spec) -> None:
    """Gives the same when it is bound to a second run under the same seed."""
    part = registry.create(kind, spec)
    first, second = (play(kind, spec, part=part) for _ in range(2))
    check_same(first, second, "two runs under one seed")


def replicas_alone(kind: str, spec: Spec) -> None:
    """Gives for each of B replicas what it gives for that replica alone."""
    together = play(kind, spec)
    for replica in range(REPLICAS):
        alone = play(kind, spec, replicas=[replica])
        check_same(together[replica, None], alone, f"replica {replica} in company and alone")


def rounds_alone(kind: str, spec: Spec) -> None:
    """Gives for a block of rounds what it gives for them one at a time."""
    blocks, single = (play(kind, spec, 2 * ROUNDS, piece) for piece in (2 * ROUNDS, 1))
    check_same(blocks, single, "rounds in blocks and one at a time")


def resumes(kind: str, spec: Spec) -> None:
    """Continues from a saved state, plain tensors and numbers, as if it had never stopped."""
    whole = play(kind, spec, 2 * ROUNDS)
    first, second = (engine_with(kind, spec) for _ in range(2))
    head, state = run(first, ROUNDS), first.state()
    kept = [part.items() for part in (*state["parts"].values(), *state["metrics"].values())]
    for key, value in chain(*kept):
        if not isinstance(value, (Tensor, int, float)):
            raise ConformanceError(
                f"its state has a {type(value).__name__} under {key!r}; expected tensors and "
                "numbers only"
            )
    second.load_state(state)
    resumed = torch.cat([head, run(second, 2 * ROUNDS)], 1)
    check_same(whole, resumed, "a run never stopped and one resumed from its state")


def grows(kind: str, spec: Spec) -> None:
    """Treats a group that appears like a group that was known and never seen."""
    known, met = (engine_with(kind, spec, rare_after=ROUNDS, groups=n) for n in (None, 2))
    head = run(met, ROUNDS)
    grow(met)
    grown = torch.cat([head, run(met, 2 * ROUNDS)], 1)
    check_same(run(known, 2 * ROUNDS), grown, "a group known before and one that appears")


def learns_late(kind: str, spec: Spec) -> None:
    """If it can, rewards that come late give the model of rewards in time."""
    cls = class_of(kind, spec)
    if cls.absorb is Estimator.absorb and "rewards" not in cls.needs:
        return
    in_time, late = (
        scores_with(engine_with(kind, spec, split="full"), late) for late in ((), LATE)
    )
    if not torch.allclose(in_time, late, rtol=CLOSE, atol=CLOSE):
        gap = float((in_time - late).abs().max())
        raise ConformanceError(
            f"after rewards that came late, scores differ by up to {gap:.3g} from those after the "
            "same rewards in time"
        )


def scores_with(engine: Engine, late: Collection[int]) -> Tensor:
    """Scores, (B, 1, K), of the last round's candidates after the first pick of every round.

    The engine has not begun. The rewards of the `late` rounds come only at the end.
    """
    policy, history, pools = engine.policy, engine.history, engine.environment.pools(1, ROUNDS)
    first = (pools.groups >= 0).to(torch.uint8).argmax(2)
    picks = [of_pick(part, first) for part in (pools.contexts, pools.groups, pools.rewards)]
    outcomes = [Outcomes(*(part[:, t : t + 1] for part in picks)) for t in range(ROUNDS)]
    history.add_rounds(ROUNDS)
    for t, outcome in enumerate(outcomes, 1):
        if t not in late:
            history.add_outcomes(t, outcome)
    policy.commit(ROUNDS // 2, history)
    for t in late:
        policy.learn(t, outcomes[t - 1], history)
    last = ROUNDS, pools.contexts[:, -1:], pools.groups[:, -1:]
    candidates, _ = policy.candidates(*last, history)
    return candidates.scores


def reads_no_later(kind: str, spec: Spec) -> None:
    """A reward after the last round that it says it reads changes nothing at round t."""
    for split in ("halves", "full"):
        policy = engine_with(kind, spec, split=split).policy
        last = [policy.last_read(t) for t in range(1, ROUNDS + 1)]
        for t, (before, read) in enumerate(pairwise([0, *last]), 1):
            if not before <= read < t:
                raise ConformanceError(
                    f"the last round read at round {t} is {read}; expected {before}, which is read "
                    f"at the round before, to {t - 1}"
                )
        calm = play(kind, spec, piece=1, split=split)
        for after in (5, 17, 30):
            blind = bisect_right(last, after)  # so many rounds read no reward after this one
            upset = play(kind, spec, blind, 1, split=split, upset_after=after)
            changed = (calm[:, :blind] != upset).any(2).any(0).nonzero()
            if len(changed):
                t = int(changed[0]) + 1
                raise ConformanceError(
                    f"beside split {split!r} the decision at round {t} changes with a reward "
                    f"later than that of round {last[t - 1]}, the last one it says it reads"
                )
