"""The distributions of the groups' true rewards, kept beside the round log for figures."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fairbandit.environments import Environment
from fairbandit.run.folder import REWARDS, written_aside
from fairbandit.run.hashes import sha256
from fairbandit.run.round_log import arrow_array

SCHEMA = pa.schema(
    [("group", pa.int64()), *((name, pa.float64()) for name in ("value", "density", "cdf"))]
)
"""The columns of `rewards.parquet`: a row for each group's code and place of its grid."""


def write(environment: Environment, folder: Path) -> dict[str, str]:
    """Writes `rewards.parquet`; an environment that does not know its rewards leaves none.

    Args:
        environment: the run's.
        folder: the run's.

    Returns:
        The file's SHA-256 hash, by its name.
    """
    pieces = []
    for code in range(len(environment.group_names)):
        found = environment.reward_distribution(code)
        if found is not None:
            codes = torch.full(found.values.shape, code, dtype=torch.int64)
            pieces.append((codes, found.values, found.density, found.cdf))
    if not pieces:
        return {}
    columns = [torch.cat(column).contiguous() for column in zip(*pieces, strict=True)]
    arrays = list(map(arrow_array, columns, SCHEMA.types))
    with written_aside(folder / REWARDS) as file:
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
    return {REWARDS: sha256(folder / REWARDS)}
