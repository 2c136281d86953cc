"""Picks beside their propensities: the test of features, their squares and groups."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairbandit import evaluate
from fairbandit.evaluation.betting import STAKES, balance, imbalance
from tests.evaluation.logs import random_log, read_log
from tests.studies.propensities import RIGHT, refused


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
    draw, rows = np.random.default_rng(0), list[list[Any]]()
    for decision in range(800):
        x, sex = draw.normal(size=4), draw.choice(["f", "m"], 4)
        of_sex = np.where(sex == "f", x, -x)
        merits = {"large": x, "middle": -(x**2), "extreme": x**2, "large f, small m": of_sex}
        merit = merits[prefers]
        pick = draw.choice(4, p=np.where(merit == merit.max(), 0.775, 0.075))
        for place in range(4):
            reward = merit[place] + 0.1 * draw.normal() if place == pick else None
            rows.append([decision, sex[place], x[place], int(place == pick), 0.25, reward])
    columns = ["decision", "group", "x", "picked", "propensity", "reward"]
    table = evaluate(read_log(pd.DataFrame(rows, columns=columns)), "uniform", train=0)
    found = table[(table["policy"] == "uniform") & (table["measure"] == "reward")]
    assert {*found["estimator"]} == {"direct"}
    refusal = next(note for note in table.attrs["notes"] if note.startswith("uniform: ips"))
    assert "picks have another mean of " in refusal
    assert ("squared deviation of 'x'" in refusal) == (prefers in ("middle", "extreme"))


@pytest.mark.parametrize("world", RIGHT)
def test_right_logs_are_not_refused(world: str) -> None:
    """A right log is refused with a probability of 2e-4: one of three is with 6e-4."""
    assert not any(refused(RIGHT[world](seed)) for seed in range(3))
