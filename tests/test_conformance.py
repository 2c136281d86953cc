"""Every registered part keeps its contract, plugins included."""

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit import conformance, registry
from fairbandit.building import build
from fairbandit.conformance import Scattered
from fairbandit.errors import FairbanditError
from fairbandit.parts import (
    Argmax,
    Candidates,
    Division,
    EmpiricalCdf,
    Halves,
    Identity,
    LinearModel,
    Outcomes,
    Part,
    Problem,
    Rank,
    RewardModel,
    Ridge,
)
from fairbandit.plugins import load_plugins
from fairbandit.policy import Policy
from tests import support

load_plugins()


@registry.register("rank", "past_rewards")
class PastRewards(Rank):
    """How many of all past rewards the score exceeds: a rank that reads rewards."""

    reference = "these tests"
    needs = frozenset({"rewards"})

    def last_reward_read(self, t: int) -> int:
        return t - 1

    def _index(self, candidates: Candidates) -> Tensor:
        rounds = candidates.rounds
        past = candidates.outcomes(0, int(rounds[-1]) - 1).rewards[:, None, None]
        before = torch.arange(1, int(rounds[-1]), device=rounds.device)
        known = before < rounds[:, None]
        below = ((past <= candidates.scores[..., None]) & known[:, None]).double().sum(-1)
        return below / (rounds - 1).clamp(min=1)[:, None]


CASES = [
    pytest.param(check, kind, name, id=f"{kind}-{name}-{check.__name__}")
    for kind in registry.PART_KINDS
    for name in registry.names(kind)
    for check in conformance.checks(kind)
] + [
    pytest.param(check, "environment", "simulation", id=f"simulation-{check.__name__}")
    for check in conformance.checks("environment")
]


@pytest.mark.parametrize(("check", "kind", "name"), CASES)
def test_part(check: conformance.Check, kind: str, name: str) -> None:
    check(kind, name)


@pytest.mark.parametrize("estimator", registry.names("estimator"))
@pytest.mark.parametrize("split", registry.names("split"))
def test_a_rank_that_reads_rewards_decides_in_blocks_as_by_rounds(
    split: str, estimator: str
) -> None:
    """tests/test_fixed_point.py shows the same of every composition of other parts."""

    def play(at_once: int) -> Tensor:
        made = build({"split": split, "estimator": estimator, "rank": "past_rewards"})
        assert isinstance(made, Policy)
        return support.actions(made, Scattered(), 30, replicas=2, at_once=at_once)

    assert torch.equal(play(64), play(1))


def test_plugins_are_among_the_parts() -> None:
    assert "gaussian_cdf" in registry.names("rank")
    assert sys.modules["gaussian_cdf"].__file__ == str(
        support.REPOSITORY / "plugins" / "gaussian_cdf.py"
    )


def test_a_part_is_checked_with_hyperparameters_of_ones_own() -> None:
    conformance.models_soundly("estimator", {"name": "ridge", "regularization": 5.0, "noise": 1.0})
    findings = {
        finding.check: finding
        for finding in conformance.examine("estimator", {"name": "ridge", "noise": 2.0})
    }
    assert findings["constructible"].reason == "noise (ρ) must be from 0 to 1, got 2.0"
    assert not findings["reads_no_later"].tried


def test_every_check_says_what_it_asks_for() -> None:
    for kind in registry.KINDS:
        labels = [(check.__doc__ or "").split("\n")[0] for check in conformance.checks(kind)]
        assert all(label.endswith(".") for label in labels)
        assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_cost_is_told_beside_the_reference(kind: str) -> None:
    cost = conformance.cost(kind, conformance.REFERENCES[kind])
    assert 0.1 < cost.own / cost.reference < 10


class Unsound(Halves):
    """A split that moves back."""

    def _divide(self, t: Tensor) -> Division:
        division = super()._divide(t)
        return division._replace(start=torch.where(t == 50, 0, division.start))


class Shifted(Ridge):
    """Scores that are not those of its theta."""

    def _models(self, rounds: list[int], n_train: list[int], outcomes: Outcomes) -> RewardModel:
        return ShiftedModel(*super()._models(rounds, n_train, outcomes).parameters)


class ShiftedModel(LinearModel):
    """⟨θ, x⟩ + 1."""

    def _score(self, contexts: Tensor, groups: Tensor) -> Tensor:
        return super()._score(contexts, groups) + 1


class Picking(Argmax):
    """Picks, where weights are asked for."""

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return super()._weights(candidates, index).double().argmax(2)


class Careless(Argmax):
    """Weights at empty places too."""

    def _weights(self, candidates: Candidates, index: Tensor) -> Tensor:
        return torch.ones_like(index)


class Inverted(EmpiricalCdf):
    """An upper index below the index."""

    def upper_index(self, index: Tensor, candidates: Candidates) -> Tensor:
        return index - 1


class Placed(EmpiricalCdf):
    """An index by place."""

    def _index(self, candidates: Candidates) -> Tensor:
        return super()._index(candidates) * torch.tensor([1, 1, 1, 0.5, 0.5, 0.5])


class Listing(EmpiricalCdf):
    """A state that is no tensor and no number."""

    def state(self) -> dict[str, Any]:
        return {"seen": [1, 2]}


class Forgetful(Ridge):
    """Rewards that come late are lost."""

    def absorb(self, n: int, outcomes: Outcomes) -> None:
        pass


class Mislaying(Identity):
    """Scores plus counts of the groups' candidates, which are lost when a group appears."""

    def bind(self, problem: Problem) -> None:
        super().bind(problem)
        self._seen = problem.zeros(problem.replicas, problem.groups)

    def grow(self, problem: Problem) -> None:
        self.bind(problem)

    def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
        every = torch.arange(self._seen.shape[1])
        self._seen = self._seen + (groups[..., None] == every).sum((1, 2))

    def state(self) -> dict[str, Tensor | int | float]:
        return {"seen": self._seen}

    def _load(self, state: Any) -> None:
        self._seen = state["seen"]

    def upper_index(self, index: Tensor, candidates: Candidates) -> Tensor:
        return index

    def _index(self, candidates: Candidates) -> Tensor:
        own = candidates.groups.clamp(min=0)
        seen = self._seen[:, None].expand(-1, own.shape[1], -1).gather(2, own)
        return candidates.scores + seen


FAULTS: list[tuple[str, type[Part], conformance.Check, str]] = [
    ("split", Unsound, conformance.splits_soundly, "`start` moves back after round 49"),
    ("estimator", Shifted, conformance.models_soundly, "scores differ from ⟨theta, x⟩ by up to 1"),
    (
        "selector",
        Picking,
        conformance.picks_soundly,
        r"gave weights of shape \(12, \d+\); expected",
    ),
    ("selector", Careless, conformance.picks_soundly, "and 0 beside the places"),
    ("rank", Inverted, conformance.ties, "`upper_index` must be as large as the index or larger"),
    ("rank", Placed, conformance.permutes, "does more than permute their indices, as for replica"),
    (
        "estimator",
        Forgetful,
        conformance.learns_late,
        "after rewards that came late",
    ),
    ("rank", Mislaying, conformance.resumes, "a group known before and one that appears give"),
    ("rank", Listing, conformance.resumes, "its state has a list under 'seen'"),
]


@pytest.mark.parametrize(("kind", "cls", "check", "message"), FAULTS)
def test_a_fault_is_caught(
    kind: str,
    cls: type[Part],
    check: conformance.Check,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry._registry, kind, dict(registry._registry[kind]))
    registry.register(kind, "faulty")(cls)
    with pytest.raises(FairbanditError, match=message):
        check(kind, "faulty")
