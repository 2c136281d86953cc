"""Checkpoints, from which an interrupted run continues as if it had never stopped.

A checkpoint is one file in the run's folder, replaced by the next and removed when the run is
finished. It is written at the end of a piece of rounds when `SECONDS` have gone by, or as many as
the environment variable FAIRBANDIT_CHECKPOINT_SECONDS says; 0 writes one after every piece.
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
from fairbandit.files import sha256
from fairbandit.formats import Amount, Count, Natural, Plain, Sha256, mapping
from fairbandit.run import state
from fairbandit.run.folder import CHECKPOINT, PART, ROUNDS
from fairbandit.run.identity import differences

VARIABLE = "FAIRBANDIT_CHECKPOINT_SECONDS"
"""The environment variable that sets the seconds between two checkpoints."""

SECONDS = 30.0
"""The least time between two checkpoints."""

_PARTS = dict[Annotated[str, Meta(pattern=rf"\A{PART}\Z")], Sha256]
_CONTENTS: Any = mapping(batch=Natural, round=Count, seconds=Amount)
_SAVED: Any = mapping(identity=Plain, parts=_PARTS, contents=_CONTENTS)


class Checkpoints:
    """Writes and reads the checkpoint of one run.

    A run continues from a checkpoint of the same `identity.continued` only.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self._folder, self._identity = folder, dict(identity)
        self._path = folder / CHECKPOINT
        self._seconds = float(os.environ.get(VARIABLE) or SECONDS)
        self._last = time.perf_counter()

    def load(self) -> dict[str, Any] | None:
        """Returns what was last saved, with `parts`, or None.

        Raises:
            FairbanditError: the checkpoint cannot be read or belongs to another run, or a Parquet
                file that was finished before it is missing or has changed.
        """
        if not self._path.exists():
            return None
        with self.restoring("is no whole checkpoint"):
            saved = state.read(self._path)
            msgspec.convert(saved, _SAVED)
            different = differences(saved["identity"], self._identity)
        if different:
            raise self._refused(f"is of a run that differs from this one: {'; '.join(different)}")
        for name, digest in saved["parts"].items():
            part = self._folder / ROUNDS / name
            if not part.is_file() or sha256(part) != digest:
                raise self._refused(f"builds upon {part}, which is not as it was")
        return {**saved["contents"], "parts": saved["parts"]}

    @contextmanager
    def restoring(self, why: str = "does not fit the run") -> Iterator[None]:
        """Refuses the checkpoint if what is restored from it in the block raises an error."""
        try:
            yield
        except Exception as error:  # a file from an untrusted source may cause any
            raise self._refused(f"{why} ({error})") from error

    def _refused(self, why: str) -> FairbanditError:
        return FairbanditError(
            f"{self._path} {why}. Put things back as they were to go on with it, or remove it to "
            "start this run over in its folder; resume=false starts from round 1 in a new folder "
            "and leaves this one as it is"
        )

    @property
    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.perf_counter() - self._last >= self._seconds

    def save(self, contents: Mapping[str, Any], parts: Mapping[str, str]) -> None:
        """Replaces the checkpoint; if it cannot be written, the last one stays.

        Args:
            contents: nested plain data and tensors.
            parts: the hash of each Parquet file that is finished, by its name.
        """
        whole = {"identity": self._identity, "parts": dict(parts), "contents": contents}
        state.write(state.packed(whole), self._path)
        self._last = time.perf_counter()

    def remove(self) -> None:
        """Removes the checkpoint of a finished run."""
        self._path.unlink(missing_ok=True)
