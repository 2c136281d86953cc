"""Plausible mistakes in sound logs: each is refused, noted, or changes no number.

A sound log is a table of decisions by an epsilon-greedy rule, which an agent that has learned from
an earlier table is judged by. A mistake is silent if the evaluation gives other numbers than that
of the sound log, by more than the draws of the bootstrap do, without a further note.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairbandit import Agent, FairbanditError, evaluate, read_log

LABELS = {"texts": ("f", "m"), "numbers": (0, 1), "truth": (True, False)}
FEATURES = {"age": (41.0, 12.0), "hours": (38.0, 9.0), "grade": (2.5, 0.8), "visits": (9.0, 5.0)}
"""The means and deviations of the features, of which no two are alike."""

Frame: TypeAlias = pd.DataFrame


def table(kind: str, seed: int, n: int = 240, k: int = 4, uniform: bool = False) -> Frame:
    """A sound log of n decisions from pools of k, with rewards of two decimals or of 0 and 1."""
    draws = np.random.default_rng(seed)
    rows = n * k
    frame = pd.DataFrame({"decision": np.repeat(np.arange(n), k)})
    frame["sex"] = draws.choice(np.array(LABELS[kind], dtype=object), rows)
    for name, (mean, deviation) in FEATURES.items():
        frame[name] = (mean + deviation * draws.normal(size=rows)).round(3)
    scores = sum((frame[name] - mean) / deviation for name, (mean, deviation) in FEATURES.items())
    scores = scores.to_numpy().reshape(n, k)
    chances = np.full((n, k), 0.3 / k)
    chances[np.arange(n), scores.argmax(1)] += 0.7
    if uniform:
        chances[:] = 1 / k
    picks = (draws.random((n, 1)) < chances.cumsum(1)).argmax(1)
    picked = np.zeros((n, k), dtype=int)
    picked[np.arange(n), picks] = 1
    rewards = scores + 2.0 * (frame["sex"] == LABELS[kind][0]).to_numpy().reshape(n, k)
    rewards = (rewards + draws.normal(size=(n, k))).round(2)
    frame["picked"], frame["propensity"] = picked.ravel(), chances.ravel()
    frame["reward"] = np.where(picked == 1, rewards, np.nan).ravel()
    return frame


@cache
def agent(kind: str) -> Agent:
    """An agent that has learned from an earlier table."""
    return Agent.from_log("fair_greedy", read_log(table(kind, 1), group="sex"), seed=0)


def judged(kind: str, source: Any, judge: Agent | None = None, **options: Any) -> Frame:
    """What an evaluation of the agent and of random picks says."""
    judge = judge or agent(kind)
    log = read_log(source, **{"group": "sex", "like": judge.encoder, **options})
    return evaluate(log, {"agent": judge, "uniform": "uniform"}, train=0)


@cache
def sound(kind: str, seed: int) -> Frame:
    """The evaluation of a sound log."""
    return judged(kind, table(kind, seed))


def silent(table: Frame, right: Frame) -> list[str]:
    """The numbers that differ, unless there is a further note."""
    if {re.sub("[-+0-9.,]+", "", note) for note in table.attrs["notes"]} - {
        re.sub("[-+0-9.,]+", "", note) for note in right.attrs["notes"]
    }:
        return []
    keys = ["policy", "measure", "estimator"]
    now = table.set_index(keys).add_suffix("_now")
    both = right.set_index(keys).join(now, how="outer")
    slack = 0.25 * (both["high"] - both["low"]) / 2 + 1e-6
    wrong = both[~((both["value"] - both["value_now"]).abs() <= slack)]
    return [f"{key}: {row.value} is {row.value_now}" for key, row in wrong.T.items()]


def mistakes(draw: random.Random, folder: Path) -> None:
    """One mistake in one sound log."""
    kind, seed = draw.choice(list(LABELS)), draw.randrange(2, 8)
    name = draw.choice(list(MISTAKES))
    found = MISTAKES[name](draw, table(kind, seed), kind, folder)
    wrong = silent(found, sound(kind, seed))
    assert not wrong, f"{name}, {kind}, {seed}: " + "; ".join(wrong)


Mistake = Callable[[random.Random, Frame, str, Path], Frame]


def _swapped_cells(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    one, other = draw.sample(list(frame), 2)
    return judged(kind, frame.rename(columns={one: other, other: one}))


def _swapped_features(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    one, other = draw.sample(list(FEATURES), 2)
    return judged(kind, frame.rename(columns={one: other, other: one}))


def _columns_in_another_order(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    return judged(kind, frame[draw.sample(list(frame), frame.shape[1])])


def _forgotten_like(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    wrong = {draw.choice(list(FEATURES)): "shoe_size"} if draw.random() < 0.5 else {}
    return judged(kind, frame.rename(columns=wrong), like=None)


def _missing_feature(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    name = draw.choice(list(FEATURES))
    if draw.random() < 0.5:
        return judged(kind, frame.drop(columns=name))
    gone = np.random.default_rng(draw.randrange(99)).random(len(frame)) < 0.5
    return judged(kind, frame.assign(**{name: frame[name].mask(gone)}))


def _by_pool(frame: Frame, change: Callable[[Any], Any]) -> Frame:
    pools = frame["propensity"].to_numpy().reshape(-1, 4)
    return frame.assign(propensity=np.array([change(row) for row in pools]).ravel())


def _probabilities(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    draws, shift = np.random.default_rng(draw.randrange(999)), draw.randrange(1, 4)
    factor = draw.choice([0.01, 0.1, 0.25, 0.5, 2.0, 4.0, 10.0, 100.0])
    changes: dict[str, Callable[[Any], Any]] = {
        "rolled": lambda row: np.roll(row, shift),
        "shuffled": draws.permutation,
        "sorted": lambda row: -np.sort(-row),
        "scaled": lambda row: row * factor,
        "complement": lambda row: 1 - row,
        "odds": lambda row: row / (1 - row),
        "logarithms": np.log,
        "alike": lambda row: np.full(4, 0.25),
    }
    changed = _by_pool(frame, changes[draw.choice(list(changes))])
    if draw.random() < 0.3:
        changed["propensity"] = changed["propensity"].where(frame["picked"] == 1)
    return judged(kind, changed)


def _of_another_decision(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    places = 4 * draw.randrange(1, 5)
    return judged(kind, frame.assign(propensity=np.roll(frame["propensity"], places)))


def _respelled(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    ways: list[Callable[[Any], Any]] = [
        str,
        lambda label: f" {label} ",
        lambda label: str(label).upper(),
        lambda label: np.str_(label),
        lambda label: f"{float(label):.1f}" if kind == "numbers" else label,
        lambda label: f"0{label}" if kind == "numbers" else label,
        lambda label: {"f": "female", "m": "male"}.get(str(label), "other"),
        lambda label: int(label) if kind == "truth" else label,
    ]
    changed = frame["sex"].map(draw.choice(ways)).astype(object)
    if draw.random() < 0.5:  # in some of the rows alone
        some = np.random.default_rng(draw.randrange(99)).random(len(frame)) < 0.5
        changed = changed.where(some, frame["sex"].map(str))
    return judged(kind, frame.assign(sex=changed.map(str)))


def _doubled(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    some = frame[frame["decision"] < draw.choice([60, 120, 240])]
    way = draw.choice(["rows", "renumbered", "file", "other file"])
    if way == "rows":
        return judged(kind, pd.concat([frame, some]))
    if way == "renumbered":
        return judged(kind, pd.concat([frame, some.assign(decision=some["decision"] + 1000)]))
    frame.to_csv(folder / "day-1.csv", index=False)
    if way == "file":
        frame.to_csv(folder / "day-2.csv", index=False)
    else:
        some.to_csv(folder / "copy.csv", index=False)
    return judged(kind, folder)


def _files_in_another_order(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    parts = [frame[frame["decision"] // 40 == part] for part in range(6)]
    for number, part in enumerate(draw.sample(parts, 6)):
        part.to_csv(folder / f"day-{number + 7}.csv", index=False)
    return judged(kind, folder)


def _other_units(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    name = draw.choice(list(FEATURES))
    scale, shift = draw.choice(
        [(1000, 0), (100, 0), (0.01, 0), (60, 0), (2.54, 0), (0.4536, 0), (1.609, 0), (1.8, 32)]
    )
    return judged(kind, frame.assign(**{name: frame[name] * scale + shift}))


def _units_of_rewards(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    """The numbers are those of the log in its own units, so that they scale with it."""
    factor = draw.choice([100.0, 0.01, 1000.0])
    found = judged(kind, frame.assign(reward=frame["reward"] * factor))
    of_reward = found["measure"].str.fullmatch("reward|reward:.*|reward_gap")
    for end in ("value", "low", "high"):
        found[end] = found[end].where(~of_reward, found[end] / factor)
    return found


def _shifted_rewards(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    return judged(kind, frame.assign(reward=frame["reward"].shift(draw.choice([-2, -1, 1, 2, 3]))))


def _rewards_of_others(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    filled = frame["reward"].fillna(draw.choice([0.0, 1.0]))
    return judged(kind, frame.assign(reward=filled))


def _picks(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    picked = frame["picked"]
    ways = [1 - picked, picked + 1, picked * 2, picked.shift(1, fill_value=0), picked * 0]
    return judged(kind, frame.assign(picked=draw.choice(ways)))


def _group(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    return judged(kind, frame, group=draw.choice([*FEATURES, "decision", "reward"]))


def _learned(draw: random.Random, frame: Frame, kind: str, folder: Path) -> Frame:
    """An agent is judged by what it has learned from, in any copy."""
    if draw.random() < 0.3:  # rewards of few values, which many decisions share
        frame["reward"] = (frame["reward"] > 0).where(frame["reward"].notna()).astype(float)
    log = read_log(frame, group="sex")
    made = Agent.from_log("greedy", log, seed=0)
    if draw.random() < 0.5:
        made.save(folder / "agent")
        made = Agent.load(folder / "agent")
    first = draw.choice([0, 1, 40])
    way = draw.choice(["copy", "export", "shuffled"])
    copy = frame[frame["decision"] >= first]
    if way == "export":
        log[first:].frame.to_csv(folder / "log.csv", index=False)
        copy = pd.read_csv(folder / "log.csv").rename(columns={"group": "sex"})
        made = Agent.from_log("greedy", read_log(copy, group="sex"), seed=0)
    if way == "shuffled":
        order = draw.sample(sorted(set(copy["decision"])), len(set(copy["decision"])))
        copy = copy.set_index("decision").loc[order].reset_index()
    try:
        judged(kind, copy, made)
    except FairbanditError as error:
        if "has learned from this log" not in str(error):
            raise AssertionError(f"learned, {way}: {error}") from error
        raise
    raise AssertionError(f"learned, {way}: an agent was judged by what it has learned from")


MISTAKES: dict[str, Mistake] = {
    "columns swapped": _swapped_cells,
    "features swapped": _swapped_features,
    "columns in another order": _columns_in_another_order,
    "like forgotten": _forgotten_like,
    "a feature missing": _missing_feature,
    "probabilities": _probabilities,
    "probabilities of another decision": _of_another_decision,
    "labels respelled": _respelled,
    "decisions doubled": _doubled,
    "files in another order": _files_in_another_order,
    "units of a feature": _other_units,
    "units of rewards": _units_of_rewards,
    "rewards shifted by rows": _shifted_rewards,
    "rewards of all candidates": _rewards_of_others,
    "picks": _picks,
    "another column as group": _group,
    "an agent's own decisions": _learned,
}
"""The mistakes by name."""
