"""The dashboard as a user sees it: in a real browser, on a sweep that was just made."""

import shutil
from typing import Any

import pytest

from fairbandit.cli.dashboard import UNFINISHED
from tests.dashboard.conftest import POLICIES, wait_for

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.all,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with its driver here"),
    pytest.mark.xdist_group("dashboard"),
]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--window-size=1500,1300"),
)

# TensorBoard nests shadow roots: all elements that match, wherever they are
FIND = """
function find(root, what) {
  const found = [...root.querySelectorAll(what)];
  for (const node of root.querySelectorAll('*'))
    if (node.shadowRoot) found.push(...find(node.shadowRoot, what));
  return found;
}
"""

# of each margin chart: its title, and the heights of its filled areas in pixels
BANDS = f"""{FIND}
return find(document, 'tf-custom-scalar-margin-chart-card').map(card => [
  card.title, find(card.shadowRoot || card, 'path.area').map(one => one.getBBox().height)
]);
"""

SMOOTHING = f"{FIND} return find(document, 'tf-smoothing-input')[0].weight"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    assert BROWSER is not None
    options.binary_location = BROWSER
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def open_page(browser: Any, address: str) -> None:
    browser.get("about:blank")
    browser.get(address)


@pytest.mark.parametrize(("title", "lines"), [("simulation", len(POLICIES)), (UNFINISHED, 1)])
def test_margin_charts_with_a_drawn_band_for_each_run(browser, addresses, title, lines):
    open_page(browser, addresses[title])
    bands = wait_for(
        lambda: browser.execute_script(BANDS),
        lambda found: [sum(high > 5 for high in bands) for _, bands in found] == [lines, lines],
    )
    assert {title for title, _ in bands} == {"fair regret", "standard regret"}
    assert browser.execute_script(SMOOTHING) == 0
