"""Checks that every registered part must pass, for the authors of plugins too.

The name of a check is its requirement in words. Each check raises `ConformanceError` with the
reason. To run them in a test suite:

    @pytest.mark.parametrize("check", conformance.checks("rank"), ids=lambda check: check.__name__)
    def test_my_rank(check):
        check("rank", "my_rank")

To check a part with other hyperparameters than the defaults, pass a mapping with `name` and the
hyperparameters instead of the name. If a check compares two plays, a part gets the same random
draws in both. `examine` runs all checks, as `fairbandit check` does, and `asked` returns the ranked
candidates after some rounds of play. `reads_group` says whether a policy reads the group of a
candidate when it decides.
"""

from fairbandit.conformance.group import reads_group
from fairbandit.conformance.relations import KINDS, Check
from fairbandit.conformance.values import CheckResult, checks, examine
from fairbandit.conformance.world import ConformanceError, Scattered, Spec, asked

__all__ = [
    "KINDS",
    "Check",
    "CheckResult",
    "ConformanceError",
    "Scattered",
    "Spec",
    "asked",
    "checks",
    "examine",
    "reads_group",
]
