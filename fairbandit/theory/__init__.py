"""The paper's bounds and their repaired versions, with the constants of a given problem."""

from fairbandit.theory.bounds import Bound, Floor, regret, repaired_floor, useful_from
from fairbandit.theory.constants import Constant, Constants, constants, pick_moments
from fairbandit.theory.overview import TradeOff, theory, trade_off

__all__ = [
    "Bound",
    "Constant",
    "Constants",
    "Floor",
    "TradeOff",
    "constants",
    "pick_moments",
    "regret",
    "repaired_floor",
    "theory",
    "trade_off",
    "useful_from",
]
