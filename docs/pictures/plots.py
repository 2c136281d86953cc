"""Plays the runs of the plots on the pages, and draws them:
`python -m docs.pictures.plots [NAME …]`.

Each plot is drawn for wide pages, NAME.svg, and for phones, NAME.phone.svg. Texts stay texts, and
the ground is white, so that the colours are right on a dark page too. All take some five minutes.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from fairbandit import Engine, build
from fairbandit.figures.draw import compose
from fairbandit.figures.layout import Options
from fairbandit.figures.style import applied, setting
from fairbandit.policy.build import build_policy
from fairbandit.runs.scenes import read_scenes
from tests.adversary import Flipping
from tests.docs.pages import DOCS, Page
from tests.studies.rolling_rules import Row, draw

PHONE = 3.0
"""The width of a plot for phones in inches: letters are some ten pixels high there."""

Plot = Callable[[str], Figure]
"""Draws a plot in a style."""


def svg(figure: Figure, name: str) -> str:
    """Returns a figure as an SVG element, the same for each drawing of the same data."""
    file = io.StringIO()
    nothing: Any = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata=nothing)
    text = file.getvalue()[file.getvalue().index("<svg ") :]
    # a style in a page is the style of the whole page
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"\d+\.\d{2,}", _rounded, tag[0]), text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")  # as wide, elsewhere
    used = {*re.findall(r"#([\w-]+)", text)}
    text = re.sub(r' id="([^"]+)"', lambda found: found[0] * (found[1] in used), text)
    kind = "phone" if name.endswith(".phone") else "wide"
    return text.replace("<svg ", f'<svg class="plot {kind}" stroke-linejoin="round" ', 1)


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def of_runs(page: str, wanted: str, folder: str, figure: str, *more: str, **options: Any) -> Plot:
    """Types the commands of a page that match a pattern, and reads the runs of a folder.

    `more` are words that replace words with the same keys.
    """
    text = Page(DOCS / page)
    text.write(Path())
    env = {**os.environ, "FAIRBANDIT_PLUGINS": "my_plugins" if text.parts else ""}
    for program, *words in text.commands:
        if re.search(wanted, " ".join([program, *words])):
            start = ["-m", "fairbandit"] if program == "fairbandit" else []
            keys = tuple(word.partition("=")[0] + "=" for word in more)
            words = [*(word for word in words if not word.startswith(keys)), *more]
            subprocess.run([sys.executable, *start, *words], check=True, env=env)
    (scene,) = read_scenes([Path(folder)])
    chosen = scene.only(options.pop("policies", None))

    def plot(style: str) -> Figure:
        width = PHONE if style == "column" else None
        return compose(figure, chosen, Options(width=width, **options))

    return plot


def rolling() -> Plot:
    """The table of the page of rolling decisions."""
    table = {}
    for line in (DOCS / "rolling.md").read_text(encoding="utf-8").splitlines():
        if re.match(r"\| .* ± ", line):
            world, best, *cells = line.strip("| ").split(" | ")
            rows = [Row(*map(float, re.split(" ± |, ", cell))) for cell in cells]
            rules = ("true ranks", "fair_rolling", "rolling_greedy", "secretary")
            table[world] = (float(best), dict(zip(rules, rows, strict=True)))
    return lambda style: draw(table, style, PHONE if style == "column" else None)


def guessed(engine: Engine) -> list[tuple[int, int, float]]:
    """Plays; returns the first round, the size and the decisions a round of blocks with guesses."""
    blocks, decide = list[tuple[int, int, float]](), engine._decide

    def noted(pools: Any, n_ready: int) -> Any:
        first, before, n = engine.played + 1, engine.decisions, pools.groups.shape[1]
        selection = decide(pools, n_ready)
        if n > n_ready:
            blocks.append((first, n, (engine.decisions - before) / n))
        return selection

    engine.__dict__["_decide"] = noted
    for _ in engine.play():
        pass
    return blocks


def fixed_point() -> Plot:
    """The blocks of three runs, and how often each was decided."""
    ridge = {"name": "ridge", "noise": 0.0}
    played: dict[str, tuple[dict[str, Any], Any, int]] = {
        "greedy, 10 replicas": ({"name": "greedy"}, build({"name": "simulation"}), 10),
        "OFUL, 10 replicas": ({"name": "oful"}, build({"name": "simulation"}), 10),
        "every guess wrong": ({"name": "greedy", "estimator": ridge}, Flipping(), 1),
    }
    runs = {}
    for label, (policy, world, count) in played.items():
        engine = Engine(build_policy(policy), world, rounds=2000, seed=0, replicas=range(count))
        runs[label] = list(zip(*guessed(engine), strict=True))

    def plot(style: str) -> Figure:
        with applied():
            size = (PHONE, 3.6) if style == "column" else (setting("figure.figsize")[0], 3.6)
            figure = Figure(size, layout="constrained")
            above, below = figure.subplots(2, 1, sharex=True)
            marks = zip("os^", (6, 4, 2.5), strict=True)  # none hides one at the same place
            for (label, (first, sizes, times)), mark in zip(runs.items(), marks, strict=True):
                above.plot(first, sizes, mark[0], markersize=mark[1], label=label)
                below.plot(first, times, mark[0], markersize=mark[1])
            above.set(xscale="log", yscale="log", ylabel="rounds in the block")
            above.set_yticks([2**power for power in range(9)])
            above.yaxis.set_major_formatter("{x:,.0f}")
            above.xaxis.set_major_formatter("{x:,.0f}")
            above.minorticks_off()
            below.set(ylabel="times decided", xlabel="first round of the block", ylim=(0, None))
            figure.legend(loc="outside upper center", ncols=3 if style == "page" else 2)
        return figure

    return plot


PLOTS: dict[str, Callable[[], Plot]] = {
    "simulation": partial(
        of_runs,
        "paper.md",
        "experiment=simulation$",
        "outputs",
        "overview",
        policies=["uniform", "oful", "fair_greedy"],
    ),
    "notions": partial(
        of_runs, "figures.md", "experiment=notions$", "outputs", "notions", interval="std"
    ),
    "shortlists": partial(
        of_runs,
        "shortlists.md",
        "-m .*outputs/short",
        "outputs/short",
        "metrics",
        "rounds=2000",
        "replicas=10",
        by="picks",
        metrics=["fair_regret"],
    ),
    "tutorial": partial(
        of_runs, "tutorials/paper.md", "-m .*outputs/first", "outputs/first", "overview"
    ),
    "coarse": partial(
        of_runs, "tutorials/rank.md", r"outputs/(coarse|exact)", "outputs", "overview"
    ),
    "staff": partial(
        of_runs,
        "tutorials/table.md",
        r"staff\.py|-m .*outputs/staff",
        "outputs/staff",
        "distributions",
    ),
    "rolling": rolling,
    "fixed_point": fixed_point,
}
"""The plots by the names of their files; each function plays, and returns what draws."""


def main(names: list[str]) -> None:
    """Draws some plots, or all."""
    for name in names or PLOTS:
        with TemporaryDirectory() as folder, chdir(folder):
            plot = PLOTS[name]()
            for ending, style in (("", "page"), (".phone", "column")):
                file = Path(__file__).parent / f"{name}{ending}.svg"
                file.write_text(svg(plot(style), file.stem), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
