"""Splits: which past rounds train the estimator and which feed the ranks."""

from fairbandit.splits.base import Full, Halves, Plan, Split

__all__ = ["Full", "Halves", "Plan", "Split"]
