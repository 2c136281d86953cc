"""Selectors: pick candidates of each pool, with known probabilities."""

from fairbandit.selectors.base import (
    Selection,
    Selector,
    best,
    proportional,
    softmax,
)
from fairbandit.selectors.chain import Chain
from fairbandit.selectors.exposure import Proportional
from fairbandit.selectors.greedy import Argmax, EpsilonGreedy
from fairbandit.selectors.group_parity import GroupChance, GroupParity
from fairbandit.selectors.minimum_pull import MinimumPull

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
    "proportional",
    "softmax",
]
