"""Rolling selection beside plain loops, all paths of small pools, and its optimum."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import FairbanditError, Policy, build
from fairbandit.conformance import Scattered
from fairbandit.metrics import RollingRegret
from fairbandit.policy.build import build_policy
from fairbandit.ranks import EmpiricalCdf, Scored
from fairbandit.registry import create
from fairbandit.selectors import Rolling, Secretary, SecretaryByGroup
from fairbandit.selectors.stopping import hazards, thresholds
from tests import literal, support
from tests.notions.worlds import seen


def values(j: int, k: int) -> float:
    """V(j, k) by its recursion."""
    if j == 0 or j >= k:
        return min(j, k) / 2
    return values(j, k - 1) + (1 - bar(j, k)) ** 2 / 2


def bar(j: int, k: int) -> float:
    return values(j, k - 1) - values(j - 1, k - 1)


def by_thresholds(index: Any, tie: Any, here: list[int], m: int) -> list[int]:
    """The rule as it is written: take if and only if the rank is at least c(j, k)."""
    taken: list[int] = []
    for at, place in enumerate(here):
        j, k = m - len(taken), len(here) - at
        if j and (j >= k or tie[place] >= bar(j, k)):
            taken.append(place)
    return taken


def by_secretary(index: Any, tie: Any, here: list[int], m: int) -> list[int]:
    """The first n/e are seen; the reference set loses its worst with each candidate taken."""
    observed = int(len(here) / np.e)
    floor = 2 * index - tie
    reference = sorted((floor[place] for place in here[:observed]), reverse=True)[:m]
    reference += [-np.inf] * (m - len(reference))
    taken: list[int] = []
    for at, place in enumerate(here):
        j, k = m - len(taken), len(here) - at
        if j and (j >= k or (at >= observed and tie[place] >= reference[j - 1])):
            taken.append(place)
    return taken


def index_of(name: str, past: Any, pool: Any, groups: Any) -> tuple[Any, Any]:
    """Index and its largest tie: ranks in the group or among all, or scores."""
    theta = literal.ridge(past.X, past.r, 0.1)[1]
    if name == "fair_rolling":
        theta = theta + literal.injected(past.gamma, past.t - 1, 1e-8)
    else:  # without noise scores tie within 1e-9 of their terms
        pairs = [(x @ theta, 1e-9 * (np.abs(x) @ np.abs(theta))) for x in pool]
    if name == "secretary":
        score = np.array([value for value, _ in pairs])
        return score, score + np.array([slack for _, slack in pairs])
    old, members, index = past.pools.reshape(-1, pool.shape[1]), past.members.ravel(), []
    for a, group in enumerate(groups):
        own = old[members == group] if name == "fair_rolling" else old[members >= 0]
        top = literal.scored(pool[a], theta)[1]
        if name == "rolling_greedy":
            top = pairs[a][0] + 2 * pairs[a][1]
        index.append(np.mean(own @ theta <= top) if len(own) else past.unseen[a])
    return np.array(index), np.array(index)


RULES = {"fair_rolling": by_thresholds, "rolling_greedy": by_thresholds, "secretary": by_secretary}


@pytest.mark.parametrize("picks", [1, 2])
@pytest.mark.parametrize("name", RULES)
def test_every_decision_is_that_of_a_plain_loop(name: str, picks: int) -> None:
    """On census records of groups that come in any order, and in pools with empty places."""
    for world in (support.census("census_ethnicity"), Scattered()):
        rounds = 150
        draws = support.draws(world, rounds, 0)
        found = support.actions(build_policy(name), world, rounds, picks=picks)
        made: list[list[int]] = []
        for t in range(1, rounds + 1):
            past = seen(draws, t, made, len(world.group_names))
            pool, groups = draws.contexts[t - 1], draws.groups[t - 1]
            here = np.flatnonzero(groups >= 0).tolist()
            index = tie = np.full(len(pool), np.inf)  # until a reward comes, whoever comes is taken
            if t > 1:
                index, tie = index_of(name, past, pool, groups)
            made.append(RULES[name](index, tie, here, picks) if t > 1 else here[:picks])
        slots = found[0].view(rounds, picks).tolist()
        assert [[a for a in row if a >= 0] for row in slots] == made


SELECTORS: list[dict[str, Any]] = [
    {"name": "rolling"},
    {"name": "rolling", "epsilon": 0.3},
    {"name": "rolling", "epsilon": 0.6, "count": "uniform", "candidates": 8},
    {"name": "secretary", "epsilon": 0.2},
    {"name": "secretary", "count": [0.2, 0.3, 0.5]},
]


def pools(seed: int, n: int = 1) -> Any:
    """n times a pool of seven places, of which one is empty; an index may be below 0."""
    draws = np.random.default_rng(seed)
    index = torch.from_numpy(draws.random((1, 1, 7)) - 0.6).expand(1, n, -1)
    groups = torch.zeros(1, n, 7, dtype=torch.int64)
    groups[..., draws.integers(7)] = -1
    return support.ranked(index, groups)


def literal_chance(spec: dict[str, Any], index: Any, at: int, j: int, n: int) -> float:
    """The probability of taking candidate `at` of a pool of n with j places left."""
    count = spec.get("count", "fixed")
    law = hazards(count, spec.get("candidates", n if count == "fixed" else None))
    row = min(at, len(law) - 1)
    expected, more = 1.0, 1.0
    for h in law[row:]:
        more *= h
        expected += more
    surely = sum(h > 0 for h in law[row:]) < j  # as many places as may come
    c = float(thresholds(law, j).bars[row, j - 1])
    if spec["name"] == "secretary":
        every = float(thresholds(law, 1).expected[0])
        observed = int(every / np.e)
        c = np.inf if at < observed else ([*sorted(index[:observed])[::-1], *[-1] * j])[j - 1]
    reached, epsilon = float(surely or index[at] >= c), spec.get("epsilon", 0.0)
    return float((1 - epsilon) * reached + epsilon * min(1, j / expected))


@pytest.mark.parametrize("spec", SELECTORS)
@pytest.mark.parametrize("picks", [1, 2])
def test_inclusion_is_the_sum_over_all_paths(spec: dict[str, Any], picks: int) -> None:
    selector: Any = create("selector", spec)
    for seed in range(4):
        ranked = pools(seed)
        here = ranked.present[0, 0].nonzero()[:, 0].tolist()
        index, inclusion = ranked.index.value[0, 0, here].numpy(), np.zeros(7)
        for path in product([0, 1], repeat=len(here)):
            probability = 1.0
            for at in range(len(here)):
                j = picks - sum(path[:at])
                chance = literal_chance(spec, index, at, j, len(here)) if j > 0 else 0.0
                probability *= chance if path[at] else 1 - chance
            inclusion[here] += probability * np.array(path)
        np.testing.assert_allclose(selector._inclusion(ranked, picks)[0, 0], inclusion, atol=1e-12)


def test_true_ranks_reach_the_optimum() -> None:
    """The mean of the regret is 0 within 3 standard errors; it fails by chance once in 370."""
    parts = {"split": "full", "estimator": "oracle", "rank": "oracle_cdf", "selector": "rolling"}
    chosen: Any = build(parts)
    for picks in (1, 2, 3):
        metrics = {"lost": RollingRegret()}
        played = support.played(
            chosen, support.environment(), 1500, 4, 7, picks=picks, metrics=metrics
        )
        lost = torch.cat([part.metrics["lost"] for part in played], 1)
        assert abs(float(lost.mean())) < 3 * float(lost.std()) / lost.numel() ** 0.5


class AgainstPool(EmpiricalCdf):
    """Compares with the pool."""

    needs = frozenset({"contexts", "pool"})

    def _index(self, scored: Scored) -> Any:
        return super()._share(scored) - scored.scores.value.mean(2, keepdim=True)


def test_a_rank_that_needs_the_pool_is_refused() -> None:
    parts = support.policy("fair_greedy").parts
    with pytest.raises(FairbanditError, match=r"compares a candidate with its whole pool"):
        Policy(**{**parts, "rank": AgainstPool(), "selector": Secretary()})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [{"count": "geometric"}, {"candidates": 0}, {"count": ["a", "b"]}]
)
def test_other_parameters_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(FairbanditError, match="expected count="):
        Rolling(**given)


@pytest.mark.parametrize(
    ("law", "picks", "survival"),
    [
        ({"count": "fixed", "candidates": 12}, 2, np.ones(12)),
        ({"count": "uniform", "candidates": 12}, 2, np.arange(12, 0, -1) / 12),
        ({"count": "geometric", "candidates": 6}, 2, (5 / 6) ** np.arange(200)),
        ({"count": "uniform", "candidates": 2}, 1, np.array([1.0, 0.5])),
        ({"count": [0.25, 0.25, 0.0, 0.5]}, 1, np.array([1.0, 0.75, 0.5, 0.5])),
    ],
)
def test_exploration_alone_depends_on_the_order_if_the_number_is_unknown(
    law: dict[str, Any], picks: int, survival: Any
) -> None:
    """Candidate i has m·P(N ≥ i)/E[N], which is m/n for a known number only."""
    ranked = support.ranked(torch.full((1, 1, 12), 0.5, dtype=torch.float64))
    course = Rolling(epsilon=1.0, **law).course(ranked, picks)
    expected = picks * np.pad(survival, (0, 12))[:12] / survival.sum()
    np.testing.assert_allclose(course.inclusion[0, 0].numpy(), expected, atol=1e-9)


def loop(index: list[float], groups: list[int], share: float, m: int) -> list[int]:
    """The rule as it is written, for the candidates who are there."""
    taken: list[int] = []
    best: dict[int, float] = {}
    for i, (value, group) in enumerate(zip(index, groups, strict=True)):
        record, left = value >= best.get(group, -np.inf), m - len(taken)
        if left and (left >= len(index) - i or (i >= int(len(index) * share) and record)):
            taken.append(i)
        best[group] = max(best.get(group, -np.inf), value)
    return taken


@pytest.mark.parametrize("picks", [1, 3])
def test_decisions_within_groups_are_those_of_a_plain_loop(picks: int) -> None:
    draws, pools = np.random.default_rng(picks), 300
    groups = draws.integers(-1, 3, (pools, 12))
    groups[:, 0] = 2  # there is a candidate, and the number of groups is three
    index = draws.normal(size=groups.shape)
    ranked = support.ranked(torch.from_numpy(index)[None], torch.from_numpy(groups)[None])
    selector: Any = create("selector", "secretary_by_group")
    found = selector.select(ranked, picks).actions[0].tolist()
    for i, actions in enumerate(found):
        here = np.flatnonzero(groups[i] >= 0)
        taken = loop(index[i, here].tolist(), groups[i, here].tolist(), 3 ** (-1 / 2), picks)
        assert [a for a in actions if a >= 0] == here[taken].tolist()


@pytest.mark.parametrize(("k", "success"), [(1, 0.368), (2, 0.5), (3, 0.577), (4, 0.63)])
def test_the_pick_is_the_best_of_its_group_as_often_as_in_the_paper(k: int, success: float) -> None:
    """Within 4 standard errors and 0.01, since 240 candidates are not infinitely many."""
    pools, n = 4000, 240
    draws = np.random.default_rng(k)
    groups = draws.permuted(np.tile(np.arange(n) % k, (pools, 1)), axis=1)
    index = draws.normal(size=groups.shape) * (1 + groups)  # groups cannot be compared
    ranked = support.ranked(torch.from_numpy(index)[None], torch.from_numpy(groups)[None])
    picks = SecretaryByGroup().select(ranked).actions[0, :, 0].numpy()
    at = np.arange(pools)
    best = np.where(groups == groups[at, picks][:, None], index, -np.inf).max(1)
    found = float((index[at, picks] == best).mean())
    assert abs(found - success) < 4 * (success * (1 - success) / pools) ** 0.5 + 0.01
