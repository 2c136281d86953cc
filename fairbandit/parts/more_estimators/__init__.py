"""Estimators besides the paper's, one file each."""

from fairbandit.parts.more_estimators.group_ridge import GroupRidge, Shared
from fairbandit.parts.more_estimators.thompson import ThompsonRidge

__all__ = ["GroupRidge", "Shared", "ThompsonRidge"]
