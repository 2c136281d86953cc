"""Exposure regret against a loop, and of the policies that have none."""

import math
from typing import Any

import numpy as np
import pytest

from fairbandit import Engine, build
from fairbandit.conformance import Scattered
from fairbandit.metrics import ExposureRegret
from fairbandit.policy import Policy
from fairbandit.registry import create
from tests.metrics.rounds import judge, random_rounds

SETTINGS: list[dict[str, Any]] = [
    {},
    {"of": "rank"},
    {"merit": "exponential", "rate": 2.0},
    {"of": "rank", "merit": "power", "exponent": 0.5, "floor": 0.2},
]


def metric(setting: dict[str, Any]) -> ExposureRegret:
    made = create("metric", {"name": "exposure_regret", **setting})
    assert isinstance(made, ExposureRegret)
    return made


def merit(setting: dict[str, Any], x: float) -> float:
    """f as it is written."""
    form, floor = setting.get("merit", "identity"), setting.get("floor", 0.01)
    if form == "exponential":
        return max(math.exp(setting["rate"] * x), floor)
    return max(max(x, 0) ** setting["exponent"] if form == "power" else x, floor)


@pytest.mark.parametrize("setting", SETTINGS)
def test_against_a_loop(setting: dict[str, Any]) -> None:
    rounds = random_rounds()
    pools, values = rounds.pools, judge(metric(setting), rounds)
    merited = pools.ranks if setting.get("of") == "rank" else pools.expected
    for b, n in np.ndindex(*values.shape):
        here = [a for a in range(pools.groups.shape[2]) if int(pools.groups[b, n, a]) >= 0]
        merits = [merit(setting, float(merited[b, n, a])) for a in here]
        weights = [float(rounds.selection.weights[b, n, a]) for a in here]
        distance = sum(
            abs(m / sum(merits) - w / sum(weights)) for m, w in zip(merits, weights, strict=True)
        )
        assert float(values[b, n]) == pytest.approx(distance, abs=1e-12)
        assert 0 <= distance <= 2


@pytest.mark.parametrize("setting", SETTINGS)
def test_exposure_in_proportion_to_the_truth_has_no_regret(setting: dict[str, Any]) -> None:
    form = {key: value for key, value in setting.items() if key != "of"}
    parts = {
        "split": "full",
        "estimator": "oracle",
        "rank": "oracle_cdf" if setting.get("of") == "rank" else "identity",
        "selector": {"name": "proportional", **form},
    }
    for selector, fair in ((parts["selector"], True), ("argmax", False)):
        policy = build({**parts, "selector": selector})
        assert isinstance(policy, Policy)
        metrics = {"exposure": metric(setting)}
        run = Engine(policy, Scattered(), rounds=50, seed=0, replicas=[0, 1], metrics=metrics)
        (played,) = run.play()
        assert (float(played.metrics["exposure"].max()) < 1e-12) is fair
