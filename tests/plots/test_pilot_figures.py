"""Figures of a pilot: every kind has a name that says pilot, and leaves the figures of the study alone."""

import shutil

import pytest
from conftest import SMALL_STUDY, written_result

from evogt_study.plots import catalogue as kinds
from evogt_study.study.study import Study

CHANGES = {
    "gamma = 2\n": "",
    "k = [1, 2]\n": "N = [10, 12]\n",
    "N = 12\n": "",
    "count = 3": "count = 6",  # which a comparison needs
    "sin(k*pi*x)": "k*sin(pi*x)",
    '"field"]': '"field", "singular_values"]',
}
DESIGNS = """
[[sample]]
name = "point"
rule = "sobol"
count = 2
k = { from = 1, to = 2 }

[pilot]
parameter = "gamma"
seeds = { start = 20, count = 6 }
by = ["dictionary"]
candidates = [1, 2]
"""


@pytest.fixture(scope="module")
def piloted(tmp_path_factory):
    """A result whose two phases can be drawn as every kind of plot."""
    text = SMALL_STUDY + DESIGNS
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    return written_result(Study.from_text(text), tmp_path_factory.mktemp("piloted") / "all.nc")


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_a_figure_of_the_pilot_has_a_name_that_says_so(evogt, piloted, tmp_path, monkeypatch, kind):
    # names matter here, not bytes
    monkeypatch.setattr("evogt_study.plots.style.encoded", lambda figure, form: form.encode())
    result = shutil.copy(piloted, tmp_path)
    plain = "error_history" if kind == "histories" else kind
    for options, name in (((), f"all_{plain}.png"), (("--pilot",), f"all_pilot_{plain}.png")):
        before = set(tmp_path.iterdir())
        code, out, err = evogt("plot", result, kind, *options)
        assert (code, err) == (0, "")
        assert set(tmp_path.iterdir()) - before == {tmp_path / name}
        assert out.startswith(f"{tmp_path / name}: ")
    assert evogt("plot", result, kind, "--pilot", "-o", tmp_path / "it.svg")[0] == 0
    assert (tmp_path / "it.svg").read_bytes() == b"svg"  # the name that the user gives is taken as it is


def test_the_figures_that_fit_a_pilot_have_such_a_name_too(evogt, piloted, tmp_path):
    assert evogt("plot", shutil.copy(piloted, tmp_path), "--pilot")[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"all.nc", "all_pilot_dependence.png"}
