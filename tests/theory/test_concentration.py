"""The lemmas behind the bounds, by Monte Carlo on runs of Fair-Greedy.

Each test checks a lemma's promise as `chance.refuted` does: a correct implementation fails it with
probability below 1e-6 over the choice of seed. Each also shows that it would notice a wrong
formula: the same promise of a changed bound is refuted. How much the bound must change for that
is how loose the paper's proof is.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fairbandit import Engine
from fairbandit.environments import Simulation
from fairbandit.maths.picks import of_pick
from fairbandit.theory import (
    Constants,
    Estimate,
    cdf_radius,
    constants,
    probability_floor,
    received_round,
    ridge_radius,
)
from tests import support
from tests.theory.chance import ERROR, refuted
from tests.theory.slices import Run, Slices, heights, models

DELTA, ALPHA = 0.2, 0.6
GROUPS, PLACES, ROUNDS, REPLICAS = 3, 3, 150, 200
SHARES, MIXED_PLACES, MIXED_ROUNDS, MIXED_REPLICAS = (0.3, 0.3, 0.4), 4, 300, 100
COUNTED = ALPHA * MIXED_PLACES * min(SHARES)
"""αq_K of the problem with random groups."""


@pytest.fixture(scope="module")
def own() -> Run:
    """Three places, each of a group of its own."""
    return Run(Slices(places=PLACES), ROUNDS, REPLICAS, seed=8)


@pytest.fixture(scope="module")
def mixed() -> Run:
    """Four places of random groups."""
    world = Slices(places=MIXED_PLACES, shares=SHARES)
    return Run(world, MIXED_ROUNDS, MIXED_REPLICAS, seed=8)


def known(places: int, shares: tuple[float, ...]) -> Constants:
    """The constants of random groups, as far as `lm:chernoff` asks for them."""
    exactly = Estimate.exactly(places * min(shares), "given")
    simulation = constants(support.environment())
    return replace(simulation, places=places, groups=len(shares), candidates=exactly, random=True)


def received(counts: Tensor, start: int, least: float) -> Tensor:
    """S_T: whether all windows of rounds from t = `start` on hold enough of each group.

    Args:
        counts: candidates of each group by round, (B, T, G).
        start: t_N.
        least: αq_K, candidates a round of the window.

    Returns:
        (B,) bool.
    """
    until = torch.nn.functional.pad(counts.cumsum(1), (0, 0, 1, 0))
    t = torch.arange(start, counts.shape[1] + 1)
    learned = (t - 1) // 2
    held = (until[:, t - 1] - until[:, learned]).amin(2) >= (t - 1 - learned) * least
    return held.all(1)


def gap(run: Run, t: int) -> Tensor:
    """sup |F̂ − F| over groups and values, by replica: largest at the steps of F̂."""
    true, counts = run.ordered(t)
    step, count = torch.arange(1, true.shape[2] + 1, dtype=torch.float64), counts[..., None]
    off = torch.maximum(step / count - true, true - (step - 1) / count)
    return off.masked_fill(step > count, 0).amax((1, 2))


def given(run: Run) -> Tensor:
    """In which replicas of the problem with random groups S_T(t_N, α) holds, (B,) bool."""
    counts = torch.nn.functional.one_hot(run.pools.groups, GROUPS).sum(2)
    held = received(counts, mixed_start(), COUNTED)
    assert int(held.sum()) > 0.9 * MIXED_REPLICAS
    return held


def mixed_start() -> int:
    """t_N of the problem with random groups."""
    return int(received_round(known(MIXED_PLACES, SHARES), MIXED_ROUNDS, DELTA, ALPHA))


@pytest.mark.parametrize(
    ("theta", "reward_noise", "injected", "regularization", "changed"),
    [
        pytest.param([1.0, 1.0, 1.0], 200.0, 1e-8, 2.0, 0.5, id="noise of rewards"),
        pytest.param([1e4, 1e4, 0.0], 0.0, 1e-8, 100.0, 0.95, id="shrinkage"),
        pytest.param([1e-3, 1e-3, 0.0], 0.0, 1.0, 100.0, 0.2, id="injected noise"),
    ],
)
def test_lm_boundmu(
    theta: list[float],
    reward_noise: float,
    injected: float,
    regularization: float,
    changed: float,
) -> None:
    """‖μ* − μ_t̃‖_V is at most the radius for all t at once, with probability 1 − δ/4.

    One problem for each part of the radius, which that part dominates: half of the radius is
    refuted for the noise of rewards, 0.95 of it for shrinkage, a fifth for the injected noise,
    whose part holds with room to spare for d = 3.
    """
    rounds, replicas = 100, 1000
    world = support.environment(groups=2, theta=theta, bias=1.0, noise=reward_noise)
    assert isinstance(world, Simulation)
    chosen = support.policy("fair_greedy", noise=injected, regularization=regularization)
    engine = Engine(chosen, world, rounds=rounds, seed=8, replicas=range(replicas))
    actions = torch.cat([played.actions for played in engine.play()], 1)
    pools = world.pools(1, rounds)
    picked, rewards = of_pick(pools.contexts, actions), of_pick(pools.rewards, actions)
    estimates, gram = models(world, picked, rewards, regularization, injected)
    off = torch.tensor(theta, dtype=torch.float64) - estimates
    norms = torch.einsum("bni,bnij,bnj->bn", off, gram, off).sqrt()
    true = constants(world)
    radii = [ridge_radius(true, n, DELTA, regularization) for n in range(1, rounds // 2 + 1)]
    worst = (norms / torch.tensor(radii, dtype=torch.float64)).amax(1)
    assert not refuted(worst <= 1, 1 - DELTA / 4)
    assert refuted(worst <= changed, 1 - DELTA / 4)


def test_lm_dwk(own: Run) -> None:
    """|F̂ − F| is at most the radius for all t, groups and values at once, with probability 1 − δ.

    0.8 of the radius is refuted.
    """
    radii = {t: cdf_radius(t, ROUNDS, GROUPS, DELTA) for t in range(3, ROUNDS + 1)}
    worst = torch.stack([gap(own, t) / radius for t, radius in radii.items()]).amax(0)
    assert not refuted(worst <= 1, 1 - DELTA)
    assert refuted(worst <= 0.8, 1 - DELTA)


def test_lm_dwk_2(mixed: Run) -> None:
    """The same for random groups, given that S_T(t_N, α) holds; half of the radius is refuted.

    Windows have 1/α as many candidates as they are counted on to have, and only the rounds from
    t_N on take part, every fourth of them here.
    """
    radii = {
        t: cdf_radius(t, MIXED_ROUNDS, GROUPS, DELTA, COUNTED)
        for t in range(mixed_start(), MIXED_ROUNDS + 1, 4)
    }
    worst = torch.stack([gap(mixed, t) / radius for t, radius in radii.items()]).amax(0)
    worst = worst[given(mixed)]
    assert not refuted(worst <= 1, 1 - DELTA)
    assert refuted(worst <= 0.5, 1 - DELTA)


def test_lm_chernoff() -> None:
    """From t_N on windows hold αq_K candidates a round of every group, with probability 1 − δ.

    Ten groups, alike, at ten places. From half of that wait on the promise is refuted, and so it
    is with 1.15α for α. The paper's constant of 2 suffices here because the union over groups and
    rounds is generous; with a far smaller δ it does not.
    """
    delta, alpha, groups, rounds, replicas = 0.01, 0.7, 10, 400, 1000
    shares = (1 / groups,) * groups
    drawn = np.random.default_rng(0).multinomial(groups, shares, size=(replicas, rounds))
    counts = torch.from_numpy(drawn)
    start = int(received_round(known(groups, shares), rounds, delta, alpha))
    assert not refuted(received(counts, start, alpha), 1 - delta)
    assert refuted(received(counts, 3 + (start - 3) // 2, alpha), 1 - delta)
    assert refuted(received(counts, start, 1.15 * alpha), 1 - delta)


def pick_chances(values: Tensor, counts: Tensor) -> Tensor:
    """P(a_t = a | the past, the groups of the pool), exactly.

    φ̂_a = j/N_a where the F_Z of the candidate, which is uniform, falls between the j-th and the
    next of the window's. Place a is picked with probability E[1/(1 + ties)] among those that are
    not beaten, which is ∫₀¹ Π_b (P(φ̂_b < φ̂_a) + x·P(φ̂_b = φ̂_a)) dx: a polynomial in x, which
    Gauss-Legendre quadrature integrates exactly.

    Args:
        values: F_Z of the window's candidates of each place's group, ascending, then 1: (B, K, M).
        counts: how many they are, N, at least 1: (B, K).

    Returns:
        (B, K), of sum 1.
    """
    places = values.shape[1]
    ends = torch.nn.functional.pad(torch.nn.functional.pad(values, (1, 0)), (0, 1), value=1.0)
    step = torch.arange(values.shape[2] + 1)
    points, weights = np.polynomial.legendre.leggauss((places + 1) // 2)
    chances = []
    for own in range(places):
        here = ends[:, own].diff(dim=1)
        total = torch.zeros_like(here)
        for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
            term = weight * here
            for other in set(range(places)) - {own}:
                scaled, unit = step * counts[:, other, None], counts[:, own, None]
                at = ((scaled + unit - 1) // unit, scaled // unit + 1)
                below, up_to = (
                    ends[:, other].gather(1, index.clamp(max=ends.shape[2] - 1)) for index in at
                )
                term = term * (below + point * (up_to - below))
            total += term
        chances.append(total.sum(1))
    return torch.stack(chances, 1)


def chances_at(run: Run, t: int) -> Tensor:
    """P(a_t = a | the past, the groups of the pool) in a run, (B, K)."""
    values, counts = run.ordered(t)
    groups, replica = run.pools.groups[:, t - 1], torch.arange(len(run.models))[:, None]
    return pick_chances(values[replica, groups], counts[replica, groups])


@pytest.mark.parametrize("name", ["own", "mixed"])
def test_pick_chances_are_those_of_the_engine(name: str, request: pytest.FixtureRequest) -> None:
    """1{a_t = a} − P(a_t = a | the past) has mean 0, also where it is weighted by P − 1/K.

    The increments of different rounds and replicas are uncorrelated, and their sums nearly normal;
    each comparison fails with probability 1e-6. The weighted sum with 1/K for P is off, so that P
    is not just 1/K. Rounds 20 to 60: windows are short, and P is far from 1/K.
    """
    run: Run = request.getfixturevalue(name)
    even = 1 / run.pools.groups.shape[2]
    bar = float(torch.special.ndtri(torch.tensor(1 - ERROR / 2, dtype=torch.float64)))
    rounds = range(20, 61)
    chance = torch.cat([chances_at(run, t).flatten() for t in rounds])
    places = torch.arange(run.pools.groups.shape[2])
    picked = torch.cat([(run.actions[:, t - 1, None] == places).flatten() for t in rounds]).double()
    first = places.repeat(len(chance) // len(places)) == 0

    def normal(weight: Tensor, claimed: Tensor) -> float:
        variance = (weight**2 * claimed * (1 - claimed))[first].sum()
        return float((weight * (picked - claimed))[first].sum() / variance.sqrt())

    assert abs(normal(torch.ones_like(chance), chance)) < bar
    assert abs(normal(chance - even, chance)) < bar
    assert abs(normal(chance - even, torch.full_like(chance, even))) > bar


@pytest.mark.parametrize(("name", "start", "changed"), [("own", 120, 1 / 3), ("mixed", 200, 1 / 4)])
def test_prop_patlowerbound(
    name: str, start: int, changed: float, request: pytest.FixtureRequest
) -> None:
    """P(a_t = a | the past) ≥ c/K for all a and t from a round on, with probability 1 − δ/4.

    With random groups, given S_T(t_N, α) and the groups of the pool. The proof has two steps.
    P ≥ (1 − 2ε)^K/K always holds with ε = sup |F̂ − F|; the next test shows that it cannot be
    improved. And ε ≤ (1 − c^{1/K})/2 from the first round on to which c belongs, with probability
    1 − δ/4; a third of that is refuted, or a quarter with random groups, since log^{3/2} and α are
    generous. Of the rounds every fourth takes part.
    """
    run: Run = request.getfixturevalue(name)
    rounds, places = run.actions.shape[1], run.pools.groups.shape[2]
    floor = probability_floor(start, places, GROUPS, DELTA, 1.0 if name == "own" else COUNTED)
    assert floor > 0
    held = given(run) if name == "mixed" else torch.ones(len(run.models), dtype=torch.bool)
    lowest, widest = [], []
    for t in range(start, rounds + 1, 4):
        chances, off = chances_at(run, t), gap(run, t)
        assert torch.allclose(chances.sum(1), torch.ones(len(chances), dtype=torch.float64))
        assert bool((chances >= (1 - 2 * off[:, None]).clamp(min=0) ** places / places).all())
        lowest.append(chances.amin(1))
        widest.append(off)
    least, off = torch.stack(lowest).amin(0)[held], torch.stack(widest).amax(0)[held]
    allowed = (1 - (places * floor) ** (1 / places)) / 2
    assert not refuted(least >= floor, 1 - DELTA / 4)
    assert not refuted(off <= allowed, 1 - DELTA / 4)
    assert refuted(off <= changed * allowed, 1 - DELTA / 4)


@pytest.mark.parametrize("places", [2, 3, 5])
@pytest.mark.parametrize("off", [0.05, 0.2])
def test_the_floor_is_attained(places: int, off: float) -> None:
    """With F̂ too low by ε for one group and too high by ε for the others, P = (1 − 2ε)^K/K.

    Neither the factor 2 nor the power K of the proof can be improved; n = 4,000 past candidates
    leave steps of 1/n.
    """
    steps = torch.arange(1, 4001, dtype=torch.float64) / 4000
    low, high = (steps + off).clamp(max=1), (steps - off).clamp(min=0)
    values = torch.stack([low, *[high] * (places - 1)])[None]
    chance = pick_chances(values, torch.full((1, places), len(steps)))[0, 0]
    assert float(chance) == pytest.approx((1 - 2 * off) ** places / places, rel=0.01)


def test_laws_of_scores_are_exact() -> None:
    """F_Z of these tests against a million draws, whatever the signs; fails with 1e-6 (DKW)."""
    draws = torch.rand(
        1_000_000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    for model in ([1.0, 2.0], [-3.0, 0.5], [-1.0, -1.0]):
        mu = torch.tensor([model], dtype=torch.float64)
        true = heights(draws[None, :, None], torch.zeros(1, len(draws), 1, dtype=torch.int64), mu)
        ordered = true.flatten().sort().values
        steps = torch.arange(1, len(draws) + 1, dtype=torch.float64) / len(draws)
        assert float((ordered - steps).abs().max()) < math.sqrt(math.log(2 / (ERROR / 3)) / 2e6)
