"""The dashboard as a user sees it: in a real browser, on a sweep that was just made."""

from typing import Any

import pytest

from fairbandit.cli.dashboard import SINGLE
from tests.browsing import NEEDS_BROWSER
from tests.dashboard.conftest import POLICIES, wait_for

pytestmark = NEEDS_BROWSER

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


def open_page(browser: Any, address: str) -> None:
    browser.get("about:blank")
    browser.get(address)


@pytest.mark.parametrize(
    ("title", "lines"), [("simulation", len(POLICIES)), (SINGLE, 2 * len(POLICIES) + 1)]
)
def test_margin_charts_with_a_drawn_band_for_each_run(browser, addresses, title, lines):
    open_page(browser, addresses[title])
    bands = wait_for(
        lambda: browser.execute_script(BANDS),
        lambda found: [sum(high > 5 for high in bands) for _, bands in found] == [lines, lines],
    )
    assert {title for title, _ in bands} == {"fair regret", "standard regret"}
    assert browser.execute_script(SMOOTHING) == 0
