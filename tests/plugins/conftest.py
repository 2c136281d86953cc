"""The broken parts are plugins to be loaded by name, not modules to be collected."""

from tests.cli.conftest import clean, command

__all__ = ["clean", "command"]

collect_ignore = ["broken", "metrics"]
