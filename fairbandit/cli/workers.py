"""Ends worker processes of the joblib launcher when their driver has ended."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

_SECONDS = 0.5  # between two looks
_watching: list[threading.Thread] = []


def end_with_driver() -> None:
    """Makes a joblib worker end soon after its driver was killed.

    Otherwise the worker would finish its job and then keep its memory while it waits, forever if
    the driver was killed in the middle of a message. The worker's run resumes from its checkpoint
    when the same command is given again. In any other process this function does nothing.
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
