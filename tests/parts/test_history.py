"""What of the past is kept."""

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.parts import History, Outcomes, Problem
from fairbandit.streams import Streams


def test_forgotten_outcomes_say_how_to_keep_them() -> None:
    problem = Problem(2, 1, Streams(0, [0]))
    rewards = torch.arange(6.0, dtype=torch.float64)[None]
    picks = problem.zeros(1, 6, 2)
    groups = torch.zeros(1, 6, dtype=torch.int64)
    for needs in ((), ("rewards",)):
        history = History(problem, needs)
        history.add_outcomes(1, Outcomes(picks, groups, rewards))
        history.forget(outcomes=4, contexts=0, picks=0)
        assert torch.equal(history.outcomes(4, 6).rewards, rewards[:, 4:])
        if needs:
            assert torch.equal(history.rewards(0, 6)[1], rewards)
            continue
        for read in (history.outcomes, history.rewards):
            with pytest.raises(
                FairbanditError,
                match=r"rows 1 to 6 are not kept; kept are 5 to 6.*part declares needs = frozenset",
            ):
                read(0, 6)


def test_a_round_without_a_reward_is_there_and_adds_nothing() -> None:
    problem = Problem(2, 1, Streams(0, [0]))
    history = History(problem, ("rewards",))
    history.add_rounds(6)
    one = torch.ones(1, 1, dtype=torch.float64)
    known = Outcomes(one[..., None].expand(1, 1, 2), torch.zeros(1, 1, dtype=torch.int64), one)
    history.learn(3, known)
    history.learn(5, known)
    history.learn(2, known)
    contexts, groups, rewards = history.outcomes(0, 6)
    assert rewards.tolist() == [[0, 1, 1, 0, 1, 0]]
    assert groups.tolist() == [[-1, 0, 0, -1, 0, -1]]
    assert contexts.sum(2).tolist() == [[0, 2, 2, 0, 2, 0]]
    again = History(problem, ("rewards",))
    again.load_state(History.state(history) | {"pools": 6})
    assert torch.equal(again.outcomes(0, 6).rewards, rewards)
