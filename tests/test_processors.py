"""Decisions do not depend on the processor: one machine plays with the kernels of another."""

import json
import os
import subprocess
import sys

import torch

from tests import support

OLD = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    "MKL_CBWR": "COMPATIBLE",  # what AMD's processors heed
}
"""As a processor would compute that has no instructions beyond SSE4.2."""


def test_two_processors_decide_alike(tmp_path):
    own = {name: value for name, value in os.environ.items() if name not in OLD}
    running = []
    for number, environment in enumerate((own, {**own, **OLD})):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-m", "tests.processors", str(folder)]
        running.append(
            subprocess.Popen(
                command,
                cwd=support.REPOSITORY,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ended = [(process, *process.communicate(timeout=300)) for process in running]
    assert [process.returncode for process, _, _ in ended] == [0, 0], [err for *_, err in ended]
    new, old = (json.loads(out) for _, out, _ in ended)
    assert old["kernels"]["vectorized"] == "DEFAULT"
    if new["kernels"]["vectorized"] != "DEFAULT" and torch.backends.mkl.is_available():
        assert new["kernels"]["products"] != old["kernels"]["products"]
    assert len(new["decisions"]) == 3 * len(support.PRESETS) + 3
    for what, decided in new["decisions"].items():
        assert decided == old["decisions"][what], what
