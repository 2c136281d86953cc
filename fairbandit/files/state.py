"""Files of nested plain data with tensors, in torch's format with a digest, read without code.

A file begins with the SHA-256 hash of its other bytes, which `torch.save` wrote. It is read with
`weights_only=True`, so it can hold tensors and plain data but no code.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.files.files import open_regular, written_aside

_PLAIN = {bool, int, float, str, type(None)}
_DIGEST = 64  # hexadecimal digits


def packed(value: Any) -> bytes:
    """Serialises mappings with text keys and lists of tensors and plain data."""
    stream = io.BytesIO()
    torch.save(_checked(value, ""), stream)
    whole = stream.getvalue()
    return hashlib.sha256(whole).hexdigest().encode() + whole


def write(contents: bytes, path: Path) -> None:
    """Writes the bytes that `packed` returned to a file, atomically."""
    with written_aside(path) as file:
        file.write(contents)


def unpacked(whole: bytes) -> Any:
    """Restores nested data from the bytes that `packed` returned; tensors keep their devices.

    Raises:
        ValueError: the bytes are damaged or of another format, or a device is not available.
    """
    digest, contents = whole[:_DIGEST], whole[_DIGEST:]
    if digest != hashlib.sha256(contents).hexdigest().encode():
        raise ValueError("its contents do not match the digest at its beginning")
    try:
        return torch.load(io.BytesIO(contents), weights_only=True)
    except Exception as error:  # an untrusted file may cause any error
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"torch cannot read it: {reason}") from error


def read(path: Path) -> Any:
    """Reads and unpacks a file that `write` wrote."""
    with open_regular(path) as file:
        return unpacked(file.read())


def _checked(value: Any, path: str) -> Any:
    if isinstance(value, Tensor):
        # a view would be saved with its whole underlying storage
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _checked(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_checked(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if type(value) in _PLAIN:  # exact types: NumPy's float64 is a float too, but needs pickle
        return value
    raise FairbanditError(
        f"{path.lstrip('.') or 'this value'} cannot be saved: expected tensors, numbers, texts, or "
        f"mappings, lists and tuples of them; got {type(value).__name__}"
    )
