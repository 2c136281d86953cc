from tests.cli.conftest import clean, command
from tests.run.conftest import config

__all__ = ["clean", "command", "config"]
