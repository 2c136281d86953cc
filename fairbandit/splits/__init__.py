"""Splits: which past rounds train the estimator and which feed the ranks."""

from fairbandit.splits.base import Division, Full, Halves, Plan, Split

__all__ = ["Division", "Full", "Halves", "Plan", "Split"]
