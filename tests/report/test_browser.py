"""Reports as a reader sees them: in a real browser, on a phone and on a wide screen."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fairbandit.evaluation import evaluate
from fairbandit.report import of_evaluation, of_log, of_runs
from tests.browsing import NEEDS_BROWSER
from tests.evaluation.logs import random_log
from tests.report.test_reports import NAMES

pytestmark = [*NEEDS_BROWSER, pytest.mark.filterwarnings("ignore:Glyph")]

LOADED = """
const page = document.documentElement;
return [document.title, page.scrollWidth - page.clientWidth, document.images.length,
        [...document.images].every(image => image.naturalWidth > 0),
        [...document.querySelectorAll(".name")].map(cell => {
            const text = document.createRange();
            text.selectNodeContents(cell);
            return [cell.textContent, text.getClientRects().length];
        }).filter(([text, lines]) => /^\\w{1,20}$/.test(text) && lines > 1)]
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory, simulated):
    """Reports of several kinds, with hostile names."""
    log, folder = random_log(60), tmp_path_factory.mktemp("pages")
    log = replace(log, labels=(*NAMES[:2], NAMES[4]), notes=NAMES)
    table = evaluate(log, ["forgetting_greedy", "uniform"])
    made = [of_log(log, folder, epsilon=0.1), of_runs(simulated)]
    made.append(of_evaluation(table, log, folder, NAMES))
    for number, one in enumerate(made):
        one.write(folder / f"{number}.html")
    return sorted(folder.glob("*.html"))


@pytest.mark.parametrize("width", [360, 1_280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_runs_or_loads(browser, pages, width, scheme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for page in pages:
        browser.get_log("performance")
        browser.get(page.as_uri())
        title, over, pictures, drawn, broken = browser.execute_script(LOADED)
        assert title.startswith(("Report of", "Runs in", "Evaluation of"))
        assert (over, drawn, broken) == (0, True, [])
        assert pictures
        assert browser.get_log("browser") == []
        entries = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
        sent = [one["params"] for one in entries if one["method"] == "Network.requestWillBeSent"]
        asked = [one["request"]["url"] for one in sent]
        assert Path(page).as_uri() in asked
        assert all(url.startswith(("data:", page.as_uri())) for url in asked)
