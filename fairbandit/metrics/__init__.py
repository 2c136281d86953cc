"""Metrics, which are registered, and the judge that evaluates them on the rounds decided."""

from fairbandit.metrics.base import Dimensions, Judged, Metric
from fairbandit.metrics.exposure import ExposureRegret
from fairbandit.metrics.groups import (
    GroupMetric,
    GroupRewardGap,
    ParityGap,
    PullShortfall,
    Welfare,
)
from fairbandit.metrics.judge import Judge, Played, received
from fairbandit.metrics.merit import Merit
from fairbandit.metrics.preference import PreferenceViolations
from fairbandit.metrics.reduction import REDUCTIONS, Reduce, RunningReduction
from fairbandit.metrics.regret import REGRETS, FairRegret, StandardRegret

__all__ = [
    "REDUCTIONS",
    "REGRETS",
    "Dimensions",
    "ExposureRegret",
    "FairRegret",
    "GroupMetric",
    "GroupRewardGap",
    "Judge",
    "Judged",
    "Merit",
    "Metric",
    "ParityGap",
    "Played",
    "PreferenceViolations",
    "PullShortfall",
    "Reduce",
    "RunningReduction",
    "StandardRegret",
    "Welfare",
    "received",
]
