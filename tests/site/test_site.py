"""The built documentation as its readers meet it: `.ci/run` builds it, and runs this."""

import importlib
from pathlib import Path

import pytest
from browser import browser, load, opened

import evogt_study as evs
from evogt_study import pde

SITE = Path(__file__).parents[2] / "build" / "site"
WIDTHS = (1300, 400)
PAGES = (
    "index", "getting_started", "tutorials/own_function", "tutorials/paper", "how_to/figures", "reference/study_file",
    "reference/result_file", "reference/command_line", "reference/python", "background/method", "guarantees",
    "comparison",
)  # fmt: skip
READY = """
const done = arguments[arguments.length - 1];
const look = () => document.querySelectorAll("#search-results li").length ? done(
  [...document.querySelectorAll("#search-results li a")].map(each => each.href)) : setTimeout(look, 50);
look();
"""


def test_every_name_of_the_package_has_a_page():
    pages = {path.stem for path in (SITE / "reference" / "generated").glob("*.html")}
    modules = {"errors", "pde", "problems"}
    assert {f"evogt_study.{name}" for name in {*evs.__all__, "open"} - modules} <= pages
    assert {f"evogt_study.pde.{name}" for name in {*pde.__all__} - modules} <= pages


def test_no_path_of_the_machine_is_on_a_page():
    places = (str(SITE.parents[1]), str(Path.home()))
    for page in SITE.rglob("*.html"):
        assert not any(place in page.read_text(encoding="utf-8") for place in places), page


@pytest.fixture(scope="module")
def running():
    with browser() as found:
        yield found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_fit_their_windows(running, theme):
    # set before the scripts of every page: what one page stores, the process of the next may not have read yet
    choice = f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}')"
    script = running.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": choice})
    for page in PAGES:
        for width in WIDTHS:
            seen = opened(running, SITE / f"{page}.html", width)
            assert seen["page_width"] <= width, (page, width)
            assert all(complete for complete, _ in seen["images"]), page
            assert all(url.startswith(("file:", "data:")) for url in seen["requests"]), page  # no network
            assert running.execute_script("return document.documentElement.dataset.theme") == theme, page
    running.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("half_width", "reference/study_file"),
        ("mass_defect", "reference/result_file"),
        ("observed_orders", "observed_orders"),
    ],
)
def test_search_finds(running, words, page):
    load(running, (SITE / "search.html").as_uri() + f"?q={words}")
    assert any(page in found for found in running.execute_async_script(READY))


def test_a_fraction_of_two_digits_has_one_digit_above_the_other(monkeypatch):
    nodes = pytest.importorskip("docutils.nodes")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "_extensions")
    mathml = importlib.import_module("mathml")
    formulas = (r"\tfrac12\nabla\cdot b", r"\tfrac{1}{2}\nabla\cdot b")
    short, long = (mathml.convert_formula(nodes.math("", formula), False) for formula in formulas)
    assert short == long
