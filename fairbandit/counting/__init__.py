"""Counts of past scores: how many past contexts of a group a model scores no higher than a value.

`Contexts` holds the past contexts of every group, and is a value: an append gives a longer one.
`PastScores` answers what a rank asks about some rounds' windows of them.
"""

from fairbandit.counting.choice import forced
from fairbandit.counting.contexts import Contexts
from fairbandit.counting.dense import Of
from fairbandit.counting.scores import PastScores

__all__ = ["Contexts", "Of", "PastScores", "forced"]
