"""Files of nested plain data with tensors: torch's format, read without pickle, under one digest.

A file begins with the SHA-256 hash of all that follows, which `torch.save` wrote. It is read with
`weights_only=True`, so that it can hold tensors and plain data, and no code.
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
from fairbandit.files import open_regular, written_aside

_PLAIN = {bool, int, float, str, type(None)}
_DIGEST = 64  # hexadecimal digits


def packed(value: Any) -> bytes:
    """Returns the contents of a file for nested data.

    Raises:
        FairbanditError: the value is, or holds, anything but tensors, numbers, texts, booleans and
            None, in mappings with text keys and in lists.
    """
    stream = io.BytesIO()
    torch.save(_checked(value, ""), stream)
    whole = stream.getvalue()
    return hashlib.sha256(whole).hexdigest().encode() + whole


def write(contents: bytes, path: Path) -> None:
    """Writes what `packed` returned, to a file that appears under its name only when complete."""
    with written_aside(path) as file:
        file.write(contents)


def unpacked(whole: bytes) -> Any:
    """The nested data that `packed` made bytes of; tensors return to their devices.

    Raises:
        ValueError: the bytes are cut short, damaged, of another kind, or of a device that is not
            here.
    """
    digest, contents = whole[:_DIGEST], whole[_DIGEST:]
    if digest != hashlib.sha256(contents).hexdigest().encode():
        raise ValueError("its contents do not have the digest that it begins with")
    try:
        return torch.load(io.BytesIO(contents), weights_only=True)
    except Exception as error:  # whatever the file of a stranger may lead to
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"torch cannot read it: {reason}") from error


def read(path: Path) -> Any:
    """Reads a file that `write` wrote, as `unpacked` does."""
    with open_regular(path) as file:
        return unpacked(file.read())


def _checked(value: Any, path: str) -> Any:
    """Returns plain dictionaries, lists and detached tensors, of which files hold nothing else."""
    if isinstance(value, Tensor):
        # a view would be saved with the whole memory that it looks upon
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _checked(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_checked(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if type(value) in _PLAIN:  # a NumPy number is a float too, and is not read without pickle
        return value
    raise FairbanditError(
        f"the state {path.lstrip('.')} cannot be saved: expected tensors, numbers, texts, or "
        f"mappings and lists of these, got {type(value).__name__}"
    )
