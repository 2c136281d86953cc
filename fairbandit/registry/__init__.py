"""Parts by name: the registry of classes, their arguments, and the plugins that register more."""

from fairbandit.registry.plugins import load_plugins
from fairbandit.registry.register import (
    KINDS,
    NAME,
    PART_KINDS,
    Checked,
    Registered,
    base,
    base_of,
    checked,
    completed,
    create,
    describe,
    line_of,
    lookup,
    names,
    register,
    summary,
)

__all__ = [
    "KINDS",
    "NAME",
    "PART_KINDS",
    "Checked",
    "Registered",
    "base",
    "base_of",
    "checked",
    "completed",
    "create",
    "describe",
    "line_of",
    "load_plugins",
    "lookup",
    "names",
    "register",
    "summary",
]
