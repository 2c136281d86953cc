"""Online decisions: a policy decides for real pools as they arrive."""

from fairbandit.agent.agent import Agent
from fairbandit.agent.decisions import Decision, Explanation
from fairbandit.agent.offers import Offer
from fairbandit.agent.openings import Opening

__all__ = ["Agent", "Decision", "Explanation", "Offer", "Opening"]
