"""What of the past is kept."""

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.parts import History, Problem
from fairbandit.streams import Streams


def test_forgotten_outcomes_say_how_to_keep_them() -> None:
    problem = Problem(2, 1, Streams(0, [0]))
    rewards = torch.arange(6.0, dtype=torch.float64)[None]
    picks = problem.zeros(1, 6, 2)
    groups = torch.zeros(1, 6, dtype=torch.int64)
    for needs in ((), ("rewards",)):
        history = History(problem, needs)
        history.add_outcomes(picks, groups, rewards)
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
