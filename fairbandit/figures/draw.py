"""The figures by name, drawn of saved runs and written to files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbandit.errors import FairbanditError, check_known
from fairbandit.figures import panels
from fairbandit.figures.comparison import compose_comparison
from fairbandit.figures.layout import Options, lay_out
from fairbandit.figures.style import applied
from fairbandit.files.files import written_aside
from fairbandit.metrics import REGRETS
from fairbandit.runs import Run, read_runs
from fairbandit.runs.naming import chosen, full_key, union
from fairbandit.runs.scenes import Scene, scenes_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUBFOLDER = "figures"

Choice = Mapping[str, Sequence[str] | None]
"""The names of figures, each with the policies that it shows; None shows all policies."""

_MAX_NAME = 100  # maximal length of an environment's name in a file name


def _metrics(scene: Scene, options: Options) -> Figure:
    columns = options.metrics or _further(scene)
    if not columns:
        raise FairbanditError(
            f"no run in {scene.name} has a metric beside both regrets; play runs with "
            "metrics={COLUMN: NAME} to record others"
        )
    return lay_out(
        (), [partial(panels.curves, column=column) for column in columns], scene, options
    )


_DENSITY, _CDF = (partial(panels.rewards, which=which) for which in ("density", "cdf"))
_REGRETS = tuple(partial(panels.curves, column=column) for column in REGRETS)

FIGURES: Mapping[str, Callable[[Scene, Options], Figure]] = {
    "overview": partial(lay_out, (_DENSITY,), _REGRETS),
    "selection": partial(lay_out, (), (panels.selected_share, *_REGRETS)),
    "distributions": partial(lay_out, (_DENSITY, _CDF), _REGRETS),
    "counts": partial(lay_out, (_DENSITY,), (panels.selected_count, *_REGRETS)),
    "price": partial(lay_out, (), (panels.price,)),
    "frontier": partial(lay_out, (panels.frontier,), ()),
    "metrics": _metrics,
    "notions": compose_comparison,
}
"""The functions that draw each figure, by name; `fairbandit figures --help` describes them."""


def general(scene: Scene) -> list[str]:
    """Returns the names of the figures that are drawn for a scene by default."""
    truth = any(run.metrics[regret]["mean"] is not None for run in scene.runs for regret in REGRETS)
    left_out = {"frontier", "notions"} | (set() if _further(scene) else {"metrics"})
    left_out |= set() if truth else {"overview", "distributions", "price"}
    return [name for name in FIGURES if name not in left_out]


def compose(name: str, scene: Scene, options: Options | None = None) -> Figure:
    """Draws one of `FIGURES`, without any change to matplotlib's global state."""
    return FIGURES[name](scene, options or Options())


def figure(
    name: str,
    *runs: Run | str | PathLike[str],
    policy: Sequence[str] | None = None,
    where: Mapping[str, Sequence[Any]] | None = None,
    **options: Any,
) -> Figure:
    """Draws a figure of runs in one environment, and writes no file.

    Args:
        name: one of `FIGURES`.
        runs: results of `fairbandit.run`, or folders that contain runs at any depth.
        policy, where: the policies to show, and the allowed values of some settings; None is all.
        options: the attributes of `Options`, such as `by`.

    Raises:
        FairbanditError: the figure is unknown, no run is chosen, or runs have several environments.

    Example:
        run = fairbandit.run({"policy": "fair_greedy", "rounds": 500})
        fairbandit.figures.figure("overview", run).savefig("overview.png")
    """
    check_known("figure", [name], FIGURES)
    folders = [Path(run) for run in runs if not isinstance(run, Run)]
    results = [run for run in runs if isinstance(run, Run)]
    results += read_runs(folders) if folders else []
    scenes = scenes_of(chosen(results, where or {}))
    if len(scenes) != 1:
        names = ", ".join(scene.name for scene in scenes)
        raise FairbanditError(f"a figure is of one environment; choose one of {names} by where")
    return compose(name, scenes[0].only(policy), Options(**options))


def _further(scene: Scene) -> list[str]:
    return [column for column in scene.metrics if column not in REGRETS]


def draw(
    folders: Sequence[Path],
    out: Path,
    choice: Choice | None = None,
    policies: Sequence[str] | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
    options: Options | None = None,
) -> list[Path]:
    """Draws figures of saved runs, in separate files for each environment.

    Args:
        folders: folders that contain runs, at any depth.
        out: the folder of the files; existing files of the same names are replaced.
        choice: the figures to draw, and the policies that each shows; None draws every figure for
            which the runs have data, except `frontier` and `notions`.
        policies: the policies in figures for which `choice` does not name any; None shows all.
        where: the allowed values of some settings; None takes all runs.
        options: the options of the figures.

    Returns:
        The files, in the order of the environments' names and of `FIGURES`.

    Raises:
        FairbanditError: a figure, metric or setting is unknown, no run has the policies or the
            values, or runs are damaged.
        OSError: `out` cannot be written to.
    """
    check_known("figure", choice or {}, FIGURES)
    scenes, options = scenes_of(chosen(read_runs(folders), where or {})), options or Options()
    check_known("metric", options.metrics, union(scene.metrics for scene in scenes))
    if options.by:  # a word means the same in the figures of all environments
        settings = [run.settings for scene in scenes for run in scene.runs]
        options = replace(options, by=full_key(settings, options.by))
    files = list[Path]()
    for scene, slug in zip(scenes, _slugs(scenes), strict=True):
        figures = dict.fromkeys(general(scene)) if choice is None else choice
        for name, selected in figures.items():
            stem = name if len(scenes) == 1 else f"{slug}-{name}"
            made = compose(name, scene.only(selected or policies), options)
            files += save(made, out, stem)
    return files


def _slugs(scenes: Sequence[Scene]) -> list[str]:
    slugs = [re.sub(r"[^A-Za-z0-9._]+", "-", scene.name).strip("-")[:_MAX_NAME] for scene in scenes]
    if len(set(slugs)) == len(slugs):
        return slugs
    return [f"{slug}-{number}" for number, slug in enumerate(slugs, 1)]


def save(figure: Figure, folder: Path, stem: str) -> tuple[Path, Path]:
    """Writes a figure of matplotlib as STEM.png and STEM.pdf, atomically, and returns the paths."""
    with applied():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # both files reuse this layout, which is slow to compute
        paths = folder / f"{stem}.png", folder / f"{stem}.pdf"
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            with written_aside(path) as file:
                figure.savefig(file, format=path.suffix[1:])
    return paths
