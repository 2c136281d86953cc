"""Checks that every registered part must pass, for the authors of plugins too.

Each check raises `ConformanceError` with the reason. To run them in a test suite:

    @pytest.mark.parametrize("check", conformance.checks("rank"), ids=lambda check: check.__name__)
    def test_my_rank(check):
        check("rank", "my_rank")

To check a part with other hyperparameters than the defaults, pass a mapping with `name` and the
hyperparameters instead of the name. A part that draws random numbers gets the same draws whenever
a check compares two plays. `examine` runs all checks, as `fairbandit check` does, and `asked`
returns the candidates that a rank gets after some rounds of play.
"""

from fairbandit.conformance.report import Check, CheckResult, checks, examine
from fairbandit.conformance.world import ConformanceError, Scattered, Spec, asked

__all__ = [
    "Check",
    "CheckResult",
    "ConformanceError",
    "Scattered",
    "Spec",
    "asked",
    "checks",
    "examine",
]
