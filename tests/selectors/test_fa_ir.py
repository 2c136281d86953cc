"""FA*IR against the algorithm written out, and its tables against numbers of the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit.notices import noted
from fairbandit.registry import create
from fairbandit.selectors.fa_ir import failure, least_protected, unadjusted
from tests import support

PAPER = {
    0.1: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    0.3: [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2],
    0.5: [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4],
    0.7: [0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6],
}
"""The least numbers of protected candidates in the first 1 … 12 places, for α = 0.1 and some p."""


@pytest.mark.parametrize("share", PAPER)
def test_the_table_of_the_paper(share: float) -> None:
    assert list(unadjusted(12, share, 0.1)) == PAPER[share]


def test_adjusted_tables_fail_as_often_as_they_may_and_others_too_often() -> None:
    """Shares of 20,000 drawn lists, whose standard error is 0.002: five of them."""
    draws = np.random.default_rng(0).random((20_000, 30))
    for share in (0.2, 0.5):
        counts = (draws < share).cumsum(1)
        for table in (unadjusted(30, share, 0.1), least_protected(30, share, 0.1)):
            failed = (counts < np.array(table)).any(1).mean()
            assert failed == pytest.approx(failure(table, share), abs=0.011)
        assert failure(unadjusted(30, share, 0.1), share) > 0.1
        assert 0.05 < failure(least_protected(30, share, 0.1), share) <= 0.1


def literal(index: Any, protected: Any, m: int, share: float) -> list[int]:
    """The paper's algorithm: two queues, and a test at every place."""
    order = sorted(range(len(index)), key=lambda a: -index[a])
    queues = [[a for a in order if protected[a] == kind] for kind in (False, True)]
    table, chosen = least_protected(m, share, 0.1), list[int]()
    for least in table[: len(index)]:
        others, own = queues
        due = sum(protected[a] for a in chosen) < least
        takes_own = bool(own) and (due or not others or index[own[0]] > index[others[0]])
        chosen.append((own if takes_own else others).pop(0))
    return chosen


@pytest.mark.parametrize("share", [0.3, 0.7, None])
def test_it_equals_the_algorithm_written_out(share: float | None) -> None:
    selector: Any = create("selector", {"name": "fa_ir", "share": share, "protected": 2})
    draws = np.random.default_rng(1)
    for picks in (1, 2, 5, 9):
        index = torch.from_numpy(draws.normal(size=(2, 8, 12)))
        groups = torch.from_numpy(draws.integers(0, 3, size=(2, 8, 12)))
        index[groups == 2] -= 0.8  # the protected group would come last
        groups[:, ::3, 7:] = -1
        chosen = selector.select(support.ranked(index, groups), picks)
        for b, n in np.ndindex(2, 8):
            here = np.flatnonzero(groups[b, n].numpy() >= 0)
            protected = (groups[b, n] == 2).numpy()[here]
            p = protected.mean() if share is None else share
            expected = here[literal(index[b, n].numpy()[here], protected, picks, p)].tolist()
            assert [a for a in chosen.actions[b, n].tolist() if a >= 0] == expected


def test_candidates_of_a_kind_who_tie_share_its_places() -> None:
    groups = torch.tensor([[[0, 0, 0, 1, 1, 1]]])
    selector: Any = create("selector", {"name": "fa_ir", "share": 0.9})
    ranked = support.ranked(torch.tensor([[[2.0, 2.0, 1.0, 0.0, 0.0, 0.0]]]).double(), groups)
    number = least_protected(3, 0.9, 0.1)[2]
    assert number == 2
    found = selector.select(ranked, 3).inclusion[0, 0]
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5, 0, 2 / 3, 2 / 3, 2 / 3]).double())


def test_a_group_that_does_not_exist_is_noted_and_protects_nobody() -> None:
    selector: Any = create("selector", {"name": "fa_ir", "protected": 3})
    index, groups = torch.tensor([[[1.0, 2.0, 3.0]]]).double(), torch.tensor([[[0, 1, 1]]])
    with noted() as notes:
        chosen = selector.select(support.ranked(index, groups), 2)
    assert chosen.actions.tolist() == [[[2, 1]]]
    assert "no group has the number protected=3 so far; the numbers are 0 to 1" in notes[0]
