"""Facets: a panel holds at most `MOST_RUNS` runs, and more runs become several panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairbandit.errors import FairbanditError
from fairbandit.figures.style import Look, looks, policy_name
from fairbandit.maths.moments import Floats
from fairbandit.results import PooledRuns, Scene, interval
from fairbandit.results.differences import distinguishing, full_key, short_names

MOST_RUNS, MOST_FACETS = 8, 9
"""The largest numbers of runs in a panel and of facets in a figure."""


@dataclass(frozen=True)
class Options:
    """How figures are drawn.

    Attributes:
        by: the setting of which every value gets a facet, by its key or the end of it.
        interval: whether bands and bars are 95 % intervals of the mean, rather than one standard
            deviation to either side of it.
        size: the width and the height of a figure in inches, if not its own.
        metrics: the columns that the figure `metrics` shows, if not those that runs were asked for.
    """

    by: str | None = None
    interval: bool = False
    size: tuple[float, float] | None = None
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Facet:
    """The runs of a scene that a panel shows.

    Attributes:
        scene: these runs alone, labelled by what sets them apart.
        whole: all runs of the figure.
        title: what these runs have in common; empty if it is nothing or they are all.
        options: how the figure is drawn.
    """

    scene: Scene
    whole: Scene
    title: str = ""
    options: Options = Options()

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The looks of the runs by their labels; a policy that they share is not named in each."""
        shown = {
            run.label: run.label.removeprefix(f"{run.policy}, ") if self.policy else run.label
            for run in self.scene.runs
        }
        made = looks(shown.values())
        return {label: made[name] for label, name in shown.items()}

    @property
    def policy(self) -> str:
        """The policy that several runs share, as figures write it; empty if they share none."""
        names = {run.policy for run in self.scene.runs}
        several = len(self.scene.runs) > 1
        return policy_name(names.pop()) if several and len(names) == 1 else ""

    @property
    def heading(self) -> str:
        """What these runs share, as it is written above their panels."""
        return ", ".join(dict.fromkeys(filter(None, (self.policy, self.title))))

    @property
    def spread(self) -> str:
        """What bands and bars are, to be written beside them; empty if there are none."""
        if all(run.replicas == 1 for run in self.whole.runs):
            return ""
        return "\n(mean, 95 % interval)" if self.options.interval else "\n(mean ± 1 std)"

    def ends(self, count: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
        """Returns the lower and the upper ends of bands or bars; NaN where they are not known."""
        if self.options.interval:
            return interval(count, mean, std)
        return np.subtract(mean, std), np.add(mean, std)

    def summarised(self, ends: Sequence[Mapping[str, Any]]) -> tuple[Floats, Floats]:
        """Returns means, (n,), and the lengths of the bars below and above them, (2, n).

        `ends` has the `n`, `mean` and `std` of each, None where unknown.
        """
        count, mean, std = (
            np.array([end[key] for end in ends], np.float64) for key in ("n", "mean", "std")
        )
        low, high = self.ends(count, mean, std)
        return mean, np.stack([mean - low, high - mean])


def split(scene: Scene, options: Options) -> list[Facet]:
    """Splits a scene into facets of at most `MOST_RUNS` runs.

    The runs of a facet share a value of the setting `options.by`. Where none is named and there are
    too many runs for one facet, it is the setting that makes the fewest facets, of at least two
    runs each. If there is no such setting, the runs are divided in their order.

    Raises:
        FairbanditError: no such setting, too many facets, or too many runs in one.
    """
    runs, by = scene.runs, options.by
    if by is None and len(runs) <= MOST_RUNS:
        return [Facet(scene, scene, options=options)]
    settings = [run.settings for run in runs]
    if by is None:
        each = math.ceil(len(runs) / math.ceil(len(runs) / MOST_RUNS))
        pieces = [("", list(runs[at : at + each])) for at in range(0, len(runs), each)]
        apart = ["policy", *distinguishing(settings)]
        found = [_by_setting(scene, key) for key in scene.differences if key in apart]
        pieces = min((one for one in found if _fits(one, least=2)), key=len, default=pieces)
    else:
        pieces = _by_setting(scene, full_key(settings, by))
    if not _fits(pieces, least=1):
        most = max(len(own) for _, own in pieces)
        raise FairbanditError(
            f"a figure has at most {MOST_FACETS} facets of {MOST_RUNS} runs, but for seeds, and "
            f"{scene.name} would have {len(pieces)} of up to {most}; choose runs with --policies "
            "or --where of `fairbandit figures`, or facets with --by: they differ in "
            f"{', '.join(scene.differences)}"
        )
    return [Facet(scene.among(own), scene, title, options) for title, own in pieces]


def _fits(pieces: Sequence[tuple[str, Sequence[PooledRuns]]], least: int) -> bool:
    return len(pieces) <= MOST_FACETS and all(least <= len(own) <= MOST_RUNS for _, own in pieces)


def _by_setting(scene: Scene, key: str) -> list[tuple[str, list[PooledRuns]]]:
    """Returns the runs by the title of their facet, which names the value of a setting."""
    shared: dict[str, list[PooledRuns]] = {}
    for run in scene.runs:
        value = run.settings.get(key)
        title = f"{short_names([key])[key]}={'null' if value is None else value}"
        shared.setdefault(policy_name(run.policy) if key == "policy" else title, []).append(run)
    return list(shared.items())
