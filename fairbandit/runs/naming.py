"""Names runs by the settings that vary between them, and selects runs by their settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from fairbandit.errors import FairbanditError, did_you_mean, unknown
from fairbandit.notices import remark
from fairbandit.policy.build import build_policy, policy_label, preset, presets
from fairbandit.policy.policy import Policy
from fairbandit.registry import PART_KINDS, create, describe
from fairbandit.runs.settings import dotted
from fairbandit.tables.labels import normal

NO_DIFFERENCE = (
    *("threads", "device", "replicas", "versions."),
    *("environment.root", "environment.cache", "environment.download"),
)
"""Prefixes of the keys that do not affect results, or only how precisely they are known."""

_LAST = ("data", "plugins", "unit")  # they tell runs apart only where no other setting does
_HALF = 16  # characters at either end of a long value


class Setting(NamedTuple):
    """A setting that tells runs apart: its dotted key, its short name and its value as text."""

    key: str
    name: str
    text: str


def of_world(key: str) -> bool:
    """Whether a key belongs to an environment: its parameters, its data, and their unit."""
    return f"{key}.".startswith(("environment.", "data", "unit"))


def varied(settings: Sequence[Mapping[str, Any]]) -> list[tuple[Setting, ...]]:
    """Finds the settings that tell runs apart, each with one name for all tables and figures.

    Environments of one name are told apart by their own settings. In one environment, policies of
    one label are told apart by all other settings, and all policies by the settings that belong to
    no part, such as `picks`. A setting that only some runs have, such as a parameter of a part of
    some policies, is left out where the others tell as many runs apart. Each part of a named policy
    that differs from the policy's file is shown.

    >>> rows = [{"policy": "oful", "environment": "e", "policy.rank.z": z} for z in (1, -2.0)]
    >>> [joined("OFUL", run) for run in varied(rows)]
    ['OFUL, z=1', 'OFUL, z=-2.0']
    """
    rows = [
        {key: shown(value) for key, value in row.items() if not key.startswith(NO_DIFFERENCE)}
        for row in settings
    ]
    worlds, others = (
        [{key: text for key, text in row.items() if of_world(key) == part} for row in rows]
        for part in (True, False)
    )
    environments = [row["environment"] for row in rows]
    labels = [policy_label(row["policy"]) for row in rows]
    scenes = [json.dumps(world, sort_keys=True) for world in worlds]
    of_worlds = _told_apart(worlds, [""] * len(rows), environments)
    of_policies = _told_apart(others, scenes, labels)
    presets_of = {name: preset(name) for name in {row["policy"] for row in rows} & {*presets()}}
    kept = list[dict[str, str]]()
    for row, *keys in zip(rows, of_worlds, of_policies, strict=True):
        base = presets_of.get(row["policy"], {})
        parts = {f"policy.{kind}.name": base[kind]["name"] for kind in PART_KINDS if kind in base}
        replaced = {key for key, name in parts.items() if row.get(key, name) != name}
        kept.append({k: text for k, text in row.items() if k in set.union(replaced, *keys)})
    names = short_names([key for key in union(rows) if key in union(kept)])
    texts = {key: _shortened(row[key] for row in kept if key in row) for key in names}
    return [
        tuple(Setting(k, name, texts[k][row[k]]) for k, name in names.items() if k in row)
        for row in kept
    ]


def with_replaced(policy: Policy) -> str:
    """Returns the name of a policy, with each part and parameter that differs from its file.

    >>> with_replaced(build_policy({"name": "fair_greedy", "rank": "smoothed_cdf"}))
    'fair_greedy, rank=smoothed_cdf'
    """
    if policy.name not in presets():
        return policy.name
    described, base = policy.describe(), build_policy(policy.name).describe()
    for kind in PART_KINDS:
        name, default = described[kind]["name"], base[kind]["name"]
        if name != default:
            base[kind] = describe(create(kind, name)) | {"name": default}
    texts, defaults = ({k: shown(value) for k, value in dotted(p)} for p in (described, base))
    names = short_names([*texts])
    replaced = (key for key, text in texts.items() if text != defaults.get(key))
    return joined(policy.name, [Setting(key, names[key], texts[key]) for key in replaced])


def _told_apart(
    rows: Sequence[Mapping[str, str]], scenes: Sequence[str], names: Sequence[str]
) -> list[set[str]]:
    """Returns for each row the keys that tell apart the rows of its name in its scene."""

    def several(key: str, rows: Sequence[Mapping[str, str]]) -> bool:
        return key not in _LAST and len({row[key] for row in rows if key in row}) > 1

    keys_of = dict[tuple[str, str], set[str]]()
    for scene in dict.fromkeys(scenes):
        named = [pair[1:] for pair in zip(scenes, names, rows, strict=True) if pair[0] == scene]
        keys = union(row for _, row in named)
        plain = [k for k in keys if "." not in k and k not in ("policy", "environment")]
        general = [key for key in plain if several(key, [row for _, row in named])]
        for name in dict.fromkeys(name for name, _ in named):
            alike = [row for label, row in named if label == name]
            first = [key for key in keys if key in general or several(key, alike)]
            partly = (key for key in keys if key in _LAST or any(key not in row for row in alike))
            more = [key for key in partly if key not in first]
            keys_of[scene, name] = {*telling(alike, more, first)}
    return [keys_of[pair] for pair in zip(scenes, names, strict=True)]


def telling(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], first: Sequence[str] = ()
) -> list[str]:
    """Returns the keys `first`, and each further key that tells more rows apart."""

    def classes(keys: Sequence[str]) -> int:
        return len({json.dumps([row.get(key) for key in keys]) for row in rows})

    chosen_keys = [*first]
    for key in keys:
        chosen_keys += [key] * (classes([*chosen_keys, key]) > classes(chosen_keys))
    return chosen_keys


def _shortened(texts: Iterable[str]) -> dict[str, str]:
    """Shortens long texts in the middle; different texts stay different."""
    short: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        cut = text if len(text) <= 2 * _HALF else f"{text[:_HALF]}…{text[-_HALF:]}"
        short[text] = f"{cut} ({len(short) + 1})" if cut in short.values() else cut
    return short


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Returns the shortest end of each dotted key that no other key has.

    The key of a part's name is shortened to the kind of the part.

    >>> short_names(["policy.rank.name", "policy.rank.delta", "environment.delta"]).values()
    dict_values(['rank', 'rank.delta', 'environment.delta'])
    """
    names = {}
    for key in keys:
        parts = key.removesuffix(".name").split(".")
        ends = [".".join(parts[at:]) for at in reversed(range(len(parts)))]
        names[key] = next((end for end in ends if sum(ends_with(k, end) for k in keys) == 1), key)
    return names


def joined(name: str, settings: Iterable[Setting]) -> str:
    """Returns a name with some settings, as in "OFUL, exploration=0.1"."""
    return ", ".join(filter(None, (name, *(f"{item.name}={item.text}" for item in settings))))


def shown(value: Any) -> str:
    """Returns a value as text: a text itself, or else JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def ends_with(key: str, end: str) -> bool:
    """Whether a dotted key ends with some of its parts, of which `name` may be missing."""
    return f".{key}".endswith(f".{end}") or f".{key}".endswith(f".{end}.name")


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ, in the order of the settings."""
    return [key for key in union(settings) if len({run.get(key) for run in settings}) > 1]


def telling_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ and that make another setting, or are the seed.

    A run that records a further metric is otherwise the same, so metrics count only if two runs
    have one metric with different parameters.
    """

    def tells(key: str) -> bool:
        metric = key.startswith("metrics.")
        return not metric or len({shown(row[key]) for row in settings if key in row}) > 1

    return [k for k in differing(settings) if not k.startswith(NO_DIFFERENCE) and tells(k)]


def union(rows: Iterable[Iterable[str]]) -> list[str]:
    """Returns the distinct names in the rows, in order of their first occurrence."""
    return list(dict.fromkeys(name for row in rows for name in row))


def full_key(settings: Sequence[Mapping[str, Any]], end: str) -> str:
    """Returns the key with the given end.

    If several keys have the end, it stands for the key that tells runs apart beyond the keys before
    it: `noise` is `environment.noise` in a sweep over that key, although parts of policies also
    have a parameter `noise`.
    """
    keys = union(settings)
    matches = [end] if end in keys else [key for key in keys if ends_with(key, end)]
    if len(matches) > 1:
        ordered = [key for key in keys if key != "seed" and not key.startswith(NO_DIFFERENCE)]
        varied = telling(settings, ordered)
        matches = [key for key in matches if key in varied] or matches
    if not matches:
        raise unknown("setting", end, keys)
    if len(matches) > 1:
        raise FairbanditError(f"{end!r} may be {' or '.join(matches)}; write the whole key")
    return matches[0]


class _Described(Protocol):
    @property
    def settings(self) -> Mapping[str, Any]: ...


_Run = TypeVar("_Run", bound=_Described)


def chosen(runs: Sequence[_Run], where: Mapping[str, Sequence[Any]]) -> list[_Run]:
    """Returns the runs whose settings are `matching`."""
    return [runs[at] for at in matching([run.settings for run in runs], where)]


def matching(
    settings: Sequence[Mapping[str, Any]], where: Mapping[str, Sequence[Any]]
) -> list[int]:
    """Returns the places of the settings that have one of the values for each key of `where`.

    A key is resolved by `full_key`. All spellings of a number match, and so does the JSON text of a
    value.
    """
    kept = list(range(len(settings)))
    for end, values in where.items():
        key = full_key(settings, end)
        wanted = {normal(shown(value)): value for value in values}
        present = [shown(settings[at].get(key)) for at in kept]
        kept = [at for at, text in zip(kept, present, strict=True) if normal(text) in wanted]
        if not kept:
            raise FairbanditError(
                f"no run has {end}={' or '.join(map(str, values))}"
                f"{did_you_mean(values[0], present)}; its values are "
                f"{', '.join(dict.fromkeys(present))}"
            )
        for form in wanted.keys() - {*map(normal, present)}:
            if guess := did_you_mean(wanted[form], present):
                remark(f"no run has {end}={wanted[form]}{guess}")
    return kept
