"""Parsers of command-line words: the arguments of a tool, or the overrides of a run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.errors import FairbanditError

_SIGNS = frozenset("=:,()[]{}'\"")  # the special characters of Hydra's grammar
_BARE = re.compile(r"[\w \t/\\+.$%*@?|-]*", re.ASCII)  # a value that needs no quotes


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


def split_names(text: str) -> list[str]:
    """Returns the names in a text, which are separated by commas."""
    return [name.strip() for name in text.split(",")]


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
    """Returns an override with its value in quotes if Hydra's grammar needs them.

    It accepts letters beyond ASCII, and signs such as a semicolon, only in quotes. A value with
    special characters of the grammar, such as a list, is unchanged unless it is a single comma or
    equals sign: the user must quote its items.

    >>> quoted("environment.group=性別"), quoted("environment.columns=[性別]")
    ("environment.group='性別'", 'environment.columns=[性別]')
    >>> quoted("environment.separator=;"), quoted("environment.decimal=,")
    ("environment.separator=';'", "environment.decimal=','")
    """
    key, equals, value = word.partition("=")
    special = not _SIGNS.isdisjoint(value) and value not in (",", "=")
    if _BARE.fullmatch(value) or word.startswith("-") or special:
        return word
    return f"{key}{equals}'{value}'"
