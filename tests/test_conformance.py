"""Every registered part keeps its contract, plugins included; every composition runs."""

import itertools
import sys

import pytest
import torch
from torch import Tensor

from fairbandit import conformance, registry
from fairbandit.build import build
from fairbandit.conformance import ConformanceError, Scattered
from fairbandit.parts import Candidates, Rank
from fairbandit.plugins import load_plugins
from fairbandit.policy import Policy
from fairbandit.streams import GRID
from tests import support

load_plugins()


@registry.register("rank", "past_rewards")
class PastRewards(Rank):
    """How many of all past rewards the score exceeds: a rank that reads rewards."""

    reference = "these tests"
    needs = frozenset({"rewards"})

    def reach(self, t: int) -> int:
        return t - 1

    def _index(self, candidates: Candidates) -> Tensor:
        past = candidates.history.outcomes(0, candidates.history.played).rewards
        below = (past[:, None, None] <= candidates.scores[..., None]).double().sum(-1)
        return below / max(candidates.history.played, 1)


def combinations() -> list[tuple[str, str, str]]:
    splits, estimators, ranks = map(registry.names, ("split", "estimator", "rank"))
    return list(itertools.product(splits, estimators, ranks))


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


@pytest.mark.parametrize(("split", "estimator", "rank"), combinations())
def test_composition_runs_and_blocks_equal_rounds(split: str, estimator: str, rank: str) -> None:
    def play(at_once: int) -> Tensor:
        made = build({"split": split, "estimator": estimator, "rank": rank})
        assert isinstance(made, Policy)
        return support.actions(made, Scattered(), 30, replicas=2, at_once=at_once)

    assert torch.equal(play(64), play(1))


def test_plugins_are_among_the_parts() -> None:
    assert "gaussian_cdf" in registry.names("rank")
    assert sys.modules["gaussian_cdf"].__file__ == str(
        support.REPOSITORY / "plugins" / "gaussian_cdf.py"
    )


class Broken(Rank):
    """A rank with one fault, chosen by each test."""

    reference = "these tests"
    needs = frozenset({"contexts"})


def fault(name: str, cls: type[Rank]) -> None:
    if name not in registry.names("rank"):
        registry.register("rank", name)(cls)


@pytest.fixture(autouse=True)
def _unregister_faults() -> object:
    yield
    for name in [name for name in registry.names("rank") if name.startswith("broken_")]:
        del registry._registry["rank"][name]


def test_falling_index_is_caught() -> None:
    class Falling(Broken):
        """Falls as the score rises."""

        def _index(self, candidates: Candidates) -> Tensor:
            return 1 - candidates.past.at_most(candidates.ceilings) / (candidates.past.count + 1)

    fault("broken_falling", Falling)
    with pytest.raises(ConformanceError, match="not monotone"):
        conformance.monotone("rank", "broken_falling")


def test_undeclared_reward_is_caught() -> None:
    class Peeking(Broken):
        """Reads rewards beyond its reach."""

        needs = frozenset({"contexts", "rewards"})

        def _index(self, candidates: Candidates) -> Tensor:
            played = candidates.history.played
            rewards = candidates.history.outcomes(0, played).rewards.sum(1)
            return torch.sigmoid(candidates.scores * rewards[:, None, None])

    fault("broken_peeking", Peeking)
    with pytest.raises(ConformanceError, match="reward later than reach"):
        conformance.honours_reach("rank", "broken_peeking")


def test_global_generator_is_caught() -> None:
    class Global(Broken):
        """Draws from torch's global generator."""

        def _index(self, candidates: Candidates) -> Tensor:
            return torch.rand(candidates.groups.shape, dtype=torch.float64)

    fault("broken_global", Global)
    with pytest.raises(ConformanceError, match="torch's global generator"):
        conformance.leaves_global_generators("rank", "broken_global")
    with pytest.raises(ConformanceError, match="two runs under one seed"):
        conformance.repeats("rank", "broken_global")


def test_forgotten_state_is_caught() -> None:
    class Forgetful(Broken):
        """Counts the rounds that it saw, and does not save the count."""

        seen = 0

        def observe(self, first: int, contexts: Tensor, groups: Tensor) -> None:
            self.seen += groups.shape[1]

        def _index(self, candidates: Candidates) -> Tensor:
            return torch.sigmoid(candidates.scores * (1 if self.seen < GRID else -1))

    fault("broken_forgetful", Forgetful)
    with pytest.raises(ConformanceError, match="resumed from its state"):
        conformance.resumes("rank", "broken_forgetful")
