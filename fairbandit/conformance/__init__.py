"""Checks that every registered part must pass, for the authors of plugins too.

Each check raises `ConformanceError` with the reason. To run them in a test suite:

    @pytest.mark.parametrize("check", conformance.checks("rank"), ids=lambda check: check.__name__)
    def test_my_rank(check):
        check("rank", "my_rank")

To check a part with other hyperparameters than the defaults, pass a mapping with `name` and the
hyperparameters instead of the name. A part that draws random numbers gets the same draws whenever
a check compares two of its results. `examine` runs all checks and yields their results, as
`fairbandit check` does. `cost` times a part. `attempt` calls a check or `cost` and returns a
failure as one line. `asked` returns the candidates that a rank gets after some rounds of play.
"""

from fairbandit.conformance.report import (
    Check,
    CheckResult,
    Cost,
    attempt,
    checks,
    cost,
    examine,
)
from fairbandit.conformance.world import (
    REFERENCES,
    REPLICAS,
    ConformanceError,
    Scattered,
    Spec,
    asked,
)

__all__ = [
    "REFERENCES",
    "REPLICAS",
    "Check",
    "CheckResult",
    "ConformanceError",
    "Cost",
    "Scattered",
    "Spec",
    "asked",
    "attempt",
    "checks",
    "cost",
    "examine",
]
