"""Metrics of shortlists against loops over picks, in pools of which some are smaller than m."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from fairbandit import Engine, build
from fairbandit.conformance import Scattered
from fairbandit.metrics import Judged
from fairbandit.registry import create
from fairbandit.selectors import Selection
from tests.notions.test_shortlists import capped

M, T, G = 3, 80, 3

METRICS: dict[str, Any] = {
    "exposure": {"name": "exposure_regret", "of": "rank"},
    "violations": {"name": "preference_violations", "of": "rank"},
    "gap": "parity_gap",
    "reward_gap": "group_reward_gap",
    "shortfall": {"name": "pull_shortfall", "shares": 0.3},
    "welfare": {"name": "welfare", "p": 1.0},
    "exposed": "discounted_exposure",
    "ndkl": "ndkl",
    "skew": {"name": "skew", "first": 2},
}


@pytest.mark.parametrize("policy", ["fairx_rank", "minimum_pull"])
def test_every_metric_against_a_loop(policy: str) -> None:
    world, metrics = Scattered(), {name: create("metric", one) for name, one in METRICS.items()}
    options: dict[str, Any] = {"rounds": T, "seed": 2, "replicas": [0, 1], "metrics": metrics}
    engine = Engine(build({"name": policy}), world, picks=M, **options)  # type: ignore[arg-type]
    probabilities: list[torch.Tensor] = []
    judge = engine.judge.judge

    def recording(first: int, pools: Any, selection: Selection) -> Any:
        probabilities.append(selection.inclusion)
        return judge(first, pools, selection)

    engine.judge.judge = recording  # type: ignore[method-assign]
    (played,) = engine.play()
    pools = world.pools(1, T)
    for b in range(2):
        picked, received, gained, worst = np.zeros(G), np.zeros(G), np.zeros(G), -np.inf
        exposed = np.zeros(G)
        for n in range(T):
            found = {name: float(played.metrics[name][b, n]) for name in played.metrics}
            groups, ranks, values = (
                part[b, n].numpy() for part in (pools.groups, pools.ranks, pools.expected)
            )
            here, pi = np.flatnonzero(groups >= 0), probabilities[0][b, n].numpy()
            picks = [a for a in played.actions[b, n].tolist() if a >= 0]
            assert len(picks) == min(M, len(here))
            expected = {}
            for name, of in (("fair_regret", ranks), ("standard_regret", values)):
                expected[name] = np.sort(of[here])[::-1][:M].sum() - of[picks].sum()
            merits = np.maximum(ranks[here], 0.01)
            fair: Any = np.ones(len(here))
            if len(here) > M:
                fair = capped(merits, fair, M)
            expected["exposure"] = np.abs(fair - pi[here]).sum()
            pairs = [(i, j) for i in here for j in here if ranks[i] <= ranks[j]]
            expected["violations"] = float(any(pi[i] > pi[j] * (1 + 1e-9) for i, j in pairs))
            received += np.bincount(groups[here], minlength=G)
            picked += np.bincount(groups[picks], minlength=G)
            gained += np.bincount(groups[picks], values[picks], minlength=G)
            some, had = received > 0, picked > 0
            expected["gap"] = np.ptp(picked[some] / received[some])
            expected["reward_gap"] = np.ptp(gained[had] / picked[had])
            worst = max(worst, (0.3 * picked.sum() - picked).max())
            pool, above, weights = np.bincount(groups[here], minlength=G) / len(here), 0.0, 0.0
            for place, pick in enumerate(picks, 1):
                weight = 1 / np.log2(1 + place)
                exposed[groups[pick]] += weight
                first = np.bincount(groups[picks[:place]], minlength=G) / place
                own = first > 0
                above += weight * float(np.sum(first[own] * np.log(first[own] / pool[own])))
                weights += weight
            expected["ndkl"] = above / weights
            two = np.bincount(groups[picks[:2]], minlength=G) / len(picks[:2])
            expected["skew"] = np.log(np.max(two[pool > 0] / pool[pool > 0]))
            expected["exposed"] = np.ptp(exposed[some] / received[some])
            expected["welfare"] = (gained / np.maximum(picked, 1))[some].mean()
            for name, value in expected.items():
                assert found[name] == pytest.approx(value, abs=1e-9), name
            assert float(played.metrics["shortfall"][b, : n + 1].max()) == pytest.approx(worst)


def test_sums_of_picks_leave_empty_slots_out() -> None:
    """Whole numbers, too; what is not known stays so."""
    world = Scattered()
    engine = Engine(build({"name": "uniform"}), world, rounds=9, seed=0, replicas=[0], picks=9)  # type: ignore[arg-type]
    (played,) = engine.play()
    pools = world.pools(1, 9)
    selection = Selection(played.actions, played.propensities, pools.ranks)
    judged = Judged(engine.history.problem, 1, pools, selection)
    sizes = (pools.groups >= 0).sum(2)
    assert torch.equal(judged.total(torch.ones_like(pools.groups)), sizes)
    assert judged.total(torch.full_like(pools.ranks, torch.nan)).isnan().all()
    assert judged.lost(pools.ranks).abs().max() < 1e-12
