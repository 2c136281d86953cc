"""Off-policy evaluation."""

from fairbandit.evaluation.sums import Sums, merged
from fairbandit.evaluation.whole import COLUMNS, Frozen, evaluate, evaluate_sums

__all__ = ["COLUMNS", "Frozen", "Sums", "evaluate", "evaluate_sums", "merged"]
