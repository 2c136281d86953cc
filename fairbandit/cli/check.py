"""`fairbandit check` runs the conformance suite on parts and times them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from rich.text import Text

from fairbandit import conformance, registry
from fairbandit.cli.parsers import read_parameters, tool_parser
from fairbandit.conformance.report import NOT_TRIED, cost
from fairbandit.conformance.world import REFERENCES, REPLICAS
from fairbandit.errors import FairbanditError
from fairbandit.run.table import console

_HELP = """\
Runs the conformance suite on registered parts, plugins included, and prints what passes, what
does not and why, and what a round costs. The exit code is 1 if anything does not pass.

A part plays a small problem made to be awkward (three groups, one of them rare, empty places) in
a policy whose other parts are the reference ones: split halves, estimator ridge, rank
empirical_cdf, selector argmax."""

_EXAMPLES = """\
examples:
  fairbandit check rank=empirical_cdf
  fairbandit check rank=my_rank estimator=my_estimator
  fairbandit check rank=my_rank rank.bandwidth=0.2      with a hyperparameter of one's own
  FAIRBANDIT_PLUGINS=my_plugins fairbandit check rank=my_rank

The checks of a kind are also importable, for tests of one's own: see fairbandit.conformance."""

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
    good = [_examine(kind, spec, show) for kind, spec in parts]
    if not all(good):
        raise SystemExit(1)


def _parts(words: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """The kind and the description of each part; all names are registered."""
    parts: list[tuple[str, dict[str, Any]]] = []
    for word in words:
        left, equals, value = word.partition("=")
        kind, dot, key = left.partition(".")
        if not equals or kind not in registry.KINDS:
            raise FairbanditError(
                f"{word!r} describes no part; expected KIND=NAME or KIND.KEY=VALUE, where KIND is "
                f"{_KINDS}"
            )
        if not dot:
            registry.lookup(kind, value)
            parts.append((kind, {"name": value}))
        elif parts and parts[-1][0] == kind:
            parts[-1][1].update(read_parameters([f"{key}={value}"], kind))
        else:
            raise FairbanditError(f"{word!r} must come after the {kind} that it is for")
    return parts


def _examine(kind: str, spec: dict[str, Any], show: Callable[[Text | str], None]) -> bool:
    """Prints the findings on one part, as they come; whether it passes."""
    cls = registry.lookup(kind, spec["name"])
    place = f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
    others = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "name")
    described = f"{spec['name']} ({others})" if others else spec["name"]
    show(Text(f"{kind} {described} ({place})", style="bold"))
    results = []
    for result in conformance.examine(kind, spec):
        results.append(result)
        show(_line(result))
    passed = sum(result.reason is None for result in results)
    if passed == len(results):
        own, reference = cost(kind, spec)
        show(
            f"  plays in {own:.3f} ms a round of {REPLICAS} replicas "
            f"({REFERENCES[kind]}: {reference:.3f} ms)"
        )
    show(f"  {passed} of {len(results)} checks passed")
    return passed == len(results)


def _line(result: conformance.CheckResult) -> Text:
    """A line with a tick or a cross, the requirement, and the reason of a failure."""
    mark, style = ("✓", "green") if result.reason is None else ("✗", "red")
    if result.reason == NOT_TRIED:
        mark, style = "–", "dim"
    line = Text("  ").append(mark, style=style).append(f" {result.label}")
    return line if result.reason is None else line.append(f": {result.reason}", style=style)
