"""What a page of a report shows, as Python's own parser reads it."""

from html.parser import HTMLParser


class Shown(HTMLParser):
    """The elements of a page, its texts by element, and its tables with the best cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements, self.texts = set[str](), list[tuple[str, str]]()
        self.tables, self.best = list[list[list[str]]](), list[set[str]]()
        self._open = list[str]()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self._open.append(tag)
        if tag == "table":
            self.tables.append([])
            self.best.append(set())
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._best = ("class", "best") in attrs

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        inner = self._open[-1] if self._open else ""
        self.texts.append((inner, data))
        if inner in ("td", "th"):
            self.tables[-1][-1][-1] += data
            if self._best:
                self.best[-1].add(data)

    def table(self, *heads: str) -> list[list[str]]:
        """The table whose header begins with some words."""
        (found,) = (one for one in self.tables if one[0][: len(heads)] == [*heads])
        return found
