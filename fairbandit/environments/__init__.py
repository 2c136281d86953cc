"""Bandit problems: the simulation, tables of one's own, and the US census."""

from fairbandit.environments.base import Environment, Oracle, Pools
from fairbandit.environments.simulation import Simulation

__all__ = ["Environment", "Oracle", "Pools", "Simulation"]
