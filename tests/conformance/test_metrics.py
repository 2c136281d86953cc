"""Metrics keep their contract, and the faults that a metric can have are caught."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fairbandit import FairbanditError, conformance, registry
from fairbandit.metrics import Dimensions, Judged, Metric


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics that a test registers are gone after it."""
    monkeypatch.setitem(registry._registry, "metric", dict(registry._registry["metric"]))


@pytest.mark.parametrize("check", conformance.checks("metric"), ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", registry.names("metric"))
def test_every_metric(name: str, check: conformance.Check) -> None:
    check("metric", name)


class Counting(Metric):
    """The number of rounds so far, kept in `self._count`."""

    def bind(self, dimensions: Dimensions) -> None:
        super().bind(dimensions)
        self._count = torch.zeros(dimensions.replicas, dtype=torch.float64)

    def _values(self, judged: Judged) -> Tensor:
        ones = torch.ones_like(judged.propensities)
        values = self._count[:, None] + ones.cumsum(1)
        self._count = values[:, -1].clone()
        return values

    def state(self) -> dict[str, Any]:
        return {"count": self._count}

    def load_state(self, state: Any) -> None:
        self._count = state["count"]


class Lossy(Counting):
    """Counts, and forgets when it is resumed."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Any) -> None:
        pass


class Unbound(Counting):
    """Counts on, whatever it is bound to."""

    def bind(self, dimensions: Dimensions) -> None:
        if not hasattr(self, "_count"):
            super().bind(dimensions)


class Joint(Metric):
    """Means over replicas."""

    def _values(self, judged: Judged) -> Tensor:
        return judged.propensities.mean(0).expand_as(judged.propensities).clone()


class Piecewise(Metric):
    """Reads how long a piece is."""

    def _values(self, judged: Judged) -> Tensor:
        return torch.full_like(judged.propensities, judged.actions.shape[1])


class Writing(Metric):
    """Writes into what it was given."""

    def _values(self, judged: Judged) -> Tensor:
        return judged.propensities.mul_(2)


class Drawing(Metric):
    """Draws from a global generator."""

    def _values(self, judged: Judged) -> Tensor:
        return torch.rand(judged.actions.shape, dtype=torch.float64)


class Narrow(Metric):
    """Gives too few values."""

    def _values(self, judged: Judged) -> Tensor:
        return judged.propensities[:, :1]


class Worded(Counting):
    """Keeps a text."""

    def state(self) -> dict[str, Any]:
        return {"count": "many"}


class Median(Counting):
    """Declares an unknown reduction."""

    reduce = "median"  # type: ignore[assignment]


FAULTS: list[tuple[type[Metric], Callable[[str, Any], None], str]] = [
    (Lossy, conformance.resumes_judging, "one resumed from its state are judged differently"),
    (Unbound, conformance.pieces_agree, "first at round 1: replica 0 of the batch has 1 and 61"),
    (Joint, conformance.judges_replicas_alone, "in company and alone are judged differently"),
    (Piecewise, conformance.pieces_agree, "the whole and pieces are judged differently"),
    (Writing, conformance.leaves_tensors, r"`_values` changes `judged\.propensities`"),
    (Drawing, conformance.leaves_global_generators, "it draws from torch's global generator"),
    (Narrow, conformance.judges_soundly, r"expected \(B, N\) = \(3, 60\)"),
    (Worded, conformance.resumes_judging, "its state has a str under 'count'"),
    (Median, conformance.judges_soundly, "reduce = 'median'; expected one of sum, mean"),
]


@pytest.mark.parametrize(("cls", "check", "message"), FAULTS)
def test_a_fault_is_caught(cls: type[Metric], check: conformance.Check, message: str) -> None:
    registry.register("metric", "under_test")(cls)
    assert check in conformance.checks("metric")
    with pytest.raises(FairbanditError, match=message):
        check("metric", "under_test")


def test_a_metric_with_state_passes() -> None:
    registry.register("metric", "under_test")(Counting)
    findings = list(conformance.examine("metric", "under_test"))
    assert len(findings) == len(conformance.checks("metric"))
    assert [finding.reason for finding in findings if not finding.passed] == []


def test_a_metric_that_gives_nonsense_is_asked_no_further() -> None:
    registry.register("metric", "under_test")(Narrow)
    findings = {found.check: found for found in conformance.examine("metric", "under_test")}
    assert findings["judges_soundly"].tried
    assert not findings["judges_soundly"].passed
    assert not findings["pieces_agree"].tried
