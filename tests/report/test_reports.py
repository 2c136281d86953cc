"""Reports hold the numbers of their sources, show any name as text, and refuse damaged files."""

import json
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from fairbandit import Agent, Encoder
from fairbandit.agent.replaying import replay
from fairbandit.errors import visible
from fairbandit.evaluation import evaluate
from fairbandit.report import Report, of_evaluation, of_log, of_runs
from fairbandit.runs.overview import overview
from fairbandit.runs.scenes import read_scenes
from fairbandit.runs.sheets import Sheet
from tests.environments.data import arguments, people, write
from tests.evaluation.logs import random_log, read_log
from tests.figures.conftest import sweep
from tests.report.pages import Shown

NAMES = (
    *("<script>document.title = 'hacked'</script>", "</style><img src=x onerror=alert(1)>"),
    *("\"'&lt;{{ 7 * 7 }}", "\x00\x1b[31m\u202elive", "x" * 500, "$x$ **a.** ## b"),
)


def reported(command, *words: str) -> Shown:
    code, out, err = command(*words, "out=report.html")
    assert (code, err) == (0, "")
    assert out.endswith("written  report.html\n")
    return Shown(Path("report.html").read_text("utf-8"))


def test_runs(command, simulated):
    """Means with plain intervals; best are the least mean and all that paired tests cannot tell."""
    shown = reported(command, "report", str(simulated))
    (scene,) = read_scenes([simulated])
    table, groups = (overview(scene.runs, groups=by, printed=True) for by in (False, True))
    for sheet in (table, groups):
        assert shown.table(*sheet.headers) == [[*row] for row in (sheet.headers, *sheet.rows)]
    cells_of, best = {row[0]: row for row in table.rows}, set[str]()
    finals = np.array([[run.finals(c) for c in scene.metrics] for run in scene.runs])
    for at, own in enumerate(finals.swapaxes(0, 1), 1):
        differences = own - own[own.mean(1).argmin()]
        for run, difference in zip(scene.runs, differences, strict=True):
            half = student.ppf(0.975, 2) * difference.std(ddof=1) / 3**0.5
            best |= {cells_of[run.label][at]} if abs(difference.mean()) <= half else set()
    assert shown.best[0] == best
    intervals = shown.table("", *table.headers[1:3])[1:]
    for run, own, (label, *cells) in zip(scene.runs, finals, intervals, strict=True):
        assert label == run.label
        half = student.ppf(0.975, 2) * own.std(axis=1, ddof=1) / 3**0.5
        numbers = [[float(n) for n in re.findall(r"-?[\d.]+", c.replace(",", ""))] for c in cells]
        right = np.stack([own.mean(1), own.mean(1) - half, own.mean(1) + half], axis=1)
        assert np.array(numbers) == pytest.approx(right, abs=0.1 * half.max())
    sums = [json.loads(path.read_text())["checksum"] for path in simulated.rglob("summary.json")]
    assert {row[-1] for row in shown.table("folder")[1:]} == {*sums}
    assert shown.elements <= {
        *("html", "head", "meta", "link", "title", "style", "body", "h1", "h2", "p", "div"),
        *("table", "thead", "tr", "th", "td", "img", "footer"),
    }


READS = "reads the group at the decision"


def table_of(folder: Path, **options: Any) -> dict[str, Any]:
    path = write(folder / "people.csv", people())
    world = arguments(path, pool="random", candidates=5, rewards="model", **options)
    return {**world, "exclude": None}


@pytest.mark.parametrize("feature", [True, False])
def test_reports_say_which_policies_read_the_group(tmp_path, feature):
    runs = sweep(tmp_path / "runs", table_of(tmp_path, group_feature=feature), rounds=60)
    line = "yes (Fair-Greedy); no (Uniform random, Greedy)"
    if feature:
        line = "yes (Greedy, Fair-Greedy); no (Uniform random)"
    assert f"{READS.capitalize()}: {line}." in texts(of_runs(runs))
    table = {"sex": ["f", "m"] * 50, "hours": [*range(50)] * 2, "pay": [*range(100)]}
    options = {"group": "sex", "reward": "pay", "group_feature": feature}
    encoder, path = Encoder.from_table(table, **options), tmp_path / "log.jsonl"
    config = {"name": "greedy", "selector": {"name": "epsilon_greedy", "epsilon": 0.2}}
    with Agent.from_config(config, features=encoder, log=path) as agent:
        for at in range(30):
            people = [{"sex": "fm"[n % 2], "hours": (at + n) % 50} for n in range(4)]
            agent.update(float(at % 7), agent.act(people, [row["sex"] for row in people]).ticket)
    log = read_log(path)
    assert facts(of_log(log, path))[READS] == ("yes" if feature else "no")
    other = Agent.from_config("fair_greedy", features=encoder, groups=["f", "m"])
    evaluated = of_evaluation(evaluate(log, ["lin_ts", other]), log, path, [])
    mixed = "yes (agent); no (logged by log.jsonl, lin_ts)"
    assert facts(evaluated)[READS] == ("yes (all)" if feature else mixed)


def texts(report: Report) -> str:
    return " ".join(part for part in report.parts if isinstance(part, str))


def facts(report: Report) -> dict[str, str]:
    """The rows of the last table, in two columns."""
    *_, sheet = (part for part in report.parts if isinstance(part, Sheet))
    return {row[0]: row[1] for row in sheet.rows}


def test_an_evaluation_says_all_that_the_command_said(command):
    random_log(200, k=3).frame.to_csv("log.csv", index=False)
    words = ["evaluate", "log.csv", "policy=fair_greedy,uniform", "choose=reward"]
    assert command(*words, "out=evaluation.csv")[0] == 0
    shown = reported(command, *words)
    found = pd.read_csv("evaluation.csv").set_index(["measure", "estimator", "policy"])
    whole = found[[":" not in measure for measure, *_ in found.index]]
    first, second = (table for table in shown.tables if table[0][:2] == ["", "estimator"])
    header, seen = first[0], list[tuple[str, str]]()
    assert header == second[0] == ["", "estimator", "logged", "fair_greedy", "uniform"]
    for measure, estimator, *cells in [*first[1:], *second[1:]]:
        name, arrow = measure[:-2].replace(" ", "_"), measure[-1]
        assert arrow == ("↓" if name in ("fair_regret", "reward_gap", "rank_gap") else "↑")
        for policy, cell in zip(header[2:], cells, strict=True):
            row = whole.loc[(name, estimator, policy)]
            numbers = [float(number) for number in re.findall(r"-?[\d.]+(?:e-\d+)?", cell)]
            scale = max(row.high - row.low, 1e-3)
            assert numbers == pytest.approx([row.value, row.low, row.high], abs=0.1 * scale)
        seen.append((name, estimator))
    assert len(seen) == len({*seen}) == len(whole) / 3
    assert dict(seen[: len(first) - 1]) == {
        **{"reward": "dr", "rank": "direct", "fair_regret": "direct", "win": "snips"},
        **{"selection_ratio": "exact", "reward_gap": "dr", "rank_gap": "direct"},
    }
    assert len({name for name, _ in seen[: len(first) - 1]}) == len(first) - 1
    assert not shown.best[1]
    groups = shown.table("policy", "group")
    assert [row[:2] for row in groups[1:]] == [[p, g] for p in header[2:] for g in "abc"]
    text = " ".join(text for _, text in shown.texts)
    assert "What would fair_greedy, uniform give in place of" in text
    for part in ("The choice is", "choose=reward", "propensities are right", "SHA-256 of log.csv"):
        assert part in text


def test_a_log_and_its_audit(command):
    agent = Agent.from_config("epsilon_greedy", features=1, seed=0, log="log.jsonl")
    draw, rewards = random.Random(0), dict[str, list[float]]()
    for _ in range(60):
        names = [draw.choice("ab") for _ in range(3)]
        decision = agent.act([[draw.random()] for _ in names], names)
        reward = draw.gauss(names[decision.candidate] == "a", 1)
        rewards.setdefault(names[decision.candidate], []).append(reward)
        agent.update(reward, decision.ticket)
    shown = reported(command, "report", "log.jsonl", "epsilon=0.2")
    for _, group, count, mean in shown.table("attribute", "group", "picks with a reward")[1:]:
        own = np.array(rewards[group])
        half = student.ppf(0.975, len(own) - 1) * own.std() / (len(own) - 1) ** 0.5
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", mean)]
        right = [own.mean(), own.mean() - half, own.mean() + half]
        assert int(count) == len(own)
        assert numbers == pytest.approx(right, abs=0.15 * half)
    assert reported(command, "audit", "log.jsonl", "epsilon=0.2").tables == shown.tables
    facts = dict(row for table in shown.tables for row in table if len(row) == 2)
    assert facts["last hash of log.jsonl"] == replay(Path("log.jsonl")).sha256
    assert "ε = 0.2 on average" in " ".join(text for _, text in shown.texts)


def test_many_groups_stand_in_a_table_before_a_dozen_sentences(command):
    towns = [f"g{number:02}" for number in range(20)]
    people = pd.DataFrame({"town": towns * 30, "hired": np.arange(600) // 20 <= 1})
    people.loc[::20, "hired"] = [True] * 29 + [False]
    people.loc[19::20, "hired"] = False
    people.loc[600] = "hamlet", False  # of one person, whose ratio of 0 says little
    people.to_csv("people.csv", index=False)
    words = "audit", "people.csv", "group=town", "selected=hired", "out=page.html"
    code, out, _ = command(*words)
    assert code == 0
    assert out.index("received") < out.index("first 12 of 21 rows by impact") < out.index("g19: 0")
    assert out.count("of 30 selected") == 12
    assert "g00: 29" not in out
    page = Shown(Path("page.html").read_text("utf-8")).table("in words")
    assert [row[0][:8] for row in (page[1], *page[-2:])] == ["town g19", "town g00", "town ham"]


def test_the_page_of_estimated_propensities_compares_them_with_the_picks():
    log = read_log(random_log(60).frame.drop(columns="propensity"), propensity="estimate")
    table = evaluate(log, "uniform", train=0)
    ends = (table["measure"] == "reward") & (table["policy"] == "logged")
    table.loc[ends, ["value", "low", "high"]] = 99.0, 98.0, math.inf
    shown = Shown(of_evaluation(table, log, Path("log.csv"), []).html)
    assert len(shown.table("probability", "picked", "candidates")) == 11
    assert shown.best[0] >= {"99 [98, ∞]"}


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_text(name):
    log = random_log(30)
    log = replace(log, labels=(name, *log.labels[1:]), notes=(name, "\ud83d"))
    html = of_log(log, Path("log")).html
    shown = Shown(html)
    assert visible(name) in shown.table("attribute", "group", "received")[1]
    assert {inner for inner, text in shown.texts if visible(name) in text} == {"td", "p"}
    assert not shown.elements & {"script", "a", "iframe", "object", "svg"}
    assert shown.elements >= {"img"}
    assert not set("\x00\x1b\u202e\ud83d") & {*html}
    assert "http" not in html.replace("http-equiv", "")


def test_two_reports_have_the_same_bytes(tmp_path):
    first, second = (of_log(random_log(30), tmp_path, epsilon=0.1) for _ in range(2))
    assert first.html == second.html


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "cannot read nothing"),
        ([], "fairbandit report: expected PATH (see fairbandit report --help)"),
        (["log.csv", "out=folder"], "folder must end in .html"),
    ],
)
def test_what_is_refused(command, words, message):
    if "log.csv" in words:
        random_log(30).frame.to_csv("log.csv", index=False)
    code, _, err = command("report", *words)
    assert code == 1
    assert message in err
    assert not [*Path().rglob("*.html*")]
