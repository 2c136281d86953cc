"""The audit of saved runs: it keeps its level, it has teeth, and it writes what it says."""

import csv
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from fairbandit import FairbanditError
from fairbandit.audit import binomial_p, examine, holm, read_picks, report
from fairbandit.audit.figure import draw
from fairbandit.figures.style import looks
from fairbandit.plugins import load_plugins
from fairbandit.run.execute import execute
from tests import support

REPLICAS, ROUNDS = 4000, 20
LEVEL = 1e-3
"""Family-wise: a correct policy with parity is rejected with probability at most 1e-3."""

PARITY = {
    **{"fair_greedy": True, "gmf": True, "uniform": True, "fairx_rank": True},
    **{"greedy": False, "oful": False},
}
"""Whether each policy has parity in every round of the simulation."""

pytestmark = pytest.mark.xdist_group("audit")  # the runs audited are played once

NAMED = {**support.PRESETS, **support.NOTIONS}

MIXED = {
    "path": "people.csv",
    "group": "group",
    "reward": "wage",
    "columns": {"skill": None},
    "pool": "random",
    "candidates": 4,
    "rewards": "model",
    "noise": 0.5,
}


def play(
    folder: Path,
    policy: str,
    rounds: int = ROUNDS,
    replicas: int = REPLICAS,
    environment: str | dict[str, Any] = "simulation",
    **parts: Any,
) -> Path:
    spec = {"selector": "argmax", **NAMED[policy], **parts, "name": policy}
    world = environment if isinstance(environment, dict) else {"name": environment}
    config = {"policy": spec, "environment": world, "rounds": rounds, "replicas": replicas}
    execute(config, folder)
    return folder


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parity")
    for policy in PARITY:
        play(folder / policy, policy)
    return folder


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Random pools of a table with a common, poorly paid group and a rare, well paid one."""
    folder = tmp_path_factory.mktemp("mixed")
    draw_ = torch.Generator().manual_seed(0)
    lines = ["group,skill,wage"]
    for group, count, lift in (("many", 3000, 0.0), ("few", 600, 1.0)):
        skill = torch.randn(count, generator=draw_, dtype=torch.float64) + lift
        lines += [f"{group},{value},{2 * value}" for value in skill.tolist()]
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    world = {"name": "table", **MIXED, "path": str(folder / "people.csv")}
    for policy in ("gmf", "uniform", "optimal", "fair_greedy"):
        play(folder / policy, policy, rounds=50, replicas=200, environment=world)
    return folder


@pytest.mark.parametrize("policy", PARITY)
def test_the_audit_tells_parity_from_none(sweep, policy):
    """A correct engine fails for a policy with parity with probability at most 1e-3."""
    finding = examine(read_picks([sweep / policy])[0], LEVEL)
    assert finding.verdict == ("parity not rejected" if PARITY[policy] else "parity rejected")
    covered = (finding.low <= 0.25) & (finding.high >= 0.25)
    assert bool(covered.all()) == PARITY[policy]
    # Chernoff's bounds are above the tails, so that what the band misses is rejected too.
    assert bool((finding.adjusted <= LEVEL)[~covered.all(1)].all())


def test_a_biased_selector_is_caught(tmp_path, clean, monkeypatch):
    """Ties that go to the first of the tied: without parity from the first round on."""
    plugins = support.REPOSITORY / "tests" / "audit" / "plugins"
    monkeypatch.setenv("FAIRBANDIT_PLUGINS", str(plugins))
    load_plugins()
    play(tmp_path / "run", "fair_greedy", selector="first_of_ties")
    finding = examine(read_picks([tmp_path])[0], LEVEL)
    assert finding.verdict == "parity rejected"
    assert float(finding.rates[0, 0]) == 1.0
    # empirical CDFs of few values still tie often ten rounds later
    assert float(finding.adjusted[10]) < LEVEL


def test_counts_are_those_of_the_rows(sweep):
    picks = read_picks([sweep / "greedy"])[0]
    table = pq.read_table(sweep / "greedy" / "rounds")
    for index in (0, 7, 19):
        here = table.filter(pq.filters_to_expression([("round", "==", index + 1)]))
        groups = torch.tensor(here["group"].to_pylist())
        assert torch.equal(picks.counts[index], torch.bincount(groups, minlength=4))
        assert here["action"].to_pylist() == here["group"].to_pylist()


def test_what_is_reported(sweep, tmp_path):
    made = report(sweep, out=tmp_path, level=LEVEL)
    assert [path.name for path in made.files] == ["parity.csv", "parity.png", "parity.pdf"]
    assert all(path.stat().st_size for path in made.files)
    with (tmp_path / "parity.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(PARITY) * ROUNDS * 4
    one = next(
        row for row in rows if (row["run"], row["round"], row["group"]) == ("oful", "3", "2")
    )
    finding = next(found for found in made.results if found.picks.policy == "oful")
    assert int(one["selected"]) == int(finding.picks.counts[2, 2])
    assert int(one["received"]) == REPLICAS
    assert float(one["rate"]) == pytest.approx(int(one["selected"]) / REPLICAS)
    p = binomial_p(finding.picks.counts, torch.full((ROUNDS, 4), REPLICAS / 4.0))
    assert float(one["p_value"]) == pytest.approx(float(p[2]))
    assert float(one["p_adjusted"]) == pytest.approx(float(holm(p)[2]))


def test_what_is_drawn(sweep):
    findings = [examine(picks, LEVEL) for picks in read_picks([sweep])]
    figure = draw(findings)["parity"]
    panels = [panel for panel in figure.axes if panel.get_title()]
    assert [panel.get_title() for panel in panels] == [
        f"{looks([finding.picks.policy])[finding.picks.policy].name}: {finding.verdict}"
        for finding in findings
    ]
    for panel, finding in zip(panels, findings, strict=True):
        assert panel.get_xlabel() == "round"
        assert len(panel.containers) == 4
        containers: list[Any] = list(panel.containers)
        for group, bars in enumerate(containers):
            assert bars.get_label() == f"group {group}"
            line, _, (ends,) = bars.lines
            assert line.get_ydata().tolist() == finding.rates[:, group].tolist()
            drawn = [segment[:, 1].tolist() for segment in ends.get_segments()]
            known = torch.stack([finding.low[:, group], finding.high[:, group]], 1)
            assert torch.allclose(torch.tensor(drawn, dtype=torch.float64), known)
        lines: list[Any] = list(panel.lines)
        assert [line.get_ydata()[0] for line in lines if line.get_label() == "1/K"] == [0.25]


def test_groups_mixed_at_random(mixed, tmp_path):
    """`pr:gmdm_2`: gmf and uniform have parity, the reward optimum has not, learners no test."""
    made = report(mixed, out=tmp_path, level=LEVEL)
    verdicts = {found.picks.policy: found.verdict for found in made.results}
    assert verdicts == {
        "gmf": "parity not rejected",
        "uniform": "parity not rejected",
        "optimal": "parity rejected",
        "fair_greedy": "not tested: it learns",
    }
    for finding in made.results:
        picks = finding.picks
        assert picks.places == 4
        assert int(picks.received.sum()) == 4 * 50 * 200
        selected = picks.counts.sum(0) / picks.received
        assert torch.allclose(finding.rates[0], selected, atol=0.01)
        assert bool((finding.low <= finding.rates).all() & (finding.rates <= finding.high).all())
    assert [path.name for path in made.files] == [
        "parity.csv",
        "parity_groups.png",
        "parity_groups.pdf",
    ]
    figure = draw(made.results)["parity_groups"]
    assert len(figure.axes[0].containers) == 4


def test_many_rounds_are_drawn_as_bands(mixed):
    finding = examine(read_picks([play(mixed / "long" / "run", "gmf", rounds=60, replicas=40)])[0])
    panel = draw([finding])["parity"].axes[0]
    assert len(panel.collections) == 4
    assert len(panel.lines) == 5


def test_few_replicas_are_not_tested(tmp_path):
    finding = examine(read_picks([play(tmp_path / "run", "greedy", replicas=5)])[0])
    assert finding.verdict == "not tested: too few replicas"
    assert bool(finding.p.isnan().all())
    report(tmp_path)


def test_missing_rows_are_noticed(tmp_path):
    play(tmp_path / "run", "uniform", replicas=30)
    next((tmp_path / "run" / "rounds").iterdir()).unlink()
    with pytest.raises(FairbanditError, match=r"part-000000-000000001.parquet lacking"):
        report(tmp_path)


def test_the_tool(sweep, command, tmp_path):
    code, out, _ = command("parity", str(sweep), "--out", "audit", "--level", "0.01")
    assert code == 0
    assert "family-wise level 0.01" in out
    assert (tmp_path / "audit" / "parity.csv").is_file()
    assert out.count("parity not rejected") == sum(PARITY.values())


def test_the_tool_teaches(command):
    _, out, _ = command("parity", "--help")
    assert "fairbandit +experiment=parity" in out
    code, _, err = command("parity", "nowhere")
    assert code == 1
    assert "nowhere is not a folder" in err
