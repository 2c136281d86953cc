"""Pooled runs are what their replicas are together; Student's intervals hold their level."""

from typing import Any

import numpy as np
import pyarrow.dataset
import pytest
from scipy.stats import binom

from fairbandit.runs import load, pooled, read_runs
from fairbandit.runs.intervals import interval, moments
from fairbandit.runs.scenes import pool, read_scenes
from fairbandit.runs.tables import rate_ends
from tests.figures.conftest import sweep
from tests.figures.synthetic import crossed


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """Two policies, each under three seeds."""
    folder, world = tmp_path_factory.mktemp("seeds"), {"name": "simulation"}
    for seed in range(3):
        sweep(folder / str(seed), world, ["greedy", "uniform"], seed=seed, rounds=100)
    return folder


def student_8(t: float) -> float:
    """The CDF of Student's t with eight degrees of freedom, in closed form (Abramowitz 26.7.4)."""
    angle = np.arctan(t / np.sqrt(8))
    c = np.cos(angle) ** 2
    return 0.5 + np.sin(angle) / 2 * (1 + c / 2 + 3 / 8 * c**2 + 15 / 48 * c**3)


def test_pooled_numbers_are_those_of_all_rows(seeds):
    for run in pool(read_runs([seeds])):
        assert [one.summary["seed"] for one in run.runs] == [0, 1, 2]
        tables = [
            pyarrow.dataset.dataset(f"{one.folder}/rounds").to_table().to_pandas()
            for one in run.runs
        ]
        for column in ("fair_regret", "standard_regret"):
            sums = np.concatenate([t.groupby("replica")[column].sum() for t in tables])
            found = run.metrics[column]
            assert found["n"] == len(sums) == 9
            assert found["mean"] == pytest.approx(np.mean(sums), rel=1e-12)
            assert found["std"] == pytest.approx(np.std(sums, ddof=1), rel=1e-12)
            assert (found["low"] + found["high"]) / 2 == pytest.approx(found["mean"], rel=1e-12)
            half = (found["high"] - found["low"]) / 2
            assert student_8(half / (np.std(sums, ddof=1) / 3)) == pytest.approx(0.975, rel=1e-12)
            curve = run.curves[column, None]
            wide = np.concatenate(
                [t.pivot(index="replica", columns="round", values=column) for t in tables]
            ).cumsum(1)[:, curve.rounds - 1]
            np.testing.assert_allclose(curve.values, wide, rtol=1e-12)
        picked = np.concatenate(
            [t.assign(hit=t.group == 2).groupby("replica").hit.mean() for t in tables]
        )
        mean, std = run.by_group("selection_rate")
        assert mean[2] == pytest.approx(picked.mean(), rel=1e-12)
        assert std[2] == pytest.approx(picked.std(ddof=1), rel=1e-12)


def test_intervals_cover_the_truth():
    """Of 2,000 samples of 30 replicas of a normal law, 93 to 97 % cover its mean.

    The share of intervals that cover has a standard deviation of 0.49 %, so that a right level
    fails by chance with probability 4e-5.
    """
    values = np.random.default_rng(14).normal(7.0, 3.0, (30, 2000))
    count, mean, std = moments(values)
    low, high = interval(count, mean, std)
    assert 0.93 <= np.mean((low <= 7.0) & (high >= 7.0)) <= 0.97
    assert np.isnan(interval(*moments([1e9 / 3] * 6))).all()  # equal replicas show no spread
    # the same with the quantile of the normal distribution, or of one seed, is another interval
    assert np.mean(high - low) > np.mean(2 * 1.96 * std / np.sqrt(30)) * 1.03


def test_what_is_pooled(seeds, tmp_path):
    once = pool(read_runs([seeds]))
    further: dict[str, Any] = {"fewer": {"seed": 1, "replicas": 2}, "again": {"seed": 1}}
    further["further"] = {"seed": 2, "metrics": {"gap": "parity_gap"}}
    for name, own in further.items():
        sweep(tmp_path / name, {"name": "simulation"}, ["greedy"], rounds=100, **own)
    runs = read_runs([tmp_path, seeds])
    assert sorted(len(run.runs) for run in pool(runs)) == [3, 6]
    for run, before in zip(sorted(pool(runs), key=lambda run: run.policy), once, strict=True):
        assert run.replicas == before.replicas == 9  # a replica counts once
        for column, spread in before.spreads.items():
            for part in ("n", "mean", "std"):
                assert run.spreads[column][part] == pytest.approx(spread[part], rel=1e-9), column
    assert len(pooled(load(tmp_path, seeds), each=True).groupby(["policy", "seed"])) == 6


@pytest.mark.parametrize("chance", [0.1, 0.3, 0.6])
def test_rates_over_replicas_cover_if_each_replica_picks_a_group_always_or_never(chance):
    """A learner can lock in: then the candidates of a replica are no further evidence."""
    for n in (3, 8):
        missed = 0.0
        probabilities = binom.pmf(np.arange(n + 1), n, chance)
        for hits, probability in enumerate(probabilities):
            _, mean, std = moments([1.0] * hits + [0.0] * (n - hits))
            low, high = rate_ends(float(mean), float(std), n, received=60.0)
            missed += probability * (not low <= chance <= high)
        assert missed <= 0.05, n


def test_scenes_are_environments_with_runs_in_the_papers_order(seeds, mixed, tmp_path):
    sweep(tmp_path, {"name": "simulation", "noise": 1.0}, ["uniform"], rounds=20)
    scenes = read_scenes([seeds, mixed, tmp_path])
    assert [scene.name for scene in scenes] == [
        *("simulation, noise=1.0", "simulation, noise=2.0", "table")
    ]
    labels = ["Uniform random", "Greedy", "Fair-Greedy"]
    assert [[run.label for run in scene.runs] for scene in scenes] == [
        *(labels[:1], labels[:2], labels)
    ]
    assert (scenes[1].groups, scenes[1].candidates) == (("0", "1", "2", "3"), 4)
    ordered = crossed(["mine"], regularization=[0.5, 10.0, 0.05]).runs
    assert [run.others[0].text for run in ordered] == ["0.05", "0.5", "10.0"]
