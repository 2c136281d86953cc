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

from fairbandit.conformance.contract import (
    constructible,
    documented,
    draws_pools,
    finite_in_range,
    models_soundly,
    monotone,
    permutes,
    picks_soundly,
    pools_by_address,
    shapes,
    splits_soundly,
    ties,
)
from fairbandit.conformance.leaving import (
    leaves_global_generators,
    leaves_settings,
    leaves_tensors,
)
from fairbandit.conformance.metrics import (
    judges_replicas_alone,
    judges_soundly,
    pieces_agree,
    resumes_judging,
)
from fairbandit.conformance.playing import (
    learns_late,
    plays,
    reads_no_later,
    repeats,
    replicas_alone,
    resumes,
    rounds_alone,
)
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
    "constructible",
    "cost",
    "documented",
    "draws_pools",
    "examine",
    "finite_in_range",
    "judges_replicas_alone",
    "judges_soundly",
    "learns_late",
    "leaves_global_generators",
    "leaves_settings",
    "leaves_tensors",
    "models_soundly",
    "monotone",
    "permutes",
    "picks_soundly",
    "pieces_agree",
    "plays",
    "pools_by_address",
    "reads_no_later",
    "repeats",
    "replicas_alone",
    "resumes",
    "resumes_judging",
    "rounds_alone",
    "shapes",
    "splits_soundly",
    "ties",
]
