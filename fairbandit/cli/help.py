"""The text of `fairbandit --help`, made from the registry and from the YAML files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from inspect import Parameter
from pathlib import Path
from typing import Any

from fairbandit import registry
from fairbandit.policy.build import config_files
from fairbandit.registry.signatures import parameters_of
from fairbandit.runs.settings import Settings

_INTRO = """\
fairbandit: fair linear contextual bandits.

At each round an agent picks one of K candidates, observes a noisy reward of its pick only, and is
judged by the relative rank of the pick within the pick's own group. A policy is a composition of
a split, an estimator, a rank and a selector.

Usage:
  fairbandit [key=value ...]            one run
  fairbandit -m key=value1,value2 ...   a sweep: one run for each combination
  fairbandit --cfg job [key=value ...]  shows the composed config
  fairbandit --config-dir DIR ...       also finds the policies of DIR/policy
  fairbandit --version | --hydra-help

Examples:
  fairbandit policy=fair_greedy environment=simulation rounds=5000 replicas=10 seed=0
  fairbandit policy=oful policy.estimator.exploration=0.1
  fairbandit policy=oful policy/rank=empirical_cdf
  fairbandit -m policy=fair_greedy,greedy,uniform seed=0,1
"""

_SETTINGS = {
    "policy": "one of the policies below",
    "policy.refresh": "the reward model changes only when n_train has grown by this factor [null]",
    "environment": "one of the environments below",
    "rounds": "the number of rounds T; null takes the environment's default",
    "replicas": "number of independent runs, played side by side",
    "picks": "number of candidates picked from each pool",
    "delay": "mean number of further rounds after which rewards arrive",
    "delay_law": "fixed or geometric",
    "seed": "the seed of all random numbers",
    "device": "cpu, cuda, cuda:1, ...",
    "threads": "number of torch threads; null takes one",
    "resume": "continues an unfinished run; false starts over, in a new folder",
    "metrics": "metrics recorded beside both regrets, as in metrics={COLUMN: NAME}",
    "figures": "figures that a sweep draws at its end, as in figures=[overview,price]",
    "callbacks": "objects that take part in runs, as in callbacks=[{_target_: MODULE.CLASS}]",
    "hydra.run.dir": "the output folder of a run (hydra.sweep.dir: of a sweep)",
}


def help_text(tools: Mapping[str, str]) -> str:
    """Returns one line for each key, experiment, policy, part, environment, metric and tool."""
    defaults = {field.name: f" [{_shown(field.default)}]" for field in fields(Settings)}
    settings = [(key, f"{line}{defaults.get(key, '')}") for key, line in _SETTINGS.items()]
    sections: dict[str, Iterable[tuple[str, str]]] = {
        "Keys (key=value)": settings,
        "Experiments (+experiment=...)": _described(config_files("experiment")),
        "Policies (policy=...)": _described(config_files("policy")),
        **{
            f"{kind.capitalize()}s (policy/{kind}=..., policy.{kind}.KEY=...)": _registered(kind)
            for kind in registry.PART_KINDS
        },
        "Environments (environment=..., environment.KEY=...)": _registered("environment"),
        "Metrics (metrics={COLUMN: ...})": _registered("metric"),
        "Tools (fairbandit TOOL ...)": tools.items(),
    }
    text = [_INTRO]
    for title, entries in sections.items():
        text += [f"{title}:", *(f"  {name:<26}  {line}".rstrip() for name, line in entries), ""]
    return "\n".join(text)


def _described(files: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Yields the name of each YAML file with its first comment, which describes it."""
    for name, file in files.items():
        lines = file.read_text(encoding="utf-8").splitlines()
        first = next((line for line in lines if not line.startswith("# @package")), "")
        yield name, first[2:] if first.startswith("# ") else ""


def _registered(kind: str) -> Iterator[tuple[str, str]]:
    for name in registry.names(kind):
        cls = registry.lookup(kind, name)
        yield name, registry.summary(cls)
        for key, parameter in parameters_of(cls).items():
            yield "", f"{key}{_default(parameter.default)}"


def _default(value: Any) -> str:
    if value is Parameter.empty:
        return "  (must be given)"
    choices = f"  (of {', '.join(type(value).__members__)})" if isinstance(value, Enum) else ""
    return f"={_shown(value)}{choices}"


def _shown(value: Any) -> str:
    shown = json.dumps(value, default=lambda enum: enum.name, separators=(",", ":"))
    return shown.strip('"')
