"""Parsers of command-line words: the arguments of a tool, or the overrides of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from inspect import getdoc, signature
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.errors import FairbanditError, check_known
from fairbandit.runs.settings import dotted

_TEXTS = {"group", "reward", "decision", "picked", "selected", "propensity", "score", "time"}
_TEXTS |= {"separator", "decimal", "thousands", "scaler_path"}
"""The keys of tools whose values are names of columns or other texts, even if these look like YAML
of another type, such as 2019, yes or a comma."""

_SIGNS = frozenset("=:,()[]{}'\"")  # the special characters of Hydra's grammar
_BARE = re.compile(r"[\w \t/\\+.$%*@?|-]*", re.ASCII)  # a value that needs no quotes
# a quoted text, or a key of a mapping with a colon and no blank, which YAML does not part
_KEY = re.compile(r"""('[^']*'|"[^"]*")|(?<=[{,])(\s*[^\W\d][\w./-]*:)(?=\S)""")


def tool(
    files: str = "", *, several: bool = False
) -> Callable[[Callable[..., None]], Callable[[Sequence[str]], None]]:
    """Makes a tool of the command line, `FILE KEY=VALUE …`, from a function.

    The docstring of the function is the help. The function gets the path, and in a second
    positional-only argument, if it has one, the words of the settings without `out`. Its
    keyword-only arguments are the keys, whose values must have the annotated types. Another key is
    an error, unless the function takes `**settings`. A function with `*words` gets the words of
    other keys as they are.

    Args:
        files: the name of the path in the help; without it, the tool reads no file.
        several: whether the tool reads several paths, which the function gets as a list.
    """

    def made(function: Callable[..., None]) -> Callable[[Sequence[str]], None]:
        name, types = function.__name__.strip("_"), get_type_hints(function, include_extras=True)
        parameters = signature(function).parameters.values()
        keys = {key.name: key.default for key in parameters if key.kind == key.KEYWORD_ONLY}
        needed = [key.name for key in parameters if keys.get(key.name) is key.empty]
        kinds = [parameter.kind.name for parameter in parameters]

        def run(words: Sequence[str]) -> None:
            if {"-h", "--help"} & {*words}:
                usage = " ".join(filter(None, (files, "..." * several, "KEY=VALUE ...")))
                print(f"usage: fairbandit {name} {usage}\n\n{getdoc(function)}")
                return
            for wrong in (word for word in words if word.startswith("-")):
                form = f"settings are written KEY=VALUE: {wrong.lstrip('-').partition('=')[0]}=..."
                raise FairbanditError(f"unrecognized arguments: {wrong}; {form}")
            assignments = [word for word in words if "=" in word and not Path(word).exists()]
            paths = [word for word in words if word not in assignments]
            if files and not paths:
                usage = f"expected {files} (see fairbandit {name} --help)"
                raise FairbanditError(f"fairbandit {name}: {usage}")
            of_run = "VAR_POSITIONAL" in kinds
            free = [word for word in assignments if of_run and word.partition("=")[0] not in keys]
            further = [] if several else paths[bool(files) :]
            known_assignments = [word for word in assignments if word not in free]
            settings = read_parameters([*known_assignments, *further], name)
            if "VAR_KEYWORD" not in kinds:
                check_known("key", settings, keys)
            if lacking := " and ".join(f"{key}=…" for key in needed if key not in settings):
                raise FairbanditError(f"fairbandit {name}: expected {lacking}, as its --help says")
            for key in settings.keys() & keys:
                try:
                    msgspec.convert(settings[key], types[key])
                except msgspec.ValidationError as error:
                    raise FairbanditError(f"{key}: {error}, {settings[key]!r}") from None
            arguments: list[Any] = [[*map(Path, paths)]] if several else [*map(Path, paths)]
            if kinds.count("POSITIONAL_ONLY") > 1:
                arguments.append([word for word in assignments if not word.startswith("out=")])
            function(*arguments, *free, **settings)

        return run

    return made


def names_in(value: Any) -> list[str]:
    """Returns the names in a setting: a list, or a text in which commas separate them.

    >>> names_in("greedy,oful"), names_in(["greedy"]), names_in(None)
    (['greedy', 'oful'], ['greedy'], [])
    """
    parts = value.split(",") if isinstance(value, str) else value
    return [str(part).strip() for part in ([] if parts is None else parts)]


def conditions(where: Any, policy: Any = None) -> dict[str, list[Any]]:
    """Returns the allowed values of each key of `where.KEY=VALUES`; a list is one value.

    >>> conditions({"rank": {"alpha": "0.1,1"}, "theta": [1, 2], "rounds": 5}, "greedy,oful")
    {'rank.alpha': ['0.1', '1'], 'theta': [[1, 2]], 'rounds': [5], 'policy': ['greedy', 'oful']}
    """
    pairs = dotted(where or {})
    values = {key: names_in(text) if isinstance(text, str) else [text] for key, text in pairs}
    return values | ({"policy": policies} if (policies := names_in(policy)) else {})


def read_parameters(words: Sequence[str], kind: str) -> dict[str, Any]:
    """Reads KEY=VALUE words with dotted keys, like Hydra's overrides of a run.

    As there, the colons of a mapping need no blanks. Beside `KEY.PARAMETER=…`, `KEY=NAME` sets
    `KEY.name`.

    Raises:
        FairbanditError: a word without a key, or a value that is not YAML.

    >>> read_parameters(["decimal=,", "group=[sex, race]", "rank.size=3"], "audit")
    {'decimal': ',', 'group': ['sex', 'race'], 'rank': {'size': 3}}
    >>> read_parameters(["rank=recent_cdf", "rank.size=3", "reward=2019"], "check")
    {'rank': {'name': 'recent_cdf', 'size': 3}, 'reward': '2019'}
    """
    if bare := [word for word in words if "=" not in word]:
        problem = f"{bare[0]}: expected KEY=VALUE, a setting with its value"
        is_open = any(re.search(r"[\[{][^\]}]*$", word) for word in words)
        form = "; a list is written without spaces, as in KEY=[a,b], or in quotes"
        raise FairbanditError(problem + form * is_open)
    read: Any = OmegaConf.create()
    parents = {match[1] for word in words if (match := re.match(r"(\w+)\.", word))}
    for word in words:
        key, _, value = word.partition("=")
        is_text = key.removeprefix("environment.") in _TEXTS and value not in ("", "null")
        if is_text and not value.startswith(("[", "{", "'", '"')):
            value = "'{}'".format(value.replace("'", "''"))
        elif "{" in value:
            value = value if value[0] in "[{'\"" else f"[{value}]"  # names and mappings, by commas
            value = _KEY.sub(lambda match: match[1] or f"{match[2]} ", value)
        if key in parents and not value.startswith("{"):
            key += ".name"
        try:
            read = OmegaConf.merge(read, OmegaConf.from_dotlist([f"{key}={value}"]))
        except (OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            message = f"{kind}.{word}: the value cannot be read as YAML: {reason}"
            raise FairbanditError(message) from error
    plain: Any = OmegaConf.to_container(read)
    return {str(name): item for name, item in plain.items()}


def quoted(word: str) -> str:
    """Returns an override with its value in quotes if Hydra's grammar needs them.

    It accepts letters beyond ASCII, and signs such as a semicolon, only in quotes. The items of a
    list must be quoted by the user.

    >>> quoted("environment.group=性別"), quoted("environment.decimal=,"), quoted("theta=[1,2]")
    ("environment.group='性別'", "environment.decimal=','", 'theta=[1,2]')
    """
    key, equals, value = word.partition("=")
    special = not _SIGNS.isdisjoint(value) and value not in (",", "=")
    if _BARE.fullmatch(value) or word.startswith("-") or special:
        return word
    return f"{key}{equals}'{value}'"
