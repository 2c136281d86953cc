"""The numbers of a run are checked before anything is made of them."""

import os
from typing import Any

import pytest

from fairbandit.errors import FairbanditError
from fairbandit.run.settings import MOST_REPLICAS, MOST_ROUNDS, MOST_THREADS, settings

PARTS: dict[str, Any] = {"policy": {}, "environment": {}}


@pytest.mark.parametrize("key", ["rounds", "replicas", "threads", "seed"])
def test_too_small(key):
    with pytest.raises(FairbanditError, match=f"{key} must be at least [01], got -1"):
        settings({**PARTS, key: -1})


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("rounds", MOST_ROUNDS),
        ("replicas", MOST_REPLICAS),
        ("threads", max(MOST_THREADS, os.cpu_count() or 1)),
    ],
)
def test_too_large(key, most):
    assert getattr(settings({**PARTS, key: most}), key) == most
    for value in (most + 1, 10**25):
        with pytest.raises(FairbanditError, match=f"{key} must be at most {most:,}, got {value}"):
            settings({**PARTS, key: value})


def test_a_seed_may_have_any_size():
    assert settings({**PARTS, "seed": 2**128}).seed == 2**128
