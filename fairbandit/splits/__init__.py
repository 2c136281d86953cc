"""Splits: which past rounds train the estimator and which feed the ranks."""

from fairbandit.splits.base import Division, Plan, Split
from fairbandit.splits.paper import Full, Halves

__all__ = ["Division", "Full", "Halves", "Plan", "Split"]
