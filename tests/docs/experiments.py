"""What an experiment leaves behind, whether a page's command or a test ran it."""

import json
from pathlib import Path

from fairbandit.policy.build import conf_folder, named_policies
from tests.docs.pages import PAGES

FIGURES = {
    "simulation": {"overview", "price"},
    "census_gender": {"distributions", "price"},
    "census_ethnicity": {"selection", "counts", "price"},
    "notions": {"notions"},
}

NOTIONS = {name for name, policy in named_policies().items() if policy.notion}
"""The policies that stand for a notion of fairness."""

JOBS = {
    "simulation": 8,
    "census_gender": 6,
    "census_ethnicity": 6,
    "notions": len(NOTIONS),
}

EXPERIMENTS = {path.stem for path in (conf_folder() / "experiment").glob("*.yaml")}

OF_PAGES = {
    page.place: {name for name in EXPERIMENTS if ["fairbandit", f"+experiment={name}"] in commands}
    for page in PAGES
    if (commands := page.commands)
}
"""The experiments that each page runs with no further words."""


def check(name: str, sweep: Path, out: str, *, rounds: int, replicas: int) -> None:
    """Looks at the folder of an experiment that was run, and at what the command printed."""
    assert "All jobs" in out
    runs = [json.loads(path.read_text()) for path in sweep.glob("*/summary.json")]
    assert {(run["rounds"], run["replicas"]) for run in runs} == {(rounds, replicas)}
    if name in FIGURES:
        assert len(runs) == JOBS[name]
        drawn = {path.name for path in (sweep / "figures").glob("*.p*")}
        assert drawn == {f"{figure}.{end}" for figure in FIGURES[name] for end in ("png", "pdf")}
    if name == "notions":
        assert {run["policy"] for run in runs} == NOTIONS
