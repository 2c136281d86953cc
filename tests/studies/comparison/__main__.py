"""`make compare`: plays every learner with its tuned settings, and writes the tables."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairbandit.files.files import written_aside
from tests import support
from tests.benchmarks.measure import threads
from tests.benchmarks.players import MissingError
from tests.studies.comparison import play
from tests.studies.comparison.learners import LEARNERS
from tests.studies.comparison.report import REGRETS, Row, page
from tests.studies.comparison.tune import saved

PAGE = support.REPOSITORY / "docs" / "comparison.md"

BEGIN, END = "<!-- written by make compare -->\n", "<!-- end of what make compare writes -->"


def main(words: Sequence[str] | None = None) -> None:
    """Plays all worlds, prints the report and writes it."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.comparison", description=__doc__)
    parser.add_argument("--page", action="store_true", help=f"write into {PAGE.name}, too")
    parser.add_argument("--out", type=Path, default=Path("outputs/comparison.md"), metavar="FILE")
    given, tuned = parser.parse_args(words), saved()
    rows, began = [], time.perf_counter()
    with threads(1):
        for row in compared(tuned, play.ROUNDS, play.SEEDS):
            rows.append(row)
            words = f"{time.perf_counter() - began:6.0f} s  {row.world}, {row.learner}  {row.note}"
            print(words, file=sys.stderr)
    text = page(rows, tuned, play.ROUNDS, play.SEEDS)
    print(text)
    _write(given.out, text)
    if given.page:
        _write(PAGE, with_results(PAGE.read_text(encoding="utf-8"), text))


def with_results(before: str, text: str) -> str:
    """A page with its results replaced."""
    head, rest = before.split(BEGIN)
    return f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def compared(tuned: Mapping[str, Any], rounds: int, seeds: Sequence[int]) -> Iterator[Row]:
    """A row of each learner in each world; what is not installed is a row that says so."""
    for world, entry in tuned.items():
        for learner in play.WORLDS[world].learners:
            try:
                yield _row(play.WORLDS[world], learner, entry, rounds, seeds)
            except MissingError as error:
                yield Row(play.WORLDS[world].title, learner, {}, note=str(error))


def _row(
    world: play.World, name: str, tuned: Mapping[str, Any], rounds: int, seeds: Sequence[int]
) -> Row:
    learner, settings = LEARNERS[name], tuned["learners"][name]["settings"]
    environment, rewards = world.environment(), tuple(tuned["rewards"])
    found, seconds = [], []
    for seed in seeds:
        pools = play.drawn(environment, rounds, seed)
        if learner.config is None or seed == seeds[0]:
            player = learner.make(play.shape(environment, rewards, seed), settings)
            picks, taken = play.play(player, pools)
            seconds.append(taken)
        if learner.config is not None:
            decided = play.picks(learner, settings, environment, rewards, pools, seed)
            assert seed != seeds[0] or (picks == decided).all(), "agent and engine differ"
            picks = decided
        found.append({name: one.sum() for name, one in play.regrets(pools, picks).items()})
    regrets = {regret: np.array([one[regret] for one in found]) for regret in REGRETS}
    return Row(world.title, name, regrets, 1e3 * float(np.mean(seconds)) / rounds)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()
