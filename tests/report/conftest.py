"""Runs that reports are made of, a browser, and the command."""

from tests.browsing import browser
from tests.cli.conftest import command
from tests.figures.conftest import simulated

__all__ = ["browser", "command", "simulated"]
