"""Picks beside their propensities: the test of features, their squares and groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import evaluate
from fairbandit.evaluation.betting import STAKES, balance, imbalance, uniform
from fairbandit.evaluation.sums import Sums
from fairbandit.logs import Floats, Log
from tests.evaluation.logs import random_log, read_log


@pytest.mark.parametrize("decimals", [1, 17])
def test_the_wealth_is_a_supermartingale(decimals: int) -> None:
    """Exactly, over all picks of five decisions of three, with probabilities that are rounded."""
    log, outcomes = random_log(5, k=3, groups=np.tile([0, 1, 1], (5, 1))), list[Any]()
    p = np.random.default_rng(0).dirichlet([2, 2, 2], 5)
    rounded, mean = p.round(decimals).ravel(), np.zeros(())
    for picks in product(range(3), repeat=5):
        found = balance(
            replace(log, picks=np.array(picks)[:, None]), rounded, 0.5 * 10.0**-decimals
        )
        outcomes.append(np.exp([wealth for _, wealth in found.values()]))
        mean = mean + p[np.arange(5), picks].prod() * outcomes[-1]
    assert np.max(mean) <= 1 + 1e-9
    assert np.max(outcomes) > 1.01


def test_the_wealth_is_that_of_a_plain_loop() -> None:
    """Picks fit the probabilities first; the log is rejected as soon as the wealth is 10,000."""
    log = random_log(140, k=4)
    best = log.padded(log.contexts[:, 0], -np.inf).argmax(1)
    log = replace(log, picks=np.where(np.arange(140) < 40, log.picks[:, 0], best)[:, None])
    x, groups = log.padded(log.contexts, 0.0), log.padded(log.groups, -1)
    p, verdicts = log.probabilities, set()
    for n in range(40, 141, 20):
        part, total, wealths = log[:n], dict[str, float](), dict[str, float]()
        deviation = x[:n] - part.contexts.mean(0)
        functions = {repr(name): deviation[..., j] for j, name in enumerate(log.features)}
        functions |= {f"the squared deviation of {name}": f**2 for name, f in functions.items()}
        for code, label in enumerate(log.labels):
            inside = groups[:n] == code
            functions[f"the indicator of group {label}"] = inside + 0.0
            for j, name in enumerate(log.features):
                functions[f"{name!r} in group {label}"] = deviation[..., j] * inside
        for name, f in functions.items():
            total[name], wealth = 0.0, np.ones((2, len(STAKES)))
            for t in range(n):
                k = int(log.sizes[t])
                c = f[t, :k] - log.padded(log.probabilities, 0.0)[t, :k] @ f[t, :k]
                d, most = c[log.picks[t, 0]], np.abs(c).max()
                xi = d / most if most > 1e-12 else 0.0
                total[name] += d
                for sign, bet in enumerate((xi, -xi)):
                    wealth[sign] *= np.exp(STAKES * bet + (np.log(1 - STAKES) + STAKES) * bet**2)
            wealths[name] = wealth.mean()
        found = balance(part, p[: part.sizes.sum()], 0.0)
        assert {*found} == {*total}
        for name, (difference, logarithm) in found.items():
            assert difference == pytest.approx(total[name], abs=1e-9)
            assert math.exp(logarithm) == pytest.approx(wealths[name])
        verdict = imbalance(found)
        assert (verdict is not None) == (np.mean([*wealths.values()]) > 1e4)
        verdicts.add(verdict is not None)
    assert verdicts == {False, True}
    assert verdict is not None
    assert verdict[0] == max(wealths, key=lambda name: wealths[name])
    assert verdict[1] == pytest.approx(total[verdict[0]])


@pytest.mark.parametrize("prefers", ["large", "middle", "extreme", "large f, small m"])
def test_a_policy_behind_1_over_k_is_found(prefers: str) -> None:
    """From the table to the note, after 800 decisions between four."""
    draw, cells = np.random.default_rng(0), list[list[Any]]()
    for decision in range(800):
        x, sex = draw.normal(size=4), draw.choice(["f", "m"], 4)
        of_sex = np.where(sex == "f", x, -x)
        merits = {"large": x, "middle": -(x**2), "extreme": x**2, "large f, small m": of_sex}
        merit = merits[prefers]
        pick = draw.choice(4, p=np.where(merit == merit.max(), 0.775, 0.075))
        for place in range(4):
            reward = merit[place] + 0.1 * draw.normal() if place == pick else None
            cells.append([decision, sex[place], x[place], int(place == pick), 0.25, reward])
    columns = ["decision", "group", "x", "picked", "propensity", "reward"]
    table = evaluate(read_log(pd.DataFrame(cells, columns=columns)), "uniform", train=0)
    found = table[(table["policy"] == "uniform") & (table["measure"] == "reward")]
    assert {*found["estimator"]} == {"direct"}
    refusal = next(note for note in table.attrs["notes"] if note.startswith("uniform: ips"))
    assert "picks have another mean of " in refusal
    assert ("squared deviation of 'x'" in refusal) == (prefers in ("middle", "extreme"))


Draws = np.random.Generator


def right(
    seed: int,
    n: int,
    law: Callable[[Draws, tuple[int, ...]], Floats] = Draws.standard_normal,
    shares: tuple[float, ...] = (0.5, 0.5),
    picks: int = 1,
    decimals: int = 17,
    again: bool = False,
) -> Any:
    """A log with the right probabilities, which depend on x, x² and the group.

    m candidates are the best of the pool with probability ½, else m random ones. With `again`,
    who is not picked comes again in the place of a candidate of the next pool.
    """
    draws, k = np.random.default_rng(seed), 6
    x, groups = law(draws, (n, k, 3)), draws.choice(len(shares), (n, k), p=shares)
    weight, order, chosen = draws.normal(size=3), draws.random((n, k)).argsort(1), draws.random(n)
    p, made = np.full((n, k), picks / k / 2), np.empty((n, picks), np.int64)
    steps: list[Any] = [*range(n)] if again else [slice(n)]
    for t in steps:
        if again and t:
            left = next(place for place in order[t - 1, ::-1] if place not in made[t - 1])
            x[t, 0], groups[t, 0] = x[t - 1, left].copy(), groups[t - 1, left]
        merit = x[t] @ weight + weight[0] * x[t][..., 1] ** 2 * (groups[t] == 0)
        best = (-merit).argsort(-1)[..., :picks]
        np.put_along_axis(p[t], best, picks / k / 2 + 0.5, -1)
        made[t] = np.where(chosen[t][..., None] < 0.5, best, order[t][..., :picks])
    p = p.round(decimals)
    parts: dict[str, Any] = {"groups": groups, "contexts": x, "probabilities": p, "picks": made}
    parts |= {"propensities": np.take_along_axis(p, made, 1), "rewards": np.zeros(made.shape)}
    return random_log(n, **parts, labels=tuple("abc"[: groups.max() + 1]), features=tuple("xyz"))


RIGHT: dict[str, Callable[[int], Log]] = {
    "normal features": lambda seed: right(seed, 1000),
    "Cauchy features": lambda seed: right(seed, 1000, Draws.standard_cauchy),
    "groups of 2 % and 8 %": lambda seed: right(seed, 1000, shares=(0.02, 0.08, 0.9)),
    "shortlists of 3": lambda seed: right(seed, 1000, picks=3),
    "2 decimals": lambda seed: right(seed, 1000, decimals=2),
    "3 decimals": lambda seed: right(seed, 1000, decimals=3),
    "candidates who come again": lambda seed: right(seed, 1000, again=True),
    "propensities of picks alone": lambda seed: replace(right(seed, 1000), probabilities=None),
    "30 decisions": lambda seed: right(seed, 30),
}


@pytest.mark.parametrize("world", RIGHT)
def test_right_logs_are_not_refused(world: str) -> None:
    """A right log is refused with a probability of 2e-4: one of three is with 6e-4."""
    for seed in range(3):
        log = RIGHT[world](seed)
        assert not Sums.of(log, uniform(log), np.zeros(len(log.decisions))).wrong
