"""Reads the log that a command names by a path, with KEY=VALUE for columns and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from fairbandit.agent import Agent
from fairbandit.audit import audit_table
from fairbandit.errors import check_known
from fairbandit.evaluation.frozen import read_for
from fairbandit.logs import Log, is_table, read_log
from fairbandit.policy.policy import Policy
from fairbandit.tables.files import read_header


def keywords(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the arguments of a function that are passed by keyword only."""
    parameters = signature(function).parameters.values()
    return [own.name for own in parameters if own.kind == own.KEYWORD_ONLY]


def given_log(
    path: str | Path,
    settings: Mapping[str, Any],
    function: Callable[..., Any],
    judges: Mapping[str, Policy | Agent] | None = None,
) -> tuple[Log, dict[str, Any]]:
    """Reads a log, and returns it with the settings that are keyword arguments of a function.

    The other settings are arguments of `read_log`, and unknown settings are refused. A table is
    encoded for the judges as by `read_for`.
    """
    reading: Any = read_log.__kwdefaults__
    options = keywords(function)
    check_known("key", settings, sorted({*reading, *options}))
    columns = {key: settings[key] for key in settings if key in reading}
    columns |= {key: str(name) for key, name in columns.items() if isinstance(name, int)}
    if "like" in columns:
        like = read_log(columns.pop("like"), **columns)
        columns |= {"like": like, "features": None, "exclude": None, "products": None}
    rest = {key: settings[key] for key in settings if key in options}
    return read_for(path, judges or {}, columns), rest


def given_table(path: Path, settings: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns the settings as arguments of `audit_table`; None if the path is a log.

    `selected` says that a table has a row for each person. With `score`, a table without the column
    that marks the picks of a log is read like this, too.
    """
    if "selected" not in settings:
        if "score" not in settings or not path.is_file() or not is_table(path):
            return None
        names = read_header(path, settings.get("separator", ","))
        if settings.get("picked", "picked") in names:
            return None
    check_known("key for a table with a row for each person", settings, keywords(audit_table))
    columns = "group", "selected", "score", "decision"
    named = {key: str(settings[key]) for key in columns if isinstance(settings.get(key), int)}
    return {**settings, **named}
