"""The console script: help, tools, and otherwise the Hydra application."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

from fairbandit.errors import FULL_ERROR, PREFIX, FairbanditError, printable, unknown
from fairbandit.registry import line_of
from fairbandit.registry.plugins import load_plugins
from fairbandit.version import VERSION

TOOLS = {
    "collect": "gathers the summaries of many runs into one table",
    "check": "runs the conformance suite on a part, such as rank=my_rank",
    "figures": "draws the figures of saved runs, as PNG and PDF",
    "dashboard": "starts TensorBoard on saved runs, on this machine alone",
    "tune": "searches for good hyperparameters with Optuna",
    "table": "shows what environment=table makes of a file: features, missing cells, groups",
    "theory": "computes the paper's constants and regret bounds for an environment",
    "evaluate": "estimates the value of other policies from a log",
    "audit": "reports how groups were treated, in a table of people or a log",
    "report": "writes one HTML page, to send, on runs, a log or a table of people",
    "replay": "plays an agent's log again and confirms every line",
    "explain": "explains a decision in an agent's log",
    "erase": "copies an agent's log without the decisions of some tickets",
}
"""The tools, with their lines in `fairbandit --help`; most are `fairbandit.cli.NAME.NAME`."""

_IN_LOGS = {"evaluate", "audit", "report", "replay", "explain", "erase"}  # fairbandit.cli.logs


def main(words: Sequence[str] | None = None) -> None:
    """Runs the command line with the given arguments, by default `sys.argv[1:]`.

    An error that the user can correct ends it with a message and exit code 1, an interrupt with
    exit code 130.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may lack some characters
            stream.reconfigure(errors="replace")
    logging.getLogger("fairbandit").addFilter(_printable)
    try:
        _run(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
    except BrokenPipeError:  # the program that read the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        in_plugin = line_of(error) and os.environ.get(FULL_ERROR) != "1"
        # for example, the disk is full; an error of Hydra derives from OSError, without a number
        of_system = isinstance(error, OSError) and error.errno is not None
        if isinstance(error, FairbanditError) or (of_system and not in_plugin):
            message = str(error)
        elif in_plugin:
            from fairbandit.cli.messages import in_a_line

            message = f"{in_a_line(error)}; {FULL_ERROR}=1 shows more"
        else:
            raise
        raise SystemExit(printable(f"{PREFIX}{message}")) from None


def _printable(record: logging.LogRecord) -> bool:
    """Removes control characters from a warning, which may quote an untrusted file."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


def _run(arguments: Sequence[str]) -> None:
    """Runs a tool or the Hydra application; imports them only here, since that takes seconds."""
    if "--version" in arguments:
        print(f"fairbandit {VERSION}")
        return
    from fairbandit.policy.build import search_configs

    load_plugins()
    options = ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--config-dir", type=Path, action="append", default=[])
    searched, rest = options.parse_known_args(arguments)  # Hydra, and only Hydra, reads it again
    search_configs(searched.config_dir)
    if rest and "=" not in rest[0] and not rest[0].startswith(("-", "/", "+", "~")):
        name, *words = rest
        if name not in TOOLS:
            by = "a run is described by key=value pairs (see fairbandit --help)"
            raise FairbanditError(f"{unknown('tool', name, TOOLS)}, and {by}")
        module = "logs" if name in _IN_LOGS else name
        getattr(import_module(f"fairbandit.cli.{module}"), name)(words)
    elif {"-h", "--help"} & set(rest):
        from fairbandit.cli.help import help_text

        print(help_text(TOOLS))
    else:
        from fairbandit.cli.job import run_app

        run_app(arguments)


if __name__ == "__main__":
    main()
