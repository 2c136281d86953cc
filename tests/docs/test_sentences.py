"""Sentences of the pages that state numbers or rules: each is compared with its source."""

import re
import runpy

from fairbandit import evaluate, read_log
from tests.docs.pages import DOCS, EVERY, Page, write
from tests.support import REPOSITORY


def test_the_groups_add_up_for_the_estimators_that_the_page_names(tmp_path, monkeypatch):
    """On the page's own log; `share` times value, summed over the groups, less the whole."""
    monkeypatch.chdir(tmp_path)
    page = Page(DOCS / "evaluation.md")
    write(tmp_path / "hiring.py", page.files["hiring.py"])
    runpy.run_path("hiring.py")
    log = read_log("hiring.csv", group="sex", reward="grade")
    table = evaluate(log, ["fair_greedy", "greedy"])
    off = dict[tuple[str, str], float]()
    for policy in ("fair_greedy", "greedy"):
        value = table[table["policy"] == policy].set_index(["measure", "estimator"])["value"]
        for measure, estimator in {
            (name, way) for name, way in value.index if f"{name}:f" in value
        }:
            if measure not in ("reward", "win"):
                continue
            parts = [
                value[f"share:{g}", "exact"] * value[f"{measure}:{g}", estimator] for g in "fm"
            ]
            difference = abs(sum(parts) - value[measure, estimator])
            name = "win" if measure == "win" else estimator
            off[policy, name] = difference
    for policy in ("fair_greedy", "greedy"):
        assert max(off[policy, "ips"], off[policy, "dr"]) < 1e-9
        assert all(1e-5 < off[policy, way] <= 0.05 for way in ("snips", "win", "direct"))
    text = " ".join(page.text.split())
    assert "the values of the groups by `ips` and `dr`, weighted by their shares, add up" in text
    assert "Values by `snips` and `win` do not" in text
    assert "Values by `direct` do not either" in text
    assert "here the differences are at most 0.05" in text


def test_the_regrets_of_shortlists_are_as_the_text_says():
    page = Page(DOCS / "shortlists.md")
    rows = re.findall(
        r"^\| ([\w -]+) \| ([\d,]+) ± .*?\| ([\d,]+) ± .*?\| ([\d,]+) ± ", page.text, re.M
    )
    regret = {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in rows}
    random, text = regret["Uniform random"], " ".join(page.text.split())
    shares = {
        n: [a / b for a, b in zip(regret[n], random, strict=True)] for n in ("OFUL", "Greedy")
    }
    low, high = re.findall(r"it has (\d+) to (\d+) % of their regret", text)[0]
    assert f"{min(shares['Greedy']):.0%}" == f"{low}%"
    assert f"{max(shares['Greedy']):.0%}" == f"{high}%"
    found = re.findall(r"OFUL has (\d+), (\d+) and (\d+) % of the regret of random picks", text)
    assert [f"{share:.0%}" for share in shares["OFUL"]] == [f"{share}%" for share in found[0]]
    (growth,) = re.findall(r"both regrets grow ([\d.]+) times from one pick to four", text)
    for own in (random, regret["Greedy"]):
        assert f"{own[2] / own[0]:.1f}" == growth
    (growth,) = re.findall(r"its regret grows ([\d.]+) times from one pick to four", text)
    assert f"{regret['OFUL'][2] / regret['OFUL'][0]:.1f}" == growth


TIMES = {
    "test": "five to ten minutes",
    "compare": "twenty to forty minutes",
    "bench": "ten to thirty minutes",
    "bench-quick": "two to six minutes",
}
"""What a fast and what a slow machine needs."""


def test_the_pages_agree_on_times_that_hold_on_slow_machines():
    makefile = (REPOSITORY / "Makefile").read_text()
    for command, time in TIMES.items():
        assert re.search(rf"^{command}: .*##.*{time}", makefile, re.MULTILINE)
    stated = {
        "README.md": ["test"],
        "docs/index.md": ["test"],
        "CONTRIBUTING.md": ["test", "compare", "bench-quick"],
        "docs/speed.md": ["bench", "bench-quick"],
        "docs/comparison.md": ["compare"],
    }
    for page in EVERY:
        text = " ".join(page.text.split())
        for command in stated.pop(page.place, []):
            assert TIMES[command] in text, (page.place, command)
        alone = re.findall(r"under (?:a|two) minutes?|a minute or two|some \w+ minutes on", text)
        assert not alone or page.place == "CHANGELOG.md", page.place
    assert not stated
