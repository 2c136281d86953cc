"""Selectors: pick one candidate of each pool, with known probabilities."""

from fairbandit.selectors.argmax import Argmax
from fairbandit.selectors.base import Selection, Selector, best
from fairbandit.selectors.chain import Chain
from fairbandit.selectors.epsilon_greedy import EpsilonGreedy
from fairbandit.selectors.group_parity import GroupChance, GroupParity
from fairbandit.selectors.minimum_pull import MinimumPull
from fairbandit.selectors.proportional import Proportional

__all__ = [
    "Argmax",
    "Chain",
    "EpsilonGreedy",
    "GroupChance",
    "GroupParity",
    "MinimumPull",
    "Proportional",
    "Selection",
    "Selector",
    "best",
]
