"""The saved state of a round log."""

import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.run.round_log import RoundLog


def test_a_round_log_of_other_rows_or_types(tmp_path) -> None:
    log, rounds = RoundLog(tmp_path, [0, 1]), 3
    numbers = [torch.zeros(6, dtype=torch.int64)] * 4 + [torch.zeros(6, dtype=torch.float64)] * 6
    log.load_state({"waiting": numbers}, rounds)
    assert [column.tolist() for column in log.state()["waiting"]] == [c.tolist() for c in numbers]
    for wrong in (
        [numbers[0].int(), *numbers[1:]],
        [*numbers[:-1], numbers[-1][:4]],
        numbers[:-1],
    ):
        with pytest.raises(FairbanditError, match=r"round log.*expected"):
            log.load_state({"waiting": wrong}, rounds)
    with pytest.raises(FairbanditError, match=r"round log.*expected"):
        log.load_state({"waiting": []}, rounds)
