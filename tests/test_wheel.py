"""The wheel has all that the package needs to run, and nothing else."""

import re
import zipfile
from contextlib import chdir

import pytest
from hatchling.build import build_wheel

from tests import support


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names in the wheel, and the texts of its metadata, as `pip wheel` would build it."""
    folder = tmp_path_factory.mktemp("wheel")
    with chdir(support.REPOSITORY):
        file = build_wheel(str(folder))
    with zipfile.ZipFile(folder / file) as opened:
        names = opened.namelist()
        texts = {
            name.rpartition("/")[2]: opened.read(name).decode()
            for name in names
            if ".dist-info/" in name
        }
    return names, texts


def test_it_has_the_package_and_its_configs(wheel):
    names, _ = wheel
    root = support.REPOSITORY
    package = {
        str(file.relative_to(root))
        for file in (root / "fairbandit").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    configs = {f"fairbandit/{file.relative_to(root)}" for file in (root / "conf").rglob("*.yaml")}
    assert len(configs) > 10
    assert "fairbandit/py.typed" in package
    assert {name for name in names if ".dist-info/" not in name} == package | configs


def test_it_has_the_command_and_no_dead_link_and_claims_no_licence(wheel):
    _, texts = wheel
    assert re.findall(r"\]\((\w+)", texts["METADATA"]) == ["https"]
    assert "fairbandit = fairbandit.cli.main:main" in texts["entry_points.txt"]
    assert "Requires-Python: >=3.11" in texts["METADATA"]
    head = texts["METADATA"].partition("\n\n")[0]
    assert "License" not in head
