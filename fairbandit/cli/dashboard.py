"""`fairbandit dashboard`: serves TensorBoard on saved runs to this machine."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from fairbandit.cli.messages import one_message, short
from fairbandit.cli.parsers import tool_parser
from fairbandit.cli.served import OTHER, ServedRuns, recorded
from fairbandit.errors import PREFIX, FairbanditError
from fairbandit.results.scenes import policy_order

HOST = "127.0.0.1"
"""The address to which TensorBoard is bound; only this machine can connect to it."""

MOST_LINES = 12
"""The largest number of runs on the page that opens."""

_CURVES = "custom_scalars&_smoothingWeight=0"  # smoothing would hide the first rounds
_SECONDS_BETWEEN_LOOKS = 5.0

_HELP = """\
Starts TensorBoard on the runs below some folders, finished or under way, and prints its address.
Only this machine can connect to it. Ctrl-C ends it.

Custom Scalars shows both pseudo-regrets with a band of one standard deviation, HParams a row for
each setting, with what differs between settings and the final means, Text the configs, and Images
the sweep's figures.

The page of an environment shows its settings, each with all replicas of all seeds:
  pooled/ENVIRONMENT/SETTING          runs that differ only in their seeds, as one
  single/ENVIRONMENT/SETTING, seed=N  every run
It shows at most a dozen. To see others, change the regular expression above the list of runs:
pooled/ for all settings, single/ for all runs, seed=0, simulation/.*oful, and so on. TensorBoard
selects what matches by itself if there are at most 40; tick the others."""

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
    with serving(given.folders, given.port) as pages, suppress(KeyboardInterrupt):
        for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT is ignored in a background job
            signal.signal(number, signal.default_int_handler)
        shown = ", ".join(str(short(folder)) for folder in given.folders)
        for environment, address in pages.items():
            of = f", {environment}" if len(pages) > 1 else ""
            print(f"TensorBoard on {shown}{of}: {address}")
        print("Ctrl-C ends it.", flush=True)
        threading.Event().wait()


@contextmanager
def serving(folders: Sequence[Path], port: int | None = None) -> Iterator[dict[str, str]]:
    """Serves TensorBoard for the time of a `with` block.

    Args:
        folders: where runs are, at any depth; runs that start later are found too.
        port: None for the first free one from 6006 on, 0 for any.

    Yields:
        The address of the page that shows the regrets, for each environment.

    Raises:
        FairbanditError: a folder that is not there or without runs, a summary that cannot be read,
            or a port in use.
    """
    for folder in folders:
        if not folder.is_dir():
            raise FairbanditError(f"{folder} is not a folder")
    if not recorded(folders):
        raise FairbanditError(f"no run below {', '.join(map(str, folders))}")
    with tempfile.TemporaryDirectory(prefix="fairbandit-dashboard-") as named:
        served = ServedRuns(folders, Path(named))
        served.look()
        first = served.first() or {"": {}}
        over = threading.Event()
        looking = threading.Thread(target=_keep_looking, args=(served, over))
        looking.start()
        try:
            base = _launch(named, port)
            yield {name: f"{base}{page(runs)}" for name, runs in first.items()}
        finally:
            over.set()
            looking.join()


def _keep_looking(served: ServedRuns, over: threading.Event) -> None:
    """Keeps the served runs up to date, and says once why they are not."""
    said = ""
    while not over.wait(_SECONDS_BETWEEN_LOOKS):
        try:
            served.look()
            said = ""
        except (FairbanditError, OSError) as error:
            if said != (said := one_message(error)):
                print(f"{PREFIX}{said}", file=sys.stderr, flush=True)


def page(names: Mapping[str, str]) -> str:
    """Returns the page with the curves of some runs, of which a dozen at most are shown.

    Args:
        names: the policies of the runs, by their names on the dashboard, which differ only in their
            last parts. None stand for all runs.
    """
    if not names:
        return f"#{_CURVES}"
    start = _pattern(next(iter(names)).rpartition("/")[0])
    last = ""
    if len(names) > MOST_LINES:
        last = f"({'|'.join(_pattern(name.rpartition('/')[2]) for name in _dozen(names))})$"
    regex = quote(f"^({start}/{last}|{OTHER}/)", safe="/,()")
    return f"?runFilter={regex}#{_CURVES}&regexInput={regex}"


def _dozen(names: Mapping[str, str]) -> list[str]:
    """Chooses a dozen runs: the first of each policy, then the second of each, and so on."""
    earlier: Counter[str] = Counter()
    ranks = {}
    for name, policy in names.items():
        ranks[name] = earlier[policy], policy_order(policy)
        earlier[policy] += 1
    return sorted(names, key=ranks.__getitem__)[:MOST_LINES]


def _pattern(text: str) -> str:
    """Returns a regular expression that matches a text; one of few signs, for an address."""
    return re.sub(r"[^\w/,-]", ".", text)


def _launch(folder: str, port: int | None) -> str:
    from tensorboard import program

    server = program.TensorBoard()
    words = ["tensorboard", "--logdir", folder, "--host", HOST]
    server.configure((*words, *([] if port is None else ["--port", str(port)])))
    try:
        address: str = server.launch()
    except program.TensorBoardServerException as error:
        raise FairbanditError(f"TensorBoard does not start: {error}") from error
    return address
