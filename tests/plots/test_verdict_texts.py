"""The texts of a verdict's figure: they fit, and say what the table of `evs.verdict` says, whatever the study."""

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from drawable import check_layout, footnote, small

import evogt_study as evs
from evogt_study.errors import InputError
from evogt_study.inference.comparisons import pairs_of, winner
from evogt_study.plots import catalogue as kinds
from evogt_study.plots import verdict
from evogt_study.plots.comparison import MOST_CELLS

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
    return by, evs.verdict(data["error"], by, planned=data["run_key"], missing="drop"), kinds.drawn(data, "verdict")


def cells(table):
    """The cells of a table by their names."""
    rest = table["n_common"].dims
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
    assert rows == [name or "all of error" for name, _ in cells(table)][:MOST_CELLS]
    (legend,) = made.figure.legends
    names = [read(text.get_text()) for text in legend.get_texts()]
    assert legend.get_title().get_text() == by
    for name, whole in zip(names, table[by].values.tolist(), strict=True):
        beginning, _, end = name.partition("...")
        assert (whole.startswith(beginning), whole.endswith(end)) == (True, True)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("shape", SHAPES)
def test_markers_are_where_the_table_has_the_effects_and_open_if_they_are_not_significant(shape):
    by, table, made = drawn(shape)
    neutral = 1.0 if table.attrs["effect"] == "ratio" else 0.0
    expected = []
    for row, (_, cell) in enumerate(itertools.islice(cells(table), MOST_CELLS)):
        best = winner(cell["value"].sel(statistic="mean").values, "lower")
        for pair, effect, (low, high) in zip(
            pairs_of(table.sizes[by]), cell["effect"].values, cell["effect_ci"].values, strict=True
        ):
            if best in pair and np.isfinite(effect):
                other = effect if pair[1] == best else 1.0 / effect if neutral else -effect
                expected.append((row, pytest.approx(float(other)), low <= neutral <= high))
    found = [
        (round(line.get_ydata()[0]), float(line.get_xdata()[0]), line.get_markerfacecolor() == "white")
        for line in lines(made.figure, "effect")
    ]
    assert found == expected
    assert len(lines(made.figure, "interval")) == len(expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_footnote_counts_what_is_not_drawn(shape):
    _, table, made = drawn(shape)
    rows = [cell for _, cell in cells(table)]
    drawn_rows = rows[:MOST_CELLS]
    few = sum(bool(cell["effect"].isnull().all()) for cell in drawn_rows)
    expected = [f"{few} of {len(drawn_rows)} cells have too few values to compare"] if few else []
    expected += [f"{len(rows) - MOST_CELLS} more cells are not shown"] if len(rows) > MOST_CELLS else []
    first = "95 % intervals for all pairs of a cell together; open marker: not significantly different from the best"
    assert footnote(made.figure) == "; ".join([first, *expected])
    assert few == {"too few common seeds": 1}.get(shape, 0)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_alternative_text_has_the_least_and_the_largest_mean_of_the_table(shape):
    by, table, made = drawn(shape)
    means = {
        (name, label): float(cell["value"].sel({"statistic": "mean", by: label}))
        for name, cell in cells(table)
        for label in table[by].values.tolist()
    }
    known = {key: mean for key, mean in means.items() if np.isfinite(mean)}
    ends = [
        f"{known[key]:.3g} ({', '.join(filter(None, key))})"
        for key in (min(known, key=known.get), max(known, key=known.get))
    ]
    counts = f"{int(table['n_ok'].sum())} of {int(table['n_planned'].sum())} runs"
    assert made.alt.startswith(f"Ratios of means to the best by {by}. ")
    assert f": from {ends[0]} to {ends[1]}. {counts}" in made.alt
    assert counts in made.caption
    for dim in table["n_common"].dims:
        assert f"{dim} = " in made.caption
    assert "the first of" not in made.caption
    assert "a panel" not in made.caption


def test_a_study_of_few_seeds_has_no_verdict():
    assert "verdict" not in {choice.kind for choice in kinds.fitting(small())}
    assert "verdict" in {choice.kind for choice in kinds.fitting(SHAPES["two names"]())}
    with pytest.raises(InputError, match="`--by` must be an axis of several labels, and --over have 6 points"):
        verdict(small())
