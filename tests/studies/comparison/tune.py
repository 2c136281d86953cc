"""`python -m tests.studies.comparison.tune`: chooses the settings of every learner in every world.

Every learner gets the same budget: its defaults and 31 points of a Sobol sequence are played with
one seed, and the best eight of them, and the defaults, with three more. The least mean regret over
the four seeds wins: the standard regret, and of `fair_greedy` the fair regret. The comparison uses
none of these seeds. `tuned.json`, beside this file, keeps what was chosen.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import qmc

from fairbandit.files.files import written_aside
from tests.benchmarks.measure import threads
from tests.studies.comparison import play
from tests.studies.comparison.learners import Range

TUNED = Path(__file__).with_name("tuned.json")

SETTINGS, FINALISTS = 32, 8
"""How many settings of each learner are tried in each world, and how many of them again."""

USUAL = 0.01, 0.99
"""Quantiles of all rewards of the tuning seeds, between which costs go from 1 to 0."""


def tried(space: Mapping[str, Range]) -> list[dict[str, float]]:
    """The defaults of a learner, then points that cover its settings evenly."""
    found = [{name: each.default for name, each in space.items()}]
    if space:
        for point in qmc.Sobol(len(space), scramble=False).random(SETTINGS)[1:]:
            pairs = zip(space.items(), point, strict=True)
            found.append({name: each.at(share) for (name, each), share in pairs})
    return [one for at, one in enumerate(found) if one not in found[:at]]


def tune(world: play.World, rounds: int, seeds: Sequence[int]) -> dict[str, Any]:
    """What `tuned.json` holds of a world: the usual rewards, and what was chosen."""
    environment = world.environment()
    pools = {seed: play.drawn(environment, rounds, seed) for seed in seeds}
    rewards = np.concatenate([one.rewards.numpy().ravel() for one in pools.values()])
    low, high = (float(f"{value:.3g}") for value in np.quantile(rewards, USUAL))
    chosen = {}
    for name, learner in world.learners.items():
        began, settings = time.perf_counter(), tried(world.space(learner))

        def regret(number: int, seed: int, learner=learner, settings=settings) -> float:
            usual, drawn = (low, high), pools[seed]
            picks = play.picks(learner, settings[number], environment, usual, drawn, seed)
            return float(play.regrets(drawn, picks)[learner.by].sum())

        first = [regret(number, seeds[0]) for number in range(len(settings))]
        again = {0, *np.argsort(first, kind="stable")[:FINALISTS].tolist()}
        means = {n: np.mean([first[n], *(regret(n, seed) for seed in seeds[1:])]) for n in again}
        best = min(sorted(means), key=means.__getitem__)
        chosen[name] = {
            "settings": settings[best],
            "regret": round(float(means[best]), 4),
            "regret_of_defaults": round(float(means[0]), 4),
        }
        taken = f"{time.perf_counter() - began:.0f} s"
        print(f"{world.title}, {name}, {taken}: {chosen[name]}", file=sys.stderr)
    return {"rewards": [low, high], "learners": chosen}


def saved() -> Any:
    """What was chosen, by world."""
    return json.loads(TUNED.read_text(encoding="utf-8"))["worlds"] if TUNED.exists() else {}


def main(words: Sequence[str] | None = None) -> None:
    """Tunes in the worlds that are asked for, and keeps what was chosen in the others."""
    prog = "python -m tests.studies.comparison.tune"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("worlds", nargs="*", metavar="WORLD", help=", ".join(play.WORLDS))
    worlds = parser.parse_args(words).worlds or list(play.WORLDS)
    about = {"rounds": play.ROUNDS, "seeds": list(play.TUNING_SEEDS)}
    with threads(1):
        for name in worlds:
            found = tune(play.WORLDS[name], play.ROUNDS, play.TUNING_SEEDS)
            kept = saved() | {name: found}
            ordered = {world: kept[world] for world in play.WORLDS if world in kept}
            text = json.dumps({**about, "worlds": ordered}, indent=2)
            with written_aside(TUNED) as file:
                file.write(f"{text}\n".encode())


if __name__ == "__main__":
    main()
