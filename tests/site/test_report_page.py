"""The report page as its readers use it: by clicking, with a narrow window, in the dark, on paper, without scripts."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import written_result

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))
from browser import browser, opened
from drawable import AXES, own

from evogt_study.analysis.report.report import report
from evogt_study.cli.main import main
from evogt_study.results.netcdf import read_result

CUT = """
return [...document.querySelectorAll("main *")].filter(each => each.scrollWidth > each.clientWidth + 1
  && each.clientWidth && !["visible", "auto", "scroll"].includes(getComputedStyle(each).overflowX)
  || getComputedStyle(each).overflowX === "auto" && each.scrollWidth > each.clientWidth + 1
  && each.offsetHeight - each.clientHeight < 4 && each.clientWidth).map(each => each.outerHTML.slice(0, 90))
"""
HEADS = "table.pivot thead"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return written_result(own(folder, AXES, name="failing"), folder / "it's failing.nc")


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


def column(there, number):
    script = f"return [...document.querySelectorAll('{HEADS}')][0].parentNode.tBodies[0].rows"
    return [
        row.find_elements("css selector", "th, td")[number].text for row in there.execute_script(script) if row.text
    ]


def mark(there, picture="study-picture-1"):
    """The first run of a picture with its labels and its value, and where it is from the middle of the picture."""
    told = json.loads(there.execute_script("return document.getElementById('marks').textContent"))["phases"][0]
    x, y, run = told["pictures"][picture]["runs"][:3]  # of the first run the step is its number
    cell, at = sum(told["cells"][: run + 1]), {}
    for axis, labels in reversed(list(zip(told["axes"], told["labels"], strict=True))):
        cell, place = divmod(cell, len(labels))
        at[axis] = labels[place]
    frame = there.find_element("id", picture)
    there.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    size = frame.size
    away = round((x / 1000 - 0.5) * size["width"]), round((y / 1000 - 0.5) * size["height"])
    return frame, away, at, told["values"]["error"][run]


def test_a_table_is_sorted_by_a_click_on_a_head(there):
    head = there.find_elements("css selector", f"{HEADS} button")
    names = [each.text for each in head]
    place = names.index("mean")
    head[place].click()
    up = [float(text) for text in column(there, place) if text != "–"]
    assert up == sorted(up)
    assert len(up) > 3
    head[place].click()
    assert [float(text) for text in column(there, place) if text != "–"] == up[::-1]
    assert column(there, place)[-1] != "–" or "–" not in column(there, place)
    head[0].click()
    assert column(there, 0) == sorted(column(there, 0))


def test_a_choice_leaves_the_rows_and_marks_of_its_value(there):
    before = len(column(there, 0))
    select = there.find_element("css selector", "#filter select[name=kind]")
    select.find_element("xpath", "option[text()='slow']").click()
    assert set(column(there, 0)) == {"slow"}
    assert f"3 of {before} rows" in there.find_element("tag name", "main").text
    drawn = there.find_element("css selector", "#study-picture-1 .fitting").get_attribute("d")
    assert drawn.count("M") == 11  # runs of slow with an error
    select.find_element("xpath", "option[text()='all']").click()
    assert len(column(there, 0)) == before
    assert there.find_element("css selector", "#study-picture-1 .fitting").get_attribute("d") == ""


def test_the_value_under_the_pointer_and_the_command_that_replays_its_run(there, file):
    from selenium.webdriver import ActionChains

    frame, away, at, value = mark(there)
    ActionChains(there).move_to_element_with_offset(frame, *away).perform()
    tip = there.find_element("id", "tip").text.split("\n")
    assert tip[:-1] == [
        f"error: {value}".replace("e-0", "e-"),
        *(f"{axis} = {at[axis]}" for axis in ("kind", "N", "seed")),
    ]
    ActionChains(there).move_to_element_with_offset(frame, *away).click().perform()
    command = shlex.split(there.find_element("css selector", "#replay code").text)
    assert command[:3] == ["evogt", "replay", file.name]
    assert command[3:] == ["--at", f"kind={at['kind']},N={at['N']},seed={at['seed']}"]
    done = CliRunner().invoke(main, ["replay", str(file), *command[3:]])
    assert done.exit_code == 0, done.output
    there.find_element("css selector", "#replay button").click()
    assert not there.find_element("id", "replay").is_displayed()


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
    places = [each.location["x"] for each in running.find_elements("css selector", ".drawn")]
    assert len(set(places)) == (2 if width == 1300 else 1)  # columns


def test_on_paper_all_of_it_is_there(there):
    there.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    heights = there.execute_script(
        "return [...document.querySelectorAll('details table, details dl')].map(each => each.offsetHeight)"
    )
    assert heights
    assert min(heights) > 20
    hidden = there.execute_script("return ['nav', '#filter'].map(each => document.querySelector(each).offsetHeight)")
    assert hidden == [0, 0]


def test_without_scripts_the_page_is_whole(running, page):
    running.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        seen = opened(running, page, 1300)
        text = seen["text"]
        assert not running.find_element("id", "filter").is_displayed()
        assert running.find_elements("css selector", f"{HEADS} button") == []
    finally:
        running.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    with_script = opened(running, page, 1300)["text"]
    for line in text.splitlines():
        assert line in with_script
    assert "evogt replay" in text
    assert len(seen["images"]) == len(read_images(page))


def read_images(page):
    return re.findall("<img ", page.read_text(encoding="utf-8"))
