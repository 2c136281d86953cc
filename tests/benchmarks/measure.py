"""Clocks, and processes of their own for what is long or large."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch
from threadpoolctl import threadpool_limits

from fairbandit.runs.execute import THREADS

T = TypeVar("T")

median = statistics.median

WARM = 300
"""Rounds that are played before a clock starts."""


def timed(work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """What some work gives, and the seconds it takes."""
    start = time.perf_counter()
    result = work(*arguments)
    return result, time.perf_counter() - start


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least a share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextmanager
def threads(count: int = THREADS) -> Iterator[None]:
    """So many threads for torch for a while, by default as the command, and one for NumPy.

    A second one makes NumPy's small products slower, and on a busy machine twenty times so.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def alone(work: Callable[..., T], *arguments: Any) -> tuple[T, int]:
    """Runs a module's function in a fresh process; what it gives, and the process's peak."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_with_peak, work, *arguments).result()


def _with_peak(work: Callable[..., T], *arguments: Any) -> tuple[T, int]:
    return work(*arguments), peak()


def peak() -> int:
    """The most memory that this process has held, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's getrusage begins with what the parent held
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
