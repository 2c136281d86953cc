from tests.cli.conftest import clean, command

__all__ = ["clean", "command"]
