"""A headless browser, for tests of pages."""

import shutil

import pytest


def chromium():
    """Yields a driver of chromium, and ends it; skips the test where there is none."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        pytest.skip("needs chromium and chromedriver, of Debian's chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra test-all")

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
    more = "--disable-background-networking --disable-component-update --disable-sync"
    for flag in f"{flags} {more}".split():
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()
