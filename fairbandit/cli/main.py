"""The console script: help, tools, and otherwise the Hydra application."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from fairbandit.cli.tools import names_tool, run_tool
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.plugins import load_plugins
from fairbandit.version import VERSION


def main(words: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        words: the words after the command's name; the process's own by default.

    Raises:
        SystemExit: with a message, and exit code 1, on an error that the user can mend; with exit
            code 130 when the user has interrupted the command.
    """
    given = list(sys.argv[1:] if words is None else words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may lack some characters
            stream.reconfigure(errors="replace")
    try:
        _run(given)
        sys.stdout.flush()
    except FairbanditError as error:
        raise SystemExit(f"{PREFIX}{error}") from None
    except BrokenPipeError:  # the program that read the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:  # as of a full disk
        if error.errno is None:
            raise
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise SystemExit(f"{PREFIX}{text}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _run(given: Sequence[str]) -> None:
    """Imports what a command needs only when it is asked for, since that takes seconds."""
    if "--version" in given:
        print(f"fairbandit {VERSION}")
        return
    load_plugins()
    if given and names_tool(given[0]):
        from fairbandit.cli.messages import memory_errors

        with memory_errors():
            run_tool(given[0], given[1:])
    elif {"-h", "--help"} & set(given):
        from fairbandit.cli.help import help_text

        print(help_text())
    else:
        from fairbandit.cli.app import run_app

        run_app(given)


if __name__ == "__main__":
    main()
