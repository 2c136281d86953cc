"""One thread a test process: the tensors are small, and processes run side by side."""

import gc
import os

# which PyTorch and NumPy read when they are imported
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("tests", deadline=None)  # no test depends on how busy a machine is
settings.load_profile("tests")


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from looking at imported modules again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the long tests, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
