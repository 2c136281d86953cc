"""Rank estimators besides the paper's, one file each."""

from fairbandit.parts.more_ranks.interval import IntervalCdf
from fairbandit.parts.more_ranks.recent import RecentCdf
from fairbandit.parts.more_ranks.rewards import NoisyRewardsCdf
from fairbandit.parts.more_ranks.shrunk import ShrunkCdf
from fairbandit.parts.more_ranks.smoothed import SmoothedCdf
from fairbandit.parts.more_ranks.tradeoff import Tradeoff

__all__ = [
    "IntervalCdf",
    "NoisyRewardsCdf",
    "RecentCdf",
    "ShrunkCdf",
    "SmoothedCdf",
    "Tradeoff",
]
