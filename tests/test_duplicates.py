"""No six lines of code in a row stand twice in the package, be it with other names."""

import ast
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import fairbandit

PACKAGE = Path(fairbandit.__file__).parent

LINES = 6

_LAYOUT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}

Line = tuple[int, list[tokenize.TokenInfo]]
"""A line's number and its tokens."""


def declared(node: ast.AST) -> range:
    """The lines of a node that only say which names there are, and so hold no code to share.

    These are imports, docstrings, signatures, annotations without a value, and `self.x = x`.
    """
    match node:
        case (
            ast.Import()
            | ast.ImportFrom()
            | ast.AnnAssign(value=None)
            | ast.Expr(value=ast.Constant(value=str()))
        ):
            return range(node.lineno, (node.end_lineno or node.lineno) + 1)
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name("self"), attr=attribute)], value=ast.Name(name)
        ) if attribute.lstrip("_") == name:
            return range(node.lineno, node.lineno + 1)
        case ast.FunctionDef():
            return range(node.lineno, node.body[0].lineno)
    return range(0)


def code(text: str) -> list[Line]:
    """The lines of code: no declarations, and no lines of brackets alone."""
    skipped = {number for node in ast.walk(ast.parse(text)) for number in declared(node)}
    lines = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT and token.start[0] not in skipped:
            lines[token.start[0]].append(token)
    return [(number, line) for number, line in lines.items() if any(map(_tells, line))]


def _tells(token: tokenize.TokenInfo) -> bool:
    return token.string not in "()[]{},:"


def shape(lines: Sequence[Line]) -> str:
    """The lines with every name replaced by its place in the order of first appearance."""
    places: dict[str, int] = {}
    words = []
    for _, tokens in lines:
        for token in tokens:
            named = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            words.append(
                f"name{places.setdefault(token.string, len(places))}" if named else token.string
            )
        words.append("\n")
    return " ".join(words)


def repeated(files: dict[str, str]) -> Iterator[str]:
    """The places of all windows of `LINES` lines of one shape, as `file:line file:line`.

    Windows that overlap count once, so that a long list of like entries is no repetition.
    """
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    for name, text in files.items():
        lines = code(text)
        for at in range(len(lines) - LINES + 1):
            places = found[shape(lines[at : at + LINES])]
            if not places or places[-1][0] != name or places[-1][1] + LINES <= at:
                places.append((name, at, lines[at][0]))
    for places in found.values():
        if len(places) > 1:
            yield " ".join(f"{name}:{number}" for name, _, number in places)


def test_nothing_stands_twice():
    files = {
        str(file.relative_to(PACKAGE)): file.read_text(encoding="utf-8")
        for file in sorted(PACKAGE.rglob("*.py"))
    }
    found = sorted(repeated(files))
    assert not found, "\n".join(found)


BODY = """
def {f}({a}, {b}):
    '''{doc}'''
    {c} = {a} + 1
    {c} *= {b}
    if {c} > {a}:
        return {b}

    {b} -= 1
    return f({c}, "{text}")
"""


def test_a_copy_with_other_names_is_found():
    one = BODY.format(f="one", a="x", b="y", c="z", doc="Does.", text="told")
    other = BODY.format(f="other", a="p", b="q", c="r", doc="Does\n    otherwise.", text="told")
    assert list(repeated({"one": one, "other": other})) == ["one:4 other:5"]
    mixed = BODY.format(f="other", a="p", b="q", c="p", doc="Does.", text="told")
    texts = BODY.format(f="other", a="p", b="q", c="r", doc="Does.", text="other")
    assert not list(repeated({"one": one, "mixed": mixed, "texts": texts}))


def test_declarations_are_no_code():
    text = "class C:\n    x: int\n    def __init__(\n        self, x: int, y: int\n    ):\n"
    text += "        self.x = x\n        self._y = y\n        self.z = x + y\n"
    assert [number for number, _ in code(text)] == [1, 8]


def test_a_long_list_is_no_repetition():
    entries = [f"    x{number}," for number in range(2 * LINES)]
    few, many = "\n".join(["[", *entries[1:], "]"]), "\n".join(["[", *entries, "]"])
    assert not list(repeated({"few": few}))
    assert list(repeated({"many": many})) == ["many:2 many:8"]
