"""Off-policy evaluation."""

from fairbandit.evaluation.evaluate import evaluate
from fairbandit.evaluation.frozen import Frozen, evaluate_pieces, evaluate_sums, merged
from fairbandit.evaluation.sums import COLUMNS, Sums

__all__ = [
    "COLUMNS",
    "Frozen",
    "Sums",
    "evaluate",
    "evaluate_pieces",
    "evaluate_sums",
    "merged",
]
