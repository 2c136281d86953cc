"""Counts of past scores: how many past contexts of a group a model scores no higher than a value.

A `ContextStore` keeps the past contexts. `ContextStore.past_scores` answers a `Query`, which names
the rounds, their rank windows and their models. `DenseStore` gives the same answers in the plainest
way; it is what the fast store is tested against.
"""

from fairbandit.counting.dense import DenseStore
from fairbandit.counting.interface import PastScores, Query, ScoringModel
from fairbandit.counting.store import ContextStore

__all__ = ["ContextStore", "DenseStore", "PastScores", "Query", "ScoringModel"]
