"""The folder that TensorBoard reads: links to runs under telling names, and what they come to."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Container, Sequence
from contextlib import closing
from dataclasses import dataclass
from fnmatch import filter as filter_names
from functools import partial
from itertools import chain, count
from os.path import relpath
from pathlib import Path

from tensorboard.compat.proto.summary_pb2 import Summary

from fairbandit.cli import hparams
from fairbandit.results import PooledRuns, SavedRun, pool
from fairbandit.results.events import pooled_scalars
from fairbandit.results.names import Name, Names
from fairbandit.results.runs import natural_order
from fairbandit.run import summary as summaries
from fairbandit.run.folder import ERROR, EVENTS, LOCK, SUMMARY, walk
from fairbandit.run.tensorboard import EventWriter, config_text, read_config

POOLED, SINGLE, OTHER = "pooled", "single", "other"
"""How the names of pooled runs begin, of single runs, and of folders that hold no run."""

_Fill = Callable[[Path], None]


@dataclass(frozen=True)
class Recorded:
    """A folder with event files.

    Attributes:
        folder: the folder.
        place: its path below the folder that was searched.
        events: the names of its event files.
        finished: when the run in it was finished, as the time of its summary; None if it is under
            way, or if what is in the folder is no run.
        locked: whether a run writes to it, or was killed while it did.
    """

    folder: Path
    place: str
    events: tuple[str, ...]
    finished: int | None
    locked: bool


def recorded(folders: Sequence[Path]) -> list[Recorded]:
    """Finds all folders with event files below some folders, in natural order of their places."""
    found: dict[Path, Recorded] = {}
    for top in folders:
        for path, _, files in walk(top):
            events = tuple(sorted(filter_names(files, EVENTS)))
            folder = Path(path).resolve()
            if events and folder not in found:
                place = relpath(path, top)
                place = top.absolute().name if place == "." else place
                time = _finished(folder) if SUMMARY in files and ERROR not in files else None
                found[folder] = Recorded(folder, place, events, time, LOCK in files)
    return sorted(found.values(), key=lambda one: natural_order(one.place))


def _finished(folder: Path) -> int:
    return (folder / SUMMARY).stat().st_mtime_ns


class ServedRuns:
    """Keeps a folder for TensorBoard up to date with the runs below other folders.

    Every run is linked as `single/ENVIRONMENT/SETTING, seed=N`. In an environment with settings
    that are finished with several seeds, every setting that is finished with any has a pooled run,
    `pooled/ENVIRONMENT/SETTING`. Other folders with event files, such as those of figures, are
    linked as `other/PLACE`.

    Args:
        folders: where the runs are.
        into: an empty folder.
    """

    def __init__(self, folders: Sequence[Path], into: Path) -> None:
        self.folders, self.into = folders, into
        self._names = Names()
        self._seen: list[Recorded] = []
        self._runs: dict[Recorded, tuple[SavedRun, Name]] = {}
        self._made: dict[str, object] = {}

    def look(self) -> None:
        """Links what is new, removes what is gone, and pools again what has changed.

        Raises:
            FairbanditError: a summary that cannot be read.
            OSError: a folder that was moved meanwhile; the next look finds where it is then.
        """
        found = recorded(self.folders)
        if found == self._seen:
            return
        runs = {one: run for one in found if (run := self._read(one)) is not None}
        names = self._names.add(list(runs.values()))
        self._runs = dict(zip(runs, zip(runs.values(), names, strict=True), strict=True))
        # a run that has not written its config yet is linked at a later look
        ready = [one for one in found if one in runs or not one.locked]
        wanted = self._wanted(ready)
        for gone in self._made.keys() - wanted.keys():
            shutil.rmtree(self.into / gone)
            del self._made[gone]
        for name, (content, fill) in wanted.items():
            if self._made.get(name) != content:
                (self.into / name).mkdir(parents=True, exist_ok=True)
                fill(self.into / name)
                self._made[name] = content
        self._seen = found if len(ready) == len(found) else []

    def first(self) -> dict[str, dict[str, str]]:
        """Returns what to see first: pooled runs, or single ones in an environment without any.

        Returns:
            For each environment the policies of these runs, by their names on the dashboard.
        """
        shown: dict[str, dict[str, str]] = {}
        for pooled, name in self._pools():
            own = shown.setdefault(name.environment, {})
            own[f"{POOLED}/{name.environment}/{name.setting}"] = pooled.policy
        single = [(run, name) for run, name in self._runs.values() if name.environment not in shown]
        for run, name in single:
            own = shown.setdefault(name.environment, {})
            own[f"{SINGLE}/{name.environment}/{name.run}"] = run.summary["policy"]
        return dict(sorted(shown.items()))

    def _read(self, one: Recorded) -> SavedRun | None:
        """Returns the run in a folder, finished or under way, or None if there is none."""
        if one in self._runs:
            return self._runs[one][0]
        if one.finished is not None:
            return SavedRun(one.folder, summaries.read(one.folder), one.place)
        config = read_config(one.folder)
        if config is None:
            return None
        named = {key: config[key]["name"] for key in ("policy", "environment")}
        return SavedRun(one.folder, {**config, **named, "config": config}, one.place)

    def _wanted(self, ready: Sequence[Recorded]) -> dict[str, tuple[object, _Fill]]:
        """Returns, by its name, what each folder shall hold and a function that fills it."""
        wanted: dict[str, tuple[object, _Fill]] = {}
        for one in ready:
            run, name = self._runs.get(one, (None, None))
            if run is None or name is None:
                path = _free(f"{OTHER}/{one.place.replace('/', '-')}", wanted)
                wanted[path] = one, partial(_link, one)
            else:
                path = f"{SINGLE}/{name.environment}/{name.run}"
                wanted[path] = one, partial(_link_run, one, run, name)
        for pooled, name in self._pools():
            path = _free(f"{POOLED}/{name.environment}/{name.setting}", wanted)
            wanted[path] = pooled.runs, partial(_write_pooled, pooled)
        if self._runs:
            columns = hparams.columns([run for run, _ in self._runs.values()])
            digest = hashlib.sha256(columns.SerializeToString()).hexdigest()[:6]
            wanted[f"hparams-{digest}"] = digest, partial(_write, columns)
        return wanted

    def _pools(self) -> list[tuple[PooledRuns, Name]]:
        """Pools the finished runs of environments in which some setting has several."""
        finished = [run for one, (run, _) in self._runs.items() if one.finished is not None]
        if not finished:
            return []
        names = {run.folder: name for run, name in self._runs.values()}
        pools = [(one, names[one.runs[0].folder]) for one in pool(finished)]
        several = {name.environment for one, name in pools if len(one.runs) > 1}
        return [(one, name) for one, name in pools if name.environment in several]


def _free(name: str, taken: Container[str]) -> str:
    """Returns a name, or the first of NAME (2), NAME (3), … that is not taken."""
    others = (f"{name} ({number})" for number in count(2))
    return next(one for one in chain([name], others) if one not in taken)


def _link(one: Recorded, into: Path) -> None:
    """Links the event files of a folder, and removes links to others."""
    for event in into.glob(EVENTS):
        if event.is_symlink() and event.name not in one.events:
            event.unlink()
    for name in one.events:
        if not (into / name).is_symlink():
            (into / name).symlink_to(one.folder / name)


def _link_run(one: Recorded, run: SavedRun, name: Name, into: Path) -> None:
    """Links the event files of a run, beside one of its own with its row in HParams."""
    if not any(into.iterdir()):
        _write(hparams.row(run, f"{name.environment}/{name.setting}"), into)
    _link(one, into)


def _write_pooled(pooled: PooledRuns, into: Path) -> None:
    """Writes pooled curves, in place of earlier ones."""
    scalars = pooled_scalars(pooled)
    config = {k: v for k, v in pooled.runs[0].summary["config"].items() if k not in pooled.over}
    for earlier in into.glob(EVENTS):
        earlier.unlink()
    with closing(EventWriter(into)) as events:
        events.write(config_text(config))
        for step, values in scalars.items():
            events.add(step, values)


def _write(summary: Summary, into: Path) -> None:
    with closing(EventWriter(into)) as events:
        events.write(summary)
