"""The walls around the counting machinery."""

import ast
from collections.abc import Iterator
from pathlib import Path

import fairbandit

PACKAGE = Path(fairbandit.__file__).parent


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, or imports something from."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def places(prefix: str, files: Iterator[Path]) -> set[str]:
    """The files that import something whose dotted name begins so."""
    return {
        file.relative_to(PACKAGE).as_posix()
        for file in files
        if any(f"{name}.".startswith(prefix + ".") for name in imported(file))
    }


def test_one_place_outside_imports_it() -> None:
    found = places("fairbandit.counting", PACKAGE.rglob("*.py"))
    assert {place for place in found if not place.startswith("counting/")} == {"parts/past.py"}


def test_it_knows_nothing_of_parts() -> None:
    files = list((PACKAGE / "counting").glob("*.py"))
    assert len(files) > 5
    for file in files:
        own = {name for name in imported(file) if name.startswith("fairbandit.")}
        assert {name.split(".")[1] for name in own} <= {"counting", "errors", "maths"}, file


def test_part_authors_do_not_see_it() -> None:
    """Nothing that they import comes from there."""
    public = {getattr(one, "__module__", "") for one in vars(fairbandit.parts).values()}
    assert not {name for name in public if name.startswith("fairbandit.counting")}
