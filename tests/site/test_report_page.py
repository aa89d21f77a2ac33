"""The report page as its readers use it: with a narrow window, in the dark, on paper."""

import re

import pytest
from browser import browser, opened
from conftest import write_computed_result
from drawable import AXES, write_study

from evogt_study.publishing.report import report
from evogt_study.results.netcdf import read_result

CUT = """
return [...document.querySelectorAll("main *")].filter(each => each.scrollWidth > each.clientWidth + 1
  && each.clientWidth && !["visible", "auto", "scroll"].includes(getComputedStyle(each).overflowX)
  || getComputedStyle(each).overflowX === "auto" && each.scrollWidth > each.clientWidth + 1
  && each.offsetHeight - each.clientHeight < 4 && each.clientWidth).map(each => each.outerHTML.slice(0, 90))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_computed_result(write_study(folder, AXES, name="failing"), folder / "it's failing.nc")


@pytest.fixture(scope="module")
def page(file):
    path = file.with_suffix(".html")
    path.write_text(report(file, read_result(file)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def running():
    with browser() as found:
        yield found


@pytest.fixture
def there(running, page):
    opened(running, page, 1300)
    yield running
    running.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert [entry["message"] for entry in running.get_log("browser")] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_nothing_is_cut_without_a_bar_to_scroll(running, page, width, theme):
    features = [{"name": "prefers-color-scheme", "value": theme}]
    running.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    seen = opened(running, page, width)
    assert seen["page_width"] <= width
    running.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert running.execute_script(CUT) == []
    ground, ink = running.execute_script(
        "const seen = getComputedStyle(document.body); return [seen.backgroundColor, seen.color]"
    )
    dark, light = sorted((ground, ink), key=lambda colour: sum(map(int, re.findall(r"\d+", colour))))
    assert (ground, ink) == ((dark, light) if theme == "dark" else (light, dark))
    places = [each.location["x"] for each in running.find_elements("css selector", "figure img")]
    assert len(set(places)) == (2 if width == 1300 else 1)  # columns


def test_on_paper_all_of_it_is_there(there):
    there.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    heights = there.execute_script(
        "return [...document.querySelectorAll('details table, details dl')].map(each => each.offsetHeight)"
    )
    assert heights
    assert min(heights) > 20
    assert there.execute_script("return document.querySelector('nav').offsetHeight") == 0
