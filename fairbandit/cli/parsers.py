"""Parsers of the words that follow a tool's name or make up a run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from hydra._internal.utils import get_args_parser
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.errors import FairbanditError

_OTHER_CONFIG = (
    "every run composes fairbandit's own root config; --config-dir adds a folder of experiments "
    "and policies"
)
_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"\\\[\]{}(),:=]+""", re.DOTALL)
"""A text in quotes, or one without quotes up to the next sign of Hydra's grammar."""

_REFUSED = {
    "experimental_rerun": "a saved file cannot name code to run, and this flag loads a pickle; "
    "the same key=value words repeat a run",
    "config_name": _OTHER_CONFIG,
    "config_path": _OTHER_CONFIG,
}


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


def spelt_out(words: Sequence[str]) -> list[str]:
    """The words of a run or a sweep with every flag in full, flags first.

    Hydra's parser completes abbreviations (`--exp` to `--experimental-rerun`), so a check of the
    words that a user gave would have to know all of them. Here the same parser reads the words
    without completing any, and Hydra gets words on which both readings agree.

    Args:
        words: overrides and flags, in any order.

    Returns:
        Flags as `--name` or `--name=value`, then `--`, then the overrides.

    Raises:
        FairbanditError: an unknown or abbreviated flag, one without its value, or one that would
            load a pickle or another root config.

    >>> spelt_out(["rounds=3", "-m", "seed=0,1", "-cd", "mine"])
    ['--multirun', '--config-dir=mine', '--', 'rounds=3', 'seed=0,1']
    """
    parser = StrictParser(prog="fairbandit", parents=[get_args_parser()], add_help=False)
    end = words.index("--") if "--" in words else len(words)
    given = vars(parser.parse_intermixed_args(list(words[:end])))
    overrides = [*given.pop("overrides"), *words[end + 1 :]]
    flags = []
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if name in _REFUSED:
            raise FairbanditError(f"{flag} is refused: {_REFUSED[name]}")
        flags.append(flag if value is True else f"{flag}={value}")
    return [*flags, "--", *map(quoted, overrides)]


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
    return key + equals + _TEXT.sub(_in_quotes, value)


def _in_quotes(found: re.Match[str]) -> str:
    text = found[0]
    if text.isascii() or text[0] in "'\"":
        return text
    bare = text.strip()
    return text.replace(bare, f"'{bare}'")
