"""`fairbandit dashboard`: serves TensorBoard on saved runs to this machine."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import filter as filter_names
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from fairbandit.cli.messages import short
from fairbandit.cli.names import job_name
from fairbandit.cli.parsers import tool_parser
from fairbandit.errors import FairbanditError
from fairbandit.run.folder import EVENTS, walk

HOST = "127.0.0.1"
"""The address to which TensorBoard is bound; only this machine can reach it."""

PAGE = "#custom_scalars&_smoothingWeight=0"
"""The page that opens: the curves with bands, not smoothed, which would hide the first rounds."""

_SECONDS_BETWEEN_LOOKS = 5.0

_HELP = """\
Starts TensorBoard on the runs below some folders, finished or under way, and prints its address.
Only this machine can reach it. Ctrl-C ends it.

Runs of a sweep are named by what differs between them. Custom Scalars shows both pseudo-regrets
with a band of one standard deviation, HParams all settings with the final metrics, Images the
sweep's figures."""

_EXAMPLES = """\
examples:
  fairbandit dashboard outputs
  fairbandit dashboard outputs/sweeps/experiment-simulation --port 7007"""


def dashboard(words: Sequence[str]) -> None:
    """Starts TensorBoard and waits for Ctrl-C.

    Args:
        words: folders, and `--port N`.

    Raises:
        FairbanditError: wrong words, a folder that is not there or without runs, a port in use.
    """
    parser = tool_parser("dashboard", _HELP, _EXAMPLES)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="where runs are")
    parser.add_argument("--port", type=int, help="by default the first free one from 6006 on")
    given = parser.parse_args(words)
    with serving(given.folders, given.port) as address, suppress(KeyboardInterrupt):
        for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have SIGINT ignored
            signal.signal(number, signal.default_int_handler)
        shown = ", ".join(str(short(folder)) for folder in given.folders)
        print(f"TensorBoard on {shown}: {address}\nCtrl-C ends it.", flush=True)
        threading.Event().wait()


@contextmanager
def serving(folders: Sequence[Path], port: int | None = None) -> Iterator[str]:
    """Serves TensorBoard for the time of a `with` block.

    Args:
        folders: where runs are, at any depth; runs that start later are found too.
        port: None for the first free one from 6006 on, 0 for any.

    Yields:
        The address, with the page that shows the regrets.

    Raises:
        FairbanditError: a folder that is not there or without runs, or a port in use.
    """
    for folder in folders:
        if not folder.is_dir():
            raise FairbanditError(f"{folder} is not a folder")
    if not any(_recorded(folder) for folder in folders):
        raise FairbanditError(f"no run below {', '.join(map(str, folders))}")
    with tempfile.TemporaryDirectory(prefix="fairbandit-dashboard-") as named:
        link_runs(folders, Path(named))
        over = threading.Event()

        def look() -> None:
            while not over.wait(_SECONDS_BETWEEN_LOOKS):
                link_runs(folders, Path(named))

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield f"{_launch(named, port)}{PAGE}"
        finally:
            over.set()
            looking.join()


def link_runs(folders: Sequence[Path], into: Path) -> None:
    """Links every folder with TensorBoard's events under a name that says what differs."""
    present = {os.path.realpath(link) for link in into.iterdir()}
    for top in folders:
        for folder in _recorded(top):
            if os.path.realpath(folder) in present:
                continue
            name = run_name(folder, top)
            taken = [name, *(f"{name} ({number})" for number in range(2, 1000))]
            link = next(into / one for one in taken if not (into / one).is_symlink())
            link.symlink_to(folder.resolve(), target_is_directory=True)


def run_name(folder: Path, top: Path) -> str:
    """Names a run; in a sweep, by the words that not all of its jobs share.

    The folders between `top` and the run come before the name.
    """
    own = _overrides(folder / ".hydra" / "overrides.yaml")
    shared = _overrides(folder.parent / "multirun.yaml", "hydra.overrides.task")
    telling = [word for word in own if word not in shared] if shared else []
    name = re.sub(r"\bpolicy-", "", job_name(telling)) if telling else folder.name
    between = folder.absolute().parent.relative_to(top.absolute()) if folder != top else Path()
    return "-".join([*between.parts, name or top.absolute().name])


def _recorded(folder: Path) -> list[Path]:
    """Returns the folders of runs and of figures, sorted."""
    return sorted(Path(place) for place, _, files in walk(folder) if filter_names(files, EVENTS))


def _overrides(path: Path, key: str | None = None) -> list[str]:
    """Returns the words of a job or of a sweep, or none if they were not saved."""
    try:
        loaded = OmegaConf.load(path)
        words = loaded if key is None else OmegaConf.select(loaded, key)
        return [str(word) for word in words or ()]
    except (OSError, OmegaConfBaseException, YAMLError):
        return []


def _launch(folder: str, port: int | None) -> str:
    from tensorboard import program

    board = program.TensorBoard()
    words = ["tensorboard", "--logdir", folder, "--host", HOST]
    board.configure((*words, *([] if port is None else ["--port", str(port)])))
    try:
        address: str = board.launch()
    except program.TensorBoardServerException as error:
        raise FairbanditError(f"TensorBoard does not start: {error}") from error
    return address
