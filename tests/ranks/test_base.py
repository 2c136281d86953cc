"""What every rank checks of the index that a subclass gives."""

import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.ranks import Rank, Scored
from tests import support


class Stated(Rank):
    """Gives the index that it was made with."""

    def __init__(self, stated: Tensor) -> None:
        self.stated = stated

    def _index(self, scored: Scored) -> Tensor:
        return self.stated


def test_the_first_value_that_is_not_finite_is_named() -> None:
    index = torch.zeros(3, 4, 5, dtype=torch.float64)
    scored = support.ranked(index).scored
    index[1, 2, 4] = index[2, 0, 1] = torch.inf
    message = "rank 'Stated' gave an index of inf at replica 1, round 3, place 4; expected finite"
    with pytest.raises(FairbanditError, match=message):
        Stated(index).index(scored)
