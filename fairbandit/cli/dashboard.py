"""`fairbandit dashboard`: serves TensorBoard on saved runs to this machine."""

from __future__ import annotations

import math
import re
import signal
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from tensorboard.plugins.hparams import summary_v2 as hparams

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import tool
from fairbandit.errors import FairbanditError
from fairbandit.files.files import fresh
from fairbandit.policy.build import policy_label
from fairbandit.runs import Run, read_runs
from fairbandit.runs.folder import finished_below
from fairbandit.runs.naming import shown, union
from fairbandit.runs.scenes import PooledRuns, scenes_of
from fairbandit.runs.tensorboard import EventWriter, config_text, titled

HOST = "127.0.0.1"
"""The address to which TensorBoard is bound; only this machine can connect to it."""

SINGLE = "single runs"
"""The title of the page of all runs, finished or under way."""
_CURVES = "custom_scalars&_smoothingWeight=0"  # smoothing would hide the first rounds


@tool("FOLDER", several=True)
def dashboard(folders: Sequence[Path], *, port: int | None = None) -> None:
    """Starts TensorBoard on the runs below some folders, finished or under way.

    Prints an address for each environment and for all single runs. Only this machine can connect to
    it. Ctrl-C ends it. port=N sets the port, by default the first free one from 6006 on.

    Runs are called
      pooled/ENVIRONMENT/SETTING  finished runs that differ only in their seeds, pooled
      runs/FOLDER/...             every single run below the folder

    To see other runs, change the regular expression above the list of runs, for example to pooled/,
    runs/ or simulation/.*OFUL. Repeat the command to pool runs that have finished since.

    example:
      fairbandit dashboard outputs port=7007
    """
    from tensorboard import program

    with (
        tempfile.TemporaryDirectory(prefix="fairbandit-dashboard-") as logdir,
        suppress(KeyboardInterrupt),
    ):
        for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in a background job
            signal.signal(number, signal.default_int_handler)
        pages = fill(folders, Path(logdir))
        server: Any = program.TensorBoard()
        # the fast loader prints a note about itself, and fails on some systems
        server.configure(logdir=logdir, host=HOST, port=port, load_fast="false")
        try:
            base = server.launch()
        except program.TensorBoardServerException as error:
            raise FairbanditError(f"TensorBoard does not start: {error}") from error
        read = ", ".join(str(short(folder)) for folder in folders)
        for title, address in pages.items():
            print(f"TensorBoard on {read}, {title}: {base}{address}")
        print("Ctrl-C ends it.", flush=True)
        threading.Event().wait()


def fill(folders: Sequence[Path], logdir: Path) -> dict[str, str]:
    """Fills TensorBoard's folder; returns the address of each page."""
    (logdir / "runs").mkdir()
    for folder in folders:
        link = _free(logdir / "runs", folder.resolve().name)
        link.symlink_to(folder.resolve())
    finished = any(place for folder in folders for place in finished_below(folder))
    pages = write_pooled(read_runs(folders), logdir) if finished else {}
    return {**pages, SINGLE: page("runs/")}


def write_pooled(runs: Sequence[Run], logdir: Path) -> dict[str, str]:
    """Writes the curves, the config and the row of HParams of each setting below `pooled`.

    Returns:
        The address of the page of each environment.
    """
    scenes, pages = scenes_of(runs), dict[str, str]()
    settings = [pooled for scene in scenes for pooled in scene.runs]
    rows, columns = rows_of(settings), list[hparams.HParam]()
    for name in union(rows):
        values = hparams.Discrete({row[name] for row in rows if name in row})
        columns.append(hparams.HParam(name, values))
    names = union(run.metrics for run in settings)
    means = [hparams.Metric(f"{name}/mean", display_name=titled(name)) for name in names]
    row_of = iter(rows)
    for scene in scenes:
        environment = _free(logdir / "pooled", scene.name)
        pages[environment.name] = page(f"pooled/{environment.name}/")
        for pooled in scene.runs:
            folder = _free(environment, pooled.label)
            folder.mkdir(parents=True)
            config = pooled.runs[0].summary["config"]
            row = f"{environment.name}/{folder.name}"
            with closing(EventWriter(folder)) as events:
                events.write(config_text({k: v for k, v in config.items() if k != "seed"}))
                events.write(hparams.hparams_config_pb(columns, means))
                events.write(hparams.hparams_pb(next(row_of), trial_id=row))
                events.add(pooled.curves)
    return pages


def rows_of(runs: Sequence[PooledRuns]) -> list[dict[str, bool | float | str]]:
    """Returns the rows of HParams: the environment, the policy and the settings that vary.

    TensorBoard sorts and filters a column only if its values are of one type. So a column holds
    truth values alone, finite numbers alone, or texts. A null is left out of its row.
    """
    rows = list[dict[str, Any]]()
    for run in runs:
        own = {one.name: run.settings[one.key] for one in run.varied}
        named = {"environment": run.settings["environment"], "policy": policy_label(run.policy)}
        rows.append(named | {name: value for name, value in own.items() if value is not None})
    for name in union(rows):
        having = [row for row in rows if name in row]
        values, kind = [row[name] for row in having], cast(Any, shown)
        if all(isinstance(value, bool) for value in values):
            kind = bool
        elif all(type(value) in (int, float) and math.isfinite(value) for value in values):
            kind = float
        for row in having:
            row[name] = kind(row[name])
    return rows


def page(beginning: str) -> str:
    """Returns the address of the page that shows the runs whose names begin with a text."""
    # in an address, only these characters stay as they are
    regex = quote("^" + re.sub(r"[^\w/,$-]", ".", beginning), safe="/,")
    return f"?runFilter={regex}#{_CURVES}&regexInput={regex}"


def _free(folder: Path, label: str) -> Path:
    """Returns an unused path in a folder, named by a label.

    Labels come from data, so characters that have a meaning in paths or on a screen are replaced,
    and not by a hyphen, which would read as a minus sign. Names have at most 150 bytes.
    """
    plain = re.sub(r"[^\w=., ()\[\]{}…-]", "_", label).encode()[:150]
    return fresh(folder / (plain.decode(errors="ignore").strip(". ") or "unnamed"))
