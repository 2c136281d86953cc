"""What every part has in common: a name, a problem to be bound to, and a state to resume from."""

from __future__ import annotations

import math
import os
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fairbandit.environments.base import Truth
from fairbandit.errors import FairbanditError
from fairbandit.maths.checks import typed
from fairbandit.registry import with_bounds
from fairbandit.streams import Streams

NEEDS = frozenset({"contexts", "rewards"})
"""What a part may declare to need of the past.

contexts: those of the rank window, as `candidates.past`. rewards: all past picks with their
rewards, as `candidates.outcomes`, and as the outcomes that an estimator is given.
"""

State = dict[str, Tensor | int | float]
"""All that a part must remember to continue as if it had never stopped."""

KEYS_STAY = (
    "a part's `state()` must have the same keys from `bind` on (`grow` may change them), whatever "
    "it has seen since"
)
"""The rule that lets a part, freshly bound, take over a state."""


@dataclass(frozen=True)
class Problem:
    """What a policy may know before the first round.

    Attributes:
        features: d.
        groups: G.
        streams: the run's random numbers; their replicas are the B of every tensor.
        exploration: the environment's own `exploration`, for parts that leave theirs unset.
        truth: the truth, or None where nobody knows it.
        dtype: of all real tensors.
    """

    features: int
    groups: int
    streams: Streams
    exploration: float = 1.0
    truth: Truth | None = None
    dtype: torch.dtype = torch.float64

    @property
    def replicas(self) -> int:
        """B, the number of independent runs decided together."""
        return len(self.streams.replicas)

    @property
    def device(self) -> torch.device:
        """Where tensors live."""
        return self.streams.device

    def zeros(self, *shape: int) -> Tensor:
        """A zero tensor of the problem's dtype, on its device.

        Raises:
            FairbanditError: one that is larger than memory.
        """
        try:
            # where memory is promised before it is there, asking for too much ends the process
            if self.device.type == "cpu" and math.prod(shape) * self.dtype.itemsize > _memory():
                raise OverflowError("more than all memory of this machine")
            return torch.zeros(shape, dtype=self.dtype, device=self.device)
        except (RuntimeError, TypeError, OverflowError) as error:
            raise FairbanditError(
                f"a tensor of shape {tuple(shape)} does not fit into memory ({self.features} "
                f"features, {self.groups} groups, {self.replicas} replicas)"
            ) from error


class Part(ABC):
    """A split, an estimator, a rank or a selector.

    A constructor takes plain, keyword-only hyperparameters and stores each under its own name.
    Everything else waits for `bind`. A part never changes a tensor that it was given, as an
    argument or by a method of one, nor a tensor that it has returned: others still use them.
    Nor does it change settings of torch, or use a global random generator.
    """

    part_kind: ClassVar[str]
    part_name: ClassVar[str]
    needs_truth: ClassVar[bool] = False
    """Whether the part reads `problem.truth`."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """What to keep of the past for the part: a subset of `NEEDS`."""
    draws: ClassVar[bool] = False
    """Whether the part draws random numbers."""
    has_bounds: ClassVar[bool] = False
    """Whether the part has confidence bounds: an estimator's models those of rewards, a rank those
    of its index."""
    needs_bounds: ClassVar[bool] = False
    """Whether the part reads confidence bounds: a rank those of the scores, a selector those of the
    index."""
    autograd: ClassVar[bool] = True
    """Whether the part may differentiate; not inherited. Policies of parts that never do decide in
    torch's inference mode, which is faster. fairbandit's own parts never do."""
    reference: ClassVar[str] = ""
    """Where the part comes from."""
    checked_with: ClassVar[Mapping[str, str]] = {}
    """The parts by kind beside which the conformance suite plays this one, where the reference
    parts do not do, such as an estimator with confidence bounds for a rank that reads them."""
    own: ClassVar[bool] = True
    """Whether the part is fairbandit's, by its module. Such a part changes by new values of its
    attributes, never in place, so that whoever keeps the old values can restore them."""

    observes: ClassVar[bool] = False
    """Whether the part overrides `observe`. What it saw cannot be taken back, so that a policy with
    the part decides no round on the guess of an earlier one; see `fixed_point`."""

    reads_past: ClassVar[bool] = False
    """Whether what the part returns at a round depends on earlier rounds. It is set from `needs`,
    `observe`, `last_reward_read` and `last_pick_read`, and of an estimator from `learns`."""

    problem: Problem

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.own = cls.__module__.startswith("fairbandit.")
        cls.observes = cls.observe is not Part.observe
        readers = cls.last_reward_read, cls.last_pick_read
        declared = readers != (Part.last_reward_read, Part.last_pick_read)
        cls.reads_past = bool(cls.needs) or cls.observes or declared
        cls.autograd = vars(cls).get("autograd", not cls.own)

    def bind(self, problem: Problem) -> None:
        """Prepares for a problem, before its first round; what a part kept of another one goes.

        Raises:
            FairbanditError: the part needs a truth and the problem has none.
        """
        if self.needs_truth and problem.truth is None:
            raise FairbanditError(
                f"{self.part_kind} {self.part_name!r} needs a truth (the true rewards and their "
                "CDFs), and this problem has none"
            )
        self.problem = problem

    def check_bounds(self, *others: Part) -> None:
        """Refuses parts beside it that lack the confidence bounds that it needs.

        Raises:
            FairbanditError: one of the others has none.
        """
        for other in others:
            if self.needs_bounds and not other.has_bounds:
                raise FairbanditError(
                    f"{self.part_kind} {self.part_name!r} needs confidence bounds, which "
                    f"{other.part_kind} {other.part_name!r} does not have; those that have: "
                    f"{', '.join(with_bounds(other.part_kind))}"
                )

    def grow(self, problem: Problem) -> None:
        """Continues in a problem with more groups; parts that keep something by group override it.

        Args:
            problem: as before, but for `groups`.
        """
        self.problem = problem

    def last_reward_read(self, t: int) -> int:
        """The last round whose reward the part reads at round t; never falls as t grows.

        What an estimator is trained on does not count: the split says it.
        """
        return 0

    def last_pick_read(self, t: int) -> int:
        """The last round whose pick the part reads at round t; never falls as t grows."""
        return 0

    def observe(  # noqa: B027 - most parts have no state
        self, first: int, contexts: Tensor, groups: Tensor
    ) -> None:
        """Sees the pools of rounds first … first+N−1, after they were decided.

        Ranks and selectors see every round once and in order, whoever decided it.

        Args:
            first: the first of the rounds, from 1.
            contexts: (B, N, K, d).
            groups: (B, N, K) int64, −1 an empty place.
        """

    def state(self) -> State:
        """Plain tensors and numbers, enough to continue as if it had never stopped.

        The keys are the same from `bind` on. What is returned stays as it is: a part that adds to
        its tensors in place returns copies.
        """
        return {}

    def snapshot(self) -> State:
        """The state as it is now, which stays so whatever the part does next."""
        state = self.state()
        return state if self.own else {key: _copied(value) for key, value in state.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continues from a state that the same part, bound to the same problem, gave.

        Raises:
            FairbanditError: a state of another part or problem.
        """
        now, what = self.state(), f"the saved state of {self.part_kind} {self.part_name!r}"
        if not isinstance(state, Mapping) or set(state) != set(now):
            got = sorted(state) or "nothing" if isinstance(state, Mapping) else typed(state)
            raise FairbanditError(
                f"{what} should have {sorted(now) or 'nothing'}; got {got}: {KEYS_STAY}"
            )
        self._load(state)

    def _load(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - most parts have no state
        """Takes over a checked state; parts with a state override it.

        The state's tensors are others' too: a part that adds to its own in place copies them.
        """


def _memory() -> float:
    """The bytes of this machine's memory; infinite where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return math.inf


def _copied(value: Any) -> Any:
    """Plain data with tensors, in memory of its own."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value
