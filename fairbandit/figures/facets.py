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
    """The options of figures.

    Attributes:
        by: a setting, named by its key or the end of it; each of its values gets a facet.
        interval: whether bands and bars are 95 % intervals of the mean, rather than one standard
            deviation to either side of it.
        size: the width and the height of a figure in inches; None takes the default.
        metrics: the columns in the figure `metrics`; empty takes all columns beside both regrets.
    """

    by: str | None = None
    interval: bool = False
    size: tuple[float, float] | None = None
    metrics: Sequence[str] = ()


@dataclass(frozen=True)
class Facet:
    """The runs of a scene that a panel shows.

    Attributes:
        scene: the runs of the facet, labelled by their differences.
        whole: all runs of the figure.
        title: the value that the facet's runs share; empty without a common value, or if the
            facet has all runs.
        options: the options of the figure.
    """

    scene: Scene
    whole: Scene
    title: str = ""
    options: Options = Options()

    @cached_property
    def looks(self) -> dict[str, Look]:
        """The looks of the runs by label; the names leave out a policy that all runs share."""
        shown = {
            run.label: run.label.removeprefix(f"{run.policy}, ") if self.policy else run.label
            for run in self.scene.runs
        }
        by_name = looks(shown.values())
        return {label: by_name[name] for label, name in shown.items()}

    @property
    def policy(self) -> str:
        """The display name of the policy that several runs share; empty if they differ."""
        names = {run.policy for run in self.scene.runs}
        several = len(self.scene.runs) > 1
        return policy_name(names.pop()) if several and len(names) == 1 else ""

    @property
    def heading(self) -> str:
        """The heading of the panels: the policy and the value that the runs share."""
        return ", ".join(dict.fromkeys(filter(None, (self.policy, self.title))))

    @property
    def spread(self) -> str:
        """The meaning of bands and bars, for the label of an axis; empty without replicas."""
        if all(run.replicas == 1 for run in self.whole.runs):
            return ""
        return "\n(mean, 95 % interval)" if self.options.interval else "\n(mean ± 1 std)"

    def ends(self, count: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Floats, Floats]:
        """Returns the lower and the upper ends of bands or bars; NaN where unknown."""
        if self.options.interval:
            return interval(count, mean, std)
        return np.subtract(mean, std), np.add(mean, std)

    def summarised(self, ends: Sequence[Mapping[str, Any]]) -> tuple[Floats, Floats]:
        """Returns means, (n,), and the lengths of the bars below and above them, (2, n).

        Each of `ends` has `n`, `mean` and `std`, None where unknown.
        """
        count, mean, std = (
            np.array([end[key] for end in ends], np.float64) for key in ("n", "mean", "std")
        )
        low, high = self.ends(count, mean, std)
        return mean, np.stack([mean - low, high - mean])


def split(scene: Scene, options: Options) -> list[Facet]:
    """Splits a scene into facets of at most `MOST_RUNS` runs.

    The runs of a facet share a value of the setting `options.by`. If it is None and the runs do not
    fit into one facet, the setting with the fewest facets of at least two runs each is chosen.
    Without such a setting, the runs are divided in their order.

    Raises:
        FairbanditError: the setting is unknown, or there are too many facets or runs in a facet.
    """
    runs, by = scene.runs, options.by
    if by is None and len(runs) <= MOST_RUNS:
        return [Facet(scene, scene, options=options)]
    settings = [run.settings for run in runs]
    if by is None:
        each = math.ceil(len(runs) / math.ceil(len(runs) / MOST_RUNS))
        pieces = [("", list(runs[at : at + each])) for at in range(0, len(runs), each)]
        apart = ["policy", *distinguishing(settings)]
        splits = [_by_setting(scene, key) for key in scene.differences if key in apart]
        pieces = min((s for s in splits if _fits(s, least=2)), key=len, default=pieces)
    else:
        pieces = _by_setting(scene, full_key(settings, by))
    if not _fits(pieces, least=1):
        most = max(len(members) for _, members in pieces)
        raise FairbanditError(
            f"a figure has at most {MOST_FACETS} facets of {MOST_RUNS} runs, not counting seeds, "
            f"but {scene.name} would have {len(pieces)} of up to {most}; choose runs with "
            "--policies or --where of `fairbandit figures`, or facets with --by: the runs differ "
            f"in {', '.join(scene.differences)}"
        )
    return [Facet(scene.among(members), scene, title, options) for title, members in pieces]


def _fits(pieces: Sequence[tuple[str, Sequence[PooledRuns]]], least: int) -> bool:
    return len(pieces) <= MOST_FACETS and all(least <= len(runs) <= MOST_RUNS for _, runs in pieces)


def _by_setting(scene: Scene, key: str) -> list[tuple[str, list[PooledRuns]]]:
    """Groups the runs by the value of a setting, which is the title of their facet."""
    shared: dict[str, list[PooledRuns]] = {}
    for run in scene.runs:
        value = run.settings.get(key)
        title = f"{short_names([key])[key]}={'null' if value is None else value}"
        shared.setdefault(policy_name(run.policy) if key == "policy" else title, []).append(run)
    return list(shared.items())
