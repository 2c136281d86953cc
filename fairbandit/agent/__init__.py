"""Online decisions: a policy decides for real pools as they arrive."""

from fairbandit.agent.agent import Agent
from fairbandit.agent.decisions import Decision, Explanation

__all__ = ["Agent", "Decision", "Explanation"]
