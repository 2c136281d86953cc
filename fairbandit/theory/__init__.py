"""What the paper proves, in numbers: constants of a problem, regret bounds, the trade-off."""

from fairbandit.theory.bounds import Bound, equal_probability, regret, regret_2, useful_from
from fairbandit.theory.computed import constants
from fairbandit.theory.constants import Constants, Estimate
from fairbandit.theory.growth import (
    Growth,
    cdf_slope,
    error_bound,
    expected_picks,
    growth,
    instant_regret,
    picked_moment,
)
from fairbandit.theory.laws import DiscreteLaw, Law, UniformSumLaw, laws
from fairbandit.theory.lemmas import (
    cdf_radius,
    floor_round_2,
    probability_floor,
    received_round,
    ridge_radius,
)
from fairbandit.theory.tradeoff import TradeOff, loss_share, mean_losses, trade_off

__all__ = [
    "Bound",
    "Constants",
    "DiscreteLaw",
    "Estimate",
    "Growth",
    "Law",
    "TradeOff",
    "UniformSumLaw",
    "cdf_radius",
    "cdf_slope",
    "constants",
    "equal_probability",
    "error_bound",
    "expected_picks",
    "floor_round_2",
    "growth",
    "instant_regret",
    "laws",
    "loss_share",
    "mean_losses",
    "picked_moment",
    "probability_floor",
    "received_round",
    "regret",
    "regret_2",
    "ridge_radius",
    "trade_off",
    "useful_from",
]
