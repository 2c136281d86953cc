"""Off-policy evaluation."""

from fairbandit.evaluation.frozen import Frozen
from fairbandit.evaluation.sums import Sums, merged
from fairbandit.evaluation.whole import COLUMNS, evaluate, evaluate_sums

__all__ = ["COLUMNS", "Frozen", "Sums", "evaluate", "evaluate_sums", "merged"]
