"""Pictures for papers: short labels, notes beside, letter values, anchored slopes, a pilot's choice."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from drawable import AXES, PILOT, footnote, own, pilot_runs, points, runs, small, texts
from matplotlib.figure import Figure

import evogt_study as evs
import evogt_study.accessor  # which ds.evogt comes with
from evogt_study.pde.methods.variables import VARIABLES
from evogt_study.plots import Places, dependence, png
from evogt_study.plots import catalogue as kinds
from evogt_study.plots.canvas import labelled, titled
from evogt_study.plots.dependence import anchor
from evogt_study.plots.distribution import letter_values
from evogt_study.plots.groups import label_of
from evogt_study.schema.variables import BOOKKEEPING
from evogt_study.study.study import Study

RESULTS = Path(__file__).parents[2] / "data" / "results"


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    return runs(own(tmp_path_factory.mktemp("failing"), AXES))


def test_every_short_label_is_set_and_is_shorter_than_its_name():
    figure = Figure()
    for each in [each for each in (*VARIABLES.values(), *BOOKKEEPING.values()) if each.label]:
        figure.text(0.5, 0.5, each.label)
        assert len(each.label) <= 40
        assert len(each.label.replace("$", "")) <= len(each.long_name)
    png(figure, 20)  # mathematics that cannot be read is an error here


def named(**attributes):
    return xr.DataArray([1.0], dims="seed", name="y", attrs=attributes)


def test_a_label_of_a_file_is_mathematics_and_its_long_name_is_not():
    error = VARIABLES["error"].attributes
    assert labelled(label_of(named(**error)), 40, "median {}") == "median relative $L^2$ error"
    assert label_of(named(long_name="my $x^2$ error")) == r"my \$x^2\$ error"
    assert label_of(named(label="rate $r$", units="1/s")) == "rate $r$ (1/s)"
    assert labelled(label_of(named(long_name="a\nwide label of a file's own")), 12) == "a wide label\nof a file's\nown"


@pytest.mark.parametrize("label", ["", "$\\unknown$", "$x" + "x" * 100 + "$", 3, ["$x$"], "$\\frac{1}{$"])
def test_a_label_that_cannot_be_typeset_is_left_out(label):
    assert label_of(named(label=label, long_name="a name")) == "a name"


def test_a_label_of_a_parameter_is_short_or_has_its_symbol():
    assert titled("number of output features N", "N", 48) == "number of output features $N$"
    assert titled("number of output features N", "N", 20) == "$N$"
    assert titled("wave number (1/m)", "k", 40) == "wave number $k$ (1/m)"
    assert (titled("τ", "tau", 40), titled("Z", "tau", 40)) == (r"$\tau$", "Z")


def test_a_caption_has_the_long_names_of_short_labels():
    made = kinds.drawn(small(), "dependence")
    assert made.figure.axes[0].get_ylabel() == "relative $L^2$ error"
    assert "relative L2 error = final relative L2 error on the validation rule" in made.caption
    assert "dictionary = dictionary of prescribed features" in made.caption
    energy = kinds.drawn(small(), "histories", kinds.Wish("norm_history"))
    assert "||u_N(t)||_q = quadrature L2 norm of the solution at the saved times" in energy.caption
    own_words = kinds.Look(ylabel="$e$")
    assert "relative L2 error =" not in kinds.drawn(small(), "dependence", kinds.Wish(look=own_words)).caption


def test_notes_and_counts_stand_in_the_caption_where_that_is_wished_for(failing):
    with_notes = kinds.drawn(failing, "dependence")
    made = kinds.drawn(failing, "dependence", kinds.Wish(notes=False))
    assert footnote(made.figure) == ""
    assert not [text for text in texts(made.figure) if "/4" in text]
    assert made.figure.get_figheight() < with_notes.figure.get_figheight()
    for told in ("22 of 36 runs (12 failed, 2 diverged)", "3/4 at N = 40, fast", "Line: median; points: runs"):
        assert told in made.caption
    assert made.caption.count("22 of 36") == 1
    figure = Figure()
    axes, other = figure.subplots(1, 2)
    other.set_title("mine", loc="right")
    failing.evogt.plot("dependence", ax=axes, notes=False)
    assert (axes.get_title(loc="right"), other.get_title(loc="right")) == ("", "mine")
    assert failing.evogt.caption("dependence", by="kind").endswith("runs over seed.")


def test_a_caption_names_what_the_picture_at_hand_shows(failing):
    def caption(kind, **places):
        return kinds.drawn(failing, kind, kinds.Wish(places=Places(**places))).caption

    runs = "runs (12 failed, 2 diverged)"
    assert f"for kind = fast, slow, bad, over 4 values of seed; 22 of 36 {runs}." in caption("dependence")
    assert caption("distribution", at={"kind": "fast"}).startswith(
        "Error against N = 10, 20, 40, over 4 values of seed, at kind = fast; 11 of 12 runs (1 diverged)."
    )
    assert "against kind = fast, slow, bad, for N = 10, 20, 40, over" in caption("heat_map", along="kind", by="N")
    assert "a panel for each kind = fast, slow, bad, over" in caption("dependence", panel="kind")
    assert caption("histories").startswith("Trace for ")
    assert "Error against count = 20, 40, 80, for kind" in caption("dependence", along="count")
    assert "A cloud of" in kinds.drawn(small(), "rank").caption


def test_a_caption_is_a_text_beside_the_picture(tmp_path, evogt):
    picture = tmp_path / "one.pdf"
    assert evogt("plot", RESULTS / "feature_count.nc", "dependence", "--caption", "-o", picture)[0] == 0
    text = picture.with_suffix(".txt").read_text(encoding="utf-8")
    shown = "Final relative L2 error on the validation rule against N = 20, 30, 44, 60, 80, for dictionary = transnet,"
    assert text.startswith(f"Error against N.  {shown}")
    assert "75 of 75 runs.  Line: median" in text


def test_letter_values_are_quantiles_with_four_to_eight_runs_beyond():
    sample = np.random.default_rng(0).permutation(np.linspace(0.0, 1.0, 4097))  # quantile p is p
    np.testing.assert_allclose(letter_values(sample)[:, 0], [2.0**-i for i in range(2, 11)])
    np.testing.assert_allclose(letter_values(sample).sum(axis=1), 1.0)
    for count in (16, 31, 200, 1001, 8334):
        last = letter_values(np.arange(float(count)))[-1, 0]
        assert 3 <= np.count_nonzero(np.arange(count) < last) <= 8
    assert len(letter_values(np.arange(15.0))) == 0


@pytest.mark.parametrize("slope", [-4.0, 0.5])
def test_slopes_pass_through_the_largest_median_at_their_end(failing, slope):
    axes = dependence(failing, slopes=(slope,)).axes[0]
    medians, line = points(axes, "median"), points(axes, "reference")
    end = medians[:, 0].max() if slope > 0 else medians[:, 0].min()
    expected = medians[medians[:, 0] == end][:, 1].max()
    at = line[-1] if slope > 0 else line[0]
    np.testing.assert_allclose(at, [end, expected])
    assert anchor(np.ones((1, 2)), np.full((1, 2), np.nan), slope) is None


def test_the_choice_of_a_pilot_has_a_ring():
    with evs.open(RESULTS / "oscillatory_1d.nc", pilot=True) as pilot, evs.open(RESULTS / "oscillatory_1d.nc") as study:
        figure = dependence(pilot)
        gamma = study["gamma"].transpose("epsilon", "dictionary").values
    for axes, wanted in zip(figure.axes, gamma, strict=True):
        rings = points(axes, "chosen")
        np.testing.assert_array_equal(np.sort(rings[:, 0]), np.sort(wanted))
        medians = {tuple(point) for point in points(axes, "median")}
        assert {tuple(ring) for ring in rings} <= medians
    assert "ring: the pilot's choice" in footnote(figure)
    assert not len(points(dependence(small()).axes[0], "chosen"))


def test_a_choice_is_the_smaller_of_equals_and_never_one_with_a_failed_run():
    pilot = pilot_runs(Study.from_text(PILOT))
    pilot.attrs["study"] = PILOT
    pilot["error"][:] = pilot["error"].where(pilot["error"].isnull(), 1.0)
    pilot["error"][0, 0, 0] = np.nan  # of gamma = 1, the smallest
    rings = points(dependence(pilot).axes[0], "chosen")
    assert rings[:, 0].tolist() == [2.0, 2.0]
