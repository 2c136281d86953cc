"""Reads Hydra's flags and writes them out in full, so that no abbreviation reaches Hydra."""

from __future__ import annotations

from collections.abc import Sequence

from hydra._internal.utils import get_args_parser

from fairbandit.cli.parsers import StrictParser
from fairbandit.errors import FairbanditError

_REFUSED = {
    "experimental_rerun": "a saved file cannot name code to run, and this flag loads a pickle; "
    "the same key=value words repeat a run",
    "config_name": "every run composes fairbandit's own root config; --config-dir adds a folder "
    "of experiments and policies",
    "config_path": "every run composes fairbandit's own root config; --config-dir adds a folder "
    "of experiments and policies",
}


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
    return [*flags, "--", *overrides]
