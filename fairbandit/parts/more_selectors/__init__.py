"""Selectors besides the paper's, one file each."""

from fairbandit.parts.more_selectors.chain import Chain
from fairbandit.parts.more_selectors.epsilon_greedy import EpsilonGreedy
from fairbandit.parts.more_selectors.group_parity import GroupChance, GroupParity
from fairbandit.parts.more_selectors.minimum_pull import MinimumPull
from fairbandit.parts.more_selectors.proportional import Proportional

__all__ = ["Chain", "EpsilonGreedy", "GroupChance", "GroupParity", "MinimumPull", "Proportional"]
