"""Parsers of command-line words: the arguments of a tool, or the overrides of a run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.errors import FairbanditError

_SIGNS = frozenset("=:,()[]{}'\"")  # the special characters of Hydra's grammar


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FairbanditError(f"{self.prog}: {message} (see {self.prog} --help)")


def tool_parser(
    tool: str, description: str, examples: str, *, folders: bool = False
) -> argparse.ArgumentParser:
    """Returns the parser of the words after a tool's name, which raises `FairbanditError`.

    With `folders`, the tool reads the runs in some folders.
    """
    parser = _Parser(
        prog=f"fairbandit {tool}",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if folders:
        text = "folders that contain runs"
        parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help=text)
    return parser


def read_parameters(words: Sequence[str], kind: str) -> dict[str, Any]:
    """Reads KEY=VALUE words with dotted keys, like Hydra's overrides of a run.

    Raises:
        FairbanditError: a value that is not YAML.
    """
    try:
        read: Any = OmegaConf.to_container(OmegaConf.from_dotlist(list(words)))
    except (OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        given = " ".join(f"{kind}.{word}" for word in words)
        reason = str(error).splitlines()[0]
        raise FairbanditError(f"{given}: the value cannot be read as YAML: {reason}") from error
    return {str(name): item for name, item in read.items()}


def quoted(word: str) -> str:
    """Returns an override with its value in quotes if the value has characters beyond ASCII.

    Hydra's grammar accepts such letters only in quotes. A value with special characters of the
    grammar, such as a list, is unchanged: the user must quote its items.

    >>> quoted("environment.group=性別"), quoted("environment.columns=[性別]")
    ("environment.group='性別'", 'environment.columns=[性別]')
    """
    key, equals, value = word.partition("=")
    if value.isascii() or word.startswith("-") or not _SIGNS.isdisjoint(value):
        return word
    return f"{key}{equals}'{value}'"
