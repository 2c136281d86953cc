"""`fairbandit check`: runs the conformance suite on parts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from rich.text import Text

from fairbandit import conformance, registry
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.run.table import console

_HELP = """\
Runs the conformance suite on registered parts, plugins included, and prints which checks pass and
why the others fail. The exit code is 1 if a check fails.

The part plays a small, deliberately awkward problem (three groups, one of them rare, and empty
places) in a policy whose other parts are the reference parts: split halves, estimator ridge, rank
empirical_cdf, selector argmax."""

_EXAMPLES = """\
examples:
  fairbandit check rank=my_rank estimator=my_estimator
  fairbandit check rank=my_rank rank.bandwidth=0.2      with a hyperparameter

Your own tests can import the checks of a kind: see fairbandit.conformance."""

_KINDS = ", ".join(registry.KINDS)


def check(words: Sequence[str]) -> None:
    """Checks parts and prints the results.

    Raises:
        SystemExit: with exit code 1, if a part does not pass.
    """
    parser = tool_parser("check", _HELP, _EXAMPLES)
    parser.add_argument(
        "parts", nargs="+", metavar="KIND=NAME", help=f"a part; KIND is one of {_KINDS}"
    )
    parts = _parts(parser.parse_args(words).parts)
    torch.set_num_threads(1)  # the suite's tensors are small
    show = partial(console().print, soft_wrap=True, highlight=False)
    passed = [_check_part(kind, spec, show) for kind, spec in parts.items()]
    if not all(passed):
        raise SystemExit(1)


def _parts(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    named = [f"{kind}.name" for kind in registry.KINDS]
    dotted = [re.sub(r"^(\w+)=", r"\1.name=", word) for word in words]
    parts = read_parameters(dotted, "check")
    given = [word.partition("=")[0] for word in dotted]
    if sorted(key for key in given if key in named) != sorted(f"{kind}.name" for kind in parts):
        raise FairbanditError(
            "expected KIND=NAME, at most one of each kind, and KIND.KEY=VALUE, where KIND is one "
            f"of {_KINDS}; got {' '.join(words)}"
        )
    return parts


def _check_part(kind: str, spec: dict[str, Any], show: Callable[[Text | str], None]) -> bool:
    """Prints each check of a part as it ends, and returns whether all passed."""
    cls = registry.lookup(kind, str(spec["name"]))
    place = inspect.getsourcefile(cls) or cls.__module__
    with suppress(OSError):  # a class that is made by a call has no line
        place += f":{inspect.getsourcelines(cls)[1]}"
    others = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "name")
    described = f"{spec['name']} ({others})" if others else spec["name"]
    show(Text(f"{kind} {described} ({place})", style="bold"))
    results = []
    for result in conformance.examine(kind, spec):
        results.append(result)
        show(_result_line(result))
    passed = sum(result.reason is None for result in results)
    total = len(conformance.checks(kind))
    show(f"  {passed} of {total} checks passed")
    return passed == total


def _result_line(result: conformance.CheckResult) -> Text:
    """Returns a tick or a cross, the requirement, and the reason of a failure."""
    mark, style = ("✓", "green") if result.reason is None else ("✗", "red")
    line = Text("  ").append(mark, style=style).append(f" {result.label}")
    return line if result.reason is None else line.append(f": {result.reason}", style=style)
