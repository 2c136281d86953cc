"""Blocks decided as a fixed point are sequential play."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairbandit import Engine, FairbanditError, Policy, build, registry
from fairbandit.conformance import Scattered
from fairbandit.environments import Environment
from fairbandit.registry.plugins import load_plugins
from fairbandit.splits import Plan, Split
from fairbandit.splits.base import Ints
from tests import support
from tests.adversary import Flipping

load_plugins()


def play(policy: Policy, world: Environment, rounds: int, **how: Any) -> tuple[Tensor, Engine]:
    """All decisions, (B, T), and the engine that made them."""
    engine = Engine(policy, world, rounds=rounds, **{"seed": 0, "replicas": range(3), **how})
    return torch.cat([played.actions for played in engine.play()], 1), engine


def made(**parts: Any) -> Policy:
    """A policy of reference parts, but for some."""
    reference = {"split": "full", "estimator": "ridge", "rank": "identity", "selector": "argmax"}
    policy = build({**reference, **parts})
    assert isinstance(policy, Policy)
    return policy


@pytest.mark.parametrize("name", ["at_once", "picks"])
def test_none_at_once(name: str) -> None:
    with pytest.raises(FairbanditError, match=f"{name} must be at least 1, got 0"):
        play(made(), support.environment(), 3, **{name: 0})


@pytest.mark.parametrize(("rounds", "late"), [(3, 0), (600, 0), (300, 5)])
def test_every_guess_wrong(rounds: int, late: int) -> None:
    """Even then, few rounds are decided more than once, be rewards in time or late."""
    policy = late_by(late, estimator={"name": "ridge", "noise": 0.0})
    found, engine = play(policy, Flipping(), rounds)
    assert late or bool((found[:, 1:] != found[:, :-1]).all())
    assert engine.decisions <= 1.3 * rounds + 40 * max(late, 1)
    alone, one_by_one = play(policy, Flipping(), rounds, at_once=1)
    assert torch.equal(found, alone)
    assert one_by_one.decisions == rounds


@settings(max_examples=15)
@given(
    split=st.sampled_from(["full", "halves"]),
    estimator=st.sampled_from(
        [
            {"name": "ridge", "noise": 1.0, "regularization": 1e-8},
            {"name": "ridge", "noise": 0.0, "regularization": 10.0},
            {"name": "optimistic_ridge", "exploration": 3.0, "regularization": 1e-8},
            {"name": "optimistic_ridge", "radius": "textbook"},
            {"name": "thompson_ridge", "regularization": 1e-8},
            {"name": "thompson_ridge", "scale": 5.0},
            {"name": "group_ridge"},
            {"name": "oracle"},
        ]
    ),
    rank=st.sampled_from(sorted({*registry.names("rank")} - {"interval_cdf"})),
    selector=st.sampled_from(sorted({*registry.names("selector")} - {"chain"})),
    world=st.sampled_from([Scattered(), Scattered(rare_after=20)]),
    rounds=st.integers(1, 90),
    seed=st.integers(0, 2**31),
    at_once=st.sampled_from([2, 3, 7, None]),
)
def test_random_policies(
    split: str,
    estimator: dict[str, Any],
    rank: str,
    selector: str,
    world: Environment,
    rounds: int,
    seed: int,
    at_once: int | None,
) -> None:
    """Of all parts but those that need confidence bounds, which the presets have.

    Under a tiny λ, smoothed indices move by more than ties allow for as long as V is singular.
    """
    tiny = estimator.get("regularization") == 1e-8
    assume(not tiny or rank in ("identity", "empirical_cdf", "noisy_rewards_cdf"))
    policy = made(split=split, estimator=estimator, rank=rank, selector=selector)
    found, _ = play(policy, world, rounds, seed=seed, at_once=at_once)
    alone, _ = play(policy, world, rounds, seed=seed, at_once=1)
    assert torch.equal(found, alone)


class Late(Split):
    """Rewards train the model some rounds late, so that as many rounds need no guess."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def _divide(self, t: Ints) -> Plan:
        past = (t - max(self.rounds, 1)).clip(min=0)
        return Plan(n_train=past, rank_start=np.zeros_like(t), rank_stop=past)


def late_by(rounds: int, **parts: Any) -> Policy:
    """A policy whose rewards train so many rounds late."""
    return support.replaced(made(**parts), split=Late(rounds))


@pytest.mark.parametrize(
    ("late", "estimator"),
    support.some(
        [(3, "ridge"), (2, "optimistic_ridge"), (20, "optimistic_ridge"), (8, "ridge")], 2
    ),
)
def test_rewards_that_come_late(late: int, estimator: str) -> None:
    """Rounds that need no guess are decided together, and where they are few, blocks are larger."""
    policy, rounds = late_by(late, estimator=estimator), 500
    found, engine = play(policy, support.environment(), rounds, replicas=[0])
    alone, _ = play(policy, support.environment(), rounds, replicas=[0], at_once=1)
    assert torch.equal(found, alone)
    few = late < 10
    assert engine.size.next(late) >= (64 if few else late)
    assert (engine.decisions > rounds) == few
