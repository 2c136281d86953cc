"""The baselines of Schumann et al. 2022: a group at random, and the best candidate in it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit.building import build_policy
from fairbandit.environments import Environment
from tests import literal, support
from tests.notions.worlds import Loop, equals_its_loop, everywhere, world_of


def loop_of(chance: str) -> Loop:
    """The loop for groups drawn `uniform`, or by their part of the `pool`."""

    def loop(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
        T, K, d = draws.contexts.shape
        actions = np.zeros(T, dtype=np.int64)
        X, r = np.zeros((T, d)), np.zeros(T)
        for t in range(1, T + 1):
            pool, groups = draws.contexts[t - 1], draws.groups[t - 1]
            index, tie = np.zeros(K), np.zeros(K)
            if t > 1:
                _, theta = literal.ridge(X[: t - 1], r[: t - 1], 0.1)
                for a in range(K):
                    index[a], tie[a] = literal.scored(pool[a], theta)
            weights = np.zeros(K)
            for group in set(groups.tolist()):
                members = np.flatnonzero(groups == group)
                best = members[tie[members] >= index[members].max()]
                weights[best] = (len(members) if chance == "pool" else 1) / len(best)
            cumulative = np.cumsum(weights)
            a = int(np.argmax(cumulative > draws.ties[t - 1] * cumulative[-1]))
            actions[t - 1] = a
            X[t - 1], r[t - 1] = pool[a], draws.rewards[t - 1, a]
        return actions

    return loop


@everywhere
def test_it_equals_its_loop(kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = world_of(kind, tmp_path_factory)
    equals_its_loop(support.policy("group_parity"), loop_of("uniform"), world, seed)


def test_groups_by_their_part_of_the_pool(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pools of the census by ethnicity hold several candidates of a group."""
    world = world_of("census_ethnicity", tmp_path_factory)
    selector = {"name": "group_parity", "chance": "pool"}
    policy = build_policy({"name": "group_parity", "selector": selector})
    equals_its_loop(policy, loop_of("pool"), world, 4)
