"""`fairbandit dashboard`: serves TensorBoard on saved runs to this machine."""

from __future__ import annotations

import math
import re
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from fnmatch import filter as filter_names
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import summary_v2 as hparams

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.files.files import fresh
from fairbandit.policy.build import policy_label
from fairbandit.runs import PooledRuns, Run, read_runs
from fairbandit.runs.folder import EVENTS, LOCK, finished_below, walk
from fairbandit.runs.naming import union
from fairbandit.runs.scenes import scenes_of
from fairbandit.runs.tensorboard import EventWriter, config_text, scalars, titled

HOST = "127.0.0.1"
"""The address to which TensorBoard is bound; only this machine can connect to it."""

MOST_LINES = 12
"""The largest number of runs on the page that opens."""

POOLED, RUNS = "pooled", "runs"
"""The first parts of the names of pooled runs, and of the runs in the given folders."""

UNFINISHED = "unfinished runs"

_CURVES = "custom_scalars&_smoothingWeight=0"  # smoothing would hide the first rounds
_LONGEST = 150  # bytes of a folder's name

_HELP = """\
Starts TensorBoard on the runs below some folders, finished or under way, and prints its address.
Only this machine can connect to it. Ctrl-C ends it.

Runs are called
  pooled/ENVIRONMENT/SETTING  finished runs that differ only in their seeds, pooled
  runs/FOLDER/...             every single run below the folder

The command prints one address for each environment and one for unfinished runs; each page shows at
most a dozen runs. To see others, change the regular expression above the list of runs, for example
to pooled/, runs/ or simulation/.*OFUL. Repeat the command to pool runs that have finished since."""

_EXAMPLES = "example:\n  fairbandit dashboard outputs --port 7007"


def dashboard(words: Sequence[str]) -> None:
    """Serves TensorBoard, prints the address of each page, and waits for Ctrl-C."""
    from tensorboard import program

    parser = tool_parser("dashboard", _HELP, _EXAMPLES, folders=True)
    parser.add_argument("--port", type=int, help="by default the first free one from 6006 on")
    given = parser.parse_args(words)
    with (
        tempfile.TemporaryDirectory(prefix="fairbandit-dashboard-") as logdir,
        suppress(KeyboardInterrupt),
    ):
        for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in a background job
            signal.signal(number, signal.default_int_handler)
        pages = _pages(given.folders, Path(logdir))
        try:
            base = _launched(logdir, given.port)
        except program.TensorBoardServerException as error:
            raise FairbanditError(f"TensorBoard does not start: {error}") from error
        shown = ", ".join(str(short(folder)) for folder in given.folders)
        for title, address in pages.items():
            suffix = f", {title}" if len(pages) > 1 else ""
            print(f"TensorBoard on {shown}{suffix}: {base}{address}")
        print(f"All runs: {base}\nCtrl-C ends it.", flush=True)
        threading.Event().wait()


def _launched(logdir: str, port: int | None) -> str:
    """Starts TensorBoard and returns its address.

    By default, TensorBoard prints a note about its fast loader.
    """
    from tensorboard import program

    server: Any = program.TensorBoard()
    server.configure(logdir=logdir, host=HOST, port=port, load_fast="true")
    try:
        return str(server.launch())
    except SystemExit:  # it has printed why its fast loader fails
        server.configure(logdir=logdir, host=HOST, port=port, load_fast="false")
        return str(server.launch())


def _pages(folders: Sequence[Path], logdir: Path) -> dict[str, str]:
    """Fills TensorBoard's folder; returns the pages of the environments and of unfinished runs."""
    unfinished = link_runs(folders, logdir)
    finished = any(place for folder in folders for place in finished_below(folder))
    if not finished and not unfinished:
        raise FairbanditError(f"no run below {', '.join(map(str, folders))}")
    pooled = write_pooled(read_runs(folders), logdir) if finished else {}
    if unfinished:
        pooled[UNFINISHED] = unfinished
    return {title: page(names) for title, names in pooled.items()}


def link_runs(folders: Sequence[Path], logdir: Path) -> list[str]:
    """Links folders below `runs`, and returns the names of their unfinished runs."""
    unfinished = []
    (logdir / RUNS).mkdir()
    for folder in folders:
        link = _free(logdir / RUNS, folder.resolve().name)
        link.symlink_to(folder.resolve())
        for place, _, files in walk(folder):
            if LOCK in files and filter_names(files, EVENTS):
                path = link / Path(place).relative_to(folder)
                unfinished.append(path.relative_to(logdir).as_posix())
    return unfinished


def write_pooled(runs: Sequence[Run], logdir: Path) -> dict[str, list[str]]:
    """Writes the curves, the config and the row of HParams of each setting below `pooled`.

    Returns:
        For each environment, in order, the names of the curves of its settings.
    """
    scenes = scenes_of(runs)
    settings = [pooled for scene in scenes for pooled in scene.runs]
    rows = rows_of(settings)
    columns, row_of = columns_of(rows, union(run.metrics for run in settings)), iter(rows)
    names: dict[str, list[str]] = {}
    for scene in scenes:
        environment = _free(logdir / POOLED, scene.name)
        curves = names[environment.name] = []
        for pooled in scene.runs:
            folder = _free(environment, pooled.label)
            folder.mkdir(parents=True)
            curves.append(folder.relative_to(logdir).as_posix())
            config = pooled.runs[0].summary["config"]
            with closing(EventWriter(folder)) as events:
                events.write(config_text({k: v for k, v in config.items() if k != "seed"}))
                events.write(columns)
                row = folder.relative_to(logdir / POOLED).as_posix()
                events.write(hparams.hparams_pb(next(row_of), trial_id=row))
                events.add(scalars(pooled.curves))
    return names


def rows_of(runs: Sequence[PooledRuns]) -> list[dict[str, bool | float | str]]:
    """Returns the rows of HParams: the environment, the policy and the settings that vary.

    TensorBoard sorts and filters a column only if its values are of one type. So a column holds
    truth values alone, finite numbers alone, or texts. A null is left out of its row.
    """
    known = [[one for one in run.varied if run.settings[one.key] is not None] for run in runs]
    kinds = dict[str, set[type]]()
    for run, settings in zip(runs, known, strict=True):
        for one in settings:
            kinds.setdefault(one.name, set()).add(_kind(run.settings[one.key]))
    rows = list[dict[str, bool | float | str]]()
    for run, settings in zip(runs, known, strict=True):
        environment, policy = str(run.settings["environment"]), policy_label(run.policy)
        rows.append({"environment": environment, "policy": policy})
        for one in settings:
            plain = len(kinds[one.name]) == 1 and str not in kinds[one.name]
            rows[-1][one.name] = run.settings[one.key] if plain else one.text
    return rows


def _kind(value: Any) -> type:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return bool if isinstance(value, bool) else float if is_number else str


def columns_of(rows: Sequence[Mapping[str, bool | float | str]], metrics: Sequence[str]) -> Summary:
    """Returns the columns of HParams, with the type and the range of values of each setting."""
    columns = []
    for name in union(rows):
        values = {row[name] for row in rows if name in row}
        numbers = [float(value) for value in values if _kind(value) is float]
        domain: hparams.Domain = hparams.Discrete(values)
        if numbers:
            domain = hparams.RealInterval(min(numbers), max(numbers))
        columns.append(hparams.HParam(name, domain))
    means = [hparams.Metric(f"{name}/mean", display_name=titled(name)) for name in metrics]
    return hparams.hparams_config_pb(columns, means)


def page(names: Sequence[str]) -> str:
    """Returns the address of the page that shows the first `MOST_LINES` of some curves."""
    shown = [f"{name}$" for name in names[:MOST_LINES]]
    if len(names) <= MOST_LINES and names[0].startswith(POOLED):  # all of an environment
        shown = [names[0].rpartition("/")[0] + "/"]
    # in an address, only these characters stay as they are
    patterns = [re.sub(r"[^\w/,$-]", ".", name) for name in shown]
    regex = quote(f"^({'|'.join(patterns)})", safe="/,()")
    return f"?runFilter={regex}#{_CURVES}&regexInput={regex}"


def _free(folder: Path, label: str) -> Path:
    """Returns an unused path in a folder, named by a label.

    Labels come from data, so characters that have a meaning in paths or on a screen are replaced,
    and not by a hyphen, which would read as a minus sign.
    """
    plain = re.sub(r"[^\w=., ()\[\]{}…-]", "_", label).encode()[:_LONGEST]
    return fresh(folder / (plain.decode(errors="ignore").strip(". ") or "unnamed"))
