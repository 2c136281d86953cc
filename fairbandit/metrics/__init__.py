"""Metrics, which are registered, and the judge that evaluates them on the rounds decided."""

from fairbandit.metrics.base import Dimensions, Judged, Metric
from fairbandit.metrics.judge import Judge, Played, received
from fairbandit.metrics.reduction import REDUCTIONS, Reduce, RunningReduction
from fairbandit.metrics.regret import REGRETS, FairRegret, StandardRegret

__all__ = [
    "REDUCTIONS",
    "REGRETS",
    "Dimensions",
    "FairRegret",
    "Judge",
    "Judged",
    "Metric",
    "Played",
    "Reduce",
    "RunningReduction",
    "StandardRegret",
    "received",
]
