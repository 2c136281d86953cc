"""Splits: which past rounds train the estimator and which feed the ranks."""

from fairbandit.splits.base import Division, Split
from fairbandit.splits.paper import Full, Halves
from fairbandit.splits.schedule import Plan, Schedule

__all__ = ["Division", "Full", "Halves", "Plan", "Schedule", "Split"]
