"""Metrics of what the groups have had so far, against loops over the rounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fairbandit import FairbanditError, registry
from fairbandit.metrics import Judged, PullShortfall, Welfare
from fairbandit.selectors import Selection
from tests.metrics.rounds import PROBLEM, ROUNDS, judge, random_rounds

Rows = NDArray[np.float64]

SHARES = [0.5, 0.2, 0.3]


def shortfall(picks: list[int], rewards: list[float], seen: Rows) -> float:
    t = len(picks)
    return max(SHARES[g] * t - picks.count(g) for g in range(3))


def parity_gap(picks: list[int], rewards: list[float], seen: Rows) -> float:
    rates = [picks.count(g) / seen[g] for g in range(3) if seen[g]]
    return max(rates) - min(rates)


def means(picks: list[int], rewards: list[float]) -> dict[int, float]:
    got = {g: [r for p, r in zip(picks, rewards, strict=True) if p == g] for g in set(picks)}
    return {g: sum(values) / len(values) for g, values in got.items()}


def reward_gap(picks: list[int], rewards: list[float], seen: Rows) -> float:
    found = means(picks, rewards).values()
    return max(found) - min(found)


def p_mean(each: list[float], p: float) -> float:
    """As it is written: (mean of each^p)^(1/p)."""
    if p == 0:
        return float(np.prod(each)) ** (1 / len(each))
    if p < 0 and min(each) == 0:
        return 0.0
    mean = float(np.mean(np.array(each) ** p))
    return mean if p == 1 else mean ** (1 / p)


def welfare(p: float) -> Any:
    def loop(picks: list[int], rewards: list[float], seen: Rows) -> float:
        found = means(picks, rewards)
        each = [found.get(g, 0.0) for g in range(3) if seen[g]]
        return p_mean(each, p)

    return loop


@pytest.mark.parametrize(
    ("spec", "loop"),
    [
        ({"name": "pull_shortfall", "shares": SHARES}, shortfall),
        ("parity_gap", parity_gap),
        ("group_reward_gap", reward_gap),
        *(({"name": "welfare", "p": p}, welfare(p)) for p in (1.0, 0.0, 2.0, -1.0)),
    ],
)
def test_against_loops(spec: Any, loop: Any) -> None:
    """In early rounds, some groups have had no candidates, and some no picks."""
    rounds = random_rounds()
    if isinstance(spec, dict) and spec.get("p", 1.0) != 1:
        rounds = replace(rounds, pools=replace(rounds.pools, expected=rounds.pools.expected.abs()))
    pools, found = rounds.pools, judge(registry.create("metric", spec), rounds)
    for b, places in enumerate(rounds.selection.actions.tolist()):
        picks = [int(pools.groups[b, t, a]) for t, a in enumerate(places)]
        rewards = [float(pools.expected[b, t, a]) for t, a in enumerate(places)]
        seen = np.zeros(3)
        for t in range(ROUNDS):
            here = pools.groups[b, t].numpy()
            seen += np.bincount(here[here >= 0], minlength=3)
            wanted = loop(picks[: t + 1], rewards[: t + 1], seen)
            assert float(found[b, t]) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("parity_gap", parity_gap),
        ("discounted_exposure", parity_gap),
        ("group_reward_gap", reward_gap),
    ],
)
def test_people_who_do_not_say_are_not_compared(name: str, loop: Any) -> None:
    rounds = random_rounds()
    found = judge(registry.create("metric", name), rounds, replace(PROBLEM, unknown=(2,)))
    for b, places in enumerate(rounds.selection.actions.tolist()):
        groups, expected = rounds.pools.groups[b].numpy(), rounds.pools.expected[b].numpy()
        pairs = [(groups[t, a], expected[t, a]) for t, a in enumerate(places) if groups[t, a] < 2]
        seen = np.array([*np.bincount(groups[groups >= 0], minlength=3)[:2], 0.0])
        wanted = loop(*map(list, zip(*pairs, strict=True)), seen)
        assert float(found[b, -1]) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_welfare_is_null_from_the_first_negative_reward_on(p: float) -> None:
    """Whether it was picked or not, and in pieces."""
    rounds, metric = random_rounds(), Welfare(p=p)
    expected = rounds.pools.expected.abs()
    expected[0, 20, int(rounds.pools.groups[0, 20].argmax())] = -1e-3
    expected[1, 5, int(rounds.pools.groups[1, 5].argmin())] = -1.0
    assert rounds.pools.groups[1, 5].min() == -1  # nobody is there
    rounds = replace(rounds, pools=replace(rounds.pools, expected=expected))
    sums, pieces = metric.init(PROBLEM), []
    for piece in (slice(0, 30), slice(30, ROUNDS)):
        picks = Selection(*(part[:, piece] for part in rounds.selection))
        judged = Judged(PROBLEM, 1 + piece.start, rounds.pools[piece], picks)
        values, sums = metric.values(judged, sums)
        pieces.append(values)
    null = torch.cat(pieces, 1).isnan()
    wanted = torch.zeros_like(null)
    wanted[0, 20:] = p != 1
    assert torch.equal(null, wanted)


@pytest.mark.parametrize("shares", [0.5, [0.1, 0.1]])
def test_shares_that_are_not_those_of_the_groups(shares: Any) -> None:
    with pytest.raises(FairbanditError, match="3 groups"):
        PullShortfall(shares=shares).init(PROBLEM)


@pytest.mark.parametrize("p", [float("nan"), float("inf"), float("-inf")])
def test_p_is_finite(p: float) -> None:
    with pytest.raises(FairbanditError, match="p must be finite, got"):
        Welfare(p=p)
