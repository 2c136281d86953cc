"""What the paper proves, in numbers: constants of a problem, regret bounds, the trade-off."""

from fairbandit.theory.bounds import Bound, equal_probability, regret, regret_2, useful_from
from fairbandit.theory.constants import Constants, constants
from fairbandit.theory.estimate import Estimate
from fairbandit.theory.laws import Law, empirical_law, laws, uniform_sum_law
from fairbandit.theory.lemmas import (
    cdf_radius,
    floor_round,
    floor_round_2,
    probability_floor,
    received_round,
    ridge_radius,
)
from fairbandit.theory.tradeoff import TradeOff, loss_share, trade_off

__all__ = [
    "Bound",
    "Constants",
    "Estimate",
    "Law",
    "TradeOff",
    "cdf_radius",
    "constants",
    "empirical_law",
    "equal_probability",
    "floor_round",
    "floor_round_2",
    "laws",
    "loss_share",
    "probability_floor",
    "received_round",
    "regret",
    "regret_2",
    "ridge_radius",
    "trade_off",
    "uniform_sum_law",
    "useful_from",
]
