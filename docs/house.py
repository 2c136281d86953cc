"""Draws the folders of the package as floors of a house, from their imports.

`python docs/house.py` writes the picture into CONTRIBUTING.md. A folder stands one floor above the
highest folder that it imports from, so that imports lead down.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

PACKAGE = ROOT / "fairbandit"

PAGE = ROOT / "CONTRIBUTING.md"

MARK = "<!-- made by docs/house.py -->\n"
"""A line before and after the picture."""

IMPORT = re.compile(r"^\s*(?:from|import) fairbandit(?:\.(\w+)|\s+import\s+([\w, ]+))", re.M)


def rooms() -> list[Path]:
    """Returns the folders of the package, and its modules that are in no folder."""
    inside = [path for path in PACKAGE.iterdir() if not path.name.startswith(("_", "."))]
    return sorted(
        path for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()
    )


@cache
def imported(room: Path) -> frozenset[str]:
    """Returns the other folders and modules that the files of a room import."""
    files = [room] if room.is_file() else room.rglob("*.py")
    names = set[str]()
    for file in files:
        for inside, several in IMPORT.findall(file.read_text(encoding="utf-8")):
            names |= {inside} if inside else set(re.split(r",\s*", several))
    return frozenset(names & {each.stem for each in rooms()} - {room.stem})


@cache
def floor(name: str) -> int:
    """Returns the length of the longest chain of imports below a room."""
    (room,) = (room for room in rooms() if room.stem == name)
    return 1 + max(map(floor, imported(room)), default=-1)


def picture() -> str:
    """Returns the picture, the highest floor first."""
    floors: dict[int, list[str]] = {}
    for room in rooms():
        floors.setdefault(floor(room.stem), []).append(room.stem)
    drawn = [
        f"{number:>2}  {'   '.join(floors[number])}" for number in sorted(floors, reverse=True)
    ]
    return "\n".join(["```text", *drawn, "```"]) + "\n"


def page() -> str:
    """Returns CONTRIBUTING.md with the picture of today."""
    before, _, after = PAGE.read_text(encoding="utf-8").split(MARK)
    return MARK.join([before, picture(), after])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(picture(), end="")
