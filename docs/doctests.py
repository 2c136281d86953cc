"""Shows the examples of docstrings as code: Griffe calls `on_object` for all it documents."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*\n(?:(?!\n).+\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts every doctest, from its prompt to the next empty line, into a block of code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of one object."""
        if obj.docstring is not None:
            text = obj.docstring.value + "\n"
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>```\n", text).rstrip()
