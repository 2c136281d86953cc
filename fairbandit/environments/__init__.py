"""Bandit problems: simulations, tables, and the US census."""

from fairbandit.environments.base import Environment, Pools, Truth
from fairbandit.environments.biased import Biased
from fairbandit.environments.census import CensusEthnicity, CensusGender
from fairbandit.environments.derived import Arrivals, Distorted
from fairbandit.environments.families import Synthetic
from fairbandit.environments.simulation import Simulation
from fairbandit.environments.table import Table, contents
from fairbandit.tables.encoder import Encoder

__all__ = [
    "Arrivals",
    "Biased",
    "CensusEthnicity",
    "CensusGender",
    "Distorted",
    "Encoder",
    "Environment",
    "Pools",
    "Simulation",
    "Synthetic",
    "Table",
    "Truth",
    "contents",
]
