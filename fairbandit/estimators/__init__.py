"""Estimators: turn past rewards into reward models."""

from fairbandit.estimators.base import Estimator, LinearModel, Models, NoBounds, RewardModel
from fairbandit.estimators.network import Network
from fairbandit.estimators.optimistic_ridge import ForgettingRidge, OptimisticModel, OptimisticRidge
from fairbandit.estimators.oracle import Oracle, Zero
from fairbandit.estimators.orders import NormalScores, PairwiseProbit
from fairbandit.estimators.regressions import Regression
from fairbandit.estimators.ridge import GroupRidge, Ridge, ThompsonRidge
from fairbandit.estimators.scikit_learn import Fixed, Sklearn
from fairbandit.estimators.ties import PLAIN
from fairbandit.history import State

__all__ = [
    "PLAIN",
    "Estimator",
    "Fixed",
    "ForgettingRidge",
    "GroupRidge",
    "LinearModel",
    "Models",
    "Network",
    "NoBounds",
    "NormalScores",
    "OptimisticModel",
    "OptimisticRidge",
    "Oracle",
    "PairwiseProbit",
    "Regression",
    "RewardModel",
    "Ridge",
    "Sklearn",
    "State",
    "ThompsonRidge",
    "Zero",
]
