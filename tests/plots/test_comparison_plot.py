"""The figure of a comparison has the numbers and the conclusions that `evs.compare` returns, whatever the study."""

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from drawable import check_layout, draw, footnote_of, lines_of, request_of, small_result

import evogt_study as evs
from evogt_study.plots.axis_plots import MAX_CONCLUSIONS, MAX_SETUPS, has_comparison
from evogt_study.plots.catalogue import choose_plots
from evogt_study.plots.groups import PlotRequest

RESULT = Path(__file__).parents[2] / "data" / "results" / "oscillatory_1d.nc"


def study(names, axes=None, *, by="dictionary", title="final relative L2 error", shift=0.0, lost=None):
    """Eight seeds for each name and each setup of `axes`; lost: the values of the first name that are missing."""
    coordinates = {by: list(names), **(axes or {}), "seed": np.arange(8)}
    shape = tuple(map(len, coordinates.values()))
    values = np.random.default_rng(1).lognormal(0.0, 0.4, shape)
    values *= np.linspace(1.0, 3.0, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    data = xr.Dataset({"error": (tuple(coordinates), values - shift, {"long_name": title})}, coordinates)
    if lost is not None:
        data["error"][(0, *lost)] = np.nan
    data["run_status"] = (data["error"].dims, np.ones(shape, dtype=np.int8))
    data["run_key"] = (data["error"].dims, np.arange(values.size).astype(str).reshape(shape))
    return data


INTEGRATORS = ["implicit_midpoint", "stabilized_semi_implicit"]
SHAPES = {
    "two names": lambda: study("ab"),
    "fourteen names": lambda: study("abcdefghijklmn"),
    "more setups than rows": lambda: study("ab", {"N": list(range(10, 310, 10))}),
    "three axes": lambda: study("ab", {"epsilon": [0.1, 0.2], "dimension": [1, 2], "time_integrator": INTEGRATORS}),
    "long names": lambda: study([f"a dictionary with a very long name, number {i} of them" for i in range(4)]),
    "dollars": lambda: study(["$a$", "b_$"], {"N": ["$\\frac", "y"]}),
    "differences": lambda: study("abc", {"N": [1, 2]}, shift=2.0),
    "too few common seeds": lambda: study("abc", {"N": [1, 2, 3]}, lost=(1, slice(4))),
    "a published result": lambda: evs.open(RESULT).load(),
}


@cache
def made_of(shape):
    """The compared axis, the table, and the figure with its texts."""
    data = SHAPES[shape]()
    by = str(data["error"].dims[0])
    return by, evs.compare(data["error"], by, planned=data["run_key"]), draw(data, "comparison")


def setups(table):
    """The setups of a table by their names."""
    rest = table["leader"].dims
    for values in itertools.product(*(table[name].values.tolist() for name in rest)):
        place = dict(zip(rest, values, strict=True))
        yield ", ".join(f"{name} = {value}" for name, value in place.items()), table.sel(place)


@pytest.mark.parametrize("shape", SHAPES)
def test_texts_fit_and_name_rows_and_series(shape):
    by, table, made = made_of(shape)
    check_layout(made.figure)
    (axes,) = made.figure.axes
    assert axes.get_position().width > 0.4  # of the figure, which the labels leave
    rows = ["".join(label.get_text().split()).replace(r"\$", "$") for label in axes.get_yticklabels()]
    assert rows == ["".join((name or "all of error").split()) for name, _ in setups(table)][:MAX_SETUPS]
    (legend,) = made.figure.legends
    names = [text.get_text().replace(r"\$", "$") for text in legend.get_texts()]
    assert (legend.get_title().get_text(), len(set(names))) == (by, len(names))
    for name, whole in zip(names, table[by].values.tolist(), strict=True):
        beginning, _, end = name.partition("...")
        assert (whole.startswith(beginning), whole.endswith(end)) == (True, True)


@pytest.mark.parametrize("shape", SHAPES)
def test_markers_are_at_the_effects_and_open_if_they_are_not_significant(shape):
    by, table, made = made_of(shape)
    expected, intervals = [], 0
    for row, (_, setup) in enumerate(itertools.islice(setups(table), MAX_SETUPS)):
        for name in table[by].values.tolist():
            one = setup.sel({by: name})
            if name != setup["leader"].item() and np.isfinite(one["over_leader"]):
                expected.append((row, pytest.approx(float(one["over_leader"])), not one["p_over_leader"] <= 0.05))
                intervals += bool(np.isfinite(one["over_leader_ci"]).all())
    found = [
        (round(line.get_ydata()[0]), float(line.get_xdata()[0]), line.get_markerfacecolor() == "white")
        for line in lines_of(made.figure, "effect")
    ]
    assert found == expected
    assert len(lines_of(made.figure, "interval")) == intervals > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_texts_count_runs_and_setups_and_have_the_conclusions(shape):
    by, table, made = made_of(shape)
    rows = list(setups(table))
    few = sum(not setup["leader"].item() for _, setup in rows[:MAX_SETUPS])
    expected = [f"{few} of {len(rows)} setups have too few values to compare"] if few else []
    expected += [f"{len(rows) - MAX_SETUPS} more setups are not shown"] if len(rows) > MAX_SETUPS else []
    first = "95 % confidence intervals; open marker: not significantly different from the leader"
    assert footnote_of(made.figure) == "; ".join([first, *expected])
    for name, setup in rows[:MAX_CONCLUSIONS]:
        text = setup["conclusion"].item()
        assert (f"{name}: {text}" if name else text) in made.alt
    assert made.alt.startswith(f"Comparison by {by}. ")
    assert f" by {by} = " in made.caption
    assert all(f"{dim} = " in made.caption for dim in table["leader"].dims)
    assert " runs" in made.caption
    assert "best" not in made.alt + made.caption


def test_the_declared_direction_decides_who_leads():
    data = study(["a", "b"])
    data["error"].attrs["better"] = "higher"
    made = draw(data, "comparison")
    assert "highest" in made.figure.axes[0].get_xlabel()
    assert made.alt.startswith("Comparison by dictionary. b has a higher error than a")


def test_a_comparison_fits_if_two_values_of_a_setup_have_enough_runs():
    few = small_result()
    assert "comparison" in {choice.kind for choice in choose_plots(few)}  # its geometric mean is declared
    few["error"].attrs = {}
    assert "comparison" not in {choice.kind for choice in choose_plots(few, request_of())}
    data = study("abc")
    for number, fits in ((None, True), (2, True), (1, False)):
        if number is not None:
            data["error"][number] = np.nan
        assert has_comparison(data, "error", PlotRequest()) is fits
