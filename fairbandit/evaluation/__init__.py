"""Off-policy evaluation."""

from fairbandit.evaluation.evaluate import COLUMNS, evaluate

__all__ = ["COLUMNS", "evaluate"]
