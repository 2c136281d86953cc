"""Contexts are values: an append changes no other one, whatever interrupts it."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError
from fairbandit.counting import Contexts, PastScores
from fairbandit.history import contexts
from tests.counting.test_against_dense import Weights


def pools(b: int, n: int, k: int, d: int, groups: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    draws = np.random.default_rng(seed)
    x = torch.from_numpy(draws.normal(size=(b, n, k, d)))
    return x, torch.from_numpy(draws.integers(-1, groups, (b, n, k)))


def counts(value: Contexts) -> Tensor:
    """How many past scores of each group are at most 0 in all rounds."""
    b, _, d = value.memory.rows.shape
    model, zero = Weights(torch.ones(b, 1, d).double()), np.zeros(1, np.int64)
    groups = torch.arange(value.groups).expand(b, 1, -1)
    window = np.array([[0], [value.rounds]])
    past = PastScores(value, np.array([value.rounds + 1]), window, groups, model, zero)
    return past.count_le(torch.zeros(groups.shape).double())


def interrupted(call: Callable[[], Any], after: int) -> bool:
    """Whether a call is still running after so many bytecodes of the package; it is ended there."""
    left = after

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = "fairbandit" in frame.f_code.co_filename
        if event == "opcode":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("room", [64, 4])
def test_an_append_that_is_interrupted_anywhere_changes_nothing(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the value, nor a longer one, nor those that are appended next."""
    monkeypatch.setattr(contexts, "LEAST_ROOM", room)
    b, groups = 2, 2
    first, lost, last = (pools(b, 3, 2, 1, groups, seed) for seed in range(3))
    empty = Contexts.empty(torch.zeros(b, 0, 1).double(), groups)
    state = empty.append(*first).state()
    value, after = empty.restored(state), 0
    expected = counts(value), counts(value.append(*last))
    while interrupted(partial(value.append, *lost), after):
        assert torch.equal(counts(value), expected[0])
        assert torch.equal(counts(value.append(*last)), expected[1])
        assert torch.equal(counts(value), expected[0])
        value, after = empty.restored(state), after + 1
    assert after > 100


def test_only_one_of_two_appends_writes_in_place() -> None:
    """In threads as well: the stamp can be taken once."""
    x, groups = pools(2, 10, 3, 2, 3)
    value = Contexts.empty(x[:, :0, 0], 3).append(x, groups)
    others = [pools(2, 5, 3, 2, 3, seed) for seed in range(8)]
    expected = [counts(value.append(*other)) for other in others]
    value = value.restored(value.state())
    with ThreadPoolExecutor(4) as pool:
        longer = list(pool.map(lambda other: value.append(*other), others))
    assert sum(one.memory is value.memory for one in longer) <= 1
    assert all(torch.equal(counts(one), count) for one, count in zip(longer, expected, strict=True))


@pytest.mark.parametrize("most", [None, 30])
def test_memory_is_flat(most: int | None) -> None:
    """With bounded numbers also where windows start at round 0, and where a group is rare."""
    draws = np.random.default_rng(0)
    value, rows = Contexts.empty(torch.empty(1, 0, 3).double(), 3, most), list[int]()
    for at in range(0, 4000, 100):
        groups = torch.from_numpy((draws.random((1, 100, 4)) < 0.1).astype(np.int64))
        groups[0, 50, 0] = 2 if at == 0 else 0
        value = value.append(torch.ones(1, 100, 4, 3).double(), groups)
        value = value.forget(0 if most is not None else at)
        rows.append(value.memory.rows.shape[1])
        if most is not None:
            assert value.state()["contexts"].shape[1] <= 30 + 30 + 1
    assert max(rows) < 3000


def test_windows_of_rounds_that_are_not_there_are_refused() -> None:
    value = Contexts.empty(torch.empty(1, 0, 1).double(), 1)
    value = value.append(torch.ones(1, 9, 1, 1).double(), torch.zeros(1, 9, 1, dtype=torch.int64))
    model, zero = Weights(torch.ones(1, 1, 1).double()), np.zeros(1, np.int64)
    groups = torch.zeros(1, 1, 1, dtype=torch.int64)

    def count(start: int, stop: int = 9) -> float:
        window = np.array([[start], [stop]])
        past = PastScores(value.forget(4), np.array([11]), window, groups, model, zero)
        return float(past.count)

    assert count(4) == 5
    for start, stop in ((3, 9), (4, 10)):
        expected = f"holds rounds {start + 1} to {stop}; known are 5 to 9"
        with pytest.raises(FairbanditError, match=expected):
            count(start, stop)
