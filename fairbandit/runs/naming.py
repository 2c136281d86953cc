"""Names runs by the settings that vary between them, and selects runs by their settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from fairbandit.errors import FairbanditError, did_you_mean, unknown
from fairbandit.notices import remark
from fairbandit.policy.build import build_policy, policy_label, preset, presets
from fairbandit.policy.policy import Policy
from fairbandit.registry import PART_KINDS, create, describe
from fairbandit.tables.labels import normal

if TYPE_CHECKING:
    import pandas as pd

NO_DIFFERENCE = (
    *("threads", "device", "replicas", "versions."),
    *("environment.root", "environment.cache", "environment.download"),
)
"""Prefixes of the keys that do not affect results, or only how precisely they are known."""

WORLD = ("environment.", "data", "unit")
"""The beginnings of the keys of an environment: its parameters, its data, and their unit."""

_LAST = ("data", "plugins", "unit")  # they tell runs apart only where no other setting does

_HALF = 16  # characters at either end of a long value


def of_world(key: str) -> bool:
    """Whether a key belongs to an environment."""
    return f"{key}.".startswith(WORLD)


class Setting(NamedTuple):
    """A setting that tells runs apart: its dotted key, its short name and its value as text."""

    key: str
    name: str
    text: str


def varied(settings: Sequence[Mapping[str, Any]]) -> list[tuple[Setting, ...]]:
    """Finds the settings that tell runs apart, each with one name for all tables and figures.

    Environments of one name are told apart by their own settings. In one environment, policies of
    one label are told apart by all other settings, and all policies by the settings that belong to
    no part, such as `picks`. A setting that only some runs have, such as a parameter of a part of
    some policies, is left out where the others tell as many runs apart. A named policy shows each
    part that is not its own.

    >>> rows = [{"policy": "oful", "environment": "e", "policy.rank.z": z} for z in (1, -2.0)]
    >>> [joined("OFUL", run) for run in varied(rows)]
    ['OFUL, z=1', 'OFUL, z=-2.0']
    """
    import pandas as pd

    texts = pd.DataFrame([{key: shown(value) for key, value in row.items()} for row in settings])
    texts = texts[[key for key in texts if not key.startswith(NO_DIFFERENCE)]]
    worlds = texts[[key for key in texts if of_world(key)]]
    others, policies = texts.drop(columns=[*worlds]), texts["policy"]
    labels = policies.map({name: policy_label(name) for name in policies.unique()})
    scene = worlds.fillna("").groupby([*worlds], sort=False).ngroup()
    tables = [_told_apart(worlds, worlds["environment"]), _replaced_parts(texts)]
    tables += [_told_apart(rows, labels[rows.index]) for _, rows in others.groupby(scene)]
    table = pd.concat(tables)
    found: list[list[Setting]] = [[] for _ in settings]
    for key, name in short_names([key for key in texts if key in table]).items():
        known = table[key].dropna()
        known = known[~known.index.duplicated()]
        short = _shortened(known.unique())
        for at, text in known.items():
            found[at].append(Setting(key, name, short[text]))
    return [tuple(row) for row in found]


def _replaced_parts(texts: pd.DataFrame) -> pd.DataFrame:
    """Returns the parts that are not those of the file of a named policy; missing elsewhere."""
    import pandas as pd

    named = {policy: preset(policy) for policy in texts["policy"].unique() if policy in presets()}
    parts = texts[[key for kind in PART_KINDS if (key := f"policy.{kind}.name") in texts]]
    own = {
        key: [
            named.get(policy, {}).get(key.split(".")[1], {"name": part})["name"]
            for policy, part in zip(texts["policy"], parts[key], strict=True)
        ]
        for key in parts
    }
    return parts.where(parts != pd.DataFrame(own, parts.index))


def with_replaced(policy: Policy) -> str:
    """Returns the name of a policy, with each part and parameter that its file has otherwise.

    >>> with_replaced(build_policy({"name": "fair_greedy", "rank": "smoothed_cdf"}))
    'fair_greedy, rank=smoothed_cdf'
    """
    if policy.name not in presets():
        return policy.name
    described, own = policy.describe(), build_policy(policy.name).describe()
    texts, default = ({"refresh": shown(plain["refresh"])} for plain in (described, own))
    for kind in PART_KINDS:
        name = described[kind]["name"]
        default[f"{kind}.name"] = own[kind]["name"]
        if name != own[kind]["name"]:
            own[kind] = describe(create(kind, name))
        for key, value in described[kind].items():
            texts[f"{kind}.{key}"] = shown(value)
            default.setdefault(f"{kind}.{key}", shown(own[kind][key]))
    replaced = {key: text for key, text in texts.items() if text != default[key]}
    names = short_names([*texts])
    return joined(policy.name, [Setting(key, names[key], replaced[key]) for key in replaced])


def _told_apart(texts: pd.DataFrame, names: pd.Series[str]) -> pd.DataFrame:
    """Returns the columns that tell rows of one name apart; missing where a row needs no value."""
    import pandas as pd

    several = [key for key in texts.columns[texts.nunique() > 1] if key not in _LAST]
    general = [key for key in several if "." not in key and key not in ("policy", "environment")]
    tables = []
    for _, rows in texts.groupby(names, sort=False):
        keys = [
            key for key in rows if key in general or (rows[key].nunique() > 1 and key not in _LAST)
        ]
        others = [
            key for key in rows if key not in keys and (key in _LAST or rows[key].isna().any())
        ]
        tables.append(rows[telling(rows.fillna("").to_dict("records"), others, keys)])
    return pd.concat(tables)


def telling(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[str], first: Sequence[str] = ()
) -> list[str]:
    """Returns the keys `first`, and each further key that tells rows apart beyond those before it.

    >>> telling([{"a": 1, "b": 1}, {"a": 2, "b": 2}], ["a", "b"])
    ['a']
    """
    found = [*first]
    for key in keys:
        tried = [
            len({json.dumps([row.get(k) for k in some]) for row in rows})
            for some in (found, [*found, key])
        ]
        found += [key] * (tried[1] > tried[0])
    return found


def _shortened(texts: Iterable[str]) -> dict[str, str]:
    """Shortens long texts in the middle; different texts stay different."""
    short: dict[str, str] = {}
    for text in texts:
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
    return ", ".join(filter(None, (name, *(f"{one.name}={one.text}" for one in settings))))


def shown(value: Any) -> str:
    """Returns a value as text: a text itself, or else JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def ends_with(key: str, end: str) -> bool:
    """Whether a dotted key ends with some of its parts, of which `name` may be missing."""
    return f".{key}".endswith(f".{end}") or f".{key}".endswith(f".{end}.name")


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ, in the order of the settings.

    >>> differing([{"seed": 0, "a": 1}, {"seed": 1, "a": 1, "b": 2}])
    ['seed', 'b']
    """
    return [key for key in union(settings) if len({run.get(key) for run in settings}) > 1]


def telling_keys(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the keys whose values differ and that make another setting, or are the seed.

    A run that records a further metric is otherwise the same, so metrics count only if two runs
    have one metric with different parameters.
    """
    keys = [key for key in differing(settings) if not key.startswith(NO_DIFFERENCE)]
    return [
        key
        for key in keys
        if not key.startswith("metrics.")
        or len({shown(row[key]) for row in settings if key in row}) > 1
    ]


def union(rows: Iterable[Iterable[str]]) -> list[str]:
    """Returns the distinct names in the rows, in order of their first occurrence."""
    return list(dict.fromkeys(name for row in rows for name in row))


def full_key(settings: Sequence[Mapping[str, Any]], end: str) -> str:
    """Returns the key with the given end.

    Several keys may have the end. Then it stands for the key that tells runs apart beyond the keys
    before it: `noise` is the environment's in a sweep over that noise, although the parameters of
    policies have the name, too.

    Raises:
        FairbanditError: no key has this end, or the key is ambiguous.
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
    """Returns the runs whose settings match a condition; see `matching`."""
    return [runs[at] for at in matching([run.settings for run in runs], where)]


def matching(
    settings: Sequence[Mapping[str, Any]], where: Mapping[str, Sequence[Any]]
) -> list[int]:
    """Returns the places of the settings that match a condition.

    Args:
        settings: the settings of runs.
        where: allowed values by key, where a key is resolved by `full_key`. All spellings of a
            number match, and so does the JSON text of a value.

    Raises:
        FairbanditError: a key is unknown or ambiguous, or no run has an allowed value.
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


def baseline_of(
    asked: str | Mapping[str, Any],
    settings: Sequence[Mapping[str, Any]],
    labels: Sequence[str],
    alike: Sequence[bool],
) -> int:
    """Returns the place of a baseline among the settings that are alike in their world.

    Args:
        asked: the label or the policy of the baseline, or values of its settings.
        settings, labels: the settings, and their names.
        alike: whether each setting is of the world.

    Raises:
        FairbanditError: the baseline does not match exactly one of these settings.
    """
    places, guess = [at for at, here in enumerate(alike) if here], ""
    if isinstance(asked, str):
        matches = [at for at in places if labels[at] == asked]
        matches = matches or [at for at in places if settings[at]["policy"] == asked]
        names = [name for at in places for name in (labels[at], settings[at]["policy"])]
        guess = "" if matches else did_you_mean(asked, names)
    else:
        found = matching(settings, {key: [value] for key, value in asked.items()})
        matches = [at for at in places if at in found]
    if len(matches) != 1:
        several = "several settings" if matches else "no setting"
        names = [repr(labels[at]) for at in matches or places]
        raise FairbanditError(
            f"the baseline {asked!r} names {several} of an environment{guess}; choose one of "
            f"{', '.join(names)}"
        )
    return matches[0]
