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

from tensorboard.plugins.hparams.summary_v2 import hparams_pb

from fairbandit.cli.messages import short
from fairbandit.cli.parsers import tool
from fairbandit.errors import FairbanditError
from fairbandit.files.files import fresh
from fairbandit.policy.build import policy_label
from fairbandit.runs import Run, read_runs
from fairbandit.runs.folder import finished_below
from fairbandit.runs.naming import shown, union
from fairbandit.runs.scenes import PooledRuns, scenes_of
from fairbandit.runs.tensorboard import EventWriter, config_text

HOST = "127.0.0.1"
"""The address to which TensorBoard is bound; only this machine can connect to it."""

SINGLE = "single runs"
"""The title of the page of all runs, finished or under way."""


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
        tempfile.TemporaryDirectory(prefix="fairbandit-dashboard-") as name,
        suppress(KeyboardInterrupt),
    ):
        for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in a background job
            signal.signal(number, signal.default_int_handler)
        logdir, pages = Path(name), dict[str, str]()
        (logdir / "runs").mkdir()
        for folder in folders:
            _free(logdir / "runs", folder.resolve().name).symlink_to(folder.resolve())
        if any(place for folder in folders for place in finished_below(folder)):
            pages = write_pooled(read_runs(folders), logdir)
        server: Any = program.TensorBoard()
        # the fast loader prints a note about itself, and fails on some systems
        server.configure(logdir=name, host=HOST, port=port, load_fast="false")
        try:
            base = server.launch()
        except program.TensorBoardServerException as error:
            raise FairbanditError(f"TensorBoard does not start: {error}") from error
        read = ", ".join(str(short(folder)) for folder in folders)
        for title, address in {**pages, SINGLE: _page("runs/")}.items():
            print(f"TensorBoard on {read}, {title}: {base}{address}")
        print("Ctrl-C ends it.", flush=True)
        threading.Event().wait()


def write_pooled(runs: Sequence[Run], logdir: Path) -> dict[str, str]:
    """Writes the curves, the config and the row of HParams of each setting below `pooled`.

    Returns:
        The address of the page of each environment.
    """
    scenes, pages = scenes_of(runs), dict[str, str]()
    rows = iter(_rows([pooled for scene in scenes for pooled in scene.runs]))
    for scene in scenes:
        environment = _free(logdir / "pooled", scene.name)
        pages[environment.name] = _page(f"pooled/{environment.name}/")
        for pooled in scene.runs:
            folder = _free(environment, pooled.label)
            folder.mkdir(parents=True)
            config = {k: v for k, v in pooled.runs[0].summary["config"].items() if k != "seed"}
            trial = f"{environment.name}/{folder.name}"
            with closing(EventWriter(folder)) as events:
                events.write(config_text(config))
                events.write(hparams_pb(next(rows), trial_id=trial))
                events.add(pooled.curves)
    return pages


def _rows(runs: Sequence[PooledRuns]) -> list[dict[str, Any]]:
    """Returns the rows of HParams: the environment, the policy and the settings that vary.

    TensorBoard sorts and filters a column only if its values are of one type. So a column holds
    truth values alone, finite numbers alone, or texts. A null is left out of its row.
    """
    rows = list[dict[str, Any]]()
    for run in runs:
        varied = {setting.name: run.settings[setting.key] for setting in run.varied}
        named = {"environment": run.settings["environment"], "policy": policy_label(run.policy)}
        rows.append(named | {name: value for name, value in varied.items() if value is not None})
    for name in union(rows):
        values, kind = [row[name] for row in rows if name in row], cast(Any, shown)
        if all(isinstance(value, bool) for value in values):
            kind = bool
        elif all(type(value) in (int, float) and math.isfinite(value) for value in values):
            kind = float
        for row in rows:
            row |= {name: kind(row[name])} if name in row else {}
    return rows


def _page(beginning: str) -> str:
    """Returns the address of the page of the runs whose names begin with a text."""
    # in an address, only these characters stay as they are
    regex = quote("^" + re.sub(r"[^\w/,$-]", ".", beginning), safe="/,")
    smooth = "_smoothingWeight=0"  # smoothing would hide the first rounds
    return f"?runFilter={regex}#custom_scalars&{smooth}&regexInput={regex}"


def _free(folder: Path, label: str) -> Path:
    """Returns an unused path in a folder, named by a label of at most 150 bytes.

    Characters that have a meaning in paths or on a screen are replaced, since labels come from
    data, and not by a hyphen, which would read as a minus sign.
    """
    plain = re.sub(r"[^\w=., ()\[\]{}…-]", "_", label).encode()[:150]
    return fresh(folder / (plain.decode(errors="ignore").strip(". ") or "unnamed"))
