from collections.abc import Callable
from typing import Any

import pytest

from fairbandit import registry
from fairbandit.registry import _registry
from tests.cli.conftest import clean, command

__all__ = ["clean", "command"]


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, type[Any]], str]:
    """Registers a class under a name, which it returns, until the test ends."""

    def register(kind: str, cls: type[Any]) -> str:
        monkeypatch.setitem(_registry, kind, dict(_registry[kind]))
        registry.register(kind, "faulty")(cls)
        return "faulty"

    return register
