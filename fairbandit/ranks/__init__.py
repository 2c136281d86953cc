"""Ranks: turn a pool's scores into the index to be maximised."""

from fairbandit.estimators.ties import ROUNDING, Approximate
from fairbandit.ranks.base import Rank, Scored
from fairbandit.ranks.interval_cdf import IntervalCdf
from fairbandit.ranks.noisy_rewards_cdf import NoisyRewardsCdf
from fairbandit.ranks.paper import EmpiricalCdf, Identity, OracleCdf, RecentCdf, Tradeoff
from fairbandit.ranks.pooled_cdf import PooledCdf, ShrunkCdf
from fairbandit.ranks.smoothed_cdf import SmoothedCdf

__all__ = [
    "ROUNDING",
    "Approximate",
    "EmpiricalCdf",
    "Identity",
    "IntervalCdf",
    "NoisyRewardsCdf",
    "OracleCdf",
    "PooledCdf",
    "Rank",
    "RecentCdf",
    "Scored",
    "ShrunkCdf",
    "SmoothedCdf",
    "Tradeoff",
]
