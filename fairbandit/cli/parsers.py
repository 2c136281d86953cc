"""Parsers of the words that follow a tool's name or make up a run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.errors import FairbanditError

_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"\\\[\]{}(),:=]+""", re.DOTALL)
"""A text in quotes, or one without quotes up to the next sign of Hydra's grammar."""


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


def tool_parser(tool: str, description: str, examples: str) -> StrictParser:
    """Returns the parser of the words after a tool's name."""
    return StrictParser(
        prog=f"fairbandit {tool}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def read_parameters(words: Sequence[str], kind: str) -> dict[str, Any]:
    """Reads the parameters of a part as on a run's command line.

    Args:
        words: KEY=VALUE words; a key may be dotted.
        kind: the kind of part, for messages.

    Raises:
        FairbanditError: a value that is not YAML.
    """
    try:
        read = OmegaConf.to_container(OmegaConf.from_dotlist(list(words)))
    except (OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        told = " ".join(f"{kind}.{word}" for word in words)
        reason = " ".join(str(error).splitlines()[0].split())
        raise FairbanditError(
            f"{told}: the value cannot be read: {reason}; expected YAML such as 0.5, text, "
            "[1, 2] or {a: 1}"
        ) from error
    assert isinstance(read, dict)
    return {str(name): item for name, item in read.items()}


def quoted(word: str) -> str:
    """An override whose texts in other scripts are in quotes, which Hydra's grammar demands.

    Outside quotes, the grammar knows no letters but those of ASCII. Texts with signs of the grammar
    in them, such as brackets, stay as they are, since they need quotes of the user's own.

    >>> quoted("environment.group=性別")
    "environment.group='性別'"
    >>> quoted("environment.path='a,b.csv','Größe.csv',été.csv")
    "environment.path='a,b.csv','Größe.csv','été.csv'"
    """
    key, equals, value = word.partition("=")
    if word.startswith("-"):  # a flag
        return word
    return key + equals + _TEXT.sub(_in_quotes, value)


def _in_quotes(found: re.Match[str]) -> str:
    text = found[0]
    if text.isascii() or text[0] in "'\"":
        return text
    bare = text.strip()
    return text.replace(bare, f"'{bare}'")
