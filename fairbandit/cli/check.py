"""`fairbandit check`: does a part keep its contract, and what does it cost?"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.text import Text
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit import conformance, registry
from fairbandit.cli.parsers import ToolParser
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


def check(words: Sequence[str]) -> None:
    """Examines parts and prints what came of it.

    Args:
        words: `kind=name` for each part, each followed by its `kind.key=value`, if any.

    Raises:
        FairbanditError: a word that describes no part.
        SystemExit: with exit code 1, if a part does not pass.
    """
    parser = ToolParser("check", _HELP, _EXAMPLES)
    parser.add_argument(
        "parts", nargs="+", metavar="KIND=NAME", help=f"a part; KIND is {_or(registry.KINDS)}"
    )
    parts = _parts(parser.parse_args(words).parts)
    torch.set_num_threads(1)  # the suite's tensors are small
    shown = console()
    good = [_examine(kind, spec, shown) for kind, spec in parts]
    if not all(good):
        raise SystemExit(1)


def _parts(words: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Kinds and descriptions; every name is known."""
    parts: list[tuple[str, dict[str, Any]]] = []
    for word in words:
        left, equals, value = word.partition("=")
        kind, dot, key = left.partition(".")
        if not equals or kind not in registry.KINDS:
            raise FairbanditError(
                f"{word!r} describes no part; expected KIND=NAME or KIND.KEY=VALUE, where KIND is "
                f"{_or(registry.KINDS)}"
            )
        if not dot:
            registry.lookup(kind, value)
            parts.append((kind, {"name": value}))
        elif parts and parts[-1][0] == kind:
            parts[-1][1].update(_parsed(key, value))
        else:
            raise FairbanditError(f"{word!r} must come after the {kind} that it is for")
    return parts


def _parsed(key: str, value: str) -> dict[str, Any]:
    """A hyperparameter's value, read as on a run's command line."""
    if not key.isidentifier():
        raise FairbanditError(
            f"{key}={value}: expected the name of a hyperparameter before '=', got {key!r}"
        )
    try:
        read = OmegaConf.to_container(OmegaConf.from_dotlist([f"{key}={value}"]))
    except (OmegaConfBaseException, YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).splitlines()[0].split())
        raise FairbanditError(
            f"{key}={value}: the value cannot be read: {reason}; expected YAML such as 0.5, text, "
            "[1, 2] or {a: 1}"
        ) from error
    assert isinstance(read, dict)
    return {str(name): item for name, item in read.items()}


def _examine(kind: str, spec: dict[str, Any], shown: Console) -> bool:
    """Prints the findings on one part, as they come; whether it passes."""
    cls = registry.lookup(kind, spec["name"])
    shown.print(Text(f"{kind} {_described(spec)} ({_place(cls)})", style="bold"), soft_wrap=True)
    findings = []
    for finding in conformance.examine(kind, spec):
        findings.append(finding)
        shown.print(_line(finding), soft_wrap=True)
    if all(finding.tried for finding in findings):  # so that it can be played
        cost = conformance.attempt(conformance.cost, kind, spec)
        if isinstance(cost, conformance.Cost):
            shown.print(f"  {_told(cost, kind)}", soft_wrap=True, highlight=False)
        else:
            findings.append(conformance.Finding("cost", "Plays the rounds that are timed", cost))
            shown.print(_line(findings[-1]), soft_wrap=True)
    passed = sum(finding.passed for finding in findings)
    shown.print(f"  {passed} of {len(findings)} checks passed", soft_wrap=True, highlight=False)
    return passed == len(findings)


def _line(finding: conformance.Finding) -> Text:
    """A tick or a cross, what was asked for, and the reason if it was not given."""
    mark, style = ("✓", "green") if finding.passed else ("✗", "red")
    if not finding.tried:
        mark, style = "–", "dim"
    line = Text("  ").append(mark, style=style).append(f" {finding.label}")
    return line if finding.reason is None else line.append(f": {finding.reason}", style=style)


def _told(cost: conformance.Cost, kind: str) -> str:
    reference = conformance.REFERENCES[kind]
    what = {"environment": "draws pools in", "metric": "judges in"}.get(kind, "plays in")
    return (
        f"{what} {cost.own:.3f} ms a round of {conformance.REPLICAS} replicas "
        f"({reference}: {cost.reference:.3f} ms)"
    )


def _place(cls: type) -> str:
    """The file and the line of a class."""
    return f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"


def _described(spec: dict[str, Any]) -> str:
    others = ", ".join(f"{key}={value}" for key, value in spec.items() if key != "name")
    return f"{spec['name']} ({others})" if others else str(spec["name"])


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
