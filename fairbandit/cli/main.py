"""The console script: help, tools, and otherwise the Hydra application."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from fairbandit.cli.tools import names_tool, run_tool
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.plugins import load_plugins
from fairbandit.version import VERSION

COMPOSING = "composing the jobs"
"""What a sweep says first."""

_SWEEPS = {"-m", "--multirun", "+experiment"}
_SHOWING = {"-h", "--help", "--hydra-help", "-c", "--cfg", "-i", "--info"}


def main(words: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        words: the words after the command's name; the process's own by default.

    Raises:
        SystemExit: with a message, and exit code 1, on an error that the user can mend.
    """
    given = list(sys.argv[1:] if words is None else words)
    try:
        if "--version" in given:
            print(f"fairbandit {VERSION}", flush=True)
            return
        tool = bool(given) and names_tool(given[0])
        flags = {word.partition("=")[0] for word in given}
        if not tool and flags & _SWEEPS and not flags & _SHOWING:
            print(COMPOSING, flush=True)  # the imports that follow take seconds
        load_plugins()
        if tool:
            from fairbandit.cli.messages import memory_errors  # Hydra: not for --help

            with memory_errors():
                run_tool(given[0], given[1:])
        elif {"-h", "--help"} & set(given):
            from fairbandit.cli.help import help_text

            print(help_text())
        else:
            from fairbandit.cli.app import run_app  # Hydra, Parquet, TensorBoard: runs only

            run_app(given)
        sys.stdout.flush()
    except FairbanditError as error:
        raise SystemExit(f"{PREFIX}{error}") from None
    except BrokenPipeError:  # the program that read the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
