"""The package's folders form one strict order, its files no cycle, and only `cli` uses Hydra."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import fairbandit

PACKAGE = Path(fairbandit.__file__).parent

ORDER = (
    *("errors", "version", "notices", "files", "streams", "registry", "tables"),
    *("environments", "theory", "history", "splits", "estimators", "counting", "ranks"),
    *("selectors", "metrics", "policy", "runs", "figures", "logs", "agent", "conformance"),
    *("evaluation", "audit", "report", "cli", "__main__", "__init__"),
)
"""The folders and the top-level modules; each imports only from itself and from those before it."""

HEAVY = {"matplotlib", "folktables", "pandas", "sklearn", "scipy"}

FILES = sorted(PACKAGE.rglob("*.py"))


def module(file: Path) -> str:
    """The dotted name of a file's module; a package's is that of its `__init__`."""
    name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = {module(file): file for file in FILES}


def layer(name: str) -> str:
    """The folder or the top-level module that a dotted name of the package lies in."""
    return [*name.split("."), "__init__"][1]


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The absolute names of what some statements import, those given as texts included."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            named = node.args[0]  # a text, or the folder that a formatted text begins with
            first = named.values[0] if isinstance(named, ast.JoinedStr) else named
            if isinstance(first, ast.Constant):
                yield str(first.value).rstrip(".")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def own_imports(file: Path) -> set[str]:
    """The modules of the package that a file names in imports, those within functions included."""
    found = set()
    for name in imported(ast.walk(tree(file))):
        while name and name not in MODULES:
            name = name.rpartition(".")[0]
        found.add(name)
    return found - {"", module(file)}


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The nodes of one cycle, its first repeated as its last; none if there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_every_folder_and_module_has_a_place():
    assert {layer(name) for name in MODULES} <= set(ORDER)


def test_imports_by_name_are_seen():
    text = "import_module('fairbandit.runs'), importlib.import_module(f'fairbandit.cli.{name}')"
    assert [*imported(ast.walk(ast.parse(text)))] == ["fairbandit.runs", "fairbandit.cli"]


def test_imports_point_down():
    upward = [
        f"{name} imports {other}, which comes later in ORDER"
        for name, file in MODULES.items()
        for other in own_imports(file)
        if ORDER.index(layer(other)) > ORDER.index(layer(name))
    ]
    assert not upward, "\n".join(upward)


def test_no_file_imports_itself_by_way_of_others():
    found = cycle({name: own_imports(file) for name, file in MODULES.items()})
    assert not found, " <- ".join(found)


def test_only_the_command_line_imports_hydra():
    users = {
        layer(name)
        for name, file in MODULES.items()
        if any(other.partition(".")[0] == "hydra" for other in imported(ast.walk(tree(file))))
    }
    assert users == {"cli"}


def test_heavy_packages_are_imported_where_they_are_used():
    early = [
        f"{name} imports {other}"
        for name, file in MODULES.items()
        for other in imported(node for node in tree(file).body if not isinstance(node, ast.Expr))
        if other.partition(".")[0] in HEAVY
    ]
    assert not early


def test_nothing_pickles_or_evaluates():
    for file in FILES:
        nodes = list(ast.walk(tree(file)))
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec"), file
        assert "pickle" not in {name.partition(".")[0] for name in imported(nodes)}
