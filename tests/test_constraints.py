"""Every extra can be installed under the constraints that go with it."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairbandit.version import VERSION

REPOSITORY = Path(__file__).resolve().parents[1]

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

OWN = {"ray": "constraints-ray.txt"}
"""Extras with an environment, and so with constraints, of their own."""

SECONDS = 300
"""A resolver that tries hundreds of versions takes hours; one that tries a single one, seconds."""


def pins(name: str) -> dict[str, str]:
    """The versions of a constraints file by canonical name."""
    lines = (REPOSITORY / name).read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(str(each.specifier).startswith("==") for each in found)
    return {canonicalize_name(each.name): str(each.specifier)[2:] for each in found}


def sharing(constraints: str) -> list[str]:
    """The extras that are installed under a constraints file."""
    extras = PROJECT["optional-dependencies"]
    return [extra for extra in extras if OWN.get(extra, "constraints.txt") == constraints]


@pytest.mark.parametrize("constraints", ["constraints.txt", *OWN.values()])
def test_what_the_project_asks_for_is_pinned_and_allowed(constraints: str) -> None:
    pinned = pins(constraints)
    asked = list(PROJECT["dependencies"])
    for extra in sharing(constraints):
        asked += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement


@pytest.mark.all
def test_every_extra_resolves_under_its_constraints(tmp_path: Path) -> None:
    """Installs nothing; each version that would come is the one that is pinned.

    `make test-ray` installs the extra that has constraints of its own.
    """
    constraints = "constraints.txt"
    report = tmp_path / "report.json"
    wanted = f"{REPOSITORY}[{','.join(sharing(constraints))}]"
    words = [sys.executable, "-m", "pip", "install", "--dry-run", "--report", str(report)]
    words += ["--constraint", str(REPOSITORY / constraints), "--retries", "1"]
    words += ["--no-build-isolation", wanted]  # what builds the package is among the tests' tools
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    chosen = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    would = {canonicalize_name(each["name"]): each["version"] for each in chosen}
    pinned = {**pins(constraints), "fairbandit": VERSION}
    assert {name: pinned.get(name) for name in would} == would
