"""Estimators: turn past rewards into reward models."""

from fairbandit.estimators.base import Estimator, LinearModel, Models, NoBounds, RewardModel
from fairbandit.estimators.forgetting_ridge import ForgettingRidge
from fairbandit.estimators.group_ridge import GroupModel, GroupRidge, Shared
from fairbandit.estimators.network import Activation, Features, Network, NeuralModel
from fairbandit.estimators.optimistic_ridge import OptimisticModel, OptimisticRidge, Radius
from fairbandit.estimators.oracle import Oracle, TrueLinearModel, TrueModel, Zero
from fairbandit.estimators.orders import NormalScores, OrderEstimator, PairwiseProbit
from fairbandit.estimators.regressions import Regression, Regressions
from fairbandit.estimators.ridge import Ridge
from fairbandit.estimators.scikit_learn import FittedModel, Fixed, Sklearn
from fairbandit.estimators.thompson_ridge import ThompsonRidge
from fairbandit.estimators.ties import NOISY, PLAIN
from fairbandit.history import State

__all__ = [
    "NOISY",
    "PLAIN",
    "Activation",
    "Estimator",
    "Features",
    "FittedModel",
    "Fixed",
    "ForgettingRidge",
    "GroupModel",
    "GroupRidge",
    "LinearModel",
    "Models",
    "Network",
    "NeuralModel",
    "NoBounds",
    "NormalScores",
    "OptimisticModel",
    "OptimisticRidge",
    "Oracle",
    "OrderEstimator",
    "PairwiseProbit",
    "Radius",
    "Regression",
    "Regressions",
    "RewardModel",
    "Ridge",
    "Shared",
    "Sklearn",
    "State",
    "ThompsonRidge",
    "TrueLinearModel",
    "TrueModel",
    "Zero",
]
