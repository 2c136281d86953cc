"""Parts of a scene: a panel shows as many runs as can be told apart, and more become panels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from fairbandit.errors import FairbanditError
from fairbandit.figures.style import Look, looks, policy_name
from fairbandit.results import PooledRuns, Scene
from fairbandit.results.differences import short_names

MOST_RUNS = 8
"""The largest number of runs in a panel, which is that of the looks that are told apart."""

MOST_PARTS = 9
"""The largest number of panels of one quantity."""


@dataclass(frozen=True)
class Part:
    """The runs of a scene that a panel shows.

    Attributes:
        scene: these runs alone, labelled by what sets them apart.
        whole: all runs of the figure, from which a panel takes its limits, so that panels of one
            quantity have the same.
        title: what these runs have in common; empty if it is nothing or they are all.
    """

    scene: Scene
    whole: Scene
    title: str = ""

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The looks of the runs by their labels; a policy that they share is not named in each."""
        shown = {run.label: self._shown(run) for run in self.scene.runs}
        made = looks(shown.values())
        return {label: made[name] for label, name in shown.items()}

    @property
    def policy(self) -> str:
        """The policy that several runs share, as figures write it; empty if they share none."""
        names = {run.policy for run in self.scene.runs}
        several = len(self.scene.runs) > 1
        return policy_name(names.pop()) if several and len(names) == 1 else ""

    def _shown(self, run: PooledRuns) -> str:
        return run.label.removeprefix(f"{run.policy}, ") if self.policy else run.label


def split(scene: Scene) -> list[Part]:
    """Splits a scene into parts of at most `MOST_RUNS` runs.

    The runs of each part have a setting in common, the policy or another: that which makes the
    fewest parts, of at least two runs each. If there is none, parts are as even as they can be, in
    the order of the runs.

    Raises:
        FairbanditError: there are too many runs.
    """
    check_count(scene)
    if len(scene.runs) <= MOST_RUNS:
        return [Part(scene, scene)]
    return _by_setting(scene) or _evenly(scene)


def check_count(scene: Scene) -> None:
    """Refuses more runs than a figure shows.

    Raises:
        FairbanditError: there are too many runs.
    """
    count = len(scene.runs)
    if count > MOST_RUNS * MOST_PARTS:
        raise FairbanditError(
            f"a figure shows at most {MOST_RUNS * MOST_PARTS} runs that differ in more than their "
            f"seeds, and there are {count:,} in {scene.name}; choose some with --policies or "
            f"--where of `fairbandit figures`: they differ in {', '.join(scene.differences)}"
        )


def _by_setting(scene: Scene) -> list[Part]:
    found: list[dict[str, list[PooledRuns]]] = []
    for key, short in short_names(scene.differences).items():
        shared: dict[str, list[PooledRuns]] = {}
        for run in scene.runs:
            shared.setdefault(_title(run, key, short), []).append(run)
        if len(shared) <= MOST_PARTS and all(2 <= len(r) <= MOST_RUNS for r in shared.values()):
            found.append(shared)
    if not found:
        return []
    fewest = min(found, key=len)
    return [Part(scene.among(runs), scene, title) for title, runs in fewest.items()]


def _title(run: PooledRuns, key: str, short: str) -> str:
    if key == "policy":
        return policy_name(run.policy)
    if key not in run.settings:
        return f"no {short}"
    value = run.settings[key]
    return f"{short}={'null' if value is None else value}"


def _evenly(scene: Scene) -> list[Part]:
    count = math.ceil(len(scene.runs) / MOST_RUNS)
    bounds = [round(part * len(scene.runs) / count) for part in range(count + 1)]
    pieces = (scene.runs[low:high] for low, high in pairwise(bounds))
    return [Part(scene.among(piece), scene) for piece in pieces]
