"""The ragged buffer behaves like plain lists that forget their heads."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit import FairbanditError
from fairbandit.counting import buffer as buffer_module
from fairbandit.counting.buffer import LATEST, RaggedBuffer

FEATURES = 7


def contexts_of(groups: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Contexts that tell their numbers: every group has features of its own, and some one more."""
    made = numbers.new_zeros(*numbers.shape, FEATURES)
    at = 2 * (groups.clamp(min=0) % 3)[..., None]
    made.scatter_(-1, at, numbers[..., None]).scatter_(-1, at + 1, -numbers[..., None])
    made[..., -1] = numbers * (numbers % 100 == 0)
    return made


class Lists:
    """A ragged buffer beside plain lists of (round, number), one for each replica and group."""

    def __init__(self, replicas: int, groups: int) -> None:
        self.entries: list[list[list[tuple[int, float]]]] = [
            [[] for _ in range(groups)] for _ in range(replicas)
        ]
        self.forgotten, self.round, self.numbers = [0] * groups, 0, 0
        self.buffer = RaggedBuffer(torch.empty(replicas, 0, FEATURES).double(), groups)

    def append(self, groups: torch.Tensor) -> None:
        """Appends one context for each of some groups, (B, M), in two rounds."""
        b, m = groups.shape
        numbers = torch.arange(self.numbers + 1.0, self.numbers + b * m + 1).double().view(b, m)
        self.numbers += b * m
        rounds = self.round + 1 + torch.arange(m) // (m // 2 + 1)
        self.round += 2
        for r, row in enumerate(groups.tolist()):
            for at, group in enumerate(row):
                if group >= 0:
                    self.entries[r][group].append((int(rounds[at]), float(numbers[r, at])))
        self.buffer.append(contexts_of(groups, numbers), groups, rounds)

    def forget(self, until: list[int]) -> None:
        self.buffer.forget(until)
        self.forgotten = [max(pair) for pair in zip(self.forgotten, until, strict=True)]

    def save_and_load(self) -> None:
        """Numbers entries from the first one that is kept."""
        state = self.buffer.state()
        self.buffer = RaggedBuffer(
            torch.empty(len(self.entries), 0, FEATURES).double(), self.groups
        )
        self.buffer.load_state(state, self.round)
        self.entries = [
            [one[low:] for one, low in zip(own, self.forgotten, strict=True)]
            for own in self.entries
        ]
        self.forgotten = [0] * self.groups

    @property
    def groups(self) -> int:
        return len(self.forgotten)

    @property
    def counts(self) -> list[int]:
        """The longest replica's, of each group."""
        return [max(map(len, own)) for own in zip(*self.entries, strict=True)]

    def check(self) -> None:
        """Every entry that is kept, read in both ways, and how many came up to any round."""
        buffer, rounds = self.buffer, torch.arange(self.round + 1)
        until = buffer.up_to(rounds[None])[0]
        for group, (low, high) in enumerate(zip(self.forgotten, self.counts, strict=True)):
            contexts, stored = (
                read(group, low, max(low, high)) for read in (buffer.contexts, buffer.stored)
            )
            times = buffer.rounds(group, low, max(low, high))
            for r, own in enumerate(self.entries):
                kept = own[group][low:]
                numbers = torch.tensor([number for _, number in kept], dtype=torch.float64)
                expected = contexts_of(torch.full(numbers.shape, group), numbers)
                assert torch.equal(contexts[r, : len(kept)], expected)
                first = int(buffer.addresses[r, 0, group]) + low
                assert torch.equal(buffer.table[first : first + len(kept)], stored[r, : len(kept)])
                missing = [LATEST] * (times.shape[1] - len(kept))
                assert times[r].tolist() == [one for one, _ in kept] + missing
                for t, found in enumerate(until[r, :, group].tolist()):
                    before = sum(one <= t for one, _ in own[group])
                    assert max(found, low) == max(before, low)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.sampled_from([8, 4096]))
def test_like_plain_lists(seed: int, replicas: int, groups: int, spare: int) -> None:
    """Any order of appending, forgetting, growing, saving and undoing; rare groups too."""
    draws = np.random.default_rng(seed)
    lists = Lists(replicas, groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_module, "SPARE", spare)
        for _ in range(15):
            g = lists.groups
            size = (replicas, int(draws.integers(1, 100)))
            drawn = draws.choice(np.arange(-1, g), p=draws.dirichlet([0.3] * (g + 1)), size=size)
            match draws.choice(
                ["append", "forget", "grow", "load", "undo"], p=[0.5, 0.25, 0.05, 0.1, 0.1]
            ):
                case "append":
                    lists.append(torch.from_numpy(drawn))
                case "forget":
                    shortest = [min(map(len, own)) for own in zip(*lists.entries, strict=True)]
                    lists.forget([int(draws.integers(0, n + 1)) for n in shortest])
                case "grow":
                    lists.buffer.grow(g + 1)
                    lists.forgotten.append(0)
                    for own in lists.entries:
                        own.append([])
                case "load":
                    lists.save_and_load()
                case "undo":
                    before = vars(lists.buffer).copy()
                    entries = copy.deepcopy(lists.entries), lists.round, lists.numbers
                    lists.append(torch.from_numpy(drawn))
                    vars(lists.buffer).clear()
                    vars(lists.buffer).update(before)
                    lists.buffer.recover()
                    lists.entries, lists.round, lists.numbers = entries
            lists.check()


def test_memory_follows_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long stream of which little is kept takes little room, however long."""
    monkeypatch.setattr(buffer_module, "SPARE", 4096)
    lists = Lists(1, 2)
    for _ in range(60):
        lists.append(torch.arange(2).repeat_interleave(torch.tensor([180, 20]))[None])
        lists.forget([max(0, count - 100) for count in lists.counts])
    assert lists.counts == [10_800, 1_200]
    assert len(lists.buffer.table) < 4 * 4096
    lists.check()


def test_without_groups_there_is_nothing_to_load() -> None:
    lists = Lists(2, 0)
    lists.save_and_load()
    lists.buffer.grow(1)
    lists.forgotten = [0]
    for own in lists.entries:
        own.append([])
    lists.append(torch.zeros(2, 3, dtype=torch.int64))
    lists.check()


def saved() -> tuple[dict[str, list[torch.Tensor]], int]:
    lists = Lists(2, 2)
    lists.append(torch.tensor([[0, 1, 0, 0], [0, 0, -1, -1]]))
    return lists.buffer.state(), lists.round


def test_saved_entries_have_rounds_that_fit_them() -> None:
    state, latest = saved()
    assert [rounds.tolist() for rounds in state["rounds"]] == [
        [[1, 1, 2], [1, 1, LATEST]],
        [[1], [LATEST]],
    ]
    for wrong in ([[2, 1, 2]], [[0, 1, 2]], [[1, 1, latest + 1]], [[1, 1, LATEST]]):
        state, latest = saved()
        state["rounds"][0] = torch.tensor(wrong).expand(2, -1)
        fresh = RaggedBuffer(torch.empty(2, 0, FEATURES).double(), 2)
        with pytest.raises(FairbanditError, match="contexts of a group and their rounds do not"):
            fresh.load_state(state, latest)
