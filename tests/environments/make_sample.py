"""Makes the census sample inside the package: `python -m tests.environments.make_sample FOLDER`.

FOLDER has the records in the layout of folktables. The records of Alabama of 2017 were a random
sample of 5,000 of the Census Bureau's.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fairbandit.environments import census

STATES = {2018: ("DE", "HI", "NM", "SD", "VT", "WY"), 2017: ("AL",)}


def make_sample(records: Path, folder: Path) -> None:
    """Writes a Parquet file a year into a folder, with all cells as integers."""
    schema = pa.schema([(name, pa.int32()) for name in census.COLUMNS])
    with tempfile.TemporaryDirectory() as cache:
        for year, states in STATES.items():
            path = census.person_table(root=records, year=year, states=states, cache=cache)
            table = pq.read_table(path).cast(schema)
            target = folder / f"{year}.parquet"
            pq.write_table(
                table, target, compression="zstd", compression_level=19, write_page_checksum=True
            )


if __name__ == "__main__":
    make_sample(Path(sys.argv[1]), Path(census.__file__).parent / census.SAMPLE)
