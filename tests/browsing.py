"""A headless browser for tests, where there is one."""

import shutil

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

NEEDS_BROWSER = [
    pytest.mark.all,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with its driver here"),
]

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run", "--window-size=1500,1300"),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium, which logs the console and the requests of its pages."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    assert BROWSER is not None
    options.binary_location = BROWSER
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()
