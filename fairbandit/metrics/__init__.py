"""Registered metrics, and the judge that evaluates them on decided rounds."""

from fairbandit.metrics.base import REDUCTIONS, Judged, Metric, Reduce, RunningReduction
from fairbandit.metrics.groups import (
    DiscountedExposure,
    GroupMetric,
    GroupRewardGap,
    NormalizedDivergence,
    ParityGap,
    PullShortfall,
    Skew,
    Welfare,
)
from fairbandit.metrics.judge import (
    REGRETS,
    FairRegret,
    Judge,
    Played,
    RollingRegret,
    StandardRegret,
)
from fairbandit.metrics.merit import ExposureRegret, Merit, PreferenceViolations

__all__ = [
    "REDUCTIONS",
    "REGRETS",
    "DiscountedExposure",
    "ExposureRegret",
    "FairRegret",
    "GroupMetric",
    "GroupRewardGap",
    "Judge",
    "Judged",
    "Merit",
    "Metric",
    "NormalizedDivergence",
    "ParityGap",
    "Played",
    "PreferenceViolations",
    "PullShortfall",
    "Reduce",
    "RollingRegret",
    "RunningReduction",
    "Skew",
    "StandardRegret",
    "Welfare",
]
