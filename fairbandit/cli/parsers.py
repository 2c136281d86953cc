"""Parsers of command-line words: the arguments of a tool, or the overrides of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec
import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fairbandit.errors import FairbanditError, check_known, did_you_mean
from fairbandit.runs.settings import dotted

_SIGNS = frozenset("=:,()[]{}'\"")  # the special characters of Hydra's grammar
_BARE = re.compile(r"[\w \t/\\+.$%*@?|-]*", re.ASCII)  # a value that needs no quotes
# a quoted text, or a key of a mapping with a colon and no blank, which YAML does not part
_KEY = re.compile(r"""('[^']*'|"[^"]*")|(?<=[{,])(\s*[^\W\d][\w./-]*:)(?=\S)""")


def as_setting(words: str) -> str:
    """Returns the right form of a setting that was written as an option.

    >>> as_setting("--group sex")
    'settings are written KEY=VALUE: group=...'
    """
    key = re.split("[= ]", words.lstrip("-"))[0]
    return f"settings are written KEY=VALUE: {key}=..."


class Words(NamedTuple):
    """The words after the name of a tool.

    Attributes:
        paths: the files or folders that the tool reads.
        settings: the values of KEY=VALUE, nested by the dots of the keys.
        said: the words of the settings, without `out`.
    """

    paths: list[Path]
    settings: dict[str, Any]
    said: list[str]

    def only(self, keys: Iterable[str]) -> dict[str, Any]:
        """Returns the settings; a key that is not among some keys is an error."""
        check_known("key", self.settings, keys)
        return self.settings


def read_words(
    tool: str, text: str, words: Sequence[str], files: str = "", *, several: bool = False
) -> Words:
    """Reads the words after the name of a tool: `FILE KEY=VALUE …`, in any order.

    Args:
        tool, text: the name of the tool, and its help, which `--help` prints instead.
        words: the words.
        files: the name of the file in the help; without it, the tool reads no file.
        several: whether the tool reads several files or folders.

    Raises:
        FairbanditError: a word is not a setting, or the file is not named.
        SystemExit: the help is printed.
    """
    if {"-h", "--help"} & {*words}:
        usage = " ".join(filter(None, (files, "..." * several, "KEY=VALUE ...")))
        print(f"usage: fairbandit {tool} {usage}\n\n{text}")
        raise SystemExit(0)
    settings = [word for word in words if "=" in word and not Path(word).exists()]
    paths = [word for word in words if word not in settings]
    for wrong in (word for word in words if word.startswith("-")):
        raise FairbanditError(f"unrecognized arguments: {wrong}; {as_setting(wrong)}")
    if files and not paths:
        raise FairbanditError(f"fairbandit {tool}: expected {files} (see fairbandit {tool} --help)")
    further = [] if several else paths[bool(files) :]
    read = read_parameters([*settings, *further], tool)
    said = [word for word in settings if not word.startswith("out=")]
    return Words([*map(Path, paths)], read, said)


def tool(
    files: str = "", *, several: bool = False
) -> Callable[[Callable[..., None]], Callable[[Sequence[str]], None]]:
    """Makes a tool of the command line from a function, whose docstring is the help.

    The function is called with the path of the file, or with a list of paths. Its keyword-only
    arguments are the keys, whose values must have the annotated types. Words with other keys are
    wrong, or are passed to `*words`, if the function has it. A function without any key is called
    with the `Words` instead.

    Args:
        files, several: as for `read_words`.
    """

    def made(function: Callable[..., None]) -> Callable[[Sequence[str]], None]:
        name, types = function.__name__.strip("_"), get_type_hints(function, include_extras=True)
        parameters = signature(function).parameters.values()
        keys = {own.name: own.default for own in parameters if own.kind == own.KEYWORD_ONLY}
        is_open = any(own.kind == own.VAR_POSITIONAL for own in parameters)

        def run(words: Sequence[str]) -> None:
            others = [word for word in words if is_open and not _is_of(word, keys)]
            mine = [word for word in words if word not in others]
            given = read_words(name, getdoc(function) or "", mine, files, several=several)
            if not keys:
                function(given)
                return
            settings = given.only(keys)
            lacking = [key for key in keys if keys[key] is Parameter.empty and key not in settings]
            if lacking:
                needed = " and ".join(f"{key}=…" for key in lacking)
                raise FairbanditError(f"fairbandit {name}: expected {needed}, as its --help says")
            for key, value in settings.items():
                try:
                    msgspec.convert(value, types[key])
                except msgspec.ValidationError as error:
                    raise FairbanditError(f"{key}: {error}, {value!r}") from None
            paths: Sequence[Any] = [given.paths] if several else given.paths
            function(*paths, *others, **settings)

        return run

    return made


def _is_of(word: str, keys: Collection[str]) -> bool:
    """Whether a word sets one of some keys, is a flag, or is probably one of the keys misspelt."""
    key = word.partition("=")[0]
    return key in keys or key.startswith("-") or ("." not in key and did_you_mean(key, keys) != "")


def names_in(value: Any) -> list[str]:
    """Returns the names in a setting: a list, or a text in which commas separate them.

    >>> names_in("greedy,oful"), names_in(["greedy"]), names_in(None)
    (['greedy', 'oful'], ['greedy'], [])
    """
    parts = value.split(",") if isinstance(value, str) else value
    return [str(part).strip() for part in ([] if parts is None else parts)]


def conditions(where: Any) -> dict[str, list[Any]]:
    """Returns the allowed values of each key of `where.KEY=VALUES`; a list is one value.

    >>> conditions({"rank": {"alpha": "0.1,1"}, "theta": [1, 2], "rounds": 5})
    {'rank.alpha': ['0.1', '1'], 'theta': [[1, 2]], 'rounds': [5]}
    """
    return {
        key: names_in(value) if isinstance(value, str) else [value] for key, value in dotted(where)
    }


def read_parameters(words: Sequence[str], kind: str) -> dict[str, Any]:
    """Reads KEY=VALUE words with dotted keys, like Hydra's overrides of a run.

    As there, the colons of a mapping need no blanks. Beside `KEY.PARAMETER=…`, `KEY=NAME` sets
    `KEY.name`.

    Raises:
        FairbanditError: a word without a key, or a value that is not YAML.

    >>> read_parameters(["decimal=,", "group=[sex, race]", "rank.size=3"], "audit")
    {'decimal': ',', 'group': ['sex', 'race'], 'rank': {'size': 3}}
    >>> read_parameters(["policy={name:greedy,split:full}"], "evaluate")
    {'policy': {'name': 'greedy', 'split': 'full'}}
    >>> read_parameters(["rank=recent_cdf", "rank.size=3"], "check")
    {'rank': {'name': 'recent_cdf', 'size': 3}}
    """
    if bare := [word for word in words if "=" not in word]:
        problem = f"{bare[0]}: expected KEY=VALUE, a setting with its value"
        is_open = any(re.search(r"[\[{][^\]}]*$", word) for word in words)
        form = "; a list is written without spaces, as in KEY=[a,b], or in quotes"
        raise FairbanditError(problem + form * is_open)
    read: Any = OmegaConf.create()
    parents = {found[1] for word in words if (found := re.match(r"(\w+)\.", word))}
    for word in words:
        word = f"{word[:-1]}','" if word.endswith("=,") else word  # a comma alone is not YAML
        key, _, value = word.partition("=")
        if key in parents and not value.startswith("{"):
            key += ".name"
        if "{" in value:
            value = value if value[0] in "[{'\"" else f"[{value}]"  # names and mappings, by commas
            value = _KEY.sub(lambda found: found[1] or f"{found[2]} ", value)
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

    It accepts letters beyond ASCII, and signs such as a semicolon, only in quotes. A value with
    special characters of the grammar, such as a list, is unchanged unless it is a single comma or
    equals sign: the user must quote its items.

    >>> quoted("environment.group=性別"), quoted("environment.columns=[性別]")
    ("environment.group='性別'", 'environment.columns=[性別]')
    >>> quoted("environment.separator=;"), quoted("environment.decimal=,")
    ("environment.separator=';'", "environment.decimal=','")
    """
    key, equals, value = word.partition("=")
    special = not _SIGNS.isdisjoint(value) and value not in (",", "=")
    if _BARE.fullmatch(value) or word.startswith("-") or special:
        return word
    return f"{key}{equals}'{value}'"
