"""Where the YAML files are."""

from __future__ import annotations

from pathlib import Path

import fairbandit


def conf_folder() -> Path:
    """The config folder: in the package (a wheel), or beside it (a checkout)."""
    package = Path(fairbandit.__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
