"""Selectors besides the paper's, one file each."""

from fairbandit.parts.more_selectors.chain import Chain
from fairbandit.parts.more_selectors.group_parity import GroupChance, GroupParity
from fairbandit.parts.more_selectors.minimum_pull import MinimumPull

__all__ = ["Chain", "GroupChance", "GroupParity", "MinimumPull"]
