"""A problem without an exact solution has no solution error, and nothing else takes its place."""

import pytest
from conftest import SMALL_NUMBERS, written_result

import evogt_study as evs
from evogt_study.errors import InputError
from evogt_study.publishing.report import report, tables
from evogt_study.results.netcdf import read_result

STUDY = f"""
name = "without"
[problem]
dimension = 1
initial = "sin(pi*x)"
source = "0"
diffusion = "1/10"
[axes]
N = [8, 12]
seed = {{ count = 3 }}
[constants]
dictionary = "gtransnet"
N1 = 24
{SMALL_NUMBERS}[output]
times = 3
record = []
"""
SAID = "there is no solution error: the problem has no exact solution, and the study no reference for it"


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Results that record nothing more, and a history."""
    folder = tmp_path_factory.mktemp("without")
    texts = {"plain": STUDY, "history": STUDY.replace("record = []", 'record = ["energy_history"]')}
    return {name: written_result(evs.Study.from_text(text), folder / f"{name}.nc") for name, text in texts.items()}


@pytest.mark.long
@pytest.mark.parametrize("kind", [(), ("distribution",), ("dependence",), ("heat_map",)])
def test_no_picture_is_drawn_of_another_error(evogt, paths, tmp_path, kind):
    code, out, err = evogt("plot", paths["plain"], *kind, "-o", tmp_path / "picture.png")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"evogt: {SAID}; name what to draw with --variable: initial_error, rank,")
    assert not list(tmp_path.glob("*.png"))
    code, out, err = evogt(
        "plot", paths["plain"], "distribution", "--variable", "initial_error", "-o", tmp_path / "a.png"
    )
    assert (code, err) == (0, "")
    assert "Initial error of every run" in out


def test_what_was_recorded_is_drawn_and_the_lack_told(evogt, paths, tmp_path):
    code, out, err = evogt("plot", paths["history"], "-o", tmp_path / "picture.png")
    assert (code, len(out.splitlines())) == (0, 1)
    assert "Energy history" in out
    assert err == f"evogt: {SAID}; --variable draws other numbers\n"


def test_in_python(paths):
    with evs.open(paths["plain"]) as data, pytest.raises(InputError, match="there is no solution error"):
        data.evogt.plot()


def test_the_page_says_so_and_has_no_headline(paths):
    text = report(paths["history"], read_result(paths["history"]))
    said = text.index(f"<p>{SAID.capitalize()}.</p>")
    first = text.index('<table class="pivot', text.index('<h2 id="numbers">'))
    assert text.index('<h2 id="numbers">') < said < text.index("<details>", said) < first  # in no table that is open
    assert text.count("<figure>") == 1
    assert "Initial error" not in text  # the title that its pictures would have
    assert [each.title.split(",")[0] for each in tables(read_result(paths["plain"])["main"])]


@pytest.mark.long
def test_with_an_exact_solution_nothing_is_lacking(evogt, paths, tmp_path):
    text = STUDY.replace('initial = "sin(pi*x)"\nsource = "0"', 'exact = "exp(-t)*sin(pi*x)"')
    path = written_result(evs.Study.from_text(text), tmp_path / "with.nc")
    assert "no solution error" not in report(path, read_result(path))
    code, out, err = evogt("plot", path, "distribution", "-o", tmp_path / "picture.png")
    assert (code, err) == (0, "")
    assert "Error of every run" in out
