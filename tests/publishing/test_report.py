"""The page of a result: what has to be on it is, whatever the result is, and nothing in it can run or load."""

import json
import re
import shutil
import time
from functools import lru_cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import browser
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import written_result
from drawable import AXES, PILOT, own, small

from evogt_study.analysis.status_counts import completeness
from evogt_study.cli.display import format_counts
from evogt_study.cli.main import main
from evogt_study.publishing.report import MOST_ROWS, MOST_TABLES, commands, progress_by_cell, report, tables
from evogt_study.results.netcdf import read_result, write_result
from evogt_study.schema.variables import Status
from evogt_study.study.study import Study

RESULTS = Path(__file__).parents[2] / "data" / "results"
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Tags, texts and attributes of a page; fails where tags do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts, self.headings, self.tables = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.tables.append([])
        if tag in ("h1", "h2", "h3"):
            self.headings.append([tag, ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.texts.append(data)
        if self.open and self.open[-1] in ("th", "td"):
            self.tables[-1].append(data)
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings[-1][1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(path):
    return _page_of(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _page_of(path, changed):
    return report(path, read_result(path))


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("failing")
    return written_result(own(folder, AXES, name="failing"), folder / "failing.nc")


@pytest.fixture(scope="module")
def with_pilot(tmp_path_factory):
    return written_result(
        Study.from_text(PILOT, "/home/somebody/chosen.toml"), tmp_path_factory.mktemp("p") / "chosen.nc"
    )


def own_result(folder, axes, source=None, name="own"):
    return written_result(own(folder, axes, *([source] if source else []), name=name), folder / f"{name}.nc")


# --- what is on it ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_of_a_published_result():
    path = RESULTS / "oscillatory_1d.nc"
    text = page_of(path)
    page = Page(text)
    assert page.headings[0] == ["h1", "One-dimensional oscillatory-coefficient benchmark"]
    assert [name for tag, name in page.headings if tag == "h2"] == [
        "The question", "What became of the runs", "Numbers", "Pictures", "The pilot", "Where these numbers come from",
        "Compute them again",
    ]  # fmt: skip
    assert "All 240 runs are ok" in page.text
    assert "All 600 runs are ok" in page.text
    assert "Ju & Zhao, Evo-GTransNet for Parabolic PDEs" in page.text
    # medians first: the largest of 20 errors of transnet carries a quarter of their mean
    assert ["4.400e-04", "4.361e-04", "2.104e-04"] in [
        [row[2], *row[5:7]] for row in page.tables if row[:2] == ["gtransnet", "0.1"]
    ]
    assert ["gtransnet", "0.05", "22"] in page.tables  # what the pilot chose
    assert 'dictionary = ["transnet", "gtransnet", "gaussian_rf", "uniform_elm"]' in page.text
    data = read_result(path)["main"]
    assert data.attrs["git_revision"] in page.text
    assert data.attrs["cpu"] in page.text
    assert f"numpy {json.loads(data.attrs['versions'])['numpy']}" in page.text
    assert "evogt run oscillatory_1d.toml -o again/oscillatory_1d.nc" in page.text
    assert "evogt verify oscillatory_1d.nc" in page.text


@pytest.mark.long
def test_failures_are_counted_grouped_and_can_be_replayed(failing):
    page = Page(page_of(failing))
    assert "22 of 36 runs are ok; 12 failed, 2 diverged" in page.text
    assert "What went wrong" in page.text
    row = next(row for row in page.tables if any("cannot do <b>seed</b>" in cell for cell in row))
    assert row[0] == "12"  # all seeds and N: they differ in numbers alone
    assert row[2] == "kind = bad, N = 10, seed = 0"
    assert "Not ok by kind: fast: 1 of 12; slow: 1 of 12; bad: 12 of 12." in page.text
    assert "evogt try failing.nc kind=bad N=10 seed=0" in page.text
    assert "3/4" in [row[-2] for row in page.tables if len(row) > 1]
    assert any("22 of 36 runs (12 failed, 2 diverged)" in image["alt"] for image in page.all("img"))


def test_every_message_is_counted_once(failing):
    made = completeness(read_result(failing)["main"])
    assert (made.planned, made.ok, dict(made.counts)) == (36, 22, {"ok": 22, "failed": 12, "diverged": 2})
    assert sum(message.count for message in made.messages) == 14
    assert made.describe() == "22 of 36 runs are ok; 12 failed, 2 diverged"


def test_all_runs_failed(tmp_path):
    page = Page(page_of(own_result(tmp_path, '[axes]\nkind = ["bad"]\nN = [10]\nseed = [0, 1]\n')))
    assert "0 of 2 runs are ok; 2 failed" in page.text
    assert "No run has a number." in page.text
    assert page.all("img") == []
    assert "Pictures" not in dict(page.headings).values()


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ('[axes]\nkind = ["fast", "slow"]\nN = [10, 20]\nseed = [0]\n', "All 4 runs are ok"),
        ('[axes]\nseed = [0]\n[constants]\nkind = "fast"\nN = 10\n', "The one run is ok"),
    ],
)
def test_one_seed_and_one_run(tmp_path, axes, expected):
    page = Page(page_of(own_result(tmp_path, axes)))
    assert expected in page.text
    assert page.all("img")
    assert not any("nan" in cell for row in page.tables for cell in row)


def test_a_method_of_ones_own_with_many_axes_and_constants(tmp_path):
    source = (
        "def method(seed, a, b, c, d, e, gain):\n    return {'score': gain * a + b * c + seed, 'words': f'{d}{e}'}\n"
    )
    axes = (
        "[axes]\na = [1, 2, 3]\nb = [1, 2]\nc = [1, 2]\nd = ['p', 'q']\ne = [true, false]\nseed = [0, 1]\n"
        "[constants]\ngain = 0.5\n"
    )
    page = Page(page_of(own_result(tmp_path, axes, source)))
    assert "All 96 runs are ok" in page.text
    assert "1 constants" in page.text
    assert "gain" in page.text
    assert "The study names Python files of its own" in page.text
    assert len([row for row in page.tables if row[-2:-1] == ["2/2"]]) == 48


def test_long_tables_are_cut_and_say_so(tmp_path):
    source = "def method(seed, a):\n    return {'score': a + seed}\n"
    data = read_result(own_result(tmp_path, f"[axes]\na = {list(range(100))}\nseed = [0, 1]\n", source))["main"]
    (table,) = tables(data)
    assert (len(table.body), table.left_out) == (MOST_ROWS, 100 - MOST_ROWS)
    assert table.body[7][:2] == ["7", "7.500"]
    (alone,) = tables(data.isel(seed=[0]))
    assert (len(alone.body), alone.left_out) == (MOST_ROWS, 100 - MOST_ROWS)


@pytest.mark.parametrize(("seeds", "over"), [("seed = [0, 1]\n", ""), ("", " --over none")])
def test_numbers_without_a_table_are_named_with_the_command_that_prints_them(tmp_path, seeds, over):
    source = f"def method(a, seed=0):\n    return {{f'n{{i:02}}': a + i for i in range({MOST_TABLES + 2})}}\n"
    page = Page(page_of(own_result(tmp_path, f"[axes]\na = [1, 2]\n{seeds}", source)))
    assert f"Not shown are n12, n13: evogt summary own.nc --variable NAME{over} prints each." in page.text


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ([], "one run for each point of the product"),
        ([1], "12 points, of which 11 are different runs"),
        ([""], "one run for each of 11 points of the product"),
        ([1, ""], "11 of 12 points, of which 10 are different runs"),
    ],
)
def test_points_that_are_the_same_run_are_counted_apart(changed, told):
    data = small()
    keys = data["run_key"].values.ravel()  # a view
    for place, key in enumerate(changed):
        keys[place] = keys[5] if key else key
    assert f"What varies; {told}" in Page(report(Path("x.nc"), {"main": data})).text
    points = told.partition(" ")[0] + " points, " if "different" in told else ""
    assert format_counts(completeness(data)).startswith(f"{points}{12 - len(changed)} runs")


@pytest.mark.long
def test_the_pilot_has_its_place(with_pilot):
    page = Page(page_of(with_pilot))
    assert "The pilot" in [name for _, name in page.headings]
    assert "γ, which follows dictionary" in page.text
    assert "All 10 runs are ok" in page.text  # without the points where no candidate is


def test_a_result_whose_pilot_is_not_finished(with_pilot):
    """What there is of a study while it runs: the pilot's runs alone."""
    page = Page(report(with_pilot, {"pilot": read_result(with_pilot)["pilot"]}))
    assert "The pilot is not finished. All 10 runs are ok." in page.text
    assert page.all("img")


def test_where_files_lie_is_nobodys_business(with_pilot):
    text = page_of(with_pilot)
    assert "somebody" not in text
    assert "chosen.toml" in text


def test_merged_results_of_several_software_versions(failing):
    groups = read_result(failing)
    sets = json.dumps([{"numpy": "1"}, {"numpy": "2"}])
    groups["main"]["run_software"].attrs["software_sets"] = sets
    assert "2 different sets of versions" in Page(report(failing, groups)).text


def test_commands_are_quoted_for_a_shell(failing, tmp_path):
    data = read_result(failing)["main"]
    data.attrs["study_file"] = "/x/$(touch ran).toml"
    made = commands(tmp_path / "a; rm b.nc", data, None)
    assert made[0][0] == "evogt run '$(touch ran).toml' -o 'again/a; rm b.nc'"
    assert made[1][0] == "evogt verify 'a; rm b.nc'"


@pytest.mark.parametrize("code", ["[]", "{", '{"codes": []}', '{"codes": {"a.py:f": {"content": "0"}}}'])
def test_a_study_whose_function_is_in_no_file_promises_no_replay(failing, code):
    data = read_result(failing)["main"]
    in_python = data.assign_attrs(
        study_code='{"codes": {"__main__:f": {"source": "def f(): ..."}}}', study_file="study f"
    )
    assert [command.split()[1] for command, _ in commands(failing, in_python, None)] == ["verify", "report"]
    page = report(failing, {"main": in_python})
    assert "evogt try" not in Page(page).text
    assert "try" in [command.split()[1] for command, _ in commands(failing, data.assign_attrs(study_code=code), None)]


# --- nothing runs, nothing loads --------------------------------------------------------------------------------------

HOSTILE = (
    "\"'><script>window.ran = 1</script><img src=x onerror='window.ran = 2'><svg onload=alert(1)>{{ 7 * 7 }}</style>"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Every text of a result that somebody else may have written says something bad."""
    data = small().copy(deep=True)
    data = data.assign_coords(dictionary=np.array([HOSTILE, "b" + HOSTILE], dtype=object))
    for name in [*data.data_vars, *data.coords]:
        data[name].attrs |= {"long_name": HOSTILE, "units": HOSTILE, "comment": HOSTILE}
    data["run_status"][0, 0, 0] = 2
    data["run_message"][0, 0, 0] = HOSTILE
    for name in set(data.attrs) - {"result_schema"}:  # else nobody reads on
        data.attrs[name] = HOSTILE
    data.attrs["recorded_coordinates"] = "time x"
    path = tmp_path_factory.mktemp("hostile") / "hostile.nc"
    write_result(path, {"main": data})
    return path


@pytest.mark.long
def test_text_of_a_result_is_text(hostile):
    text = page_of(hostile)
    page = Page(text)
    known = """html head meta link title style body header nav main h1 h2 h3 p div table thead tbody tr th td
        details summary dl dt dd ul li a span strong figure img figcaption pre code"""
    assert {tag for tag, _ in page.tags} <= set(known.split())
    assert "window.ran" in page.text  # as it stands
    assert "{{ 7 * 7 }}" in page.text
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert all(image["src"].startswith("data:image/svg+xml,") for image in page.all("img"))


def test_the_page_needs_nothing_else(failing):
    text = page_of(failing)
    without_images = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r"https?://|url\(|@import|<script|<iframe|<object|<form", without_images)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in text


# --- for everybody ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["failing", "with_pilot", "hostile"])
def test_the_page_is_accessible(name, request):
    text = page_of(request.getfixturevalue(name))
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert all(image["alt"].strip() for image in page.all("img"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(ids)
    assert all("scope" in attributes for attributes in page.all("th"))
    assert [each for each in page.all("meta") if each.get("name") == "viewport"]


@pytest.mark.parametrize("number", [0, 1])
def test_colours_have_enough_contrast(failing, number):
    """4.5:1 at least, as WCAG asks for text, in the light and in the dark."""
    rule = re.findall(r":root \{ (.*?)\}", page_of(failing), re.DOTALL)[number]
    inks = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", rule))
    for ground in ("ground", "solid"):
        for ink in ("ink", "quiet", "link"):
            assert contrast(inks[ground], inks[ink]) >= 4.5, (ground, ink)


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- the commands -----------------------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.long
def test_evogt_report(failing, tmp_path):
    done = run("report", failing, "-o", tmp_path / "new" / "page.html")
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'new' / 'page.html'}\n")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == page_of(failing)
    copied = shutil.copy(failing, tmp_path)
    assert run("report", copied).exit_code == 0
    assert (tmp_path / "failing.html").exists()


def test_evogt_plot_draws_what_fits_and_says_what(failing, tmp_path):
    done = run("plot", failing, "-o", tmp_path / "it.svg")
    assert done.exit_code == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["it_comparison.svg", "it_dependence.svg", "it_distribution.svg", "it_trace.svg"]
    for name in names:
        assert str(tmp_path / name) in done.output
    assert "22 of 36 runs (12 failed, 2 diverged)" in done.output


@pytest.mark.parametrize(("form", "begin"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_evogt_plot_draws_the_kind_that_is_asked_for(failing, tmp_path, form, begin):
    options = ["--along", "N", "--by", "kind", "--over", "seed", "--at", "kind=slow", "--variable", "count"]
    options = [*options[:2], *options[4:], "--slopes", "1,0.5"]
    done = run("plot", failing, "dependence", "-o", tmp_path / f"it.{form}", *options)
    assert done.exit_code == 0, done.output
    assert [path.name for path in tmp_path.iterdir()] == [f"it.{form}"]
    assert (tmp_path / f"it.{form}").read_bytes().startswith(begin)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["plot", "{file}", "bars"],
            "`KIND` must be one of distribution, dependence, heat_map, trend, histories,",
        ),
        (["plot", "{file}", "--along", "tau"], "`--along` must be one of kind, N, seed, got 'tau'"),
        (["plot", "{file}", "--at", "N=11"], "`N` must be one of 10, 20, 40, got '11'"),
        (["plot", "{file}", "--at", "N"], "`--at` must read axis=value,axis=value, got 'N'"),
        (["plot", "{file}", "--variable", "eror"], "`--variable` must be one of error, count, trace"),
        (["plot", "{file}", "--slopes", "1,nan"], "`--slopes` must be numbers separated by commas, got '1,nan'"),
        (["plot", "{file}", "--slopes", "steep"], "`--slopes` must be numbers separated by commas, got 'steep'"),
        (["plot", "{file}", "-o", "it.jpg"], "`--output` must end in .png, .pdf, .svg, got 'it.jpg'"),
        (["plot", "{file}", "--pilot"], "must have pilot runs, got a result without them"),
        (["plot", "nowhere.nc"], "which does not exist"),
        (["report", "nowhere.nc"], "which does not exist"),
        (["report", "{file}", "-o", "it.pdf"], "`--output` must end in .html, got 'it.pdf'"),
        (["report", "{file}", "-o", "{file}/it.html"], "cannot write"),
        (["status", "{file}", "--html", "it.pdf"], "`--html` must end in .html, got 'it.pdf'"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(failing, arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*(argument.format(file=failing) for argument in arguments))
    assert done.exit_code == 2
    assert said in done.stderr
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert list(tmp_path.iterdir()) == []


def test_evogt_plot_where_nothing_can_be_drawn(tmp_path):
    path = own_result(tmp_path, '[axes]\nkind = ["bad"]\nN = [10]\nseed = [0, 1]\n')
    done = run("plot", path)
    assert done.exit_code == 2
    assert "numbers to draw, got none (2 failed); `evogt status` tells why" in done.stderr


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    with browser.browser() as running:
        yield running


def test_the_browser_tells_of_what_a_page_must_not_do(chromium, tmp_path):
    (tmp_path / "page.html").write_text(
        "<title>t</title><img src='http://127.0.0.1:9/a.png'><script>window.ran = 1; console.error('heard')</script>"
    )
    seen = browser.opened(chromium, tmp_path / "page.html", 400)
    assert "http://127.0.0.1:9/a.png" in seen["requests"]
    assert "heard" in " ".join(seen["console"])
    assert (seen["ran"], seen["scripts"], seen["images"]) == (1, 1, [[False, ""]])


@pytest.mark.parametrize("width", [1300, 400])
@pytest.mark.parametrize("name", ["failing", "with_pilot", "hostile"])
def test_in_a_browser_the_page_is_whole_quiet_and_fits(name, width, chromium, request, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(request.getfixturevalue(name)), encoding="utf-8")
    seen = browser.opened(chromium, path, width)
    assert [each for each in seen["requests"] if not each.startswith(("file:", "data:"))] == []
    assert [each for each in seen["requests"] if each.startswith("file:")] == [path.as_uri()]
    assert seen["console"] == []
    assert seen["ran"] is None
    assert seen["scripts"] == 0
    assert seen["images"]
    assert all(complete and alt for complete, alt in seen["images"])
    assert seen["page_width"] <= seen["window_width"]  # what is wider scrolls in its own frame
    assert "What became of the runs" in seen["text"]


@pytest.mark.parametrize("width", [1700, 1300, 700, 400])
def test_figures_are_whole_and_wide_ones_fill_the_page(width, chromium, hostile, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(hostile), encoding="utf-8")
    figures = browser.opened(chromium, path, width)["figures"]
    assert {each["wide"] for each in figures} == {True, False}
    for each in figures:
        assert (each["left"] >= 0, each["right"] <= width, each["hidden"]) == (True, True, 0)
        assert each["stretched"] == pytest.approx(1.0, abs=0.01)
        assert each["width"] == pytest.approx(each["room"] if each["wide"] else min(each["room"], 512), abs=1)


@pytest.mark.slow
def test_a_hundred_thousand_runs_in_time(tmp_path):
    """Twelve groups of 8,334 seeds; a page of two megabytes at most."""
    source = "def method(seed, kind, N):\n    return {'error': (1 + (seed * 7919 % 1000)) / N**2}\n"
    axes = '[axes]\nkind = ["fast", "slow"]\nN = [10, 20, 40, 80, 160, 320]\nseed = { start = 0, count = 8334 }\n'
    path = own_result(tmp_path, axes, source)
    begin = time.process_time()
    text = page_of(path)
    assert time.process_time() - begin < 20.0
    assert "All 100,008 runs are ok" in Page(text).text
    assert len(text) < 2_000_000


@pytest.mark.long
def test_a_study_that_is_going_on_shows_where_runs_take_longest(failing):
    groups = read_result(failing)
    data = groups["main"]
    others = [dim for dim in data["run_status"].dims if dim != "seed"]
    data["run_seconds"] = data["run_seconds"] * 0.0 + 0.5
    data["run_seconds"].loc[{dim: data[dim].values[-1] for dim in others}] = [1.0, 3.0] + [0.0] * (
        data.sizes["seed"] - 2
    )
    data["run_status"].loc[{"seed": 3, **{dim: data[dim].values[-1] for dim in others}}] = int(Status.not_run)
    (table,) = progress_by_cell(data)
    assert table.body[0] == [*(str(data[dim].values[-1]) for dim in others), "3/4", "3", "2", "3"]
    assert {row[-2] for row in table.body[1:]} == {"0.5"}
    assert ["slow", "40", "4/4", "1", "0.5", "0.5"] in table.body
    page = report(failing, groups, "running")
    assert "Progress by cell" in page
    assert '<progress max="36" value="35"' in page
    assert "Progress by cell" not in report(failing, groups)
