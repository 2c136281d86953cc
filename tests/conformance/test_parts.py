"""Every registered part keeps its contract, plugins included."""

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from fairbandit import conformance, registry
from fairbandit.conformance import contract, purity
from fairbandit.conformance.world import SETTINGS
from fairbandit.plugins import load_plugins

load_plugins()


SAMPLES: dict[str, list[dict[str, Any]]] = {
    "simulation": [{}],
    "census_gender": [{"root": "sample"}],
    "distorted": [{}],
    "arrivals": [{"join": 2, "least": 3}],
    "rolling": [{}, {"count": "geometric", "candidates": 4}],
    "synthetic": [
        {},
        {"link": "logistic", "rewards": "bernoulli"},
        {"link": "quadratic", "drift": 1.0, "period": 50.0},
        {"rewards": "student", "dependence": 0.7},
        {"drift": 2.0, "period": 70.0, "drifts": "rewards"},
        {"drift": 2.0, "period": 70.0, "drifts": "weights"},
    ],
}
"""What is set of parts, and of the environments that need no file of the user's."""

CASES = [
    pytest.param(check, kind, {"name": name, **more}, id=f"{kind}-{name}{i or ''}-{check.__name__}")
    for kind in registry.KINDS
    for name in registry.names(kind)
    for i, more in enumerate(SAMPLES.get(name, [] if kind == "environment" else [{}]))
    for check in conformance.checks(kind)
]

SLOW = {"sklearn"}
"""Parts that tests of their own play in blocks, alone and online."""

NUMBERED = [
    pytest.param(number, *case.values, id=case.id)
    for number, case in enumerate(CASES)
    if cast("dict[str, Any]", case.values[2])["name"] not in SLOW
]


@pytest.mark.parametrize(("number", "check", "kind", "spec"), NUMBERED)
def test_part_in_one_setting(
    number: int,
    check: conformance.Check,
    kind: str,
    spec: conformance.Spec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splits and numbers of picks take turns."""
    at = number % len(SETTINGS)
    for module in (contract, purity):
        monkeypatch.setattr(module, "SETTINGS", SETTINGS[at : at + 1])
    check(kind, spec)


@pytest.mark.all
@pytest.mark.parametrize(("check", "kind", "spec"), CASES)
def test_part(check: conformance.Check, kind: str, spec: conformance.Spec) -> None:
    check(kind, spec)


def test_plugins_are_among_the_parts() -> None:
    file = Path(__file__).parents[2] / "plugins" / "gaussian_cdf.py"
    assert "gaussian_cdf" in registry.names("rank")
    assert sys.modules["gaussian_cdf"].__file__ == str(file)


def test_a_part_is_checked_with_hyperparameters_of_ones_own() -> None:
    for noise, reason in ((1.0, None), (2.0, "noise (ρ) must be from 0 to 1, got 2.0")):
        results = list(conformance.examine("estimator", {"name": "ridge", "noise": noise}))
        assert results[0].reason == reason
        assert (results[-1].reason is None) == (reason is None)
        names = [check.__name__ for check in conformance.checks("estimator")]
        tried = names[: names.index("plays") + 1] if reason else names
        assert [result.check for result in results] == tried
