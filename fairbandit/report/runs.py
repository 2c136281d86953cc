"""The report of saved runs: which policy does best, how each group fares, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fairbandit.conformance.group import READS, answers, in_words
from fairbandit.figures.draw import compose, general
from fairbandit.figures.layout import MOST_RUNS, Options, lay_out
from fairbandit.figures.panels import selected_share
from fairbandit.notices import listed
from fairbandit.policy.build import policy_label
from fairbandit.report.page import Part, Report
from fairbandit.runs.naming import differing, shown
from fairbandit.runs.overview import overview
from fairbandit.runs.scenes import PooledRuns, Scene, read_scenes
from fairbandit.runs.sheets import Sheet, estimate, metric_header

_FIGURES = ("overview", "price", "metrics")

_REGRETS = """\
Fair regret adds up, over the rounds, how far the relative rank of the pick is below the best one of
its pool. A relative rank is the share of the pick's own group with at most the pick's true reward.
Standard regret does the same with true rewards."""

_BEST = """\
The best values are bold and shaded, and so are all that cannot be told from the best: the 95 %
interval of their difference, replica by replica, contains 0. Policies that know the truth are not
compared, and nothing is corrected for the number of comparisons."""

_INTERVALS = """\
Means and their 95 % intervals over the replicas (Student's t). They speak of further replicas of
the same setting, not of other environments. A mean without an interval is of one replica, or of
replicas that all have the same value."""

_HASHES = """\
Hashes are SHA-256. The checksum of a run covers its settings, versions, data, plugins and results.
Each file was compared with it when it was read for this report."""


def of_runs(folder: Path) -> Report:
    """Reports the finished runs below a folder, which are pooled over seeds.

    Raises:
        FairbanditError: no run has finished, or a file is missing or damaged.
    """
    scenes = read_scenes([folder])
    runs = [run for scene in scenes for run in scene.runs]
    where = listed([scene.name for scene in scenes], 6)
    names = listed([*dict.fromkeys(policy_label(run.policy) for run in runs)], 6)
    which = f"Which of {len(runs)} settings of {names} does best"
    if len(runs) == 1:
        which = f"How does {names} do"
    question = f"{which} in {where}, and how does each group fare?"
    parts = [part for scene in scenes for part in _scene(scene)]
    return Report(f"Runs in {folder.name}", question, [*parts, *_made(runs)])


def _scene(scene: Scene) -> Iterator[Part]:
    runs, few = scene.runs, len(scene.runs) <= MOST_RUNS
    several = len(runs) > 1
    yield f"## Results in {scene.name}"
    yield replace(sheet := overview(runs, printed=True), bold=sheet.bold if several else ())
    yield group_line(scene)
    yield from (_REGRETS, _BEST) if several else (_REGRETS,)
    for name in (name for name in _FIGURES if few and name in general(scene)):
        yield compose(name, scene)
    if not few:
        yield f"Figures show at most {MOST_RUNS} settings at once, and here are {len(runs):,}."
    yield "## By group"
    yield overview(runs, groups=True, printed=True)
    if few:
        yield lay_out((), [selected_share], scene, Options())
    yield "## How sure"
    yield _INTERVALS
    metrics = {column: end for run in runs for column, end in run.metrics.items()}
    heads = [metric_header(column, metrics[column]) for column in scene.metrics]
    values = [[run.metrics.get(column, {"mean": None}) for column in scene.metrics] for run in runs]
    rows = [(run.label, *map(estimate, row)) for run, row in zip(runs, values, strict=True)]
    yield Sheet(("", *heads), rows)


def group_line(scene: Scene) -> str:
    """Returns the line that says which policies of a scene read the group at the decision."""
    first = scene.runs[0]
    configs = {run.label: run.runs[0].summary["config"]["policy"] for run in scene.runs}
    groups = max(len(first.groups), 2)  # with one group, no candidate could have another
    readers = answers(configs, first.runs[0].summary.get("group_feature"), groups)
    return f"{READS.capitalize()}: {in_words(readers)}."


def _made(runs: Sequence[PooledRuns]) -> Iterator[Part]:
    varying, settings, files = differing([run.settings for run in runs]), [], []
    for run in runs:
        values = (f"{key}={shown(run.settings[key])}" for key in varying if key in run.settings)
        settings.append((run.label, ", ".join(values)))
        for single in run.runs:
            identity, seed = single.summary["identity"], f"{single.summary['seed']}"
            data, plugins = identity["data"] or "–", identity["plugins"] or "–"
            files.append((single.place, seed, data, plugins, single.summary["checksum"]))
    shared = [(key, shown(value)) for key, value in runs[0].settings.items() if key not in varying]
    yield "## How it was made"
    yield Sheet(("setting", "its own values"), settings, names=2)
    yield Sheet(("shared by all settings", ""), shared, names=2)
    yield Sheet(("folder", "seed", "data", "plugins", "checksum"), files, names=5)
    yield _HASHES
