"""The text of `fairbandit --help`, made from the registry and from the YAML files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
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

_OTHERS = {
    "policy": "one of the policies below",
    "policy.refresh": "the reward model changes only when n_train has grown by this factor [null]",
    "environment": "one of the environments below",
    "figures": "figures that a sweep draws at its end, as in figures=[overview,price]",
    "callbacks": "objects that take part in runs, as in callbacks=[{_target_: MODULE.CLASS}]",
    "hydra.run.dir": "the output folder of a run (hydra.sweep.dir: of a sweep)",
}
"""The keys of a run that are not in `Settings`."""


def help_text(tools: Mapping[str, str]) -> str:
    """Returns one line for each key, experiment, policy, part, environment, metric and tool."""
    meanings = re.findall(r"^        (\w+): ([^;\n]*)", Settings.__doc__ or "", re.MULTILINE)
    defaults = vars(Settings())
    settings = [(key, f"{text.rstrip('.')} [{_shown(defaults[key])}]") for key, text in meanings]
    sections: dict[str, Iterable[tuple[str, str]]] = {
        "Keys (key=value)": [*settings, *_OTHERS.items()],
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
            default, choices = parameter.default, ""
            if isinstance(default, Enum):
                choices = f"  (of {', '.join(type(default).__members__)})"
            needed = default is Parameter.empty
            yield "", f"{key}  (must be given)" if needed else f"{key}={_shown(default)}{choices}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=lambda enum: enum.name, separators=(",", ":"))
    return text.strip('"')
