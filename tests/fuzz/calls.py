"""Hostile calls of an agent, compared with a twin that meets only plain Python values.

One of two equal agents gets a hostile call. If it is refused, the two must still be equal, bit for
bit; if it is accepted, the twin gets the same call in plain values, and they must be equal again.
"""

import random
import string
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from fairbandit import Agent
from fairbandit.errors import FairbanditError
from tests.agent import worlds
from tests.fuzz.values import FEATURES, LABELS, NUMBERS, pools

CONFIGS: tuple[Any, ...] = (
    *("fair_greedy", "greedy", "oful", "uniform"),
    *(
        {"split": split, "estimator": "ridge", "rank": rank}
        for split, rank in (
            *(("halves", "recent_cdf"), ("full", "smoothed_cdf"), ("full", "shrunk_cdf")),
            *(("halves", "tradeoff"), ("full", "noisy_rewards_cdf")),
        )
    ),
)


def calls(draw: random.Random, folder: Path) -> None:
    """`act`, `act_many`, `update`, `drop` and `observe`, and the constructor."""
    if draw.random() < 0.1:
        Agent.from_config(**_options(draw))
        return
    agent, twin = _pair(draw)
    with warnings.catch_warnings(action="ignore"):  # of libraries, about odd inputs
        method, given, odd = _call(draw, agent)
        refused = False
        try:
            answer = getattr(agent, method)(**given)
        except FairbanditError:
            refused = True
        else:
            again = getattr(twin, method)(**{**given, odd: plain(given[odd])})
            assert answer == again, f"{method} gave {answer}, and in plain values {again}"
    told = f"{'refused' if refused else 'accepted'} {method}({odd}={given[odd]!r})"
    assert worlds.held(agent) == worlds.held(twin), told
    for _ in range(3):
        _round(draw, agent, twin)
    assert worlds.held(agent) == worlds.held(twin), f"after later rounds: {told}"
    if refused:
        raise FairbanditError(told)


def plain(value: Any) -> Any:
    """A value in Python's own numbers, texts and lists; masked entries become None."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = value if value.layout is torch.strided else value.to_dense()
    if isinstance(value, pd.DataFrame | memoryview):
        value = np.asarray(value)
    if isinstance(value, torch.Tensor | np.ndarray | np.generic | pd.Series):
        value = value.tolist()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value


def _pair(draw: random.Random) -> tuple[Agent, Agent]:
    """Two agents with the same life."""
    options: dict[str, Any] = {"features": FEATURES, "groups": ["a", "b"], "seed": 7}
    options["patience"] = draw.choice([None, None, 0, 3])
    refresh = draw.choice([None, None, 1.1, 2.0])
    config, scale = draw.choice(CONFIGS), draw.choice([1.0, 1.0, 1e-9, 1e9, 1e60])
    config = {**({"name": config} if isinstance(config, str) else config), "refresh": refresh}
    pair = Agent.from_config(config, **options), Agent.from_config(config, **options)
    for _ in range(draw.choice([0, 1, 3, 8, 20])):
        _round(draw, *pair, scale if draw.random() < 0.2 else 1.0)
    return pair


def _rows(draw: random.Random, scale: float = 1.0) -> list[list[float]]:
    count = draw.randint(1, 4)
    return [[scale * draw.gauss(0, 1) for _ in range(FEATURES)] for _ in range(count)]


def _round(draw: random.Random, agent: Agent, twin: Agent, scale: float = 1.0) -> None:
    """One ordinary round of both, of which one is asked to explain first."""
    rows = _rows(draw, scale)
    labels = [draw.choice("abc") for _ in rows]
    found, decision = agent.explain(rows, labels), agent.act(rows, labels)
    assert float(found.probabilities[decision.candidate]) == decision.propensity
    assert decision == twin.act(rows, labels)
    if draw.random() < 0.8:
        reward = scale * draw.gauss(0, 1)
        for each in (agent, twin):
            each.update(reward)


def _call(draw: random.Random, agent: Agent) -> tuple[str, dict[str, Any], str]:
    """A method, its arguments, and which of them is odd."""
    rows = _rows(draw)
    match draw.choice(["contexts", "groups", "pools", "reward", "ticket", "observe"]):
        case "contexts":
            odd = _contexts(draw)
            count = len(odd) if isinstance(odd, list | np.ndarray) else draw.randint(0, 3)
            return "act", {"contexts": odd, "groups": ["a", "new", "b", "a"][:count]}, "contexts"
        case "groups":
            return "act", {"contexts": rows, "groups": _labels(draw, len(rows))}, "groups"
        case "pools":
            many: dict[str, Any] = {"contexts": [rows] * 2, "groups": [["a"] * len(rows)] * 2}
            key = draw.choice(list(many))
            odd = _contexts(draw) if key == "contexts" else _labels(draw, len(rows))
            return "act_many", {**many, key: draw.choice([odd, [many[key][0], odd]])}, key
        case "reward":
            given = {"reward": draw.choice(NUMBERS), "ticket": draw.choice([None, *agent.pending])}
            return "update", given, "reward"
        case "ticket":
            ticket = draw.choice([*NUMBERS, *agent.pending, agent.rounds + 1])
            if draw.random() < 0.5:
                return "drop", {"ticket": ticket}, "ticket"
            return "update", {"reward": 1.0, "ticket": ticket}, "ticket"
    log: dict[str, Any] = {
        "contexts": [rows, rows],
        "groups": [["a", "b", "new", "a"][: len(rows)]] * 2,
        "actions": [0, 0],
        "rewards": [0.5, 1.5],
    }
    key = draw.choice(list(log))
    odd = _contexts(draw) if key == "contexts" else _labels(draw, len(rows))
    if key in ("actions", "rewards"):
        odd = draw.choice(NUMBERS)
    return "observe", {**log, key: draw.choice([odd, [log[key][0], odd]])}, key


def _contexts(draw: random.Random) -> Any:
    """A pool of which something is unusual."""
    if draw.random() < 0.4:
        return draw.choice(pools())
    rows: list[list[Any]] = [list(row) for row in _rows(draw)]
    draw.choice(rows)[draw.randrange(FEATURES)] = draw.choice(NUMBERS)
    return _held(draw, rows, [list, np.array, torch.tensor, tuple])


def _labels(draw: random.Random, count: int) -> Any:
    """Labels of which one or all are unusual, in an unusual container at times."""
    labels = [draw.choice(LABELS) for _ in range(count)]
    if draw.random() < 0.5:
        labels = ["a"] * (count - 1) + labels[:1]
    if draw.random() < 0.1:
        text = "".join(draw.choices(string.printable, k=count))
        return draw.choice([None, 3, {"a"}, iter(labels), text])
    return _held(draw, labels, [list, list, tuple, np.array, torch.tensor, pd.Series, np.ma.array])


def _held(draw: random.Random, values: list[Any], containers: list[Any]) -> Any:
    """The values in a container that can hold them."""
    try:
        return draw.choice(containers)(values)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return values


def _options(draw: random.Random) -> dict[str, Any]:
    """Arguments of an agent, one of them unusual, none so large that it would only take long."""
    options: dict[str, Any] = {"config": draw.choice(CONFIGS), "features": FEATURES}
    options |= dict.fromkeys(("groups", "seed", "exploration", "patience"))
    options |= {"groups": ["a"], "seed": 0, "exploration": 1.0}
    odd = [v for v in (*NUMBERS, *LABELS) if not (type(v) in (int, float) and 1e6 < v < 1e25)]
    options[draw.choice(list(options))] = draw.choice(odd)
    if draw.random() < 0.3:
        estimator = {"name": "ridge", draw.choice(["noise", "x"]): draw.choice(odd)}
        rank = draw.choice(["empirical_cdf", *odd])
        options["config"] = {"split": draw.choice(odd), "estimator": estimator, "rank": rank}
    return options
