"""Reads the named policies, YAML files in `conf/policy/`, without Hydra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fairbandit.registry import PART_KINDS


def conf_folder() -> Path:
    """The config folder: in the package (a wheel), or beside it (a checkout)."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def presets() -> dict[str, Path]:
    """The file of each named policy, sorted by name."""
    return {file.stem: file for file in sorted((conf_folder() / "policy").glob("*.yaml"))}


def preset(name: str) -> dict[str, Any]:
    """A named policy as plain data: for each kind, a mapping with `name` and hyperparameters.

    >>> preset("greedy")["estimator"]
    {'name': 'ridge', 'noise': 0.0}
    """
    plain = OmegaConf.to_container(OmegaConf.load(presets()[name]))
    assert isinstance(plain, dict)
    chosen = {
        kind: part
        for entry in plain["defaults"]
        if entry != "_self_"
        for kind, part in entry.items()
    }
    return {
        "name": name,
        **{kind: {"name": chosen[kind], **plain.get(kind, {})} for kind in PART_KINDS},
    }
