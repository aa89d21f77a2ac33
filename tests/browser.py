"""Headless Chromium, driven by Selenium: opens a page and tells what it did.

python tests/browser.py PAGE.html WIDTH [PICTURE.png]
"""

import json
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
ALONE = (  # no connection but those of the page, and no sandbox, which root has not
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
LOOK = """
return {
  title: document.title,
  lang: document.documentElement.lang,
  images: [...document.images].map(each => [each.complete && each.naturalWidth > 0, each.alt]),
  figures: [...document.querySelectorAll("figure img")].map(each => {
    const box = each.getBoundingClientRect(), frame = each.parentElement;
    return {
      wide: each.className === "wide", left: box.left, right: box.right, width: box.width,
      stretched: box.height / box.width * each.naturalWidth / each.naturalHeight,
      room: document.querySelector("main").clientWidth, hidden: frame.scrollWidth - frame.clientWidth,
    };
  }),
  scripts: document.scripts.length,
  page_width: document.documentElement.scrollWidth,
  window_width: window.innerWidth,
  text: document.body.innerText,
  ran: typeof window.ran === "undefined" ? null : window.ran
}
"""


def installed():
    """Where the browser and its driver are; None where one of them, or Selenium, is not."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    try:
        import selenium  # noqa: F401  # looked for only
    except ImportError:
        return None
    return found if all(found) else None


@contextmanager
def browser():
    """A running browser; the test is skipped where there is none."""
    if installed() is None:
        pytest.skip("needs Chromium, chromedriver and Selenium")
    from selenium import webdriver

    program, driver = installed()
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for each in ALONE:
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    running = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        running.set_page_load_timeout(60)
        yield running
    finally:
        running.quit()


def load(running, address):
    """Open a page, and wait until it is there: the driver has let scripts see one that had no body yet."""
    from selenium.webdriver.support.wait import WebDriverWait

    running.execute_script("window.before = true")
    running.get(address)
    there = "return !window.before && document.readyState === 'complete'"
    WebDriverWait(running, 60).until(lambda _: running.execute_script(there))


def opened(running, page, width, picture=None):
    """What the browser sees of a page in a window that is `width` pixels wide, asks for, and writes on its console."""
    size = {"width": width, "height": 3000, "deviceScaleFactor": 1, "mobile": width < 600}
    running.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for log in ("browser", "performance"):
        running.get_log(log)  # what the page before has left
    load(running, Path(page).resolve().as_uri())
    seen = running.execute_script(LOOK)
    events = [json.loads(entry["message"])["message"] for entry in running.get_log("performance")]
    requests = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    if picture is not None:
        running.save_screenshot(picture)
    return seen | {"requests": requests, "console": [entry["message"] for entry in running.get_log("browser")]}


if __name__ == "__main__":
    with browser() as one:
        print(json.dumps(opened(one, sys.argv[1], int(sys.argv[2]), *sys.argv[3:]), indent=1))
