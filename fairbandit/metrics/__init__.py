"""Metrics, which are registered, and the judge that evaluates them on the rounds decided."""

from fairbandit.metrics.base import Judged, Metric
from fairbandit.metrics.exposure_regret import ExposureRegret
from fairbandit.metrics.fair_regret import FairRegret
from fairbandit.metrics.group_metric import GroupMetric
from fairbandit.metrics.group_reward_gap import GroupRewardGap
from fairbandit.metrics.judge import REGRETS, Judge, Played
from fairbandit.metrics.merit import Merit
from fairbandit.metrics.parity_gap import ParityGap
from fairbandit.metrics.preference_violations import PreferenceViolations
from fairbandit.metrics.pull_shortfall import PullShortfall
from fairbandit.metrics.reduction import REDUCTIONS, Reduce, RunningReduction
from fairbandit.metrics.standard_regret import StandardRegret
from fairbandit.metrics.welfare import Welfare

__all__ = [
    "REDUCTIONS",
    "REGRETS",
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
]
