"""Every registered part keeps its contract, plugins included."""

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from fairbandit import conformance, registry
from fairbandit.conformance import relations
from fairbandit.conformance.world import SETTINGS
from fairbandit.registry.plugins import load_plugins

load_plugins()


SAMPLES: dict[str, list[dict[str, Any]]] = {
    "neural_linear": [{"widths": [4], "steps": 2, "batch": 8}],
    "ridge": [{}, {"regularization": "auto"}],
    "simulation": [{}],
    "census_gender": [{"root": "sample"}],
    "distorted": [{}],
    "biased": [{}, {"biased": "features"}],
    "arrivals": [{"join": 2, "least": 3}],
    "rolling": [{}, {"count": "geometric", "candidates": 4}],
    "synthetic": [
        {},
        {"link": "logistic", "rewards": "bernoulli"},
        {"link": "quadratic", "drift": 1.0, "period": 50.0},
        {"link": "network"},
        {"rewards": "student", "dependence": 0.7},
        {"drift": 2.0, "period": 70.0, "drifts": "rewards"},
        {"drift": 2.0, "period": 70.0, "drifts": "weights"},
    ],
}
"""What is set of parts, and of the environments that need no file of the user's."""

PARTS: list[tuple[str, dict[str, Any], str]] = [
    (kind, {"name": name, **more}, f"{kind}-{name}{i or ''}")
    for kind in registry.KINDS
    for name in registry.names(kind)
    for i, more in enumerate(SAMPLES.get(name, [] if kind == "environment" else [{}]))
]

CASES = [
    pytest.param(part + number, check, kind, spec, id=f"{label}-{check.__name__}")
    for part, (kind, spec, label) in enumerate(PARTS)
    for number, check in enumerate(conformance.checks(kind))
]

SLOW = {"sklearn"}
"""Parts that tests of their own play in blocks, alone and online."""

FEW = [
    case
    for case, (number, _, _, spec) in ((case, cast(Any, case.values)) for case in CASES)
    if number % 3 == 0 and spec["name"] not in SLOW
]
"""Every third check of each part, and others of the next parts."""


@pytest.mark.parametrize(("number", "check", "kind", "spec"), FEW)
def test_part_in_one_setting(
    number: int,
    check: conformance.Check,
    kind: str,
    spec: conformance.Spec,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Splits and numbers of picks take turns."""
    at = number // 3 % len(SETTINGS)
    monkeypatch.setattr(relations, "SETTINGS", SETTINGS[at : at + 1])
    check(kind, spec)


@pytest.mark.all
@pytest.mark.parametrize(("number", "check", "kind", "spec"), CASES)
def test_part(number: int, check: conformance.Check, kind: str, spec: conformance.Spec) -> None:
    check(kind, spec)


def test_plugins_are_among_the_parts() -> None:
    file = Path(__file__).parents[2] / "plugins" / "gaussian_cdf.py"
    assert "gaussian_cdf" in registry.names("rank")
    assert sys.modules["gaussian_cdf"].__file__ == str(file)


def test_a_part_is_checked_with_hyperparameters_of_ones_own() -> None:
    for first, reason in ((3, None), (0, "first must be at least 1 and finite, got 0")):
        results = list(conformance.examine("metric", {"name": "skew", "first": first}))
        assert results[0].reason == reason
        assert (results[-1].reason is None) == (reason is None)
        names = [check.__name__ for check in conformance.checks("metric")]
        tried = names[: names.index("plays_one_to_three_picks") + 1] if reason else names
        assert [result.check for result in results] == tried
