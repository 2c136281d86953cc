"""Every number that `fairbandit theory` prints, against an evaluation that shares no code with it.

Formulas are those of `tests.theory.paper`; constants and the trade-off come from numpy over all
members, from enumeration of all pairs, or from Monte Carlo. Where a check is statistical, its
docstring states how often a correct package fails it over the choice of seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import register, registry
from fairbandit.environments import Environment, Pools, Table
from fairbandit.environments.base import Truth
from fairbandit.streams import Purpose, Streams
from tests import support
from tests.environments.data import RECORDS, TRIAL_STATES, needs_records, write
from tests.theory.paper import Paper

ROUNDED = 6e-4
"""Four digits are printed."""

Rows = Mapping[str, list[str]]


def tables(out: str) -> Mapping[str, Rows]:
    """The printed tables by the first word of their title: header cells under "", rows by name."""
    found: dict[str, dict[str, list[str]]] = {}
    title, rows, heading = "", dict[str, list[str]](), False
    for line in out.splitlines():
        if line[:1] in "┏┌" and line:
            rows, heading = {}, line[0] == "┏"
            found[title.split()[0]] = rows
            rows["title"] = [title]
        elif line[:1] in "┃│" and line:
            cells = [cell.strip() for cell in re.split("[┃│]", line)[1:-1]]
            if heading:
                old = rows.get("", [""] * len(cells))
                rows[""] = [f"{one} {more}".strip() for one, more in zip(old, cells, strict=True)]
            elif not cells[0]:  # a wrapped cell goes on
                last = rows[list(rows)[-1]]
                last[:] = [f"{a} {b}".strip() for a, b in zip(last, cells[1:], strict=True)]
            else:
                rows[cells[0]] = cells[1:]
        elif line[:1] in "┡└":
            heading, title = False, ""
        elif line[:1] != "├":
            title = f"{title} {line.strip()}".strip()
    return found


def number(text: str) -> float:
    return float(text.replace(",", "").replace(" (T)", ""))


def same(text: str, value: float, tolerance: float = ROUNDED) -> None:
    assert number(text) == pytest.approx(value, rel=tolerance, abs=1e-300)


def probability(text: str) -> float:
    match = re.search(r"≥ ([\d.]+)", text)
    assert match, text
    return float(match[1])


def check_formulas(printed: Mapping[str, Rows], known: Paper, tolerance: float = ROUNDED) -> None:
    """Bounds, closeness, lemmas and floors, each cell against the formula written out anew."""
    lost = known.delta * known.random
    bounds = dict(printed["Bounds"])
    title, header = bounds.pop("title")[0], bounds.pop("")
    assert probability(title) == pytest.approx(1 - known.delta)
    expected = known.bound(known.T)
    for row in ("sum", "corrected sum"):
        name = "below T from T =" if row == "sum" else "corrected: below T from T ="
        expected[name] = known.speaks_from(row)
    ends = bounds.pop("sum at the constants' interval ends", None)
    assert set(bounds) == set(expected)
    for row, cells in bounds.items():
        assert len(cells) == len(header) - 1
        for cell in cells:
            same(cell, expected[row], tolerance)
    if ends is not None:
        for cell in ends:
            low, high = map(number, cell.split(" to "))
            assert low <= expected["sum"] <= high

    closeness = dict(printed["Closeness"])
    closeness.pop("title")
    header = closeness.pop("")
    assert probability(header[1]) == pytest.approx(1 - known.delta / 4)
    assert probability(header[2]) == pytest.approx(1 - known.delta - lost)
    for row, cells in closeness.items():
        t = number(row)
        same(cells[0], known.boundmu((t - 1) // 2), tolerance)
        if t >= known.t_n(4, known.delta, known.T):
            same(cells[1], known.dwk(t), tolerance)
        else:
            assert cells[1] == "–"

    lemmas = dict(printed["Lemmas"])
    lemmas.pop("title")
    lemmas.pop("")
    wanted = known.lemmas()
    assert set(lemmas) == set(wanted)
    for label, (missed, starts, value) in wanted.items():
        cells = lemmas[label]
        assert number(cells[1]) == pytest.approx(1 - known.delta * missed - lost)
        for corrected in (False, True):
            start, there = cells[2 + 2 * corrected], cells[3 + 2 * corrected]
            same(start, starts[corrected], tolerance)
            same(there, value(2 * starts[corrected], corrected), tolerance)
        if starts[1] <= known.T:
            same(cells[6], value(known.T, True), tolerance)
        else:
            assert cells[6] == "–"

    floors = dict(printed["P(a_t"])
    title = floors.pop("title")[0]
    floors.pop("")
    assert probability(title.split("with")[1]) == pytest.approx(1 - known.delta / 4 - lost)
    received = known.t_n(4, known.delta, known.T)
    for row, (share, moment, start) in floors.items():
        c = number(row)
        same(share, c / known.K)
        same(moment, c * known.eig2, max(tolerance, 2 * ROUNDED))
        first = max(known.floor_round(c, known.delta), received)
        if "(T)" not in start:
            same(start, math.ceil(first), tolerance)
        elif c:  # the largest share that is reached at T
            assert known.floor_round(0.999 * c, known.delta) <= known.T * 1.01
            assert known.floor_round(min(1.001 * c, 1 - 1e-9), known.delta) >= known.T * 0.99
        else:
            assert known.floor_round(1e-9, known.delta) > known.T or known.K > 5
    assert any("(T)" in cells[-1] for cells in floors.values()) == (received <= known.T)


def check_constants(printed: Mapping[str, Rows], known: Paper, tolerance: float = ROUNDED) -> None:
    """The constants' values; M, whose value is a smoothed one, within the tolerance."""
    rows = printed["Constants"]
    for letter, value in {
        "K": known.K,
        "G": known.G,
        "d": known.d,
        "L": known.L,
        "λ⁺_min(Σ)": known.eig,
        "R": known.R,
        "q_K": known.q,
        "‖μ*‖₂": known.theta,
    }.items():
        same(rows[letter][1], value)
    same(rows["M"][1], known.M, tolerance)
    same(rows["2ML"][1], 2 * known.M * known.L, tolerance)


class Pairs:
    """Losses of the two optima over pairs of rewards, each pair equally likely."""

    def __init__(self, r1: Any, r2: Any, q1: Any, q2: Any) -> None:
        fair = np.where(q1 > q2, r1, r2)
        tied = q1 == q2
        best = np.maximum(r1, r2)
        losses = np.concatenate([(best - fair)[~tied], (best - r1)[tied], (best - r2)[tied]])
        weights = np.concatenate([np.ones((~tied).sum()), np.full(2 * tied.sum(), 0.5)])
        order = np.argsort(losses)[::-1]
        self.losses, self.weights = losses[order], weights[order] / tied.size
        rank = np.where(r1 == r2, (q1 + q2) / 2, np.where(r1 > r2, q1, q2))
        self.unfair = np.maximum(q1, q2) - rank
        self.count = tied.size

    def share(self, epsilon: float) -> float:
        return float(self.weights[self.losses > epsilon].sum())

    def best_rate(self) -> float:
        """sup ε·p(ε), approached from below at one of the losses."""
        return float((self.losses * self.weights.cumsum()).max())

    def mean(self) -> float:
        return float((self.losses * self.weights).sum())

    def spread(self) -> float:
        return sqrt(float((self.losses**2 * self.weights).sum()) - self.mean() ** 2)


def check_trade_off(rows: Rows, pairs: Pairs, known: Paper, noise: float, width: float) -> None:
    """All rows of the trade-off.

    Args:
        rows: the printed table.
        pairs: all pairs, or drawn ones.
        known: the constants.
        noise: standard errors that a difference from `pairs` may have; 0 where they are all.
        width: the greatest difference of rewards of the two groups.
    """
    assert len(rows) == 12
    values = {
        name: number(cells[0].split(" ± ")[0]) for name, cells in rows.items() if name != "title"
    }
    (epsilon,) = (value for name, value in values.items() if name.startswith("ε of"))
    (share,) = (value for name, value in values.items() if name.startswith("p(ε)"))
    expected = pairs.share(epsilon)
    error = noise * sqrt(max(expected * (1 - expected), 0) / pairs.count)
    # ε itself is rounded to four digits when printed, and p may step there
    low, high = pairs.share(epsilon * (1 + ROUNDED)), pairs.share(epsilon * (1 - ROUNDED))
    assert low * (1 - ROUNDED) - error <= share <= high * (1 + ROUNDED) + error
    rate, mean = epsilon * share, pairs.mean()
    assert values.pop("ε·p(ε): at most GMF's standard regret a round") == pytest.approx(
        rate, rel=2 * ROUNDED
    )
    best = pairs.best_rate()
    slack = noise * epsilon * sqrt(0.25 / pairs.count)
    assert best * (1 - 2.5e-3) - slack <= rate <= best * (1 + 1.5e-3) + slack
    error = noise * pairs.spread() / sqrt(pairs.count)
    assert values.pop("GMF's standard regret a round, the integral of p") == pytest.approx(
        mean, rel=ROUNDED, abs=error
    )
    assert rate <= mean + error
    unfair = float(pairs.unfair.mean())
    error = noise * float(pairs.unfair.std()) / sqrt(pairs.count)
    assert values.pop("the reward optimum's fair regret a round, f") == pytest.approx(
        unfair, rel=ROUNDED, abs=error
    )
    halves = [value for name, value in values.items() if "f/2" in name]
    assert halves == pytest.approx([unfair / 2] * 2, rel=ROUNDED, abs=error)
    assert values.pop("GMF's regret of T rounds is at least T·εp/2 = T ×") == pytest.approx(
        rate / 2, rel=2 * ROUNDED
    )
    assert values.pop("ε is at most 2L‖μ*‖, or else p(ε) = 0") == pytest.approx(
        2 * known.L * known.theta, rel=ROUNDED
    )
    (chance,) = (value for name, value in values.items() if name.endswith("at most ½"))
    assert chance == pytest.approx(rate / (4 * known.L * known.theta), rel=2 * ROUNDED)
    assert chance <= 0.5
    (most,) = (value for name, value in values.items() if name.startswith("upper bound"))
    assert most == pytest.approx(width, rel=ROUNDED)
    assert float(pairs.losses[0]) <= most * (1 + ROUNDED)


def drawn(world: Environment, pools: int = 20_000) -> Pools:
    world.bind(Streams(12, range(1)))
    return world.pools(1, pools)


def check_pools(world: Environment, known: Paper) -> None:
    """L and q_K against drawn pools: a correct package fails below once in 1e6."""
    pools = drawn(world)
    assert float(pools.contexts.norm(dim=-1).max()) <= known.L * (1 + 1e-12)
    counts = torch.stack([(pools.groups == g).sum(-1) for g in range(known.G)]).double()
    rarest = counts[:, 0].mean(1).argmin()
    error = float(counts[rarest, 0].std()) / sqrt(counts.shape[2])
    assert float(counts[rarest, 0].mean()) == pytest.approx(known.q, abs=5 * error + 1e-12)


def of_simulation(groups: int, theta: list[float], bias: float, noise: float = 2.0) -> Paper:
    """Moments by hand; L over the cubes' corners; M from differences of an independent CDF."""
    size = (len(theta) - 1) // groups
    moment, longest, peak = np.zeros((len(theta), len(theta))), 0.0, 0.0
    for a in range(groups):
        own = slice(a * size, (a + 1) * size)
        mean = np.zeros(len(theta))
        mean[own], mean[-1] = 0.5, bias * a
        covariance = np.zeros(len(theta))
        covariance[own] = 1 / 12
        moment += np.outer(mean, mean) + np.diag(covariance)
        corners = product([0, 1], repeat=size)
        longest = max(longest, *(np.hypot(np.linalg.norm(c), bias * a) for c in corners))
        weights = theta[own]
        low, high = (sum(f(w, 0) for w in weights) for f in (min, max))
        step = (high - low) * 1e-3
        for v in np.linspace(low + 2 * step, high - 2 * step, 25):
            up, down = (
                support.weighted_uniforms_cdf(weights, 0.0, float(v + s)) for s in (step, -step)
            )
            peak = max(peak, (up - down) / (2 * step))
    eigenvalues = np.linalg.eigvalsh(moment / groups)
    least = eigenvalues[eigenvalues > 1e-12 * eigenvalues[-1]].min()
    norm = float(np.linalg.norm(theta))
    return Paper(groups, groups, len(theta), longest, float(least), peak, noise, norm)


def test_the_simulation(command):
    """The paper's problem, in closed form."""
    code, out, err = command("theory", "environment=simulation")
    assert (code, err) == (0, "")
    theta = [4, 3, 7, 0, 8, 0, 0, 0, 5, 5, 0, 0, 2, 2, 2, 2, 1]
    known = of_simulation(4, list(map(float, theta)), bias=3.0)
    printed = tables(out)
    check_constants(printed, known, tolerance=1e-3)
    check_formulas(printed, known, tolerance=2e-3)
    check_pools(support.environment(), known)
    assert "picks each group T/K = 1,250 times" in out
    assert "thm:linreg_opt speaks of two groups; here G = 4" in out


def test_two_groups_of_the_simulation(command):
    """2U against U + ½: the trade-off by a grid of pairs, other T, δ and λ."""
    words = ["groups=2", "theta=[2,1,1]", "bias=0.5", "noise=0.3"]
    given = [f"environment.{word}" for word in words]
    code, out, err = command("theory", *given, "rounds=1e9", "delta=0.01", "regularization=2")
    assert (code, err) == (0, "")
    known = of_simulation(2, [2.0, 1.0, 1.0], bias=0.5, noise=0.3)
    known = replace(known, T=1e9, delta=0.01, ridge=2.0)
    printed = tables(out)
    check_constants(printed, known)
    check_formulas(printed, known)
    u = (np.arange(1000) + 0.5) / 1000
    q1, q2 = (part.ravel() for part in np.meshgrid(u, u))
    pairs = Pairs(2 * q1, q2 + 0.5, q1, q2)
    # the grid's error is a cell's width, 1/1000; six standard errors of a million pairs are wider
    check_trade_off(printed["Fairness"], pairs, known, noise=6.0, width=1.5)


def test_reward_optimum_and_fair_optimum_of_disjoint_groups(command):
    """U and U + 3: GMF picks the worse group half the time and loses 3 of reward on average then.

    Its mean loss is ½·E[R₂ − R₁ | picks 1] = (3 − 1/3)/2 = 4/3, as U₁ > U₂ there; the reward
    optimum loses (U₁ − U₂)₊ of rank, 1/6 on average.
    """
    code, out, _ = command("theory", "environment.groups=2", "environment.theta=[1,1,1]")
    assert code == 0
    rows = tables(out)["Fairness"]
    same(rows["GMF's standard regret a round, the integral of p"][0], 4 / 3)
    same(rows["the reward optimum's fair regret a round, f"][0], 1 / 6)
    same(rows["upper bound on the loss of a round, beyond which p(ε) = 0"][0], 4)


def smoothed_peak(values: Any) -> tuple[float, float]:
    """The greatest value of a Gaussian kernel estimate with Silverman's rule, and its bootstrap."""
    n = len(values)
    low, high = np.quantile(values, [0.25, 0.75])
    spread = values.std(ddof=1)
    between = (high - low) / 1.34
    h = 0.9 * (min(spread, between) if between > 0 else spread) * n**-0.2
    cells, counts = np.unique(np.floor(values / h), return_counts=True)
    fullest = cells[np.argsort(counts)[-3:]] * h
    grid = np.unique(np.concatenate([np.linspace(at - h, at + 2 * h, 61) for at in fullest]))
    kernel = np.exp(-(((grid[None] - values[:, None]) / h) ** 2) / 2) / (h * sqrt(2 * np.pi))
    counts = np.random.default_rng(5).multinomial(n, np.full(n, 1 / n), size=60)
    return float(kernel.mean(0).max()), float((counts @ kernel / n).max(1).std(ddof=1))


def constant_of(noise: Any) -> float:
    """The least R with E exp(s·η) ≤ exp(s²R²/2), on a dense grid of s."""
    centred = noise - noise.mean()
    slopes = np.geomspace(1e-3 / centred.std(), 50 / centred.std(), 400)
    best = centred.var()
    for sign in (1, -1):
        for s in slopes:
            powers = sign * s * centred
            top = powers.max()
            best = max(best, 2 * (top + np.log(np.exp(powers - top).mean())) / s**2)
    return sqrt(float(best))


def of_table(world: Table, printed: Mapping[str, Rows], **changed: Any) -> Paper:
    """All members' constants with numpy; M's interval against a bootstrap of its own."""
    x, groups = world.members.contexts.numpy(), world.members.groups.numpy()
    expected, rewards = world.members.expected.numpy(), world.members.rewards.numpy()
    theta = world.truth.linear_theta().numpy()
    np.testing.assert_allclose(x @ theta, expected, rtol=1e-6, atol=1e-6 * abs(expected).max())
    names = range(len(world.group_names))
    factor = np.concatenate(
        [x[groups == g] / sqrt(len(names) * (groups == g).sum()) for g in names]
    )
    singular = np.linalg.svd(factor, compute_uv=False)
    least = singular[singular > len(x) * 2.3e-16 * singular[0]][-1] ** 2
    peaks = [smoothed_peak(expected[groups == g]) for g in names]
    peak, error = max(peaks)
    low, high = map(number, printed["Constants"]["M"][2].split(" to "))
    # sixty resamples against two hundred: each standard deviation is known to 10 %
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.5)
    noise = world.noise
    if world.rewards.name == "column":
        parts = [constant_of((rewards - expected)[groups == g]) for g in names]
        noise = sqrt(max(parts) ** 2 + world.noise**2)
    drawn_at_random = world.pool.name == "random"
    rarest = min((groups == g).mean() for g in names)
    known = Paper(
        world.places,
        len(names),
        x.shape[1],
        float(np.linalg.norm(x, axis=1).max()),
        float(least),
        peak,
        noise,
        float(np.linalg.norm(theta)),
        q=world.places * rarest if drawn_at_random else 1.0,
        random=drawn_at_random,
    )
    if drawn_at_random:
        same(printed["Constants"]["q_min"][1], rarest * len(names))
    return replace(known, **changed)


def outliers(path: Any, members: int, rare: int) -> None:
    """Members of group a, a few of b; one of each has a reward a thousand times the others'."""
    draw = np.random.default_rng(8)
    groups = ["a"] * members + ["b"] * rare
    skill = draw.normal(0, 1, len(groups)) + np.array([0.0 if g == "a" else 0.4 for g in groups])
    skill[[0, members]] = 1000.0, 1500.0
    pay = 2 * skill + 0.1 * draw.normal(0, 1, len(groups))
    write(path, {"group": groups, "skill": skill.tolist(), "pay": pay.tolist()})


TABLE = [
    "environment=table",
    "environment.path=people.csv",
    "environment.group=group",
    "environment.reward=pay",
    "environment.columns={skill: null}",
]


def table_of(folder: Any, **parameters: Any) -> Table:
    given = {"path": str(folder / "people.csv"), "group": "group", "reward": "pay"}
    made = support.environment("table", **given, columns={"skill": None}, **parameters)
    assert isinstance(made, Table)
    return made


def test_a_table_with_outliers(command, tmp_path):
    """One place a group: the trade-off over all pairs of members, where a grid would miss it."""
    outliers(tmp_path / "people.csv", members=1500, rare=40)
    code, out, err = command("theory", *TABLE)
    assert (code, err) == (0, "")
    printed = tables(out)
    world = table_of(tmp_path)
    known = of_table(world, printed)
    check_constants(printed, known, tolerance=3e-3)
    check_formulas(printed, known, tolerance=6e-3)
    values, groups = world.members.expected.numpy(), world.members.groups.numpy()
    one, two = values[groups == 0], values[groups == 1]
    rank_one, rank_two = ((v[:, None] >= v[None]).mean(1) for v in (one, two))
    r1, r2 = (part.ravel() for part in np.meshgrid(one, two))
    q1, q2 = (part.ravel() for part in np.meshgrid(rank_one, rank_two))
    width = max(one.max() - two.min(), two.max() - one.min())
    check_trade_off(printed["Fairness"], Pairs(r1, r2, q1, q2), known, noise=0.0, width=width)


def test_a_table_with_a_rare_group_and_two_places_a_group(command, tmp_path):
    """Random pools of four, in which one candidate in forty is of the rare group."""
    outliers(tmp_path / "people.csv", members=1170, rare=30)
    words = ["environment.pool=random", "environment.candidates=4", "environment.noise=0.5"]
    words += ["environment.rewards=model", "rounds=20000", "alpha=0.8", "delta=0.02"]
    code, out, err = command("theory", *TABLE, *words)
    assert (code, err) == (0, "")
    printed = tables(out)
    world = table_of(tmp_path, pool="random", candidates=4, noise=0.5, rewards="model")
    known = of_table(world, printed, T=20_000, alpha=0.8, delta=0.02)
    assert known.q == pytest.approx(0.1)
    check_constants(printed, known, tolerance=3e-3)
    check_formulas(printed, known, tolerance=6e-3)
    check_pools(world, known)
    stated, corrected = (number(f"{known.t_n(constant, 0.02, 20_000):.0f}") for constant in (2, 4))
    assert f"t_N = {stated:,.0f} is too early. The tables use {corrected:,.0f}" in out


CENSUS = [
    f"environment.root={RECORDS}",
    f"environment.states=[{','.join(TRIAL_STATES)}]",
    "environment.scaler_states=[AL]",
    "environment.cache=cache",
]


@needs_records
def test_the_census_by_gender(command, tmp_path):
    """The trade-off from half a million drawn pairs: a correct package fails below once in 1e4."""
    code, out, err = command("theory", "environment=census_gender", *CENSUS)
    assert code == 0, err
    printed = tables(out)
    world = support.census("census_gender", tmp_path / "cache")
    known = of_table(world, printed)
    check_constants(printed, known, tolerance=3e-3)
    check_formulas(printed, known, tolerance=6e-3)
    values, groups = world.members.expected.numpy(), world.members.groups.numpy()
    draw, rewards, ranks = np.random.default_rng(9), [], []
    for group in (0, 1):
        own = np.sort(values[groups == group])
        rows = draw.integers(0, len(own), 500_000)
        rewards.append(own[rows])
        ranks.append(np.searchsorted(own, own, side="right")[rows] / len(own))
    width = values[groups == 0].max() - values[groups == 1].min()
    width = max(width, values[groups == 1].max() - values[groups == 0].min())
    check_trade_off(printed["Fairness"], Pairs(*rewards, *ranks), known, noise=5.0, width=width)


@needs_records
def test_the_census_by_ethnicity(command, tmp_path):
    words = ["environment=census_ethnicity", "environment.min_group_size=800"]
    code, out, err = command("theory", *words, *CENSUS)
    assert code == 0, err
    printed = tables(out)
    world = support.census("census_ethnicity", tmp_path / "cache")
    known = of_table(world, printed, T=2500)
    check_constants(printed, known, tolerance=3e-3)
    check_formulas(printed, known, tolerance=6e-3)
    check_pools(world, known)


class TwoPlaces(Environment):
    """Two groups with two places each, (U, 1 − U′) and (U, U′) scaled by 3."""

    features, places, group_names = 2, 4, ("low", "high")

    def __init__(self) -> None:
        theta = torch.tensor([1.0, 0.5], dtype=torch.float64)
        self.truth: Truth = Truth(theta, lambda groups, values: (values / 4.5).clamp(0, 1))

    def _pools(self, first: int, count: int) -> Pools:
        uniform = self.streams[Purpose.POOLS].uniform(first, count, 8)
        contexts = uniform.view(*uniform.shape[:2], 4, 2).clone()
        contexts[:, :, 2:] *= 3
        groups = torch.tensor([0, 0, 1, 1]).expand(*uniform.shape[:2], 4)
        expected = contexts @ self.truth.linear_theta()
        noise = self.streams[Purpose.REWARDS].normal(first, count, 4)
        return Pools(contexts, groups, expected + noise / 2, expected, expected / 4.5)


@pytest.fixture
def two_places(monkeypatch):
    known = registry._registry["environment"]
    monkeypatch.setitem(registry._registry, "environment", dict(known))
    register("environment", "two_places")(TwoPlaces)


@pytest.mark.usefixtures("two_places")
def test_two_fixed_places_a_group(command):
    """Groups are fixed, so α = 1 and αq_K = 2, though the constants are estimates.

    Σ = (1 + 9)/2·[[1/3, 1/4], [1/4, 1/3]], λ⁺ = 5/12; L = 3√2; the density of U + U′/2 is at most
    1; R = 1/2. Three intervals at 2.5 of their half-widths: a correct package fails once in 1e5.
    """
    code, out, err = command("theory", "environment=two_places", "rounds=10000")
    assert (code, err) == (0, "")
    printed = tables(out)
    rows = printed["Constants"]
    for letter, exact in {"λ⁺_min(Σ)": 5 / 12, "R": 0.5}.items():
        low, high = map(number, rows[letter][2].split(" to "))
        assert abs(number(rows[letter][1]) - exact) <= 2.5 * (high - low) / 2 + 1e-3
    assert 0.97 <= number(rows["M"][1]) <= 1.08
    assert rows["L"][2] == "not below the value"
    assert 0.97 * 3 * sqrt(2) <= number(rows["L"][1]) <= 3 * sqrt(2)
    norm, least, peak, noise = (number(rows[name][1]) for name in ("L", "λ⁺_min(Σ)", "M", "R"))
    known = Paper(4, 2, 2, norm, least, peak, noise, theta=sqrt(1.25), q=2.0, T=10_000)
    check_constants(printed, known, tolerance=2e-3)
    check_formulas(printed, known, tolerance=5e-3)


def test_the_expected_picks(command):
    """T/K = 12.5 picks of each group: a correct package fails below once in 1e5."""
    _, out, _ = command("theory", "environment=simulation", "rounds=50")
    match = re.search(r"T/K = ([\d.]+) times", out)
    assert match
    chosen = support.actions(
        support.policy("fair_greedy"), support.environment(), 50, replicas=1000, seed=4
    )
    picks = torch.nn.functional.one_hot(chosen, 4).sum(1).double()
    error = picks.std(0) / sqrt(1000)
    assert bool(((picks.mean(0) - float(match[1])).abs() <= 5 * error).all())


@pytest.mark.parametrize(
    ("theta", "words"),
    [
        ([0, 2, 1], ["give the group a weight other than 0", "takes rewards that have a density"]),
        ([1] * 27, ["13 weights"]),
    ],
)
def test_what_the_closed_form_cannot_do_is_found_before_anything_is_printed(command, theta, words):
    """A group without weights, and two groups of thirteen with the sampled CDF."""
    given = ["environment.groups=2", "environment.cdf=sampled", "environment.cdf_samples=1000"]
    code, out, err = command("theory", *given, f"environment.theta={theta}".replace(" ", ""))
    assert (code, err) == (0, "")
    if "13 weights" not in words:
        assert all(word in " ".join(out.split()) for word in words)
        assert "Fairness against reward" not in out
        return
    rows = tables(out)["Fairness"]
    assert "drawn" in tables(out)["Constants"]["M"][3]
    # thirteen uniforms and thirteen uniforms plus 3: two nearly normal laws, by Monte Carlo
    draw = np.random.default_rng(3).random((2, 100_000, 13)).sum(2)
    one, two = draw[0], draw[1] + 3
    ranks = (np.sort(draw[k]).searchsorted(draw[k]) for k in (0, 1))
    pairs = Pairs(one, two, *ranks)
    mean, error = map(
        float, rows["GMF's standard regret a round, the integral of p"][0].split(" ± ")
    )
    own = pairs.spread() / sqrt(pairs.count)
    assert mean == pytest.approx(pairs.mean(), abs=5 * sqrt(error**2 + own**2))
    assert 0 < error < 0.01 * mean
