"""Lists in one table behave like plain lists that forget their heads."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairbandit.maths import lists as lists_module
from fairbandit.maths.lists import Lists


class Reference:
    """B replicas' lists of numbers, one a group, and which entries are still asked for."""

    def __init__(self, replicas: int, groups: int) -> None:
        self.entries: list[list[list[float]]] = [
            [[] for _ in range(groups)] for _ in range(replicas)
        ]
        self.forgotten = [0] * groups
        self.written = 0.0

    @property
    def counts(self) -> list[int]:
        """The longest replica's, of each group."""
        return [max(map(len, own)) for own in zip(*self.entries, strict=True)]

    def extend(self, groups: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Adds a new number for each of some groups, (B, M); its place in the list, and itself."""
        number, value = torch.zeros_like(groups), torch.zeros(groups.shape, dtype=torch.float64)
        for b, row in enumerate(groups.tolist()):
            for m, group in enumerate(row):
                self.written += 1
                value[b, m] = self.written
                if group >= 0:
                    number[b, m] = len(self.entries[b][group])
                    self.entries[b][group].append(self.written)
        return number, value

    def check(self, lists: Lists) -> None:
        """Every entry that is still asked for, read in both ways."""
        for group, (after, until) in enumerate(zip(self.forgotten, self.counts, strict=True)):
            read = lists.entries(group, after, max(after, until))
            first = lists.addresses[:, :, group]
            for b, own in enumerate(self.entries):
                numbers = torch.tensor(own[group][after:], dtype=torch.float64)
                expected = rows(torch.full(numbers.shape, group), numbers)
                assert torch.equal(read[b, : len(numbers)], expected)
                at = int(first[b, 0]) + after
                found = lists.table[None, at : at + len(numbers)]
                assert torch.equal(lists.columns.whole(group, found)[0], expected)


FEATURES = 7


def rows(groups: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Rows that tell their numbers: every group in features of its own, some in one more."""
    made = numbers.new_zeros(*numbers.shape, FEATURES)
    at = 2 * (groups % 3)[..., None]
    made.scatter_(-1, at, numbers[..., None]).scatter_(-1, at + 1, -numbers[..., None])
    made[..., -1] = numbers * (numbers % 100 == 0)
    return made


def empty(replicas: int, groups: int) -> Lists:
    return Lists(torch.empty(replicas, 0, FEATURES, dtype=torch.float64), groups)


def write(lists: Lists, reference: Reference, groups: torch.Tensor) -> None:
    number, value = reference.extend(groups)
    lists.reserve(reference.counts)
    own = groups.clamp(min=0)[..., None]
    place = lists.addresses.expand(*groups.shape, -1).gather(2, own)[..., 0] + number
    place = place.where(groups >= 0, lists.nowhere)
    lists.write(own[..., 0], place, rows(groups, value))


def stream(
    lists: Lists, reference: Reference, news: tuple[int, ...], keep: tuple[int, ...]
) -> None:
    """Writes so many entries of each group of one replica, then forgets all but the last ones."""
    groups = torch.arange(len(news)).repeat_interleave(torch.tensor(news))
    write(lists, reference, groups[None])
    kept = zip(reference.counts, keep, strict=True)
    reference.forgotten = [max(0, n - last) for n, last in kept]
    lists.forget(reference.forgotten)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.sampled_from([8, 4096]))
def test_like_plain_lists(seed: int, replicas: int, groups: int, spare: int) -> None:
    """Any order of writing, forgetting, growing, saving and loading; rare groups too."""
    draws = np.random.default_rng(seed)
    lists, reference = empty(replicas, groups), Reference(replicas, groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists_module, "SPARE", spare)
        for _ in range(25):
            g = len(reference.forgotten)
            match draws.choice(["write", "forget", "grow", "load"], p=[0.6, 0.3, 0.05, 0.05]):
                case "write":
                    shares = draws.dirichlet([0.3] * (g + 1))
                    size = (replicas, int(draws.integers(0, 150)))
                    drawn = draws.choice(np.arange(-1, g), p=shares, size=size)
                    write(lists, reference, torch.from_numpy(drawn))
                case "forget":
                    shortest = [min(map(len, own)) for own in zip(*reference.entries, strict=True)]
                    until = [int(draws.integers(0, n + 1)) for n in shortest]
                    lists.forget(until)
                    both = zip(reference.forgotten, until, strict=True)
                    reference.forgotten = [max(pair) for pair in both]
                case "grow":
                    lists.grow(g + 1)
                    reference.forgotten.append(0)
                    for own in reference.entries:
                        own.append([])
                case "load":
                    state = lists.state()
                    lists = empty(replicas, g)
                    lists.load_state(state["entries"], state["dropped"])  # type: ignore[arg-type]
            reference.check(lists)


def test_a_list_moves_onto_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full list has all moved to the front, others by less than their length."""
    monkeypatch.setattr(lists_module, "SPARE", 4096)
    lists, reference = empty(1, 2), Reference(1, 2)
    for _ in range(40):
        stream(lists, reference, news=(200, 40), keep=(300, 900))
        reference.check(lists)


def test_memory_follows_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long stream of which little is kept takes little room, however long."""
    monkeypatch.setattr(lists_module, "SPARE", 4096)
    lists, reference = empty(1, 2), Reference(1, 2)
    for _ in range(200):
        stream(lists, reference, news=(90, 10), keep=(100, 100))
    assert reference.counts == [18_000, 2_000]
    assert len(lists.table) < 4 * 4096


def test_what_belongs_nowhere_is_lost() -> None:
    lists = empty(2, 1)
    lists.reserve([1])
    first, second = lists.addresses.flatten().tolist()
    place = torch.tensor([[lists.nowhere, first], [second, lists.nowhere]])
    numbers = torch.arange(4, dtype=torch.float64).view(2, 2)
    lists.write(torch.zeros_like(place), place, rows(torch.zeros_like(place), numbers))
    assert lists.entries(0, 0, 1)[..., 0].tolist() == [[1.0], [2.0]]


def test_without_groups_there_is_nothing_to_load() -> None:
    lists, again = empty(2, 0), empty(2, 0)
    state = lists.state()
    again.load_state(state["entries"], state["dropped"])  # type: ignore[arg-type]
    again.grow(1)
    reference = Reference(2, 1)
    write(again, reference, torch.zeros(2, 3, dtype=torch.int64))
    reference.check(again)
