"""The site builds without a warning or a dead link, and its pages load nothing from elsewhere."""

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

from tests import support
from tests.docs.test_reference import shown

pytestmark = pytest.mark.all  # mkdocs builds it


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        words,
        cwd=support.REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """The text of every page that was built."""
    return {file: file.read_text(encoding="utf-8") for file in sorted(site.rglob("*.html"))}


def test_nothing_is_loaded_from_elsewhere(site, pages):
    assert len(pages) > 25
    for file, text in pages.items():
        for element in re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*>", text):
            later = re.search(r'rel="?(canonical|next|prev)\b', element)
            assert later or not re.search(r'(src|href)="?(\w+:)?//', element), (file.name, element)
    for file in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", file.read_text("utf-8"))


def test_every_public_name_has_its_place(pages):
    there = set(re.findall(r'\bid="?([\w.]+)', "\n".join(pages.values())))
    for name, value in shown().items():
        origin = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        assert {name, origin} & there, f"{name} has no docstring, or is not rendered"


def test_the_drawings_are_in_the_pages_themselves(site):
    text = (site / "concepts.html").read_text(encoding="utf-8")
    assert text.count("<svg xmlns") >= 5
    assert ".svg" not in text
    for name, draw in import_module("docs.pictures.draw").DRAWINGS.items():
        file = support.REPOSITORY / "docs" / "pictures" / f"{name}.svg"
        assert file.read_text(encoding="utf-8") == draw()
