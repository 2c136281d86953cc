"""What a rank can ask about past scores and past bounds, against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.maths.ties import TOLERANCE
from fairbandit.parts import Candidates, Division, History, LinearModel, Problem
from fairbandit.parts.past import Of
from fairbandit.streams import Purpose, Streams


class Bounded(LinearModel):
    """Linear models whose bounds are a group's number below and above the scores."""

    def bounds(self, contexts: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.score(contexts, groups)
        return scores - groups, scores + groups


class World:
    """Pools of few whole numbers; the last rounds ask, each about a window that has a start."""

    def __init__(self, seed: int, groups: int = 3, rounds: int = 24, asked: int = 6) -> None:
        draws = np.random.default_rng(seed)
        b, k, d = 2, 3, 2
        self.groups, self.first = groups, rounds - asked + 1
        self.x = torch.from_numpy(draws.integers(-2, 3, (b, rounds, k, d)).astype(float))
        self.s = torch.from_numpy(draws.integers(-1, groups, (b, rounds, k)))
        self.start = torch.from_numpy(np.sort(draws.integers(0, self.first, asked)))
        self.stop = torch.arange(self.first - 1, rounds)
        self.problem = Problem(d, groups, Streams(0, range(b)))
        self.history = History(self.problem, {"contexts"})
        self.history.add_pools(self.x, self.s)
        theta = torch.from_numpy(draws.integers(-2, 3, (b, asked, d)).astype(float))
        self.candidates = Candidates(
            self.first,
            Division(self.start, self.start, self.stop),
            self.x[:, self.first - 1 :],
            self.s[:, self.first - 1 :],
            Bounded(theta),
            torch.arange(asked),
            self.history,
            self.problem.streams[Purpose.RANK],
        )

    def old(self, r: int, n: int, group: int) -> Tensor:
        """The past scores of a group in the n-th round that asks."""
        theta, found = self.candidates.model.parameters[0][r, n], []
        for t in range(int(self.start[n]), int(self.stop[n])):
            found += [
                x @ theta for x, s in zip(self.x[r, t], self.s[r, t], strict=True) if s == group
            ]
        return torch.stack(found) if found and group >= 0 else torch.empty(0).double()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_answer(seed: int) -> None:
    world = World(seed)
    candidates, past = world.candidates, world.candidates.past
    own, groups = candidates.scores, candidates.groups
    asked: list[Of] = ["score", "lower", "upper"]
    le = [past.count_le(own.clone(), of=of) for of in asked]
    lt = [past.count_lt(own.clone(), of=of) for of in asked]
    aged = past.sum(lambda old, mine, age: (old <= mine) * age, own, ages=True)
    wide = groups.clamp(min=0).roll(1, 2)
    others = past.of(wide)
    for r, n, a in np.ndindex(*groups.shape):
        group, mine = int(groups[r, n, a]), own[r, n, a]
        old = world.old(r, n, group)
        assert int(past.count[r, n, a]) == len(old)
        for at, shift in enumerate((0, -group, group)):
            assert int(le[at][r, n, a]) == int((old + shift <= mine).sum())
            assert int(lt[at][r, n, a]) == int((old + shift < mine).sum())
        for moment, expected in (
            (past.mean, old.mean()),
            (past.variance, ((old - old.mean()) ** 2).mean()),
        ):
            torch.testing.assert_close(moment[r, n, a], expected, equal_nan=True)
        ages = [
            world.first + n - t
            for t in range(int(world.start[n]) + 1, int(world.stop[n]) + 1)
            for s in world.s[r, t - 1].tolist()
            if s == group >= 0
        ]
        assert float(aged[r, n, a]) == sum(
            age for age, one in zip(ages, old.tolist(), strict=True) if one <= mine
        )
        assert int(others.count[r, n, a]) == len(world.old(r, n, int(wide[r, n, a])))
        for group in range(world.groups):
            assert int(past.every.count[r, n, group]) == len(world.old(r, n, group))


def test_own_scores_compare_with_their_tolerance() -> None:
    """A past score within rounding of the candidate's ties with it; others are as they are."""
    off = torch.tensor([-20.0, -2.0, 0.0, 2.0, 20.0], dtype=torch.float64)
    x = 1 + off * torch.finfo(torch.float64).eps  # 8 eps is the tolerance of a score of 1
    problem = Problem(1, 1, Streams(0, [0]))
    history = History(problem, {"contexts"})
    history.add_pools(x.view(1, 5, 1, 1), torch.zeros(1, 5, 1, dtype=torch.int64))
    one, five = torch.zeros(1, dtype=torch.int64), torch.full((1,), 5)
    asked = Candidates(
        6,
        Division(five, one, five),
        torch.ones(1, 1, 1, 1).double(),
        torch.zeros(1, 1, 1, dtype=torch.int64),
        LinearModel(torch.ones(1, 1, 1).double()),
        one,
        history,
        problem.streams[Purpose.RANK],
    )
    past, own = asked.past, asked.scores
    assert (float(past.count_le(own)), float(past.count_lt(own))) == (4, 1)
    assert (float(past.count_le(own.clone())), float(past.count_lt(own.clone()))) == (3, 2)
    assert float(past.count_le(asked.upper_scores)) == 4
    assert float(past.count_le(own + 12 * TOLERANCE)) == 5
    with pytest.raises(
        FairbanditError, match="of: expected one of score, lower, upper; got 'mean'"
    ):
        past.count_le(own, of="mean")  # type: ignore[arg-type]
    with pytest.raises(FairbanditError, match="has no confidence bounds"):
        past.count_le(own, of="lower")
