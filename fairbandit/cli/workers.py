"""Worker processes of the joblib launcher: they end when their driver does."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

_SECONDS = 0.5  # between two looks
_watching: list[threading.Thread] = []


def end_with_driver() -> None:
    """Has a joblib worker end soon after its driver was killed.

    Left to itself it would finish its job and then wait, for good if it was waiting for a message
    that was cut off, with all that it holds in memory. Its run goes on from its checkpoint when
    the sweep's command is given again. Elsewhere than in such a worker this does nothing.
    """
    driver = multiprocessing.parent_process()
    worker = multiprocessing.current_process().name.startswith("LokyProcess")
    if not _watching and worker and driver is not None:
        thread = threading.Thread(target=_watch, args=(driver.pid,), daemon=True)
        _watching.append(thread)
        thread.start()


def _watch(driver: int | None) -> None:
    while os.getppid() == driver:
        time.sleep(_SECONDS)
    os._exit(1)
