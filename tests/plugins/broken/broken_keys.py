"""A rank with one fault: its state gets a key with the first round that it observes."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fairbandit import register
from fairbandit.parts import Candidates, Problem, Rank


@register("rank", "broken_keys")
class Growing(Rank):
    """The score; beside it the number of rounds observed."""

    reference = "these tests"
    range = (-float("inf"), float("inf"))

    _rounds: int | None = None

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._rounds = None

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        self._rounds = first + contexts.shape[1] - 1

    def state(self) -> dict[str, Tensor | int | float]:
        return {} if self._rounds is None else {"rounds": self._rounds}

    def _load(self, state: Mapping[str, Any]) -> None:
        self._rounds = state["rounds"]

    def _index(self, candidates: Candidates) -> Tensor:
        return candidates.scores
