"""Random numbers with a name and an address: seed, replica, purpose, round.

Each purpose of each replica has its own generator, seeded by
`SeedSequence(seed, spawn_key=(replica, purpose))`, and each round its own place in that
generator's sequence; or, where each candidate needs a draw, each candidate of all rounds. A draw
depends on its address alone: not on how many replicas run together, how rounds are grouped, which
policy asks, or what was drawn before.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from fairbandit.locks import cached_property

CHUNK_ROUNDS = 256
"""Rounds are drawn, decided and recorded in pieces that never cross a multiple of this."""

AHEAD = 32
"""Requests of fewer rounds are served from those drawn last, which end at multiples of this."""

_LARGEST = 1.0 - 2.0**-53


class Purpose(IntEnum):
    """What a stream's numbers are for; its value is part of the stream's seed."""

    POOLS = 0
    REWARDS = 1
    ESTIMATOR = 2  # of ridge, a round is a number of training rounds
    RANK = 3  # of each candidate of a group that was not seen
    SELECTOR = 4
    ORDER = 5  # of each candidate of a shortlist's pool, in systematic sampling
    DELAYS = 6


class Stream:
    """One purpose's random numbers for B replicas: for each of them a sequence, read at any place.

    Args:
        seed: the run's seed, at least 0.
        replicas: the replicas' numbers, from 0.
        purpose: what the numbers are for.
        device: where the drawn tensors go; drawing itself happens on the CPU.
    """

    def __init__(
        self, seed: int, replicas: Sequence[int], purpose: Purpose, device: torch.device
    ) -> None:
        self._seed, self._keys = seed, [(b, int(purpose)) for b in replicas]
        self._device, self._kept = device, ((0, 0, 0, False), torch.empty(0, device=device))

    def uniform(self, first: int, count: int, width: int) -> Tensor:
        """Uniform draws in [0, 1) for rounds first … first+count−1, `width` of them for each.

        Round t's are those at places (t − 1)·width … t·width − 1 of the sequence.

        Returns:
            (B, count, width) float64.
        """
        return self._drawn(first, count, width, normal=False)

    def normal(self, first: int, count: int, width: int) -> Tensor:
        """Standard normal draws, Φ⁻¹ of the uniform ones: (B, count, width) float64."""
        return self._drawn(first, count, width, normal=True)

    def runs(self, starts: Sequence[int], counts: Sequence[int]) -> Tensor:
        """Uniform draws in [0, 1) of each replica from a place of its own, one after the other.

        Args:
            starts: the first place of each replica's draws, from 0.
            counts: how many each replica gets.

        Returns:
            (Σ counts,) float64, replica by replica.
        """
        drawn, done = np.empty(sum(counts)), 0
        for (generator, state), start, count in zip(self._sources, starts, counts, strict=True):
            # starting anew each time, a draw that was interrupted leaves nothing behind
            generator.bit_generator.state = state
            generator.bit_generator.advance(start)  # type: ignore[attr-defined]
            generator.random(out=drawn[done : done + count])
            done += count
        return torch.from_numpy(drawn).to(self._device)

    @cached_property
    def _sources(self) -> list[tuple[np.random.Generator, dict[str, object]]]:
        """Generators, and their first states; thousands take a while to seed."""
        seeds = (np.random.SeedSequence(self._seed, spawn_key=key) for key in self._keys)
        generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
        return [(one, dict(one.bit_generator.state)) for one in generators]

    def _drawn(self, first: int, count: int, width: int, normal: bool) -> Tensor:
        if count >= AHEAD:
            return self._rounds(first, count, width, normal)
        start = (first - 1) // AHEAD * AHEAD
        stop = -(-(first - 1 + count) // AHEAD) * AHEAD
        key = start, stop, width, normal
        if self._kept[0] != key:
            self._kept = key, self._rounds(start + 1, stop - start, width, normal)
        return self._kept[1][:, first - 1 - start : first - 1 - start + count]

    def _rounds(self, first: int, count: int, width: int, normal: bool) -> Tensor:
        b = len(self._keys)
        drawn = self.runs([(first - 1) * width] * b, [count * width] * b).view(b, count, width)
        if not normal:
            return drawn
        # half a step of the 53-bit grid keeps 0 away; the cap keeps 1 away
        return torch.special.ndtri((drawn + 2.0**-54).clamp(max=_LARGEST))


class Streams:
    """All of a run's random numbers: one `Stream` a purpose, made when first asked for.

    Args:
        seed: the run's seed, at least 0.
        replicas: the replicas' numbers; replica b draws alike in any company.
        device: where drawn tensors go.

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
        self._streams: dict[Purpose, Stream] = {}

    def __getitem__(self, purpose: Purpose) -> Stream:
        if purpose not in self._streams:
            self._streams[purpose] = Stream(self.seed, self.replicas, purpose, self.device)
        return self._streams[purpose]
