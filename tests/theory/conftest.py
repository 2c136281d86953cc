"""The command line, for the tests of the tool."""

from tests.cli.conftest import command

__all__ = ["command"]
