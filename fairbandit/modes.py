"""PyTorch's inference mode: operations are not recorded for gradients, and small ones are faster.

Tensors made in inference mode cannot be used to compute gradients, and cannot be changed in place
outside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def inferring(enabled: bool, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a function in inference mode if `enabled`, and in ordinary mode otherwise.

    A single call in C ends the mode, and no interrupt can come first: it never outlasts the call.

    >>> inferring(True, torch.is_inference_mode_enabled)
    True
    >>> torch.is_inference_mode_enabled()
    False
    """
    mode = torch._C._InferenceMode(enabled)
    try:
        mode.__enter__()
        return function(*args, **kwargs)
    finally:
        mode.__exit__(None, None, None)
