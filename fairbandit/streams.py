"""Random numbers that are addressed by seed, replica, purpose and round.

Each purpose of each replica has its own generator, seeded by
`SeedSequence(seed, spawn_key=(replica, purpose))`. Draws are indexed by round, or by the
candidate's running number if each candidate needs a draw. A draw depends only on its address: not
on the other replicas, the grouping of rounds, the policy or earlier draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

CHUNK_ROUNDS = 256
"""Rounds are drawn, decided and recorded in pieces that never cross a multiple of this number."""

AHEAD = 32
"""Requests of fewer rounds are served from a cached block, aligned at multiples of this number."""


class Purpose(IntEnum):
    """The purpose of a stream's numbers; its value is part of the stream's seed."""

    POOLS = 0
    REWARDS = 1
    ESTIMATOR = 2  # for ridge, "round" is a number of training rounds
    RANK = 3  # one draw for each candidate of a group without past candidates
    SELECTOR = 4
    ORDER = 5  # one draw for each candidate of a shortlist's pool, for systematic sampling
    DELAYS = 6
    ARRIVALS = 7  # one draw for each candidate, and one for their number


class Stream:
    """The random numbers of one purpose: a sequence with random access for each of B replicas."""

    def __init__(
        self, seed: int, replicas: Sequence[int], purpose: Purpose, device: torch.device
    ) -> None:
        self._seed, self._replicas, self._purpose = seed, replicas, int(purpose)
        self._device, self._kept = device, ((0, 0, 0), torch.empty(0, device=device))

    def uniform(self, first: int, count: int, width: int) -> Tensor:
        """Draws `width` uniform numbers in [0, 1) for each of rounds first … first+count−1.

        Round t has the places (t − 1)·width … t·width − 1 of the sequence.

        Returns:
            (B, count, width) float64.
        """
        if count >= AHEAD:
            return self._rounds(first, count, width)
        start = (first - 1) // AHEAD * AHEAD
        stop = -(-(first - 1 + count) // AHEAD) * AHEAD
        key = start, stop, width
        if self._kept[0] != key:
            self._kept = key, self._rounds(start + 1, stop - start, width)
        return self._kept[1][:, first - 1 - start : first - 1 - start + count]

    def normal(self, first: int, count: int, width: int) -> Tensor:
        """Draws standard normal numbers, Φ⁻¹ of `uniform`: (B, count, width) float64."""
        # adding half a step of the 53-bit grid avoids 0, and the cap avoids 1
        inside = (self.uniform(first, count, width) + 2.0**-54).clamp(max=1.0 - 2.0**-53)
        return torch.special.ndtri(inside)

    def runs(self, starts: Sequence[int], counts: Sequence[int]) -> Tensor:
        """Draws consecutive uniform numbers in [0, 1) for each replica, (Σ counts,) float64.

        `starts` are the places of the replicas' first draws, from 0, and `counts` their numbers.
        """
        drawn, done = np.empty(sum(counts)), 0
        for (generator, state), start, count in zip(self._sources, starts, counts, strict=True):
            # resetting the state each time makes draws independent of interrupted earlier draws
            generator.bit_generator.state = state
            generator.bit_generator.advance(start)  # type: ignore[attr-defined]
            generator.random(out=drawn[done : done + count])
            done += count
        return torch.from_numpy(drawn).to(self._device)

    @cached_property
    def _sources(self) -> list[tuple[np.random.Generator, dict[str, object]]]:
        """The generators and their first states, cached since seeding thousands is slow."""
        keys = ((b, self._purpose) for b in self._replicas)
        seeds = (np.random.SeedSequence(self._seed, spawn_key=key) for key in keys)
        generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
        return [(generator, dict(generator.bit_generator.state)) for generator in generators]

    def _rounds(self, first: int, count: int, width: int) -> Tensor:
        b = len(self._replicas)
        return self.runs([(first - 1) * width] * b, [count * width] * b).view(b, count, width)


class Streams:
    """All random numbers of a run: one `Stream` per purpose.

    Args:
        seed: the run's seed, at least 0.
        replicas: the replicas' numbers; the draws of a replica do not depend on other replicas.
        device: the device of the returned tensors.

    >>> alone = Streams(seed=7, replicas=[2])[Purpose.POOLS].uniform(first=5, count=1, width=3)
    >>> together = Streams(seed=7, replicas=[0, 1, 2])[Purpose.POOLS].uniform(1, 9, 3)
    >>> bool((alone[0, 0] == together[2, 4]).all())
    True
    """

    def __init__(
        self, seed: int, replicas: Sequence[int], device: torch.device | str = "cpu"
    ) -> None:
        self.seed = seed
        self.replicas = list(replicas)
        self.device = torch.device(device)
        self._streams = {p: Stream(seed, self.replicas, p, self.device) for p in Purpose}

    def __getitem__(self, purpose: Purpose) -> Stream:
        return self._streams[purpose]
