"""Keeps tables that are in memory as files, so that runs can be repeated and resumed from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.environments.acs import default_cache
from fairbandit.errors import FairbanditError

FOLDER = "tables"
"""The subfolder of the user's cache folder that holds one Parquet file for each table."""


def kept_table(data: Any) -> Path:
    """Writes a table to the user's cache as Parquet, named by a hash of its content.

    Args:
        data: a pandas DataFrame, a pyarrow Table, another object with Arrow's PyCapsule interface,
            or a mapping from names to columns.

    Returns:
        The path of the file.

    Raises:
        FairbanditError: no such table, a column of mixed types, or a folder that takes no file.
    """
    content = _parquet(data)
    path = default_cache() / FOLDER / f"{hashlib.sha256(content).hexdigest()[:20]}.parquet"
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        raise FairbanditError(
            f"cannot keep the table in {path.parent} ({error.strerror or error}); write it to a "
            "Parquet file and give its path"
        ) from error
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
    return path


def _parquet(data: Any) -> Any:
    """The bytes of a table as a Parquet file; the index of a pandas DataFrame is left out."""
    pandas = type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")
    if not (pandas or isinstance(data, (pa.Table, Mapping)) or hasattr(data, "__arrow_c_stream__")):
        raise FairbanditError(
            "expected a pandas DataFrame, a pyarrow Table, an object with __arrow_c_stream__, or a "
            f"mapping from names to columns; got {type(data).__name__}"
        )
    try:
        made = pa.Table.from_pandas(data, preserve_index=False) if pandas else pa.table(data)
        whole, buffer = made.replace_schema_metadata(None).combine_chunks(), pa.BufferOutputStream()
        pq.write_table(whole, buffer, compression="zstd", write_page_checksum=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(part) for part in error.args)
        raise FairbanditError(f"the data are no table that Arrow can hold: {reason}") from error
    return buffer.getvalue()
