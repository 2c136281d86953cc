"""Work memory that is used again, since the first writes to new memory are slow."""

from __future__ import annotations

import math
import threading

import torch
from torch import Tensor


class Scratch(threading.local):
    """Memory that each thread uses again and again."""

    def __init__(self) -> None:
        self._kept = torch.empty(0)

    def empty(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor like another, valid until this thread's next call."""
        size, kept = math.prod(shape), self._kept
        if kept.numel() < size or (kept.dtype, kept.device) != (like.dtype, like.device):
            kept = self._kept = like.new_empty(size + size // 2)
        return kept[:size].view(shape)
