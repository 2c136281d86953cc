"""Own scores compare with their ties, given values exactly; what cannot be asked is refused."""

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.counting import Contexts, PastScores
from fairbandit.estimators.ties import Approximate
from tests.counting.test_against_dense import Weights

EPS = torch.finfo(torch.float64).eps


def test_own_scores_count_ties() -> None:
    x = 1 + EPS * torch.tensor([-20.0, -2.0, 0.0, 2.0, 20.0], dtype=torch.float64)
    zero = torch.zeros(1, 1, 1, dtype=torch.int64)
    past = Contexts.empty(torch.zeros(1, 0, 1).double(), 1)
    past = past.append(x.view(1, 5, 1, 1), zero.expand(1, 5, 1))
    own, window, one = zero + 1.0, np.array([[0], [5]]), torch.ones(1, 1, 1).double()
    own = own.double()
    models = Weights(one), zero[0, 0]
    asked = PastScores(past, np.array([6]), window, zero, *models, Approximate(own, 4 * EPS))
    assert (float(asked.count_le()), float(asked.count_lt())) == (4, 1)
    assert (float(asked.count_le(own)), float(asked.count_lt(own))) == (3, 2)
    assert float(asked.count_le(own + 40 * EPS)) == 5
    assert float(asked.moments[0]) == pytest.approx(1)
    with pytest.raises(FairbanditError, match="one of score, lower, upper; got 'mean'"):
        asked.count_le(own, of="mean")  # type: ignore[arg-type]
    with pytest.raises(FairbanditError, match="values are missing"):
        asked.of(zero).count_le()
