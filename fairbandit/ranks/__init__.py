"""Ranks: turn a pool's scores into the index to be maximised."""

from fairbandit.estimators.ties import ROUNDING, Approximate
from fairbandit.ranks.base import Rank, Scored
from fairbandit.ranks.interval_cdf import IntervalCdf
from fairbandit.ranks.noisy_rewards_cdf import NoisyRewardsCdf
from fairbandit.ranks.paper import EmpiricalCdf, Identity, OracleCdf, RecentCdf
from fairbandit.ranks.pooled_cdf import PooledCdf
from fairbandit.ranks.shrunk_cdf import ShrunkCdf
from fairbandit.ranks.smoothed_cdf import SmoothedCdf
from fairbandit.ranks.tradeoff import Tradeoff

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
