"""Counts of past scores: how many past contexts of a group a model scores no higher than a value.

`Contexts` holds the past contexts of every group, and is a value: an append gives a longer one.
`PastScores` answers what a rank asks about some rounds' windows of them. `DenseScores` gives the
same answers in the plainest way; it is what the fast ones are tested against.
"""

from fairbandit.counting.contexts import Contexts
from fairbandit.counting.dense import DenseContexts, DenseScores
from fairbandit.counting.model import ScoringModel
from fairbandit.counting.scores import Of, PastScores

__all__ = ["Contexts", "DenseContexts", "DenseScores", "Of", "PastScores", "ScoringModel"]
