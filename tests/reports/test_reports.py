"""Reports hold the numbers of their sources, show any name as text, and refuse damaged files."""

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from fairbandit import Agent, FairbanditError
from fairbandit.agent.replaying import replay
from fairbandit.errors import visible
from fairbandit.reports import Report, of_log, read_report
from fairbandit.results import read_scenes
from fairbandit.results.table import overview
from tests.evaluation.logs import random_log
from tests.reports.pages import Shown

NAMES = (
    *("<script>document.title = 'hacked'</script>", "</style><img src=x onerror=alert(1)>"),
    *("\"'&lt;{{ 7 * 7 }}", "\x00\x1b[31m\u202elive", "x" * 500, "$x$ **a.** ## b"),
)


def reported(command, *words: str) -> Shown:
    code, out, err = command("report", *words)
    assert (code, out, err) == (0, "written  report.html\n", "")
    return Shown(Path("report.html").read_text("utf-8"))


def test_runs(command, simulated):
    """Means with plain intervals; best are the least mean and all that paired tests cannot tell."""
    shown = reported(command, str(simulated))
    (scene,) = read_scenes([simulated])
    table, groups = (overview(scene.runs, groups=by, printed=True) for by in (False, True))
    for sheet in (table, groups):
        assert shown.table(*sheet.headers) == [[*row] for row in (sheet.headers, *sheet.rows)]
    cells_of, best = {row[0]: row for row in table.rows}, set[str]()
    finals = np.array([[run.curves[c].final for c in scene.metrics] for run in scene.runs])
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


def test_an_evaluation_says_all_that_the_command_said(command):
    random_log(200, k=3).frame.to_csv("log.csv", index=False)
    words = ["log.csv", "policy=fair_greedy,uniform", "choose=reward", "--out", "found"]
    assert command("evaluate", *words)[0] == 0
    shown = reported(command, "found")
    header, *rows = shown.table("", "estimator")
    found = pd.read_csv("found/evaluation.csv").set_index(["measure", "estimator", "policy"])
    whole = found[[":" not in measure for measure, *_ in found.index]]
    assert header[2:] == ["logged", "fair_greedy", "uniform"]
    best = set[str]()
    for measure, estimator, *cells in rows:
        name, arrow = measure[:-2].replace(" ", "_"), measure[-1]
        assert arrow == ("↓" if name in ("fair_regret", "reward_gap", "rank_gap") else "↑")
        values = []
        for policy, cell in zip(header[2:], cells, strict=True):
            row = whole.loc[(name, estimator, policy)]
            numbers = [float(number) for number in re.findall(r"-?[\d.]+(?:e-\d+)?", cell)]
            scale = max(row.high - row.low, 1e-3)
            assert numbers == pytest.approx([row.value, row.low, row.high], abs=0.1 * scale)
            values.append(row.value)
        best.add(cells[int(np.argmin(values) if arrow == "↓" else np.argmax(values))])
    assert len(rows) == len(whole) / 3
    assert shown.best[0] == best
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
    shown = reported(command, "log.jsonl", "epsilon=0.2")
    for _, group, count, mean in shown.table("attribute", "group", "picks with a reward")[1:]:
        own = np.array(rewards[group])
        half = student.ppf(0.975, len(own) - 1) * own.std() / (len(own) - 1) ** 0.5
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", mean)]
        right = [own.mean(), own.mean() - half, own.mean() + half]
        assert int(count) == len(own)
        assert numbers == pytest.approx(right, abs=0.15 * half)
    assert command("audit", "log.jsonl", "epsilon=0.2", "--out", "found")[0] == 0
    assert reported(command, "found").tables == shown.tables
    facts = dict(row for table in shown.tables for row in table if len(row) == 2)
    assert facts["last hash of log.jsonl"] == replay(Path("log.jsonl")).sha256
    assert "ε = 0.2 on average" in " ".join(text for _, text in shown.texts)


def test_a_study(command):
    space = "search={policy.estimator.regularization: {low: 1e-3, high: 10}, policy/split: [full]}"
    code, out, _ = command("tune", "rounds=30", "replicas=2", "trials=2", "folder=study", space)
    assert code == 0
    before = Path("study/study.db").read_bytes()
    shown = reported(command, "study")
    assert Path("study/study.db").read_bytes() == before
    summaries = [json.loads(path.read_text()) for path in Path("study").rglob("summary.json")]
    least = min(one["metrics"]["fair_regret"]["mean"] for one in summaries)
    ((_, value, *_),) = shown.table("trial")[1:]
    assert float(value) == pytest.approx(least, rel=1e-3)
    printed = next(line for line in out.splitlines() if "with fresh replicas" in line)
    (again,) = (text for _, text in shown.texts if "with fresh replicas: fairbandit" in text)
    assert again.split("replicas: ")[1] == printed.partition("replicas")[2].strip()
    assert not any("were stopped early" in text for _, text in shown.texts)
    assert len(shown.table("folder")) == 3
    Path("study/study.db").write_bytes(before[:5000])
    assert "study.db is not a study of fairbandit tune" in command("report", "study")[2]


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_text(name):
    log = random_log(30)
    log = log.replaced(labels=(name, *log.labels[1:]), notes=(name, "\ud83d"))
    html = of_log(log, Path("log")).html
    shown = Shown(html)
    assert visible(name) in shown.table("attribute", "group", "received")[1]
    assert {inner for inner, text in shown.texts if visible(name) in text} == {"td", "p"}
    assert not shown.elements & {"script", "a", "iframe", "object", "svg"}
    assert shown.elements >= {"img"}
    assert not set("\x00\x1b\u202e\ud83d") & {*html}
    assert "http" not in html.replace("http-equiv", "")


def test_two_reports_have_the_same_bytes_and_a_saved_one_is_checked(tmp_path):
    log, path = random_log(30), tmp_path / "audit.json"
    first, second = (of_log(log, tmp_path, epsilon=0.1) for _ in range(2))
    assert first.html == second.html
    first.save(path)
    assert read_report(path).html == first.html
    whole, draw = path.read_bytes(), random.Random(0)
    for _ in range(200):
        at = draw.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :])
        with suppress(FairbanditError):
            assert read_report(path).html == first.html  # as a blank that became another one


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "cannot read nothing"),
        (["\0"], "its name has a null character"),
        (["."], "holds nothing to report. PATH is one of"),
        (["a.txt"], "a.txt holds nothing to report"),
        (["b"], "audit.json is not a whole report"),
        (["b", "level=0.1"], "only a log takes KEY=VALUE"),
        (["log.csv", "--out", "folder"], "folder must end in .html"),
        (["log.csv", "nope=1"], "unknown key 'nope'"),
    ],
)
def test_what_is_refused(command, words, message):
    Path("a.txt").write_text("a")
    Path("b").mkdir()
    Report("", "", []).save(Path("b/audit.json"))
    content = Path("b/audit.json").read_text()
    if len(words) == 1:
        Path("b/audit.json").write_text(content.replace('""', '"a"', 1))
    if words[0] == "log.csv":
        random_log(30).frame.to_csv("log.csv", index=False)
    code, _, err = command("report", *words)
    assert code == 1
    assert message in err
    assert not [*Path().rglob("*.html*")]
