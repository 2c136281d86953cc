"""What every registered part owes, as checks that a plugin's author can run too.

Each check raises `ConformanceError` with the reason. In a test suite of one's own:

    @pytest.mark.parametrize("check", conformance.checks("rank"), ids=lambda check: check.__name__)
    def test_my_rank(check):
        check("rank", "my_rank")

In place of a name stands a mapping with `name` and hyperparameters where the defaults are not what
is to be checked. A part that draws random numbers is held to the same checks given the same draws.
`examine` runs them all and tells what came of each, as `fairbandit check` does; `cost` times a
part; `attempt` does either and tells a failure in one line; `asked` gives the candidates that a
rank is asked about after some rounds of play.
"""

from fairbandit.conformance.contract import (
    constructible,
    documented,
    finite_in_range,
    models_soundly,
    monotone,
    permutes,
    picks_soundly,
    shapes,
    splits_soundly,
    ties,
)
from fairbandit.conformance.environments import draws_pools, pools_by_address
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
from fairbandit.conformance.report import Check, Finding, attempt, checks, examine
from fairbandit.conformance.timing import Cost, cost
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
    "ConformanceError",
    "Cost",
    "Finding",
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
