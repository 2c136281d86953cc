"""Policies: four parts composed, built from plain data, and played on environments."""

from fairbandit.policy.engine import Engine
from fairbandit.policy.policy import Policy

__all__ = ["Engine", "Policy"]
