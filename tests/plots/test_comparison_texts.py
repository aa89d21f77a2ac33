"""The texts of a comparison's figure: they fit, and show what `evs.compare` reports, whatever the study."""

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from drawable import check_layout, footnote, small

import evogt_study as evs
from evogt_study.errors import InputError
from evogt_study.plots import catalogue as kinds
from evogt_study.plots import comparison
from evogt_study.plots.comparison import MAX_SETUPS

RESULT = Path(__file__).parents[2] / "data" / "results" / "oscillatory_1d.nc"


def study(names, axes=None, *, by="dictionary", title="final relative L2 error", shift=0.0, lost=None):
    """Eight seeds for each name and each cell of `axes`; lost: the values of the first name that are missing."""
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
    "three names": lambda: study(["transnet", "gtransnet", "gaussian_rf"], {"epsilon": [0.1, 0.2, 0.05]}),
    "nine names": lambda: study("abcdefghi", {"N": [10, 20]}),
    "fourteen names": lambda: study("abcdefghijklmn"),
    "more cells than rows": lambda: study("ab", {"N": list(range(10, 310, 10))}),
    "three axes": lambda: study("ab", {"epsilon": [0.1, 0.2], "dimension": [1, 2], "time_integrator": INTEGRATORS}),
    "four axes": lambda: study("ab", {name: [10, 20] for name in ("epsilon", "tau", "gamma", "N")}),
    "long names": lambda: study([f"a dictionary with a very long name, number {i} of them" for i in range(4)]),
    "long values": lambda: study("ab", {"potential": [f"{i}*u**4/4 - u**2/2 + {i}*u - 1/4*epsilon" for i in range(3)]}),
    "a long axis": lambda: study("ab", {"N": [1, 2]}, by="the_random_features_that_the_study_compares"),
    "a long title": lambda: study("abc", {"N": [1, 2]}, title="relative error of the gradient in a norm " * 3),
    "dollars": lambda: study(["$a$", "b_$"], {"N": ["$\\frac", "y"]}),
    "differences": lambda: study("abc", {"N": [1, 2]}, shift=2.0),
    "too few common seeds": lambda: study("abc", {"N": [1, 2, 3]}, lost=(1, slice(4))),
    "a name without values": lambda: study("abc", {"N": [1, 2, 3]}, lost=(1,)),
    "a published result": lambda: evs.open(RESULT).load(),
}


@cache
def drawn(shape):
    """The data, the table, and the figure with its texts."""
    data = SHAPES[shape]()
    by = str(data["error"].dims[0])
    return by, evs.compare(data["error"], by, planned=data["run_key"]), kinds.drawn(data, "comparison")


def cells(table):
    """The cells of a table by their names."""
    rest = table["leader"].dims
    for values in itertools.product(*(table[name].values.tolist() for name in rest)):
        place = dict(zip(rest, values, strict=True))
        yield ", ".join(f"{name} = {value}" for name, value in place.items()), table.sel(place)


def lines(figure, gid):
    return [line for line in figure.axes[0].get_lines() if line.get_gid() == gid]


def read(text):
    return text.replace("\n", ", ").replace(r"\$", "$")


@pytest.mark.parametrize("shape", SHAPES)
def test_the_texts_fit(shape):
    figure = drawn(shape)[-1].figure
    check_layout(figure)
    (axes,) = figure.axes
    assert axes.get_position().width > 0.4  # of the figure, which the labels leave


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_and_legend_have_the_names_of_the_table(shape):
    by, table, made = drawn(shape)
    (axes,) = made.figure.axes
    rows = [read(label.get_text()) for label in axes.get_yticklabels()]
    assert rows == [name or "all of error" for name, _ in cells(table)][:MAX_SETUPS]
    (legend,) = made.figure.legends
    names = [read(text.get_text()) for text in legend.get_texts()]
    assert legend.get_title().get_text() == by
    for name, whole in zip(names, table[by].values.tolist(), strict=True):
        beginning, _, end = name.partition("...")
        assert (whole.startswith(beginning), whole.endswith(end)) == (True, True)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("shape", SHAPES)
def test_markers_are_at_the_effects_and_open_if_they_are_not_significant(shape):
    by, table, made = drawn(shape)
    expected, intervals = [], 0
    for row, (_, cell) in enumerate(itertools.islice(cells(table), MAX_SETUPS)):
        for name in table[by].values.tolist():
            one = cell.sel({by: name})
            if name != cell["leader"].item() and np.isfinite(one["over_leader"]):
                expected.append((row, pytest.approx(float(one["over_leader"])), not one["p_over_leader"] <= 0.05))
                intervals += bool(np.isfinite(one["over_leader_ci"]).all())
    found = [
        (round(line.get_ydata()[0]), float(line.get_xdata()[0]), line.get_markerfacecolor() == "white")
        for line in lines(made.figure, "effect")
    ]
    assert found == expected
    assert len(lines(made.figure, "interval")) == intervals > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_the_footnote_counts_what_is_not_drawn(shape):
    _, table, made = drawn(shape)
    rows = [cell for _, cell in cells(table)]
    few = sum(not cell["leader"].item() for cell in rows[:MAX_SETUPS])
    expected = [f"{few} of {len(rows)} setups have too few values to compare"] if few else []
    expected += [f"{len(rows) - MAX_SETUPS} more setups are not shown"] if len(rows) > MAX_SETUPS else []
    first = "95 % confidence intervals; open marker: not significantly different from the leader"
    assert footnote(made.figure) == "; ".join([first, *expected])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_alternative_text_has_the_conclusions(shape):
    by, table, made = drawn(shape)
    for name, cell in itertools.islice(cells(table), kinds.SPOKEN):
        text = cell["conclusion"].item()
        assert (f"{name}: {text}" if name else text) in made.alt
    assert made.alt.startswith(f"Comparison by {by}. ")
    assert " of 1" in made.caption or " runs" in made.caption
    for dim in table["leader"].dims:
        assert f"{dim} = " in made.caption
    assert "the first of" not in made.caption
    assert "a panel" not in made.caption
    assert "best" not in made.alt + made.caption


def test_the_direction_that_is_declared_is_drawn():
    data = study(["a", "b"])
    data["error"].attrs["better"] = "higher"
    made = kinds.drawn(data, "comparison")
    assert (
        made.figure.axes[0].get_xlabel().endswith("median ratio to the\nhighest")
        or "highest" in made.figure.axes[0].get_xlabel()
    )
    assert " has a higher error than " in made.alt or " is higher than " in made.alt


def test_a_study_of_few_seeds_has_no_comparison():
    few = small().copy()
    few["error"].attrs = {}
    assert "comparison" not in {choice.kind for choice in kinds.fitting(few)}
    assert "comparison" in {choice.kind for choice in kinds.fitting(SHAPES["two names"]())}
    with pytest.raises(InputError, match="`--by` must be an axis of several values, and --over have 6 points"):
        comparison(few)
    assert "comparison" in {choice.kind for choice in kinds.fitting(small())}  # its geometric mean is declared
