"""Files of nested plain data with tensors, written whole or not at all, without pickle.

The file is in the safetensors format: the tensors by number, and the nesting as JSON beside them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fairbandit.errors import FairbanditError
from fairbandit.run.folder import aside

_PLAIN = (bool, int, float, str, type(None))
_TREE, _SUMS = "tree", "crc32"
_TEXT = "state"  # one entry alone: the file's header has several in any order


class Packed:
    """Nested data, separated into tensors and a tree of plain data.

    Args:
        value: tensors, numbers, texts, booleans and None, in mappings with text keys and in lists.

    Raises:
        FairbanditError: anything else, with the place where it is.
    """

    def __init__(self, value: Any) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._storages: set[int] = set()
        self.tree = self._apart(value, "")

    @property
    def size(self) -> int:
        """The number of bytes of all tensors."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    def _apart(self, value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            inside = {key: self._apart(item, f"{path}.{key}") for key, item in value.items()}
            return {"map": inside}
        if isinstance(value, (list, tuple)):
            return {"list": [self._apart(item, f"{path}[{i}]") for i, item in enumerate(value)]}
        if isinstance(value, _PLAIN):
            return {"plain": value}
        raise FairbanditError(
            f"the state {path.lstrip('.')} cannot be saved: expected tensors, numbers, texts, or "
            f"mappings and lists of these, got {type(value).__name__}"
        )

    def _tensor(self, value: Tensor) -> Any:
        name = str(len(self.tensors))
        kept = value.detach().cpu().contiguous()
        storage = kept.untyped_storage().data_ptr()
        if storage in self._storages:  # the format has no shared memory
            kept = kept.clone()
        self._storages.add(storage)
        self.tensors[name] = kept
        return {"tensor": name, "device": str(value.device), "shape": list(value.shape)}


def write(packed: Packed, path: Path) -> None:
    """Writes a file that appears under its name only when complete.

    Raises:
        OSError: the file cannot be written.
    """
    sums = {name: _checksum(tensor) for name, tensor in packed.tensors.items()}
    tree = json.dumps(packed.tree)
    text = json.dumps({_TREE: tree, _SUMS: {**sums, _TREE: zlib.crc32(tree.encode())}})
    with aside(path) as unfinished:
        try:
            save_file(packed.tensors, unfinished, metadata={_TEXT: text})
        except SafetensorError as error:
            raise _system_error(error, path) from error


def read(path: Path) -> Any:
    """Reads a file that `write` wrote; tensors return to the devices that they came from.

    Raises:
        ValueError: the file is cut short, damaged, or of another kind.
    """
    try:
        with safe_open(path, framework="pt") as file:
            texts = json.loads((file.metadata() or {})[_TEXT])
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        tree, sums = json.loads(texts[_TREE]), texts[_SUMS]
        if sums[_TREE] != zlib.crc32(texts[_TREE].encode()):
            raise ValueError("the checksum of its texts does not match")
        damaged = [name for name, tensor in tensors.items() if sums[name] != _checksum(tensor)]
        if damaged:
            raise ValueError(f"the checksums of {len(damaged)} tensors do not match")
        return _together(tree, tensors)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("its texts are nested too deeply") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks {error}") from error


def _together(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """Builds the data of a tree, and removes each of its tensors from those that are left."""
    if "tensor" in tree:
        tensor = tensors.pop(tree["tensor"])
        if list(tensor.shape) != tree.get("shape", list(tensor.shape)):  # older files have none
            raise ValueError(f"a tensor has shape {list(tensor.shape)} in place of {tree['shape']}")
        return _placed(tensor, tree["device"])
    if "map" in tree:
        return {key: _together(item, tensors) for key, item in tree["map"].items()}
    if "list" in tree:
        return [_together(item, tensors) for item in tree["list"]]
    if not isinstance(tree["plain"], _PLAIN):
        raise ValueError(f"it holds a {type(tree['plain']).__name__} as plain data")
    return tree["plain"]


def _placed(tensor: Tensor, device: Any) -> Tensor:
    """Moves a tensor to the device of a name."""
    try:
        if isinstance(device, str) and torch.device(device).type != "meta":
            return tensor.to(device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"it needs the device {device!r}, which is not here: {reason}") from error
    raise ValueError(f"it needs a device that holds data, got {device!r}")


def _checksum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.reshape(-1).numpy().view(np.uint8).data)


def _system_error(error: SafetensorError, path: Path) -> OSError:
    """Returns the error number that safetensors reports as text, as of a full disk."""
    found = re.search(r"os error (\d+)", str(error))
    number = int(found[1]) if found else errno.EIO
    return OSError(number, os.strerror(number) if found else str(error), str(path))
