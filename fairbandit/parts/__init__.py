"""The parts that policies are made of: splits, estimators, ranks and selectors."""

from fairbandit.maths.merit import MeritForm
from fairbandit.parts.base import Part, Problem
from fairbandit.parts.candidates import Candidates
from fairbandit.parts.estimators import Estimator, Oracle, Zero
from fairbandit.parts.history import History, Outcomes
from fairbandit.parts.model import LinearModel, RewardModel, Unlearned
from fairbandit.parts.more_estimators import GroupRidge, Shared, ThompsonRidge
from fairbandit.parts.more_ranks import (
    IntervalCdf,
    NoisyRewardsCdf,
    RecentCdf,
    ShrunkCdf,
    SmoothedCdf,
    Tradeoff,
)
from fairbandit.parts.more_selectors import (
    Chain,
    EpsilonGreedy,
    GroupChance,
    GroupParity,
    MinimumPull,
    Proportional,
)
from fairbandit.parts.past import Past
from fairbandit.parts.ranks import EmpiricalCdf, Identity, OracleCdf, Rank
from fairbandit.parts.ridge import OptimisticRidge, Ridge
from fairbandit.parts.selectors import Argmax, Selection, Selector
from fairbandit.parts.splits import Division, Full, Halves, Split

__all__ = [
    "Argmax",
    "Candidates",
    "Chain",
    "Division",
    "EmpiricalCdf",
    "EpsilonGreedy",
    "Estimator",
    "Full",
    "GroupChance",
    "GroupParity",
    "GroupRidge",
    "Halves",
    "History",
    "Identity",
    "IntervalCdf",
    "LinearModel",
    "MeritForm",
    "MinimumPull",
    "NoisyRewardsCdf",
    "OptimisticRidge",
    "Oracle",
    "OracleCdf",
    "Outcomes",
    "Part",
    "Past",
    "Problem",
    "Proportional",
    "Rank",
    "RecentCdf",
    "RewardModel",
    "Ridge",
    "Selection",
    "Selector",
    "Shared",
    "ShrunkCdf",
    "SmoothedCdf",
    "Split",
    "ThompsonRidge",
    "Tradeoff",
    "Unlearned",
    "Zero",
]
