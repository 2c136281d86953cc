"""Writes `docs/keys.md` and two tables of policies, from the registry and the files."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from fairbandit import registry
from fairbandit.conformance.group import READS, answers
from fairbandit.policy.build import named_policies, preset
from fairbandit.registry.signatures import parameters_of
from fairbandit.runs.settings import Settings

FOLDER = Path(__file__).parent

MARK = "<!-- made by docs/keys.py from conf/policy/ -->\n"
"""A line before and after a table of policies."""

INTRO = """\
# All keys

Every key of a config, with its default and its meaning. On the command line a key is set by
`key=value`, and a part is chosen by `policy/KIND=NAME`; `fairbandit --help` prints the same in
short. This page is made by `docs/keys.py` from the docstrings of the package.

## A run
"""

OTHERS = {
    "policy": ("fair_greedy", "a file of `conf/policy/`, or four parts"),
    "policy.refresh": (
        "null",
        "f > 1: the reward model changes only when n_train has grown by this factor",
    ),
    "environment": ("simulation", "a registered environment"),
    "figures": ("null", "the figures that a sweep draws at its end, as `figures=[overview,price]`"),
    "callbacks": ("null", "objects that take part in runs: [Sweeps](sweeps.md)"),
    "hydra.run.dir": ("outputs/runs/…", "the folder of a run"),
    "hydra.sweep.dir": ("outputs/sweeps/…", "the folder of a sweep"),
}
TITLES = {
    "split": "Splits: `policy/split=NAME`, `policy.split.KEY=VALUE`",
    "estimator": "Estimators: `policy/estimator=NAME`, `policy.estimator.KEY=VALUE`",
    "rank": "Ranks: `policy/rank=NAME`, `policy.rank.KEY=VALUE`",
    "selector": "Selectors: `policy/selector=NAME`, `policy.selector.KEY=VALUE`",
    "environment": "Environments: `environment=NAME`, `environment.KEY=VALUE`",
    "metric": "Metrics: `metrics={COLUMN: NAME}` or `metrics={COLUMN: {name: NAME, KEY: VALUE}}`",
}


def described(docstring: str, section: str) -> dict[str, str]:
    """Returns the names that a section of a docstring lists, each with its description."""
    texts: dict[str, str] = {}
    inside = re.search(
        rf"^{section}\b.*:\n((?:    .*\n|\n)+)", inspect.cleandoc(docstring) + "\n", re.M
    )
    for entry in re.split(r"\n(?=    \w)", inside[1].rstrip() if inside else ""):
        name, _, text = entry.strip().partition(":")
        if name:
            texts[name] = re.sub(r"\bNone\b", "null", " ".join(text.split()))
    return texts


def arguments(cls: type, classes: Mapping[str, type]) -> dict[str, str]:
    """Returns the arguments of a class, also arguments that other docstrings describe.

    These are the classes that it derives from, and one that it names.
    """
    docstring = inspect.getdoc(cls) or ""
    beside = re.search(r"^Args, beside those of `(\w+)`:$", docstring, re.M)
    meanings = arguments(classes[beside[1]], classes) if beside else {}
    for base in reversed(cls.__mro__):
        meanings |= described(base.__doc__ or "", "Args")
    return meanings


def shown(value: Any) -> str:
    """Returns a default as a config writes it."""
    if value is inspect.Parameter.empty:
        return "*required*"
    if isinstance(value, Enum):
        return value.name
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def table(rows: Mapping[str, tuple[str, str]]) -> list[str]:
    """Returns the lines of a table of keys."""
    cells = [
        (f"`{key}`", default, text.replace("|", r"\|")) for key, (default, text) in rows.items()
    ]
    return [
        "| key | default | meaning |",
        "|---|---|---|",
        *(f"| {' | '.join(c)} |" for c in cells),
    ]


def page() -> str:
    """Returns the contents of the page."""
    meanings = described(Settings.__doc__ or "", "Attributes")
    defaults = vars(Settings())
    lines = [INTRO, *table({k: (shown(v), meanings[k]) for k, v in defaults.items()} | OTHERS)]
    for kind, title in TITLES.items():
        lines += ["", f"## {title}"]
        classes = {
            cls.__name__: cls for cls in map(partial(registry.lookup, kind), registry.names(kind))
        }
        for name in registry.names(kind):
            cls = registry.lookup(kind, name)
            meanings = arguments(cls, classes)
            keys = {
                key: (shown(parameter.default), meanings.get(key, ""))
                for key, parameter in parameters_of(cls).items()
            }
            lines += ["", f"### {name}", "", registry.summary(cls), *([""] if keys else [])]
            lines += table(keys) if keys else []
    return "\n".join(lines) + "\n"


def policies() -> str:
    """Returns the table of all named policies."""
    lines = ["| policy | label | split | estimator | rank | selector |", "|---" * 6 + "|"]
    for name, policy in named_policies().items():
        parts = preset(name)
        cells = [", ".join(cell(kind, parts[kind])) for kind in registry.PART_KINDS]
        refresh = f", refresh {parts['refresh']:g}" if "refresh" in parts else ""
        row = (f"`{name}`", policy.label, cells[0] + refresh, *cells[1:])
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def cell(kind: str, part: Mapping[str, Any]) -> list[str]:
    """Returns the name of a part, and the parameters that differ from its defaults."""
    plain = registry.completed(kind, part["name"])
    changed = [f"`{key}` {shown(v)}" for key, v in part.items() if v != plain[key]]
    return [f"`{part['name']}`", *changed]


def group_readers() -> str:
    """Returns the table of the policies that read the group at the decision."""
    lines = [f"| {READS} | named policies |", "|---|---|"]
    for word, names in answers({name: name for name in named_policies()}).items():
        lines.append(f"| {word} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """Returns the contents of each page, by its file, with the tables made anew."""
    texts = {"keys.md": page()}
    for name, table_of in (("policies.md", policies), ("may_i_use.md", group_readers)):
        before, _, after = (FOLDER / name).read_text(encoding="utf-8").split(MARK)
        texts[name] = f"{before}{MARK}{table_of()}{MARK}{after}"
    return texts


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
