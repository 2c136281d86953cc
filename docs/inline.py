"""Puts the drawings into the pages themselves, where they take the page's colours, light or dark.

A page shows a drawing as any image, `![description](pictures/name.svg)`, so that it also appears
where the Markdown is read without this site. If there is `name.phone.svg` too, `site.css` shows it
on narrow screens. MkDocs calls `on_page_content` for every page.
"""

import re
from pathlib import Path
from typing import Any

_IMAGE = re.compile(r'<img alt="([^"]*)" src="([^"]*\.svg)" ?/?>')


def on_page_content(html: str, *, page: Any, **_: Any) -> str:
    """Replaces every image of a page that is an SVG file by the file's contents."""
    folder = Path(page.file.abs_src_path).parent

    def drawing(image: re.Match[str]) -> str:
        files = [folder / image[2], (folder / image[2]).with_suffix(".phone.svg")]
        texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
        # the search ignores the numbers at axes
        start = f'<svg role="img" aria-label="{image[1]}" data-search-exclude '
        return "".join(text.replace("<svg ", start, 1) for text in texts)

    return _IMAGE.sub(drawing, html)
