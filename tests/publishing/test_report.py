"""The page of a result: it has the promised content, whatever the result is, and nothing in it can run or load."""

import json
import re
from functools import lru_cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import browser
import numpy as np
import pytest
from conftest import write_computed_result
from drawable import AXES, PILOT, compute_runs, small_result, write_study

import evogt_study as evs
from evogt_study.analysis.runs import count_status
from evogt_study.publishing.report import (
    MAX_ROWS,
    MAX_TABLES,
    compare_main_variable,
    list_commands,
    list_conclusions,
    list_setup_progress,
    make_tables,
    report,
)
from evogt_study.results.netcdf import read_result, write_result
from evogt_study.schema.variables import Status
from evogt_study.study.study import Study

ROOT = Path(__file__).parents[2]
VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Tags, texts and attributes of a page; fails if tags do not close in order."""

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
    return write_computed_result(write_study(folder, AXES, name="failing"), folder / "failing.nc")


@pytest.fixture(scope="module")
def with_pilot(tmp_path_factory):
    study = Study.from_text(PILOT, "/home/somebody/chosen.toml")
    return write_computed_result(study, tmp_path_factory.mktemp("p") / "chosen.nc")


def own_result(folder, axes, source=None, name="own"):
    return write_computed_result(
        write_study(folder, axes, *([source] if source else []), name=name), folder / f"{name}.nc"
    )


# --- content ----------------------------------------------------------------------------------------------------------


def test_failures_are_counted_and_grouped_with_the_command_that_shows_one(failing):
    page = Page(page_of(failing))
    assert count_status(read_result(failing)["main"]).describe() in page.text
    row = next(row for row in page.tables if any("cannot do <b>seed</b>" in cell for cell in row))
    assert (row[0], row[2]) == ("12", "kind = bad, N = 10, seed = 0")  # messages differ in numbers alone
    assert "Not ok by kind: fast: 1 of 12; slow: 1 of 12; bad: 12 of 12." in page.text
    assert "evogt try failing.nc kind=bad N=10 seed=0" in page.text
    assert "3/4" in [row[-2] for row in page.tables if len(row) > 1]
    assert any("22 of 36 runs (12 failed, 2 diverged)" in image["alt"] for image in page.all("img"))
    groups = read_result(failing)
    groups["main"]["run_software"].attrs["software_sets"] = json.dumps([{"numpy": "1"}, {"numpy": "2"}])
    assert "2 different sets of versions" in Page(report(failing, groups)).text


MANY_NUMBERS = f"def method(a, seed=0):\n    return {{f'n{{i:02}}': a + i for i in range({MAX_TABLES + 2})}}\n"
GAIN = "def method(seed, a, b, d, gain):\n    return {'score': gain * a + b + seed, 'name': f'{d}'}\n"
PAGES = {  # axes, source, texts, number of figures
    "all failed": ('[axes]\nkind = ["bad"]\nN = [10]\nseed = [0, 1]\n', None, ["No run has a number."], 0),
    "one run": ('[axes]\nseed = [0]\n[constants]\nkind = "fast"\nN = 10\n', None, ["1 run, 1 ok"], 2),
    "one seed": ('[axes]\nkind = ["fast", "slow"]\nN = [10, 20]\nseed = [0]\n', None, ["4 runs, 4 ok"], 2),
    "constants": ("[axes]\na = [1, 2, 3]\nb = [1, 2]\nd = ['p', 'q']\nseed = [0, 1]\n[constants]\ngain = 0.5\n", GAIN,
                  ["24 runs, 24 ok", "1 constants gain", "Put them beside the study file."], 3),
    "many numbers": ("[axes]\na = [1, 2]\nseed = [0, 1]\n", MANY_NUMBERS,
                     ["Not shown: n12, n13. evogt summary own.nc --variable NAME prints each."], 2),
    "no seed": ("[axes]\na = [1, 2]\n", MANY_NUMBERS, ["evogt summary own.nc --variable NAME --over none prints"], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_pages_of_user_functions(name, tmp_path):
    axes, source, expected, figures = PAGES[name]
    page = Page(page_of(own_result(tmp_path, axes, source)))
    for text in expected:
        assert text in page.text
    assert len(page.all("img")) == figures
    assert not any("nan" in cell for row in page.tables for cell in row)


def test_long_tables_are_cut_and_say_so(tmp_path):
    source = "def method(seed, a):\n    return {'score': a + seed}\n"
    data = read_result(own_result(tmp_path, f"[axes]\na = {list(range(100))}\nseed = [0, 1]\n", source))["main"]
    for part in (data, data.isel(seed=[0])):
        (table,) = make_tables(part)
        assert (len(table.body), table.left_out) == (MAX_ROWS, 100 - MAX_ROWS)
    assert make_tables(data)[0].body[7][:2] == ["7", "7.500"]


def test_the_pilot_has_a_section_and_folders_of_the_author_are_private(with_pilot):
    text = page_of(with_pilot)
    page = Page(text)
    assert "Pilot" in [name for _, name in page.headings]
    assert "gamma, which follows dictionary" in page.text
    assert "10 runs, 10 ok" in page.text  # without the points that have no candidate
    assert ("somebody" in text, "chosen.toml" in text) == (False, True)
    running = Page(report(with_pilot, {"pilot": read_result(with_pilot)["pilot"]}))
    assert "The pilot is not finished. 10 runs, 10 ok." in running.text
    assert running.all("img")


def test_commands_are_quoted_and_fit_the_study(failing, tmp_path):
    data = read_result(failing)["main"]
    data.attrs["study_file"] = "/x/$(touch ran).toml"
    made = list_commands(tmp_path / "a; rm b.nc", data, None)
    assert made[0][0] == "evogt run '$(touch ran).toml' -o 'again/a; rm b.nc'"
    assert made[1][0] == "evogt verify 'a; rm b.nc'"
    code = '{"codes": {"__main__:f": {"source": "def f(): ..."}}}'
    in_python = data.assign_attrs(study_code=code, study_file="study f")
    assert [command.split()[1] for command, _ in list_commands(failing, in_python, None)] == ["verify", "report"]
    for code in ("[]", "{", '{"codes": []}', '{"codes": {"a.py:f": {"content": "0"}}}'):
        commands = list_commands(failing, data.assign_attrs(study_code=code), None)
        assert "try" in [each.split()[1] for each, _ in commands]


@pytest.mark.long
def test_the_page_of_a_running_study_shows_the_slowest_setups_first(failing):
    groups = read_result(failing)
    data = groups["main"]
    last = {dim: data[dim].values[-1] for dim in data["run_status"].dims if dim != "seed"}
    data["run_seconds"] = data["run_seconds"] * 0.0 + 0.5
    data["run_seconds"].loc[last] = [1.0, 3.0] + [0.0] * (data.sizes["seed"] - 2)
    data["run_status"].loc[{"seed": 3, **last}] = int(Status.not_run)
    (table,) = list_setup_progress(data)
    assert table.body[0] == [*map(str, last.values()), "3/4", "3", "2", "3"]
    assert {row[-2] for row in table.body[1:]} == {"0.5"}
    page = report(failing, groups, "running")
    assert "Progress by setup" in page
    assert '<progress max="36" value="35"' in page
    assert "Progress by setup" not in report(failing, groups)


# --- conclusions -----------------------------------------------------------------------------------------------------

LUCK = """
import numpy as np

def method(seed, kind, N):
    rng = np.random.default_rng([seed, N, len(kind)])
    if kind == "other" and N == 20 and seed == 0:
        raise ValueError("no")
    return {"error": float(rng.lognormal()) * (0.01 if kind == "fine" and N == 10 else 1.0)}
"""


def test_the_conclusion_is_the_conclusion_of_the_comparison(tmp_path):
    data = read_result(ROOT / "data/results/oscillatory_1d.nc")["main"].sel(epsilon=[0.05])
    found = evs.compare(data["error"].isel(epsilon=0), "dictionary", planned=data["run_key"].isel(epsilon=0))
    assert list_conclusions(compare_main_variable(data))[0] == found["conclusion"].item()
    axes = '[axes]\nkind = ["other", "fine"]\nN = [10, 20]\nseed = { start = 0, count = 12 }\n'
    made = list_conclusions(compare_main_variable(compute_runs(write_study(tmp_path, axes, LUCK))))
    counts = "In 1 of 2 setups one kind has a significantly lower error than all others (fine in 1), at 95 % confidence"
    assert made[0].startswith(counts)
    first, second = made[1:]
    assert first.startswith("At N = 10: fine has a lower error than other on 12 of 12 seeds (p < 0.001, sign test).")
    assert second.startswith("At N = 20: No significant difference in error. ")
    assert second.endswith("Runs without a value, counted as losses: other: 1 of 12.")
    few = small_result()
    few["error"].attrs = {}
    assert compare_main_variable(few) is None  # three seeds


@pytest.mark.parametrize(("better", "leader"), [("", "tree"), ("higher", "net")])
def test_the_conclusion_follows_the_declared_direction(tmp_path, better, leader):
    source = """
import numpy as np

def method(seed, model):
    return {"accuracy": {"tree": 0.78, "net": 0.94}[model] + 0.02 * float(np.random.default_rng(seed).random())}
"""
    axes = '[axes]\nmodel = ["tree", "net"]\nseed = { start = 0, count = 12 }\n'
    axes += f'[output.better]\naccuracy = "{better}"\n' if better else ""
    sentence = list_conclusions(compare_main_variable(compute_runs(write_study(tmp_path, axes, source))))[0]
    assert sentence.startswith(f"{leader} has a {better or 'lower'} accuracy than ")
    assert "best" not in sentence


# --- nothing runs, nothing loads --------------------------------------------------------------------------------------

HOSTILE = (
    "\"'><script>window.ran = 1</script><img src=x onerror='window.ran = 2'><svg onload=alert(1)>{{ 7 * 7 }}</style>"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A result in which every text of other people is hostile."""
    data = small_result().drop_vars(["field", "exact_field", "singular_values", "energy_history", "norm_history"])
    data = data.assign_coords(dictionary=np.array([HOSTILE, "b" + HOSTILE], dtype=object))
    for name in [*data.data_vars, *data.coords]:
        data[name].attrs |= {"long_name": HOSTILE, "units": HOSTILE, "comment": HOSTILE}
    data["run_status"][0, 0, 0] = 2
    data["run_message"][0, 0, 0] = HOSTILE
    for name in set(data.attrs) - {"result_schema"}:  # else the file is refused
        data.attrs[name] = HOSTILE
    data.attrs["recorded_coordinates"] = "time x"
    path = tmp_path_factory.mktemp("hostile") / "hostile.nc"
    write_result(path, {"main": data})
    return path


def test_text_of_a_result_is_text_and_the_page_loads_nothing(hostile):
    text = page_of(hostile)
    page = Page(text)
    known = """html head meta link title style body header nav main h1 h2 h3 p div table thead tbody tr th td
        details summary dl dt dd ul li a span strong figure img figcaption pre code"""
    assert {tag for tag, _ in page.tags} <= set(known.split())
    assert "window.ran" in page.text  # as text
    assert "{{ 7 * 7 }}" in page.text
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert all(image["src"].startswith("data:image/svg+xml,") for image in page.all("img"))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in text


@pytest.mark.parametrize("name", ["failing", "with_pilot", "hostile"])
def test_the_page_is_accessible(name, request):
    text = page_of(request.getfixturevalue(name))
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.headings]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert all(image["alt"].strip() for image in page.all("img"))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(ids)
    assert {a["href"][1:] for a in page.all("a")} <= set(ids)
    assert all("scope" in attributes for attributes in page.all("th"))
    assert [each for each in page.all("meta") if each.get("name") == "viewport"]
    if name == "failing":
        assert not re.search(r"https?://|url\(|@import|<script|<form", re.sub(r'src="data:[^"]*"', "", text))
        check_contrast(text)


def check_contrast(text):
    """4.5:1 at least, which WCAG requires for text, in the light and in the dark theme."""
    for rule in re.findall(r":root \{ (.*?)\}", text, re.DOTALL)[:2]:
        inks = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", rule))
        for ground in ("ground", "solid"):
            for ink in ("ink", "quiet", "link"):
                light, dark = sorted(map(luminance, (inks[ground], inks[ink])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ground, ink)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- the commands -----------------------------------------------------------------------------------------------------


def test_report_and_plot_write_files_and_print_their_names(evogt, failing, tmp_path):
    code, out, err = evogt("report", failing, "-o", tmp_path / "new" / "page.html")
    assert (code, out, err) == (0, f"{tmp_path / 'new' / 'page.html'}\n", "")
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == page_of(failing)
    code, out, err = evogt("plot", failing, "-o", tmp_path / "plots" / "it.svg")
    assert (code, err) == (0, "")
    names = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert names == ["it_comparison.svg", "it_dependence.svg", "it_distribution.svg", "it_trace.svg"]
    assert all(name in out for name in names)
    assert "22 of 36 runs (12 failed, 2 diverged)" in out
    options = ["--x", "N", "--over", "seed", "--at", "kind=slow", "--variable", "count", "--slope", "1,0.5"]
    options.append("--caption")
    assert evogt("plot", failing, "dependence", "-o", tmp_path / "one" / "it.png", *options)[0] == 0
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["it.png", "it.txt"]
    text = (tmp_path / "one" / "it.txt").read_text()
    assert "Count against N = 10, 20, 40, over 4 values of seed, at kind = slow; 11 of 12 runs (1 diverged)." in text


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    with browser.browser() as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "width"), [("failing", 1700), ("failing", 400), ("with_pilot", 1300), ("hostile", 1300)]
)
def test_a_browser_shows_the_whole_page_without_requests_or_scripts(name, width, chromium, request, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(request.getfixturevalue(name)), encoding="utf-8")
    seen = browser.opened(chromium, path, width)
    assert [each for each in seen["requests"] if not each.startswith("data:")] == [path.as_uri()]
    assert (seen["console"], seen["ran"], seen["scripts"]) == ([], None, 0)
    assert seen["images"]
    assert all(complete and alt for complete, alt in seen["images"])
    assert seen["page_width"] <= seen["window_width"]  # wider parts scroll in their own frame
    assert "Run status" in seen["text"]
    for each in seen["figures"]:
        assert (each["left"] >= 0, each["right"] <= width, each["hidden"]) == (True, True, 0)
        assert each["stretched"] == pytest.approx(1.0, abs=0.01)
        assert each["width"] == pytest.approx(each["room"] if each["wide"] else min(each["room"], 512), abs=1)
