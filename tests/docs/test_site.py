"""The site builds without a warning or a dead link, and its pages load nothing from elsewhere."""

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

from tests import support

pytestmark = pytest.mark.all  # mkdocs builds it


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=support.REPOSITORY, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_nothing_is_loaded_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for element in re.findall(r"<(?:script|img|iframe|source|link)\b[^>]*>", text):
            later = re.search(r'rel="?(canonical|next|prev)\b', element)
            assert later or not re.search(r'(src|href)="?(\w+:)?//', element), (page, element)
    for file in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", file.read_text("utf-8"))


def test_the_drawings_are_in_the_pages_themselves(site):
    text = (site / "concepts.html").read_text(encoding="utf-8")
    assert text.count("<svg xmlns") >= 5
    assert ".svg" not in text
    for name, draw in import_module("docs.pictures.draw").DRAWINGS.items():
        file = support.REPOSITORY / "docs" / "pictures" / f"{name}.svg"
        assert file.read_text(encoding="utf-8") == draw()
