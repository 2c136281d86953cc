"""Parsers of the words that follow a tool's name or make up a run."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from fairbandit.errors import FairbanditError


class StrictParser(argparse.ArgumentParser):
    """An argument parser that completes no abbreviations and raises `FairbanditError`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Reports what is wrong with the words.

        Raises:
            FairbanditError: always.
        """
        raise FairbanditError(f"{self.prog}: {message} (see {self.prog} --help)")


class ToolParser(StrictParser):
    """The parser of the words after a tool's name.

    Args:
        tool: the tool's name.
        description: what it does.
        epilog: examples.
    """

    def __init__(self, tool: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"fairbandit {tool}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
