"""Patil et al. 2020: owed picks go to the best candidate of the group that lacks most."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.building import build_policy
from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.worlds import equals_its_loop, everywhere, world_of


def loop(draws: literal.Draws, shares: list[Fraction], tolerance: Fraction) -> NDArray[np.int64]:
    """Every decision; lacks are exact, one share for each group."""
    T, K, d = draws.contexts.shape
    actions = np.zeros(T, dtype=np.int64)
    X, r = np.zeros((T, d)), np.zeros(T)
    picks = [0] * len(shares)
    for t in range(1, T + 1):
        pool, groups = draws.contexts[t - 1], draws.groups[t - 1]
        index, tie = np.zeros(K), np.zeros(K)
        if t > 1:
            _, theta = literal.ridge(X[: t - 1], r[: t - 1], 0.1)
            for a in range(K):
                index[a], tie[a] = literal.scored(pool[a], theta)
        lack = [shares[g] * (t - 1) - picks[g] for g in groups]
        among = np.arange(K)
        if max(lack) > tolerance:
            among = np.array([a for a in range(K) if lack[a] == max(lack)])
        a = among[literal.pick(index[among], tie[among], draws.ties[t - 1])]
        actions[t - 1] = a
        X[t - 1], r[t - 1] = pool[a], draws.rewards[t - 1, a]
        picks[groups[a]] += 1
    return actions


@everywhere
def test_it_equals_its_loop(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = world_of(kind, tmp_path_factory)

    def source(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
        count = len(world.group_names)
        return loop(draws, [min(Fraction(1, 10), Fraction(1, 2 * count))] * count, Fraction(0))

    equals_its_loop(support.policy("minimum_pull"), source, world, seed)


@pytest.mark.parametrize(
    ("shares", "tolerance"),
    [(["0.3", "0.2", "0.1", "0.4"], "0"), (["0.05", "0.9", "0", "0"], "1.5"), (["0.25"] * 4, "1")],
)
def test_other_shares(shares: list[str], tolerance: str) -> None:
    """Lacks that are equal, or equal to the tolerance, are so in spite of rounding."""
    exact, about = list(map(Fraction, shares)), list(map(float, shares))
    selector: dict[str, Any] = {"name": "minimum_pull", "shares": about}
    selector["tolerance"] = float(tolerance)
    policy = build_policy({"name": "minimum_pull", "selector": selector})
    equals_its_loop(
        policy,
        lambda draws, world, seed: loop(draws, exact, Fraction(tolerance)),
        support.environment("simulation"),
        3,
    )
