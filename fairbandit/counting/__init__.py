"""Counts of past scores: how many past contexts of a group a model scores no higher than a value.

`Contexts` holds the past contexts of every group. It is a value: an append returns a longer value.
`PastScores` counts and sums the past scores of some rounds, each within the round's window.
"""

from fairbandit.counting.scores import Of, PastScores
from fairbandit.history.contexts import Contexts

__all__ = ["Contexts", "Of", "PastScores"]
