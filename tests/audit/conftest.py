"""The biased selector is a plugin to be loaded by name, not a module to be collected."""

from tests.cli.conftest import clean, command

__all__ = ["clean", "command"]

collect_ignore = ["plugins"]
