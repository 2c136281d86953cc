"""Every registered part keeps its contract, plugins included."""

import sys

import pytest
import torch
from torch import Tensor

from fairbandit import conformance, registry
from fairbandit.parts import Candidates, Rank
from fairbandit.plugins import load_plugins
from tests import support

load_plugins()


@registry.register("rank", "past_rewards")
class PastRewards(Rank):
    """How many of all past rewards the score exceeds: a rank that reads rewards."""

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
    for kind in registry.KINDS
    for name in (registry.names(kind) if kind != "environment" else ["simulation"])
    for check in conformance.checks(kind)
]


@pytest.mark.parametrize(("check", "kind", "name"), CASES)
def test_part(check: conformance.Check, kind: str, name: str) -> None:
    check(kind, name)


def test_plugins_are_among_the_parts() -> None:
    file = support.REPOSITORY / "plugins" / "gaussian_cdf.py"
    assert "gaussian_cdf" in registry.names("rank")
    assert sys.modules["gaussian_cdf"].__file__ == str(file)


def test_a_part_is_checked_with_hyperparameters_of_ones_own() -> None:
    for noise, reason in ((1.0, None), (2.0, "noise (ρ) must be from 0 to 1, got 2.0")):
        results = list(conformance.examine("estimator", {"name": "ridge", "noise": noise}))
        assert results[0].reason == reason
        assert results[-1].passed == (reason is None)
        assert len(results) == len(conformance.checks("estimator"))
