"""Which kinds of plots fit a result, the texts beside them, and figures without a solution error and of a pilot."""

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import SMALL_NUMBERS, write_computed_result
from drawable import AXES, PILOT, compute_pilot_runs, compute_runs, draw, request_of, small_result, write_study

import evogt_study as evs
from evogt_study.accessor import Result
from evogt_study.cli.pictures import plot
from evogt_study.errors import InputError
from evogt_study.plots.catalogue import KINDS, choose_plots, find_main_variable
from evogt_study.publishing.report import make_tables, report
from evogt_study.results.netcdf import read_result
from evogt_study.study.study import Study

NUMBER = "def method(shift, k):\n    return {'gain': k * 2.0**-shift}\n"
OTHERS = """
    def method(a, seed):
        strings = dict.fromkeys(("rank", "singular_values", "error_full_space"), "gold")
        return {"error": 1.0 / a, "field": [[1.0, 2.0]], **strings}
"""
RESULTS = {  # axes, source, main variable, plots that fit
    "one seed": ('[axes]\nkind = ["fast", "slow"]\nN = [10, 20, 40]\nseed = [0]\n', None, "error",
                 ["dependence", "time_series"]),
    "all failed": ('[axes]\nkind = ["bad"]\nN = [10, 20]\nseed = [0, 1]\n', None, None, []),
    "without seed": ("[axes]\nshift = [0, 1, 2]\nk = [1, 2]\n", NUMBER, "gain", ["dependence", "heat_map"]),
    "other meanings": ("[axes]\na = [1.0, 2.0, 3.0]\nseed = [0, 1, 2]\n", OTHERS, "error",
                       ["distribution", "dependence"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    return compute_runs(write_study(tmp_path_factory.mktemp("failing"), AXES))


def kinds_of(data, **options):
    return [choice.kind for choice in choose_plots(data, request_of(**options))]


@pytest.mark.parametrize("name", RESULTS)
def test_kinds_that_fit_a_user_function(name, tmp_path):
    axes, source, variable, fitting = RESULTS[name]
    data = compute_runs(write_study(tmp_path, axes, *([source] if source else [])))
    assert kinds_of(data) == fitting
    assert find_main_variable(data) == variable


def test_kinds_that_fit_the_pde_method_a_pilot_and_a_named_variable(failing):
    histories = [("time_series", f"{name}_history") for name in ("error", "energy", "norm")]
    assert choose_plots(small_result()) == [
        ("distribution", "error"), ("dependence", "error"), *histories, ("spectrum", "singular_values"),
        ("scatter", "error"), ("comparison", "error"), ("fields", "field"),
    ]  # fmt: skip
    assert kinds_of(compute_pilot_runs(Study.from_text(PILOT))) == ["dependence"]
    assert kinds_of(failing, variable="count") == ["distribution", "dependence"]
    assert kinds_of(failing, variable="trace") == ["time_series"]
    for roles, message in (({"at": {"N": 3}}, "`N` must be one of 10, 20, 40, got 3"), ({"col": "q"}, "`col` must")):
        with pytest.raises(InputError, match=message):
            kinds_of(failing, **roles)


def test_texts_have_the_least_and_the_largest_median_and_the_counts(failing):
    made = draw(failing, "distribution")
    medians = failing["error"].sel(kind=["fast", "slow"]).median("seed")
    assert f"from {float(medians.min()):.3g} (" in made.alt
    assert f"to {float(medians.max()):.3g} (N = 10, slow)" in made.alt
    counts = "22 of 36 runs (12 failed, 2 diverged)"
    assert counts in made.alt
    subject = "Error against N = 10, 20, 40, for kind = fast, slow, bad, over 4 values of seed; "
    assert made.caption == f"{subject}{counts}.  Point: one run.  Bar: median of the group."
    empty = failing.copy(deep=True)
    empty["error"][:] = np.nan
    for kind in ("distribution", "dependence", "heat_map"):
        assert draw(empty, kind, "error").alt.startswith(
            "No run has a value: 0 of 36 runs (22 without a value, 12 failed"
        )
    assert find_main_variable(empty) == "count"
    with pytest.raises(InputError, match=r"numbers to draw, got none \(12 failed\)"):
        draw(failing.sel(kind=["bad"]), "distribution")


def test_the_documentation_and_the_help_list_all_kinds():
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "figures.md").read_text()
    listed = page.partition("| kind of plot | shows |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE) == list(KINDS)
    for text in (plot.callback.__doc__, Result.plot.__doc__):
        named = re.search(r"distribution, dependence[^.]*", " ".join(text.split()))[0]
        assert re.split(r", | or ", named) == list(KINDS)


# --- a result without a solution error --------------------------------------------------------------------------------

STUDY = f"""
name = "without"
problem = {{ dimension = 1, initial = "sin(pi*x)", source = "0", diffusion = "1/10" }}
axes = {{ N = [8, 12], seed = {{ count = 3 }} }}
output = {{ times = 3, record = ["energy_history"] }}
[constants]
dictionary = "gtransnet"
N1 = 24
{SMALL_NUMBERS}"""
MESSAGE = "there is no solution error because the problem has no exact solution and the study has no reference"


@pytest.fixture(scope="module")
def without_error(tmp_path_factory):
    return write_computed_result(evs.Study.from_text(STUDY), tmp_path_factory.mktemp("without") / "without.nc")


def test_no_other_error_takes_the_place_of_the_solution_error(without_error):
    with evs.open(without_error) as data, pytest.raises(InputError, match="there is no solution error"):
        data.evogt.plot()


def test_the_page_says_so_and_opens_no_table(without_error):
    groups = read_result(without_error)
    text = report(without_error, groups)
    position = text.index(f"<p>{MESSAGE.capitalize()}.</p>")
    first = text.index("<table ", text.index('<h2 id="statistics">'))
    assert text.index('<h2 id="statistics">') < position < text.index("<details>", position) < first
    assert text.count("<figure>") == 1
    assert make_tables(groups["main"])
