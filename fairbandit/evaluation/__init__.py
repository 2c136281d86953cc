"""Off-policy evaluation."""

from fairbandit.evaluation.frozen import Frozen, evaluate_pieces
from fairbandit.evaluation.sums import COLUMNS, Sums, evaluate_sums, merged
from fairbandit.evaluation.whole import evaluate

__all__ = [
    "COLUMNS",
    "Frozen",
    "Sums",
    "evaluate",
    "evaluate_pieces",
    "evaluate_sums",
    "merged",
]
