"""What is known is a value: longer pasts leave shorter ones as they were."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.history import NEVER, History, Outcomes, Problem, Rows
from fairbandit.streams import Streams

STEPS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("aaafx"), st.integers(0, 5)))


@settings(max_examples=60)
@given(STEPS)
def test_rows_are_values(steps: list[tuple[int, str, int]]) -> None:
    """Any rows may be appended to, forgotten from, or be in the midst of an append that fails."""
    every = [(Rows([torch.zeros(2, 0), torch.zeros(1, 0, 3)]), list[float]())]
    number = 0.0
    for which, what, count in steps:
        rows, expected = every[which % len(every)]
        if what == "f":
            kept = rows.forget(rows.start + count)
            every.append((kept, expected[kept.start - rows.start :]))
            assert kept.start == min(rows.start + count, rows.stop)
            continue
        new = torch.arange(count) + number
        number += count
        parts = new.expand(2, -1), new[:, None].expand(1, -1, 3)
        if what == "x":  # the second part does not fit
            with pytest.raises(RuntimeError):
                rows.append(parts[0], parts[1].expand(1, count, 3)[..., :2].repeat(1, 2, 1))
        else:
            every.append((rows.append(*parts), expected + new.tolist()))
    for rows, expected in every:
        one, other = rows[rows.start, rows.stop]
        assert one.tolist() == [expected] * 2
        assert other[0].tolist() == [[value] * 3 for value in expected]


def outcomes(*rounds: int) -> Outcomes:
    """Outcomes whose reward is their round."""
    t = torch.tensor(rounds, dtype=torch.int64)
    whole = t.expand(2, -1)
    return Outcomes(t, whole[..., None].double(), whole % 2, whole.double())


def problem(groups: int) -> Problem:
    return Problem(1, groups, Streams(0, [0, 1]))


def empty(groups: int = 2) -> History:
    return History.empty(problem(groups), contexts=False, picks=True)


def test_late_outcomes_come_in_order_of_round() -> None:
    history = empty()
    assert history.first_reward == NEVER
    for some in (outcomes(2, 5), outcomes(9), outcomes(1, 5, 7), outcomes()):
        history = history.with_outcomes(some)
    assert history.outcomes.rounds.tolist() == [1, 2, 5, 5, 7, 9]
    assert history.outcomes.rewards.tolist() == [[1, 2, 5, 5, 7, 9]] * 2
    assert history.outcomes.counts([0, 1, 4, 5, 100]) == [0, 1, 2, 4, 6]
    assert history.first_reward == 1
    fewer = history.forget(outcomes=2).with_outcomes(outcomes(6))
    assert fewer.outcomes.rounds.tolist() == [5, 5, 6, 7, 9]
    assert history.with_guess(
        outcomes(10, 11), outcomes(10).groups[..., None]
    ).outcomes.rounds.tolist()[-3:] == [9, 10, 11]
    assert history.outcomes.n == 6


def counted(history: History, t: list[int]) -> Any:
    return history.pick_counts(np.array(t)).tolist()


def test_picks_are_counted_by_the_end_of_each_round() -> None:
    picks = torch.tensor([[0, 1, 1], [1, 1, 1]])[..., None]
    history = empty().with_picks(picks[:, :1]).with_picks(picks[:, 1:])
    assert counted(history, [0, 1, 3])[0] == [[0, 0], [1, 0], [1, 2]]
    other = history.with_picks(outcomes(4).groups[..., None])
    assert counted(other, [3, 4])[1] == [[0, 3], [1, 3]]
    grown = history.forget(picks=2).grow(problem(3), ()).with_picks(torch.tensor([[[2]], [[0]]]))
    assert counted(grown, [2, 4]) == [[[1, 1, 0], [1, 2, 1]], [[0, 2, 0], [1, 3, 0]]]
    assert counted(history, [3]) == [[[1, 2]], [[0, 3]]]


def test_a_restored_past_goes_on() -> None:
    history = empty().with_pools(torch.zeros(2, 3, 2, 1), torch.zeros(2, 3, 2, dtype=torch.int64))
    history = history.with_picks(torch.zeros(2, 3, 1, dtype=torch.int64)).forget(picks=1)
    history = history.with_outcomes(outcomes(1, 3)).forget(outcomes=1)
    again = empty().restored(history.saved())
    for one in (history, again):
        later = one.with_outcomes(outcomes(2)).with_picks(torch.ones(2, 1, 1).long())
        assert later.outcomes.rounds.tolist() == [2, 3]
        assert counted(later, [3, 4]) == [[[3, 0], [3, 1]]] * 2
        assert (later.rounds, later.candidates.tolist(), later.first_reward) == (3, [6, 6], 1)
