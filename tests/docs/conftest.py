"""Pages load plugins, which their tests undo."""

from tests.cli.conftest import clean

__all__ = ["clean"]
