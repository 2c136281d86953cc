"""Dependencies point one way, and only the command line knows of Hydra."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import fairbandit

PACKAGE = Path(fairbandit.__file__).parent

LAYERS = {
    "errors": 0,
    "registry": 0,
    "streams": 0,
    "maths": 0,
    "plugins": 0,
    "parts": 1,
    "environments": 1,
    "metrics": 1,
    "presets": 1,
    "policy": 2,
    "build": 3,
    "engine": 4,
    "conformance": 4,
    "run": 5,
    "results": 5,
    "agent": 5,
    "theory": 2,
    "figures": 5,
    "audit": 5,
    "cli": 6,
}
"""A module may import from its own layer and from lower ones."""

HEAVY = {"matplotlib", "folktables", "pandas", "sklearn", "scipy"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer(file: Path) -> str:
    return file.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(file: Path, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Absolute names of what some statements import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_down(file):
    own = layer(file)
    names = set(imported(file, ast.walk(tree(file))))
    if own != "cli":
        assert not {name for name in names if name.split(".")[0] == "hydra"}
    if own == "__init__":
        return
    assert own in LAYERS, f"{own} has no layer yet: give it one in LAYERS"
    for name in names:
        parts = name.split(".")
        if parts[0] == "fairbandit" and len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS[parts[1]] <= LAYERS[own], f"{file} imports {name}, of a higher layer"


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_heavy_packages_are_imported_where_they_are_used(file):
    top = [node for node in tree(file).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert not {name.split(".")[0] for name in imported(file, top)} & HEAVY


def test_nothing_pickles_or_evaluates():
    for file in MODULES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), file
        assert "pickle" not in {name.split(".")[0] for name in imported(file, ast.walk(tree(file)))}
