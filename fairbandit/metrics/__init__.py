"""Registered metrics, and the judge that evaluates them on decided rounds."""

from fairbandit.metrics.base import Judged, Metric
from fairbandit.metrics.groups import (
    GroupMetric,
    GroupRewardGap,
    ParityGap,
    PullShortfall,
    Welfare,
)
from fairbandit.metrics.judge import REGRETS, FairRegret, Judge, Played, StandardRegret
from fairbandit.metrics.merit import ExposureRegret, Merit, PreferenceViolations
from fairbandit.metrics.orders import DiscountedExposure, NormalizedDivergence, Skew
from fairbandit.metrics.reduction import REDUCTIONS, Reduce, RunningReduction
from fairbandit.metrics.rolling import RollingRegret

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
