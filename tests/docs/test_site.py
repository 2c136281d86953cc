"""The site builds without a warning, and its pages load nothing from elsewhere."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests import support
from tests.docs.test_reference import shown

pytestmark = pytest.mark.all  # mkdocs builds it

LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""The elements that make a browser load something, with the attribute that names it."""

LATER = {"canonical", "next", "prev"}
"""Links that a browser does not load."""


class Reader(HTMLParser):
    """Notes what a page loads, where its links lead and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str | None] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.add(given.get("id"))
        loaded = given.get(LOADING.get(tag, ""))
        if loaded and given.get("rel") not in LATER:
            self.loaded.append(loaded)
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])


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
    """Every page that was built, by its place."""
    return {file: Reader(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}


def test_nothing_is_loaded_from_elsewhere(site, pages):
    assert len(pages) > 25
    for file, page in pages.items():
        away = [address for address in page.loaded if re.match(r"(\w+:)?//", address)]
        assert not away, f"{file.name} loads {away}"
    for file in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", file.read_text("utf-8"))


def test_no_link_is_dead(site, pages):
    for file, page in pages.items():
        if file.name == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links:
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            target = target / "index.html" if target.is_dir() else target
            assert target in pages or target.exists(), f"{file.name} links to {link}"
            assert not anchor or anchor in pages[target].anchors, f"{file.name} links to {link}"


def test_every_public_name_has_its_place(pages):
    there = set().union(*(page.anchors for page in pages.values()))
    missing = [sorted(places) for _, places in shown() if not places & there]
    assert not missing, f"without a docstring, or not rendered: {missing}"


def test_every_page_can_be_searched_for(site, pages):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    written = {str(file.relative_to(site)) for file in pages} - {"404.html"}
    assert {place or "index.html" for place in found} == written


def test_the_drawings_are_in_the_pages_themselves(site):
    text = Path(site, "concepts.html").read_text(encoding="utf-8")
    assert text.count("<svg xmlns") >= 5
    assert ".svg" not in text
    drawn = import_module("docs.pictures.draw").DRAWINGS
    for name, draw in drawn.items():
        file = support.REPOSITORY / "docs" / "pictures" / f"{name}.svg"
        assert file.read_text(encoding="utf-8") == draw()
