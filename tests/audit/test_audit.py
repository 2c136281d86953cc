"""The audit of saved runs: it keeps its level, it has teeth, and it writes what it says."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fairbandit import registry
from fairbandit.audit import mean_band
from fairbandit.audit.report import examine_run, report
from fairbandit.policy.build import build_policy
from fairbandit.registry.register import _registry
from fairbandit.runs import read_scenes
from fairbandit.runs.execute import execute
from fairbandit.runs.sheets import Sheet
from tests import support

REPLICAS, ROUNDS = 4000, 20
CONFIDENCE = 0.999
"""Family-wise: a correct policy with parity is rejected with probability at most 1e-3."""

PARITY = {"fair_greedy": True, "gmf": True, "uniform": True, "fairx_rank": True, "greedy": False}
"""Whether each policy has parity in every round of the simulation."""


def play(folder: Path, policy: str, rounds: int, replicas: int, world: Any, **parts: Any) -> None:
    named = {**support.PRESETS, **support.NOTIONS}[policy]
    spec = {"selector": "argmax", **named, **parts, "name": policy}
    config = {"policy": spec, "environment": world, "rounds": rounds, "replicas": replicas}
    execute(config, folder)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity")
    for policy in PARITY:
        play(folder / policy, policy, ROUNDS, REPLICAS, {"name": "simulation"})
    return folder


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Random pools of a table with a common, poorly paid group and a rare, well paid one."""
    folder, draws = tmp_path_factory.mktemp("mixed"), np.random.default_rng(0)
    lines = ["group,skill,wage"]
    for group, count, lift in (("many", 3000, 0.0), ("few", 600, 1.0)):
        lines += [f"{group},{x},{2 * x}" for x in draws.normal(lift, size=count)]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    columns = {"group": "group", "reward": "wage", "columns": {"skill": None}}
    world: dict[str, Any] = {"name": "table", "path": str(folder / "people.csv"), **columns}
    world |= {"pool": "random", "candidates": 4, "rewards": "model", "noise": 0.5}
    for policy in ("gmf", "uniform", "optimal", "fair_greedy"):
        play(folder / policy, policy, 50, 200, world)
    selector = {"name": "minimum_pull", "shares": 0.5}
    play(folder / "shares", "uniform", 50, 200, world, selector=selector)
    return folder


@pytest.mark.parametrize("policy", PARITY)
def test_the_audit_tells_parity_from_none(sweep, policy):
    """A correct engine fails for a policy with parity with probability at most 1e-3."""
    result = examine_run(read_scenes([sweep / policy])[0].runs[0], CONFIDENCE)
    verdict = "parity not rejected" if PARITY[policy] else "parity rejected"
    assert (result["verdict"] == verdict).all()
    covered = (result["low"] <= 0.25) & (result["high"] >= 0.25)
    assert covered.all() == PARITY[policy]


def test_what_is_reported(sweep, command, tmp_path):
    """The CSV has what the rows of the round log come to."""
    code, out, _ = command("audit", str(sweep), "--out", str(tmp_path), "confidence=0.99")
    assert (code, "family-wise level 0.01" in out) == (0, True)
    assert out.count("parity not rejected") == sum(PARITY.values())
    code, _, err = command("audit", str(sweep), "confidence=0.05")
    assert (code, "0.5 or more and below 1" in err) == (1, True)
    rows = pyarrow.csv.read_csv(tmp_path / "parity.csv").to_pylist()
    assert len(rows) == len(PARITY) * ROUNDS * 4
    log = pq.read_table(sweep / "greedy" / "rounds")
    counts = np.zeros((ROUNDS, 4), dtype=int)
    np.add.at(counts, (log["round"].to_numpy() - 1, log["group"].to_numpy()), 1)
    low, high = mean_band(counts, REPLICAS, 1 - 0.01 / counts.size)
    own = {(row["round"], row["group"]): row for row in rows if row["run"] == "greedy"}
    for (t, group), row in own.items():
        assert (row["selected"], row["received"]) == (counts[t - 1, group], REPLICAS)
        assert row["rate"] == pytest.approx(row["selected"] / REPLICAS)
        assert row["low"] <= row["rate"] <= row["high"]
        assert row["low"] == pytest.approx(low[t - 1, group])
        assert row["high"] == pytest.approx(high[t - 1, group])


def test_groups_mixed_at_random(mixed, tmp_path):
    """`pr:gmdm_2`: gmf and uniform have parity, the reward optimum has not.

    Policies with a part that reads the past are not tested, whatever they are called.
    """
    gmf, runs = "GMF (fair optimum)", {run.label: run for run in read_scenes([mixed])[0].runs}
    results = {label: examine_run(run, CONFIDENCE) for label, run in runs.items()}
    assert {label: result["verdict"][0] for label, result in results.items()} == {
        gmf: "parity not rejected",
        "Uniform random, selector=argmax": "parity not rejected",
        "Optimal (reward optimum)": "parity rejected",
        "Fair-Greedy": "not tested: picks may depend on the past",
        "Uniform random, selector=minimum_pull": "not tested: picks may depend on the past",
    }
    rates = runs[gmf].picks().sum(0) / runs[gmf].by_group("received")[0] / 200
    np.testing.assert_allclose(results[gmf]["rate"], rates)
    assert all(np.isfinite(result["rate"]).all() for result in results.values())
    page, _ = report([mixed], tmp_path)
    (tests,) = [part.rows for part in page if isinstance(part, Sheet) and "verdict" in part.headers]
    assert {row[-1]: row[2] for row in tests} == {
        "parity not rejected": "few",
        "parity rejected": "few",
        "not tested: picks may depend on the past": "–",
    }
    margins = {row[0]: row[-2] for row in tests}
    widest = results[gmf][["low", "high"]].to_numpy() - 0.25
    assert margins[gmf] == f"{np.abs(widest).max():.4f}"
    hidden = [{*row[2:-1]} for row in tests if row[-1].startswith("not tested")]
    assert hidden == [{"–", "0.2500"}] * 2  # the target alone
    rows = pyarrow.csv.read_csv(tmp_path / "parity.csv").to_pylist()
    assert {row["round"] for row in rows} == {None}
    assert sum(row["received"] for row in rows) == 5 * 4 * 50 * 200


OTHERWISE = {"split": "full", "estimator": "oracle", "rank": "identity", "refresh": 2.0}
ALONE = [
    (kind, name)
    for kind in registry.PART_KINDS
    for name in registry.names(kind)
    if not build_policy({**OTHERWISE, kind: name}).reads_past
]
"""The parts that declare that no pick depends on earlier rounds."""


@pytest.mark.parametrize(("kind", "name"), ALONE)
def test_parts_that_look_at_their_own_pool_alone_have_no_past(kind, name):
    """No pick of rounds 41 to 60 changes with the contexts and the rewards before."""
    picks = []
    for sign in (1, -1):
        world = support.environment("simulation")
        draw = world._pools

        def pools(first: int, count: int, draw: Any = draw, sign: int = sign) -> Any:
            made = draw(first, count)
            early = max(0, 41 - first)
            made.contexts[:, :early] *= sign
            made.rewards[:, :early] *= sign
            return made

        world._pools = pools  # type: ignore[method-assign]
        in_turn = getattr(registry.lookup(kind, name), "sequential", False)  # bars in [0, 1]
        rank = {"rank": "oracle_cdf"} if in_turn else {}
        chosen = build_policy({**OTHERWISE, **rank, kind: name})
        picks.append(support.actions(chosen, world, 60, 20)[:, 40:])
    assert (picks[0] == picks[1]).all()
    assert len(picks[0].unique()) > 1


def test_a_plugin_that_is_not_loaded(mixed, monkeypatch):
    """Its picks may depend on the past: there are rates, and no test."""
    monkeypatch.delitem(_registry["rank"], "oracle_cdf")
    report([mixed / "gmf"])
    result = examine_run(read_scenes([mixed / "gmf"])[0].runs[0])
    assert (result["verdict"] == "not tested: picks may depend on the past").all()
    assert np.isfinite(result["rate"]).all()
