"""Bandit problems: simulations, synthetic families, tables of one's own, and the US census."""

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.census import CensusEthnicity, CensusGender
from fairbandit.environments.families import Synthetic
from fairbandit.environments.simulation import Simulation
from fairbandit.environments.table import Table

__all__ = [
    "CensusEthnicity",
    "CensusGender",
    "Environment",
    "Pools",
    "Simulation",
    "Synthetic",
    "Table",
    "Truth",
]
