"""Checks that compare the decisions of several runs with a part."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

import torch

from fairbandit.conformance.world import (
    CLOSE,
    LATE,
    REPLICAS,
    ROUNDS,
    ConformanceError,
    Spec,
    bind,
    check_same,
    check_state,
    class_of,
    engine_with,
    grow,
    heard,
    play,
    scores_with,
)
from fairbandit.parts import Estimator, Part
from fairbandit.streams import GRID


def plays(kind: str, spec: Spec) -> None:
    """Plays some rounds without breaking a contract that the public methods check."""
    for split in ("halves", "full"):
        play(kind, spec, split=split)


def repeats(kind: str, spec: Spec) -> None:
    """Decides alike when run twice under one seed."""
    check_same(play(kind, spec), play(kind, spec), "two runs under one seed")


def replicas_alone(kind: str, spec: Spec) -> None:
    """Decides for each of B replicas as it does for that replica alone."""
    together = play(kind, spec)
    for replica in range(REPLICAS):
        alone = play(kind, spec, replicas=[replica])
        check_same(together[replica, None], alone, f"replica {replica} in company and alone")


def rounds_alone(kind: str, spec: Spec) -> None:
    """Decides a block of rounds as it decides them one at a time."""
    rounds = 2 * ROUNDS
    blocks, single = (play(kind, spec, rounds=rounds, at_once=n) for n in (GRID, 1))
    check_same(blocks, single, "rounds in blocks and one at a time")


def resumes(kind: str, spec: Spec) -> None:
    """Continues from a saved state, plain tensors and numbers, as if it had never stopped."""
    rounds = GRID + ROUNDS
    whole = play(kind, spec, rounds=rounds)
    first, second = (engine_with(kind, spec, rounds=rounds) for _ in range(2))
    head = heard(first, [next(first.play())])
    for part in first.policy.parts.values():
        check_state(part.state())
    second.load_state(first.state())
    resumed = torch.cat([head, heard(second, second.play())], 1)
    check_same(whole, resumed, "a run never stopped and one resumed from its state")
    if class_of(kind, spec).grow is not Part.grow:
        _grows(kind, spec)


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


def reads_no_later(kind: str, spec: Spec) -> None:
    """A reward after the last round that it says it reads changes nothing at round t."""
    for split in ("halves", "full"):
        last = _last_read(kind, spec, split)
        calm = play(kind, spec, split=split, at_once=1)
        for after in (5, 17, 30):
            blind = bisect_right(last, after)  # so many rounds read no reward after this one
            upset = play(kind, spec, split=split, at_once=1, rounds=blind, upset_after=after)
            changed = (calm[:, :blind] != upset).any(2).any(0).nonzero()
            if len(changed):
                t = int(changed[0]) + 1
                raise ConformanceError(
                    f"beside split {split!r} the decision at round {t} changes with a reward "
                    f"later than that of round {last[t - 1]}, the last one it says it reads"
                )


def _grows(kind: str, spec: Spec) -> None:
    """Checks that a new group is treated like a group that was known and never seen."""
    rounds = GRID + ROUNDS
    known, met = (engine_with(kind, spec, rounds=rounds, rare_after=GRID) for _ in range(2))
    whole, problem = heard(known, known.play()), met.policy.problem
    bind(met, replace(problem, groups=problem.groups - 1))
    pieces = met.play()
    head = heard(met, [next(pieces)])
    grow(met, problem)
    grown = torch.cat([head, heard(met, pieces)], 1)
    check_same(whole, grown, "a group known before and one that appears")


def _last_read(kind: str, spec: Spec, split: str) -> list[int]:
    """The last round that a policy with the part reads, at each round."""
    policy = engine_with(kind, spec, split=split).policy
    read = [policy.last_read(t) for t in range(1, ROUNDS + 1)]
    for t, (before, last) in enumerate(pairwise([0, *read]), 1):
        if not before <= last < t:
            raise ConformanceError(
                f"the last round read at round {t} is {last}; expected {before}, which is read at "
                f"the round before, to {t - 1}"
            )
    return read
