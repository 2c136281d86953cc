"""Logged decisions of agents and of other programs."""

from fairbandit.logs.chain import own_lines
from fairbandit.logs.log import Floats, Ints, Log
from fairbandit.logs.own import erase, overrides
from fairbandit.logs.reading import is_table, read_log

__all__ = ["Floats", "Ints", "Log", "erase", "is_table", "overrides", "own_lines", "read_log"]
