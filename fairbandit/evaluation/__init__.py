"""Off-policy evaluation."""

from fairbandit.evaluation.sums import COLUMNS, Sums, evaluate_sums, merged
from fairbandit.evaluation.whole import Frozen, evaluate

__all__ = ["COLUMNS", "Frozen", "Sums", "evaluate", "evaluate_sums", "merged"]
