"""Names of runs by what tells them apart, which stay as they are when other runs are added."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from fairbandit.results.pooling import NO_DIFFERENCE
from fairbandit.results.runs import SavedRun
from fairbandit.results.scenes import labels

_LONGEST = 120  # bytes of a label; with seed and place, it shall fit the 255 of a folder's name


@dataclass(frozen=True)
class Name:
    """What a run is called among others.

    Attributes:
        environment: the label of its environment.
        setting: the label of all its other settings but the seed.
        run: the label of the setting, with the seed.
    """

    environment: str
    setting: str
    run: str


class Names:
    """Names runs by what tells them apart.

    An environment or a policy is followed by the parameters in which those of its name differ, and
    a run by its seed. Where this is not enough, as when a command was given twice, the place of the
    run comes last. A label holds no `/`, so it can be the name of a folder. Nothing is renamed when
    other runs are added later.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[str, ...], dict[str, str]] = {}

    def add(self, runs: Sequence[SavedRun]) -> list[Name]:
        """Names some runs, among all that were named before."""
        told = labels([run.settings for run in runs], "environment")
        environments = [
            self._give((), _key(run.settings, "environment"), _safe(label), run)
            for run, label in zip(runs, told, strict=True)
        ]
        named: dict[Path, Name] = {}
        for environment in dict.fromkeys(environments):
            alike = [r for r, own in zip(runs, environments, strict=True) if own == environment]
            settings = [{k: v for k, v in run.settings.items() if k != "seed"} for run in alike]
            policies = labels(settings, "policy")
            for run, own, label in zip(alike, settings, policies, strict=True):
                setting = self._give((environment,), _key(own), _safe(label), run)
                seed = f"{setting}, seed={run.settings['seed']}"
                single = self._give((environment, setting), str(run.folder), seed, run)
                named[run.folder] = Name(environment, setting, single)
        return [named[run.folder] for run in runs]

    def _give(self, scope: tuple[str, ...], key: str, label: str, run: SavedRun) -> str:
        """Gives a label to what the key stands for, unless it has one; none is given twice."""
        given = self._given.setdefault(scope, {})
        if key not in given:
            numbers = (f"{label} ({number})" for number in count(2))
            wished = chain([label, f"{label} ({_safe(run.place)})"], numbers)
            given[key] = next(one for one in wished if one not in given.values())
        return given[key]


def _key(settings: Mapping[str, Any], start: str = "") -> str:
    """Returns a text that is the same for settings between which nothing tells.

    Args:
        settings: the settings.
        start: how the keys of those begin that matter.
    """
    kept = {k: v for k, v in settings.items() if k.startswith(start)}
    return json.dumps({k: v for k, v in kept.items() if not k.startswith(NO_DIFFERENCE)})


def _safe(text: str) -> str:
    """Returns a text that can be the name of a folder."""
    plain = "".join(one if one.isprintable() and one != "/" else "-" for one in text)
    return plain.encode()[:_LONGEST].decode(errors="ignore")
