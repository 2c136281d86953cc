"""Checkpoints, from which an interrupted run continues as if it had never stopped.

A checkpoint is one file in the run's folder. The next checkpoint replaces it, and it is removed
when the run finishes. It is written at the end of a piece of rounds once `SECONDS` have passed; the
environment variable FAIRBANDIT_CHECKPOINT_SECONDS changes this time, and 0 writes after each piece.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fairbandit.errors import FairbanditError
from fairbandit.files import state
from fairbandit.files.files import sha256
from fairbandit.files.formats import Amount, Count, Natural, Plain, Sha256, mapping
from fairbandit.runs.folder import CHECKPOINT, PART, ROUNDS
from fairbandit.runs.identity import differences

VARIABLE = "FAIRBANDIT_CHECKPOINT_SECONDS"
"""The environment variable that sets the seconds between two checkpoints."""

SECONDS = 30.0
"""The least time between two checkpoints."""

_PARTS = dict[Annotated[str, Meta(pattern=rf"\A{PART}\Z")], Sha256]
_CONTENTS: Any = mapping(batch=Natural, round=Count, seconds=Amount)
_SAVED: Any = mapping(identity=Plain, parts=_PARTS, contents=_CONTENTS)


class Checkpoints:
    """Writes and reads the checkpoint of one run.

    A run continues only from a checkpoint with the same `identity.continued`.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder, self._identity = folder, dict(identity)
        self._path = folder / CHECKPOINT
        self._seconds = float(os.environ.get(VARIABLE) or SECONDS)
        self._last = time.perf_counter()

    def load(self) -> dict[str, Any]:
        """Returns the contents of the last checkpoint, with `parts`; round 0 if there is none.

        Raises:
            FairbanditError: the checkpoint cannot be read or belongs to another run, or one of
                the Parquet files that it refers to is missing or has changed.
        """
        if not self._path.exists():
            return {"batch": 0, "round": 0, "seconds": 0.0, "parts": {}}
        with self.restoring("is not a complete checkpoint"):
            saved = state.read(self._path)
            msgspec.convert(saved, _SAVED)
            different = differences(saved["identity"], self._identity)
        if different:
            raise self._refused(f"belongs to a different run: {'; '.join(different)}")
        for name, digest in saved["parts"].items():
            part = self._folder / ROUNDS / name
            if not part.is_file() or sha256(part) != digest:
                raise self._refused(f"refers to {part}, which is missing or has changed")
        return {**saved["contents"], "parts": saved["parts"]}

    @contextmanager
    def restoring(self, why: str = "does not fit the run") -> Iterator[None]:
        """Refuses the checkpoint if restoring its contents in the block raises an error."""
        try:
            yield
        except Exception as error:  # an untrusted file may cause any error
            raise self._refused(f"{why} ({error})") from error

    def _refused(self, why: str) -> FairbanditError:
        return FairbanditError(
            f"{self._path} {why}. Restore the earlier state to continue from the checkpoint, or "
            "remove it to start this run over in its folder; resume=false starts from round 1 in "
            "a new folder and leaves this folder unchanged"
        )

    @property
    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.perf_counter() - self._last >= self._seconds

    def save(self, contents: Mapping[str, Any], parts: Mapping[str, str]) -> None:
        """Replaces the checkpoint; if writing fails, the previous checkpoint stays.

        The `parts` are the hashes of the finished Parquet files, by name.
        """
        whole = {"identity": self._identity, "parts": dict(parts), "contents": contents}
        state.write(state.packed(whole), self._path)
        self._last = time.perf_counter()

    def remove(self) -> None:
        """Removes the checkpoint of a finished run."""
        self._path.unlink(missing_ok=True)
