"""Decisions do not depend on the processor: one machine plays with the kernels of another."""

import json
import os
import subprocess
import sys

import torch

from tests import support
from tests.processors import report

OLD = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",  # what AMD's processors heed
}
"""As a processor would compute that has no instructions beyond SSE4.2."""


def test_two_processors_decide_alike(tmp_path):
    folders = [tmp_path / name for name in ("new", "old")]
    for folder in folders:
        folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.processors", str(folders[1])],
        cwd=support.REPOSITORY,
        env={**os.environ, **OLD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        new = report(folders[0])
        out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    old = json.loads(out)
    assert old["kernels"]["vectorized"] == "DEFAULT"
    if new["kernels"]["vectorized"] != "DEFAULT" and torch.backends.mkl.is_available():
        assert new["kernels"]["products"] != old["kernels"]["products"]
    assert len(new["decisions"]) == 3 * len(support.PRESETS) + 3
    for what, decided in new["decisions"].items():
        assert decided == old["decisions"][what], what
