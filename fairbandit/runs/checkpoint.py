"""The checkpoint of a run: what its finished batches of replicas contributed.

A run continues from its checkpoint with the first unfinished batch, which is played anew. The
checkpoint is one file in the run's folder. It is written after each batch except the last, and
removed when the run is finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fairbandit.errors import FairbanditError
from fairbandit.files import state
from fairbandit.files.formats import Amount, Natural, Plain, Sha256, mapping
from fairbandit.runs.folder import CHECKPOINT, PART
from fairbandit.runs.identity import differences
from fairbandit.runs.record import Record

_PARTS = dict[Annotated[str, Meta(pattern=rf"\A{PART}\Z")], Sha256]
_SAVED: Any = mapping(identity=Plain, batches=Natural, seconds=Amount, parts=_PARTS)


def load(
    folder: Path, identity: Mapping[str, Any], batches: Sequence[range], record: Record
) -> dict[str, Any]:
    """Restores the results of the finished batches from the checkpoint, if there is one.

    Args:
        folder: the folder of the run.
        identity: the data that must be equal for the run to continue; see `identity.continued`.
        batches: the replicas of each batch.
        record: an empty record, which is changed.

    Returns:
        The number of finished `batches`, their `seconds`, and the hashes of their `parts`, the
        Parquet files of their rounds, by name.

    Raises:
        FairbanditError: the checkpoint cannot be read, or belongs to another run.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return {"batches": 0, "seconds": 0.0, "parts": {}}
    try:
        saved: dict[str, Any] = state.read(path)
        msgspec.convert(saved, _SAVED)
        different = differences(saved["identity"], identity)
        if not different:
            record.load_state(saved["record"], batches[saved["batches"]].start)
            return saved
        why = f"belongs to a different run: {'; '.join(different)}"
    except Exception as error:  # an untrusted file may cause any error
        why = f"is not a complete checkpoint ({error})"
    raise FairbanditError(
        f"{path} {why}. Restore the earlier state to continue from the checkpoint, or remove it to "
        "start this run over in its folder; resume=false starts in a new folder and leaves this "
        "folder unchanged"
    )


def save(
    folder: Path, identity: Mapping[str, Any], record: Record, saved: Mapping[str, Any]
) -> None:
    """Replaces the checkpoint with `saved`, as `load` returns it, and the record.

    If writing fails, the previous checkpoint stays.
    """
    contents = {**saved, "identity": identity, "record": record.state()}
    state.write(state.packed(contents), folder / CHECKPOINT)
