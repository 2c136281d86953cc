"""Pages load plugins and open figures, which their tests undo."""

import sys

import pytest

from tests.cli.conftest import clean

__all__ = ["clean"]


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
