"""Policies whose reward model tells groups apart, with a regression for each written out."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fairbandit import Policy
from fairbandit.building import build_policy
from fairbandit.environments import Environment
from tests import literal
from tests.notions.worlds import equals_its_loop, everywhere, world_of


def each_by_itself(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
    """Fair-Greedy with a ridge regression for each group, from the picks of that group alone."""
    T, K, d = draws.contexts.shape
    actions = np.zeros(T, dtype=np.int64)
    X, r, of = np.zeros((T, d)), np.zeros(T), np.zeros(T, dtype=np.int64)
    for t in range(1, T + 1):
        pool, groups, half = draws.contexts[t - 1], draws.groups[t - 1], (t - 1) // 2
        index = np.zeros(K)
        if half > 0:
            for a, group in enumerate(groups):
                own = np.flatnonzero(of[:half] == group)
                _, theta = literal.ridge(X[own], r[own], 0.1)
                past = draws.contexts[half : t - 1][draws.groups[half : t - 1] == group]
                top = literal.scored(pool[a], theta)[1]
                index[a] = draws.unseen[t - 1, a]
                if len(past):
                    index[a] = float(np.count_nonzero(past @ theta <= top)) / len(past)
        a = literal.pick(index, index, draws.ties[t - 1])
        actions[t - 1], of[t - 1] = a, groups[a]
        X[t - 1], r[t - 1] = pool[a], draws.rewards[t - 1, a]
    return actions


def offsets(draws: literal.Draws, world: Environment, seed: int) -> NDArray[np.int64]:
    """Greedy with one ridge regression, on the features and on which group it is."""
    T, K, d = draws.contexts.shape
    G = len(world.group_names)
    actions = np.zeros(T, dtype=np.int64)
    Z, r = np.zeros((T, d + G)), np.zeros(T)
    for t in range(1, T + 1):
        pool, groups = draws.contexts[t - 1], draws.groups[t - 1]
        wide = np.hstack([pool, np.eye(G)[groups]])
        index, tie = np.zeros(K), np.zeros(K)
        if t > 1:
            _, theta = literal.ridge(Z[: t - 1], r[: t - 1], 0.1)
            for a in range(K):
                index[a], tie[a] = literal.scored(wide[a], theta)
        a = literal.pick(index, tie, draws.ties[t - 1])
        actions[t - 1] = a
        Z[t - 1], r[t - 1] = wide[a], draws.rewards[t - 1, a]
    return actions


def policy(shared: str, **parts: str) -> Policy:
    return build_policy({"estimator": {"name": "group_ridge", "shared": shared}, **parts})


@everywhere
def test_a_model_for_each_group(
    kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chosen = policy("nothing", split="halves", rank="empirical_cdf")
    equals_its_loop(chosen, each_by_itself, world_of(kind, tmp_path_factory), seed)


@everywhere
def test_an_offset_for_each_group(
    kind: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chosen = policy("slopes", split="full", rank="identity")
    equals_its_loop(chosen, offsets, world_of(kind, tmp_path_factory), seed)
