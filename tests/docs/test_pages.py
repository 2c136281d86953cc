"""Every block of the pages works in a new user's folder: the tutorials in full, others in short."""

import importlib
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest
from omegaconf import OmegaConf

from docs import house, notebook
from fairbandit.cli import job
from fairbandit.cli.main import main
from fairbandit.runs import load, tuning
from tests import support
from tests.docs.experiments import OF_PAGES, check
from tests.docs.pages import DOCS, EVERY, PAGES, README, TUTORIALS, Block, Page, write

ROUNDS, REPLICAS = 20, 2
"""No run is longer, or has more replicas."""

SAID = {
    "docs/audit.md": [
        *(r"^ f +421 +37\.5% +0\.60 ", r"^0 +f +421 +38 .* 58$", r"^sex f: .* p = 5\.4e-13\.$"),
        r"^ sex +f .*\b0\.756 ",
    ],
    "docs/index.md": [r"^fair regret \d+\.\d ± "],
    "docs/notions.md": [
        *(r"^biased=rewards, debiased: 5$", r"^biased=rewards, fair_greedy: 593$"),
        *(r"^biased=features, debiased: 509$", r"^biased=features, fair_greedy: 47$"),
    ],
    "docs/online.md": [r" 10 rewards to come", r"^candidate +group +score", r"^[01]$"],
    "docs/speed.md": [r"^each round was decided [23]\.\d times"],
    "docs/theory.md": ["th:regret"],
    "docs/tuning.md": ["^Best of 20 complete trials", "^Not dominated of 12 complete trials"],
    "docs/unknown.md": [
        *(r"^groups: f m unknown$", r"^women who declined: 2\.5% are", r"^unknown +0\.162267"),
        *(
            r"^a group .* 2\.3% .* 0\.830$",
            r"^the exp.* 20\.7% .* 0\.837$",
            r"^a random .* 0\.751$",
        ),
    ],
}
"""What the snippets and the tools of some pages print."""

PROJECT = tomllib.loads((support.REPOSITORY / "pyproject.toml").read_text())["project"]


@pytest.fixture
def folder(tmp_path, monkeypatch, clean):
    """A folder like a new user's, with the table that the pages speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    rows = ["sex,income,age,hours,job"]
    for i in range(300):
        age, hours, trade = 18 + i % 53, 5 + i % 47, ("clerk", "nurse", "smith")[i % 3]
        rows.append(f"{'fm'[i % 2]},{300 * hours + 20 * age + i * i % 501},{age},{hours},{trade}")
    write(tmp_path / "people.csv", "\n".join(rows) + "\n")
    with patch.dict(os.environ):
        yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    while SERVICES:
        service = SERVICES.pop()
        service.terminate()
        service.wait()


@pytest.fixture
def short_runs(monkeypatch):
    """Runs that this process plays have few rounds and replicas."""
    execute = vars(job)["execute"]

    def shorter(config, *places, **options):
        rounds = min(config["rounds"] or ROUNDS, ROUNDS)
        replicas = min(config["replicas"], REPLICAS)
        return execute({**config, "rounds": rounds, "replicas": replicas}, *places, **options)

    monkeypatch.setattr(job, "execute", shorter)
    monkeypatch.setattr(tuning, "execute", shorter)


def fairbandit(words: list[str]) -> None:
    """Runs a command in this process and looks for what it is to leave."""
    if words[0] == "dashboard":
        return  # it waits for Ctrl-C; tests/dashboard runs it
    if "environment.download=true" in words:  # it would fetch records: one job is composed alone
        one = [re.sub(r"^(policy=\w+),.*", r"\1", word) for word in words if word != "-m"]
        words = [*one, "--cfg", "job"]
    before = set(Path.cwd().rglob("summary.json"))
    if any(word.startswith("hydra/launcher=") for word in words):  # processes of their own
        words = [*words, f"rounds={ROUNDS}", f"replicas={REPLICAS}"]
        subprocess.run([sys.executable, "-m", "fairbandit", *words], check=True)
    else:
        main(words)
    plays = not {"--help", "--cfg"} & set(words) and ("=" in words[0] or words[0].startswith("-"))
    assert not plays or set(Path.cwd().rglob("summary.json")) > before, words
    for name in re.findall(r"\bout=\[?([^\s\]]+)", " ".join(words)):
        assert all(Path(path).exists() for path in name.split(","))
    drawn = ",".join(re.findall(r"(?:figures=\[|only=)([\w,]+)", " ".join(words)))
    for name in filter(None, drawn.split(",")):
        assert list(Path.cwd().rglob(f"{name}.pdf")), words


def make(words: list[str]) -> None:
    """Every target exists; `make` itself is not run here."""
    targets = re.findall(r"^([a-z-]+):", (support.REPOSITORY / "Makefile").read_text(), re.M)
    assert {word for word in words if "=" not in word} <= set(targets)


def pip(words: list[str]) -> None:
    """Every constraints file and every extra exists; tests/test_constraints.py resolves them."""
    for word in words:
        assert not word.startswith("constraints") or (support.REPOSITORY / word).exists()
        for extra in re.findall(r"\[(.+)\]", word):
            assert extra in PROJECT["optional-dependencies"]


def export(words: list[str]) -> None:
    """Sets a variable; the fixture `folder` undoes it."""
    name, _, value = words[0].partition("=")
    os.environ[name] = value


def python(words: list[str]) -> None:
    """Runs a script that the page shows; another one may have been imported from the folder."""
    with patch.object(sys, "path", [str(Path.cwd()), *sys.path]):
        runpy.run_path(words[0], run_name="__main__")
    for name, found in list(sys.modules.items()):
        if Path(getattr(found, "__file__", None) or "/").parent == Path.cwd():
            del sys.modules[name]


def uvicorn(words: list[str]) -> None:
    """Starts a service, and returns when it answers; the fixture `folder` ends it."""
    place = "127.0.0.1", int(words[words.index("--port") + 1])
    service = subprocess.Popen([sys.executable, "-m", "uvicorn", *words])
    SERVICES.append(service)
    while service.poll() is None:
        with suppress(ConnectionRefusedError), socket.create_connection(place):
            return
        time.sleep(0.1)
    raise AssertionError(f"uvicorn ended with {service.returncode}")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


SERVICES: list[subprocess.Popen[bytes]] = []

PROGRAMS = {one.__name__: one for one in (fairbandit, make, pip, export, python, uvicorn)}


def carried_out(page: Page, folder: Path, capsys) -> Iterator[tuple[Block, str]]:
    """Does what each block of a page says; yields it with what the latest commands printed."""
    space, printed, port = {"__name__": page.name}, "", str(free_port())
    for block in page.blocks:
        block = Block(*(part.replace("8000", port) for part in block))
        if block.file:
            write(folder / block.file, block.text)
        elif block.language == "python":
            exec(compile(block.text, page.place, "exec"), space)
        elif block.language == "bash":
            for command in re.findall(r"\$\(fairbandit (.+?)\)", block.text):
                main(shlex.split(command))
        elif block.language == "yaml":
            OmegaConf.create(block.text)
        else:
            assert block.language in ("", "console"), f"nothing runs blocks of {block.language}"
        for program, *words in block.commands:
            PROGRAMS[program](words)
        printed = printed if block.language == "" else capsys.readouterr().out
        yield block, printed


LONG = {
    *("audit", "data", "environments", "evaluation", "figures", "order", "paper", "policies"),
    *("rank", "reports", "results", "rolling", "service", "shortlists", "sweeps", "table"),
    *("theory", "tuning"),
}
"""Pages and tutorials of many runs, whose commands have tests of their own."""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.* is deprecated:sqlalchemy.exc.SADeprecationWarning")  # MLflow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.place, marks=[pytest.mark.all] * (page.name in LONG))
        for page in PAGES
    ],
)
def test_every_block_in_order(page, folder, short_runs, capsys, monkeypatch):
    wandb = MagicMock()  # it needs a server
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    done = carried_out(page, folder, capsys)
    said = "".join(printed for block, printed in done if block.language)
    for pattern in SAID.get(page.place, ()):
        assert re.search(pattern, said, re.MULTILINE)
    for name in OF_PAGES.get(page.place, ()):
        sweep = Path(f"outputs/sweeps/experiment-{name}")
        check(name, sweep, said, rounds=ROUNDS, replicas=REPLICAS)
    if "to_wandb.ToWandb" in page.text:
        sent = wandb.init.return_value.log.call_args_list
        assert [one.kwargs["step"] for one in sent] == [ROUNDS, ROUNDS]
        assert all(one.args[0]["fair_regret"] >= 0 for one in sent)
        check_mlflow()


def check_mlflow() -> None:
    """Checks the run that the page on sweeps sent to MLflow's local store."""
    mlflow = importlib.import_module("mlflow")
    [run] = mlflow.search_runs(output_format="list")
    client = mlflow.MlflowClient()
    sent = client.get_metric_history(run.info.run_id, "fair_regret")
    table = load("outputs/mlflow").set_index(["measure", "group"])
    assert [value.step for value in sent] == [256, 300]
    assert sent[-1].value == pytest.approx(table.loc[("fair_regret", "–"), "value"].mean())
    assert run.data.params["rounds"] == "300"
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"finals.parquet", "summary.json"} <= files


def alike(shown: str, printed: str) -> bool:
    """Whether two words are equal; numbers may differ by one in the last digit shown."""
    if shown == printed:  # NaN, too
        return True
    try:
        one, other = (float(word.replace(",", "")) for word in (shown, printed))
    except ValueError:
        return False
    return abs(one - other) < 1.5 * 10.0 ** -len(shown.partition(".")[2])


def same_line(shown: str, printed: str) -> bool:
    """Whether a line was printed as shown, up to blanks; `…` stands for the rest of a line."""
    start, cut, _ = shown.partition("…")
    words, others = start.split(), printed.split()
    enough = len(others) >= len(words) if cut else len(others) == len(words)
    return enough and all(map(alike, words, others))


def test_what_lines_count_as_printed():
    assert same_line("greedy 2,843 ± 5.1 …", " greedy  2,844 ± 5.2  0.33 s ")
    for printed in ("greedy 2,845 ± 5.1", "greedy 2,843 ± 5.3", "oful 2,843 ± 5.1", "greedy 2,843"):
        assert not same_line("greedy 2,843 ± 5.1 …", printed)
    assert not same_line("greedy 2,843", "greedy 2,843 ± 5.1")


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.all] * (page.name in LONG))
        for page in TUTORIALS
    ],
)
def test_the_tutorials_print_what_they_show(page, folder, capsys):
    if page.name == "service":
        pytest.importorskip("fastapi")
    compared = 0
    for block, printed in carried_out(page, folder, capsys):
        left = iter(printed.splitlines())
        for line in filter(str.strip, () if block.language else block.text.splitlines()):
            assert any(same_line(line, each) for each in left), f"{line!r} is not in\n{printed}"
            compared += 1
    assert compared > 10


def anchors(page: Page) -> set[str]:
    """What links to the headings of a page end with."""
    prose = re.sub(r"^```.*?^```$", "", page.text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w-]", "", line.lower().replace(" ", "-")) for line in headings}


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.place)
def test_no_block_and_no_link_is_overlooked(page):
    assert len(re.findall(r"^\s*```", page.text, re.MULTILINE)) == 2 * len(page.blocks)
    for file, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.text):
        target = (page.path.parent / file).resolve() if file else page.path
        assert target.exists(), f"{page.place} links to {file}"
        assert not heading or heading in anchors(Page(target)), (
            f"{page.place} links to {file}#{heading}"
        )


def test_the_readme_says_what_the_first_page_says():
    (start,) = (page for page in PAGES if page.place == "docs/index.md")
    assert README.commands
    assert all(words in start.commands for words in README.commands)
    assert "\nmake test\n" in (support.REPOSITORY / ".ci" / "run").read_text()


def test_the_picture_of_the_house_is_up_to_date():
    assert house.page() == house.PAGE.read_text(encoding="utf-8"), "python docs/house.py draws it"


def test_the_pages_of_keys_and_policies_are_up_to_date():
    script = "from docs import keys; print(*keys.pages().values(), sep='\\0', end='')"
    words = [sys.executable, "-c", script]
    done = subprocess.run(words, cwd=support.REPOSITORY, capture_output=True, check=True)
    made = [(DOCS / name).read_bytes() for name in ("keys.md", "policies.md", "may_i_use.md")]
    assert done.stdout.split(b"\0") == made, "python docs/keys.py makes them anew"


@pytest.mark.parametrize("name", notebook.TUTORIALS)
def test_the_notebooks_are_those_of_their_pages(name):
    written = (DOCS / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert written == notebook.text(name), "python docs/notebook.py writes them anew"


@pytest.mark.all
@pytest.mark.long
@pytest.mark.parametrize("name", notebook.TUTORIALS)
def test_the_notebooks_run(name, monkeypatch):
    """A cell that fails, or a command that ends with an error, is an error."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    if name == "service":
        pytest.importorskip("fastapi")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    book = nbformat.read(DOCS / "notebooks" / f"{name}.ipynb", 4)
    nbformat.validate(book)
    for cell in book.cells:
        if cell.cell_type == "code" and cell.source.startswith("!"):
            cell.source += "\nassert _exit_code == 0"
    nbclient.NotebookClient(book, timeout=600).execute()
