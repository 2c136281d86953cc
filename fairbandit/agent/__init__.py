"""Online decisions: a policy decides for real pools as they arrive."""

from fairbandit.agent.agent import Agent
from fairbandit.agent.explaining import Explanation
from fairbandit.agent.offers import Offer
from fairbandit.agent.openings import Opening
from fairbandit.agent.replaying import explain, replay
from fairbandit.agent.steps import Decision

__all__ = ["Agent", "Decision", "Explanation", "Offer", "Opening", "explain", "replay"]
