"""Deciding online: a policy that meets real pools as they arrive."""

from fairbandit.agent.agent import Agent, Decision

__all__ = ["Agent", "Decision"]
