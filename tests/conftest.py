"""One thread a test process: the tensors are small, and processes run side by side."""

import gc

import torch

torch.set_num_threads(1)


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from looking at imported modules again and again."""
    gc.collect()
    gc.freeze()
