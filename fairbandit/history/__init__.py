"""The pools, picks and rewards of the rounds so far, and the estimator's state, as values."""

from fairbandit.history.contexts import Contexts
from fairbandit.history.history import NEVER, Block, History, Rows, State
from fairbandit.history.outcomes import Outcomes
from fairbandit.history.problem import Problem

__all__ = [
    "NEVER",
    "Block",
    "Contexts",
    "History",
    "Outcomes",
    "Problem",
    "Rows",
    "State",
]
