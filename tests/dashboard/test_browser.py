"""The dashboard as a user sees it: in a real browser, on a sweep that was just made."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairbandit.cli.dashboard import UNFINISHED
from tests.dashboard.conftest import POLICIES

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.all,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="no Chromium with its driver here"
    ),
    pytest.mark.xdist_group("browser"),
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
return find(document, 'tf-custom-scalar-margin-chart-card').map(card => {{
  const inside = what => find(card.shadowRoot || card, what);
  return [card.title,
          inside('path.area').map(one => one.getBBox().height)];
}});
"""

ROWS = f"""{FIND}
const grid = find(document, '#sessionGroupsTable')[0];
return grid && grid.items ? grid.items.map(row => [row.name, row.hparams]) : [];
"""

IMAGES = f"""{FIND}
return find(document, 'img').filter(one => one.naturalWidth > 100)
  .map(one => [one.naturalWidth, one.naturalHeight]);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    assert BROWSER is not None
    options.binary_location = BROWSER
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(30)
    yield driver
    driver.quit()


def shown(browser: Any, script: str, enough: Callable[[Any], bool], seconds: float = 60) -> Any:
    """What a script finds on the page once that is enough."""
    until = time.monotonic() + seconds
    found = None
    while time.monotonic() < until:
        found = browser.execute_script(script)
        if enough(found):
            break
        time.sleep(0.5)
    keep(browser)
    assert enough(found), found
    return found


def keep(browser: Any) -> None:
    """Screenshots for whoever asks: FAIRBANDIT_SCREENSHOTS names a folder."""
    folder = os.environ.get("FAIRBANDIT_SCREENSHOTS")
    if folder:
        name = browser.current_url.rpartition("#")[2].partition("&")[0]
        number = len(list(Path(folder).iterdir()))
        browser.save_screenshot(str(Path(folder) / f"{number}-{name}.png"))


def page(browser: Any, address: str, name: str) -> None:
    browser.get("about:blank")
    browser.get(f"{address.partition('#')[0]}#{name}")


@pytest.mark.parametrize(("title", "lines"), [("simulation", len(POLICIES)), (UNFINISHED, 1)])
def test_margin_charts_with_a_drawn_band_for_each_setting(browser, addresses, title, lines):
    browser.get("about:blank")
    browser.get(addresses[title])
    bands = shown(
        browser,
        BANDS,
        lambda found: [sum(high > 5 for high in bands) for _, bands in found] == [lines, lines],
    )
    assert {title for title, _ in bands} == {"fair regret", "standard regret"}
    smoothing = f"{FIND} return find(document, 'tf-smoothing-input')[0].weight"
    assert browser.execute_script(smoothing) == 0


def test_hparams_have_a_row_for_each_setting(browser, addresses):
    page(browser, addresses["simulation"], "hparams")
    rows = shown(browser, ROWS, lambda found: len(found) == len(POLICIES))
    assert sorted(hparams["policy"] for _, hparams in rows) == sorted(POLICIES)


def test_the_figures_are_there(browser, addresses, sweep):
    address = addresses["simulation"]
    page(browser, address, f"images&{address.partition('&')[2]}")
    sizes = shown(browser, IMAGES, lambda found: len(found) == 2)
    assert sorted(path.stem for path in sweep.glob("figures/*.png")) == ["overview", "price"]
    assert sorted(width for width, _ in sizes) == [675, 1350]
