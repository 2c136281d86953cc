"""Writes three tutorials as notebooks, `docs/notebooks/*.ipynb`, with outputs of the pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent

TUTORIALS = ("paper", "table", "service")
"""The tutorials that are notebooks, too."""

FENCE = re.compile(r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```\n', re.DOTALL | re.MULTILINE)
"""A fenced block: its language, its file and its text."""

START = """\
import os
import tempfile

os.environ["TERM"] = "dumb"  # so that commands print plain text
%cd -q {tempfile.mkdtemp()}
"""
"""The first cell: all files are in a new folder."""

SERVICE = """\
import socket
import subprocess
import time

service = subprocess.Popen({words})
while service.poll() is None and socket.socket().connect_ex(("127.0.0.1", {port})):
    time.sleep(0.1)
"""
"""The cell that starts a service, and waits until it answers."""

STOP = """\
service.terminate()
service.wait()
"""


def notebook(page: str) -> dict[str, Any]:
    """A page as a notebook, in nbformat 4.5.

    A file that the page shows is written by `%%writefile`, commands run by `!`, and the block after
    them is their output. Commands that install packages or wait for Ctrl-C stay text.
    """
    cells, at = list[dict[str, Any]](), 0

    def add(kind: str, source: str) -> None:
        code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
        if source.strip():
            cell = {"cell_type": kind, "id": f"cell-{len(cells)}", "metadata": {}}
            cells.append({**cell, "source": source.strip().splitlines(keepends=True), **code})

    for fence in FENCE.finditer(page):
        between, (language, file, text) = page[at : fence.start()], fence.groups()
        follows = not between.strip() and cells and cells[-1]["cell_type"] == "code"
        if language == "" and follows:
            output = {"output_type": "stream", "name": "stdout"}
            cells[-1]["outputs"] = [{**output, "text": text.splitlines(keepends=True)}]
            at = fence.end()
        elif (source := _code(language, file, text)) is not None:
            add("markdown", between)
            if not any(cell["cell_type"] == "code" for cell in cells):
                add("code", START)
            add("code", source)
            at = fence.end()
    add("markdown", page[at:])
    if "uvicorn" in page:
        add("code", STOP)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _code(language: str, file: str | None, text: str) -> str | None:
    """The code of a block; None if it stays text."""
    if language == "python":
        return f"%%writefile {file}\n{text}" if file else text
    program, *words = text.split() if language == "console" else ("",)
    if program == "uvicorn":
        return SERVICE.format(words=[program, *words], port=words[-1])
    if program in ("fairbandit", "python") and words[0] != "dashboard":
        return "".join(f"!{line}\n" for line in text.splitlines())
    return None


def text(name: str) -> str:
    """The notebook of a tutorial, as the text of its file."""
    page = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    page = re.sub(r"\]\((?=\w+\.md)", "](../tutorials/", page)
    return json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in TUTORIALS:
        path = DOCS / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(name), encoding="utf-8")
