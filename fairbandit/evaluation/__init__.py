"""Off-policy evaluation."""

from fairbandit.evaluation.whole import COLUMNS, evaluate

__all__ = ["COLUMNS", "evaluate"]
