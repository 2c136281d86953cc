"""One thread a test process: the tensors are small, and processes run side by side."""

import gc
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # which NumPy reads when it is imported

import pytest
import torch

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from looking at imported modules again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the long tests, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
