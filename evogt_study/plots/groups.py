"""Group the runs of a variable for a figure: positions along the horizontal axis, series, panels and samples.

Runs without a value stay as NaN and are counted, so that each figure can give the number of its runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from evogt_study.analysis.design import along_sample, drawn_dimensions, find_points, sample_dimensions
from evogt_study.analysis.runs import DRAWN, KEYS, Numbers, count_runs, mark_first, numeric_variables, run_numbers
from evogt_study.errors import InputError, shortened
from evogt_study.inference.intervals import Interval, interval
from evogt_study.inference.kernels import Array
from evogt_study.plots.style import TEXT_WIDTH, plain, scale_axis, typeset
from evogt_study.schema.values import canonical, find, text_label
from evogt_study.schema.variables import CANDIDATE, GEOMETRIC_MEAN, LABEL, Status, declared_attributes, status_codes
from evogt_study.study.case_space import listed

MAX_PANELS, MAX_SERIES = 6, 12  # panels: two rows of three, which a page holds
MOST_LISTED = 6  # values that a caption lists; it counts the others
MANY = 1000  # runs from which on a group gives the number of missing runs, not k/n
LONGEST_TITLE, LONGEST_LABEL = 160, 60
"""Largest number of characters of a title and of a short label."""


@dataclass(frozen=True)
class Places:
    """Axes of the study by their place in a figure.  The data decide the places that are None.

    along: horizontal, an axis or a parameter that follows one; by: series, distinguished by colour and marker; panel:
    one panel for each value; over: axes whose points are a sample (None: seed, if it is an axis); at: one value for
    each axis that is fixed.
    """

    along: str | None = None
    by: str | None = None
    panel: str | None = None
    over: tuple[str, ...] | None = None
    at: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """One of the directions of a picture: the axis's name ("" for none), its title, its values, and its short label."""

    name: str
    title: str
    labels: tuple[str, ...]
    short: str = ""

    @property
    def symbol(self) -> str:
        """The title if that is as short as a symbol, else the name."""
        return self.title if len(self.title) <= 3 else self.name

    def describe(self, number: int) -> str:
        """Return value `number` as text with its name, "N = 40", or only the value if it is a string."""
        label = self.labels[number]
        return f"{self.symbol} = {label}" if self.name and _is_number(label) else label

    def listed(self) -> str:
        """All its values: "dictionary = transnet, gtransnet"."""
        return f"{self.symbol} = {listed(self.labels, MOST_LISTED)}"


NOWHERE = Place("", "", ("",))


@dataclass(frozen=True, eq=False)
class Arranged:
    """The runs of one variable.

    title and label: of the variable, with its units, in full and short.  values (P, S, X, n, ...): panels, series,
    points along the figure, sample, then the variable's own dimensions; NaN for a run without a value and for a run
    that the sample repeats.  status and runs (P, S, X, n): status and number of each run, -1 if none is planned or if
    the sample repeats it.  over: the axes of the sample that have several values, with their `lengths`.  x (P, S, X):
    numbers along, or None if `along` has strings.  notes: omitted values and fixed parameters.
    """

    title: str
    label: str
    values: Array
    status: npt.NDArray[np.int8]
    runs: Numbers
    panels: Place
    series: Place
    along: Place
    over: tuple[str, ...]
    lengths: tuple[int, ...]
    x: Array | None
    notes: tuple[str, ...]
    is_error: bool = False

    @property
    def planned(self) -> npt.NDArray[np.bool_]:
        """Mask of planned runs, (P, S, X, n), once in each sample."""
        return self.runs >= 0

    def describe(self, panel: int, one: int, place: int) -> str:
        """Place of a group in words: "N = 40, gtransnet, epsilon = 0.1"."""
        words = [self.series.describe(one), self.panels.describe(panel)]
        if self.along.name:
            own = (
                self.along.describe(place) if self.x is None else f"{self.along.symbol} = {self.x[panel, one, place]:g}"
            )
            words.insert(0, own)
        return ", ".join(filter(None, words))

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Mask of runs with at least one finite value, (P, S, X, n)."""
        return np.asarray(np.isfinite(self.values).reshape(*self.planned.shape, -1).any(axis=-1))

    @property
    def largest(self) -> int:
        """Runs with a value in the largest group, which decides how all are drawn: one picture has one reading."""
        return int(self.present.sum(axis=-1).max(initial=0))

    def sample(self, *position: int) -> Array:
        """The finite values of one group, in increasing order."""
        values = self.values[position].ravel()
        return np.sort(values[np.isfinite(values)])

    @property
    def medians(self) -> Array:
        """Median of the values of each group, (P, S, X), infinite ones too; NaN where there are none."""
        found = np.full(self.planned.shape[:3], np.nan)
        for position in np.ndindex(*found.shape):
            values = self.values[position].ravel()
            values = values[~np.isnan(values)]
            if len(values):
                found[position] = np.median(values)
        return found

    def median_intervals(self) -> Array:
        """95 % interval of the median of each group, (P, S, X, 2), with seeds as units where they are in the sample.

        NaN below six units; infinite where the sample does not bound it.
        """
        values = self.values.reshape(*self.values.shape[:3], *self.lengths)
        unit = self.over.index(DRAWN) if DRAWN in self.over else None
        if unit is None:
            return interval(self.values[..., None], Interval("median"))
        first = np.moveaxis(values, 3 + unit, 3)
        return interval(first.reshape(*first.shape[:4], -1), Interval("median"))

    def ok_of(self, *position: int) -> tuple[int, int]:
        """On how many of how many planned runs a group rests."""
        return int(self.present[position].sum()), int(self.planned[position].sum())

    def lacking(self, *position: int) -> str:
        """k/n for a group that lacks runs, "-k" for how many it lacks of a thousand and more; else empty."""
        ok, planned = self.ok_of(*position)
        if ok == planned:
            return ""
        return f"{ok}/{planned}" if planned < MANY else f"−{planned - ok:,}"

    def incomplete(self, most: int = 12) -> str:
        """The groups that lack runs: "3/4 at N = 40, fast"; of more than `most` the others are counted."""
        groups = list(np.ndindex(*self.planned.shape[:3]))
        lacking = [(ok, planned, self.describe(*each)) for each in groups for ok, planned in [self.ok_of(*each)]]
        texts = [f"{ok}/{n}" + (f" at {where}" if where else "") for ok, n, where in lacking if ok < n]
        return ", ".join(texts[:most]) + (f" and {len(texts) - most} more groups" if len(texts) > most else "")

    def lacking_told(self) -> str:
        """Explanation of what `lacking` writes where groups are large, for the small print."""
        groups = self.planned.sum(axis=-1)
        lost = groups - (self.planned & self.present).sum(axis=-1)
        return "−k: k runs are missing" if ((groups >= MANY) & (lost > 0)).any() else ""

    def counted(self) -> str:
        """Return the count of the runs in the figure, and the status of the others: "38 of 40 runs (2 failed)"."""
        present, planned = self.present, self.planned
        lost = planned & ~present
        reasons = [
            f"{number} {state.name.replace('_', ' ') if state != Status.ok else 'without a value'}"
            for state in Status
            if (number := count_runs(self.runs[lost & (self.status == state)]))
        ]
        more = f" ({', '.join(reasons)})" if reasons else ""
        return f"{count_runs(self.runs[present]):,} of {count_runs(self.runs):,} runs{more}"

    def placed(self) -> str:
        """Arrangement in words: "error against N = 20, 40, for dictionary = a, b, over 10 values of seed, at k = 6"."""
        parts = [f"over {size:,} values of {name}" for name, size in zip(self.over, self.lengths, strict=True)]
        if self.panels.name:
            parts.insert(0, f"a panel for each {self.panels.listed()}")
        if self.series.name:
            parts.insert(0, f"for {self.series.listed()}")
        if self.along.name:
            numbers = [] if self.x is None else [f"{each:g}" for each in np.unique(self.x[np.isfinite(self.x)])]
            along = replace(self.along, labels=tuple(numbers)) if numbers else self.along
            many = len(numbers) > MOST_LISTED
            text = f"{along.symbol} = {numbers[0]} to {numbers[-1]}" if many else along.listed()
            parts.insert(0, f"against {text}")
        return f"{self.title} {', '.join([*parts, *self.notes])}".strip()

    def footnote(self, *more: str) -> str:
        """The small print of a picture."""
        return "; ".join([self.counted(), *filter(None, more), *self.notes])


def arranged(
    data: xr.Dataset, variable: str, places: Places, *, wanted: Sequence[str] = ("along", "by", "panel"),
    numeric: bool = False, pooled: bool = False, most: int | None = None, most_series: int | None = MAX_SERIES,
    own: bool = False,
) -> Arranged:  # fmt: skip
    """Arrange a variable's runs.

    wanted: the places that the picture has; numeric: `along` must have numbers; pooled: axes without a place join the
    sample instead of being held at their first value; most, most_series: values along, and series; own: the variable
    has dimensions of its own.  Raises InputError for an axis that is none.
    """
    data = _with_each_run(data, numbers_in(data, variable))
    if not own and len(axes_of(data, variable)) < data[variable].ndim:
        dims = ", ".join(str(dim) for dim in data[variable].dims if dim not in axes_of(data, variable))
        raise InputError(f"`--variable` must be one number of each run here, {variable} has more, over {dims}")
    here = at(data, places.at, axes_of(data, variable))
    axes = axes_of(here, variable)
    roles, over, source = _roles(here, axes, places, wanted, numeric)
    left = [name for name in axes if name not in (*roles.values(), *over)]
    notes = [f"at {name} = {value}" for name, value in places.at.items()]
    if pooled:
        over = (*over, *left)
    else:
        notes += [
            f"at {name} = {text_label(canonical(here[name].values[0]))}, the first of {here.sizes[name]}"
            for name in left
            if here.sizes[name] > 1
        ]
        here = here.isel(dict.fromkeys(left, 0))
    limits = {"panel": MAX_PANELS, "by": most_series, "along": most}
    for place, name in roles.items():
        here, thinning = _thinned(here, name, limits[place])
        notes += thinning
    order = [roles.get(place, f"no {place}") for place in ("panel", "by", "along")]
    found = {place: _place(here, roles.get(place)) for place in ("panel", "by", "along")}
    if source is not None:
        found["along"] = Place(source, title_of(here[source]), found["along"].labels, short_label(here[source]))
    status, runs = _fate(here, variable, order, over)
    values = _ordered(here[variable], order, over).astype(float)
    # a repeated run of a sample would be drawn and counted twice
    values[runs < 0] = np.nan
    return Arranged(
        title=title_of(here[variable]),
        label=label_of(here[variable]),
        values=values,
        status=status,
        runs=runs,
        panels=found["panel"],
        series=found["by"],
        along=found["along"],
        over=tuple(name for name in over if here.sizes[name] > 1),
        lengths=tuple(here.sizes[name] for name in over if here.sizes[name] > 1),
        x=_numbers(here, roles.get("along"), source, order),
        notes=tuple(notes),
        is_error=is_error(here[variable]),
    )


def _with_each_run(data: xr.Dataset, array: xr.DataArray) -> xr.Dataset:
    """The data with a coordinate over some of the study's axes as a variable over all of them."""
    name = str(array.name)
    if name in data.data_vars:
        return data
    bare = data.reset_coords(name)
    return bare.assign({name: bare[name].broadcast_like(bare["run_status"])})


def _roles(
    data: xr.Dataset, axes: Sequence[str], places: Places, wanted: Sequence[str], numeric: bool
) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Return the axis of each place, the axes of the sample, and the parameter of `along` if it is not an axis."""
    given = {place: name for place in wanted if (name := getattr(places, place)) is not None}
    source = None
    if "along" in given:
        given["along"], source = _axis_behind(data, axes, given, numeric)
    over = places.over if places.over is not None else tuple(name for name in default_over(data) if name in axes)
    over = tuple(name for name in over if places.over is not None or name not in given.values())
    for option, name in [*given.items(), *(("over", name) for name in over)]:
        if name not in axes:
            raise InputError(f"`--{option}` must be one of the axes {', '.join(axes) or 'none'}, got {shortened(name)}")
    named = [*given.values(), *over]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"`--{next(iter(given))}` and the other options must name different axes, got {twice} twice")
    free = [name for name in axes if name not in named and data.sizes[name] > 1]
    roles = {**given, **_chosen(data, free, [place for place in wanted if place not in given], numeric)}
    if numeric and roles.get("along") == CANDIDATE and source is None:
        followers = [str(name) for name, coord in data.coords.items() if CANDIDATE in coord.dims and name != CANDIDATE]
        source = next((name for name in followers if is_numeric(data, name)), None)
    if numeric and "along" in wanted and not (source or ("along" in roles and is_numeric(data, roles["along"]))):
        known = ", ".join(_numeric(data, axes)) or "there is none"
        raise InputError(f"`--along` must be an axis with numbers ({known}), got {given.get('along', 'none')}")
    return roles, over, source


def _axis_behind(
    data: xr.Dataset, axes: Sequence[str], given: Mapping[str, str], numeric: bool
) -> tuple[str, str | None]:
    """The axis that `along` means: itself, or the one that a parameter by this name follows."""
    name = given["along"]
    if name in axes:
        return name, None
    followers = _followers(data, axes, given)
    if name not in followers:
        known = [*(_numeric(data, axes) if numeric else axes), *followers]
        raise InputError(f"`--along` must be one of {', '.join(known) or 'none'}, got {shortened(name)}")
    return followers[name], name


def _followers(data: xr.Dataset, axes: Sequence[str], given: Mapping[str, str | None]) -> dict[str, str]:
    """Return numeric parameters by the axis that they follow, besides the axes of series, panels and dictionaries."""
    others = {given.get("by"), given.get("panel"), "dictionary"}
    return {
        str(other): dims[0]
        for other, coord in data.coords.items()
        if other not in axes and coord.dtype.kind in "iuf" and set(coord.dims) <= set(axes)
        and len(dims := [str(dim) for dim in coord.dims if len(coord.dims) == 1 or dim not in others]) == 1
    }  # fmt: skip


def _numeric(data: xr.Dataset, axes: Sequence[str]) -> list[str]:
    return [name for name in axes if is_numeric(data, name) and data.sizes[name] > 1]


def _chosen(data: xr.Dataset, free: Sequence[str], wanted: Sequence[str], numeric: bool) -> dict[str, str]:
    """An axis for each place that is wanted: numbers along, words as series, few values as panels."""
    rest, roles = list(free), {}
    if "along" in wanted:
        # the longest: of few points there is no curve to see
        candidates = sorted((name for name in rest if is_numeric(data, name)), key=lambda name: -data.sizes[name])
        if not candidates and not numeric:
            candidates = [name for name in rest if name != "dictionary"] or rest
        if candidates:
            roles["along"] = candidates[0]
            rest.remove(candidates[0])
    for place in ("by", "panel"):
        if place in wanted and rest:
            words = [name for name in rest if not is_numeric(data, name)]
            first = "dictionary" if "dictionary" in rest else min(words or rest, key=lambda name: data.sizes[name])
            roles[place] = first
            rest.remove(first)
    return roles


def _thinned(data: xr.Dataset, name: str, most: int | None) -> tuple[xr.Dataset, list[str]]:
    """The data at no more than `most` values of an axis, evenly chosen, and a note of it."""
    size = data.sizes[name]
    if most is None or size <= most:
        return data, []
    chosen = np.unique(np.linspace(0, size - 1, most).round().astype(int))
    return data.isel({name: chosen}), [f"{len(chosen)} of {size:,} values of {name}"]


def _place(data: xr.Dataset, name: str | None) -> Place:
    if name is None:
        return NOWHERE
    labels = tuple(text_label(canonical(value)) for value in data[name].values)
    return Place(name, title_of(data[name]), labels, short_label(data[name]))


def _ordered(array: xr.DataArray, order: Sequence[str], over: Sequence[str]) -> npt.NDArray[Any]:
    """Values (P, S, X, n, ...) of an array that may lack some of the dimensions of `order`."""
    own = [str(dim) for dim in array.dims if dim not in (*order, *over)]
    values = array.variable.transpose(*(name for name in order if name in array.dims), *over, *own).values
    groups = [array.sizes.get(name, 1) for name in order]
    sample = math.prod(array.sizes[name] for name in over)
    return np.reshape(values, (*groups, sample, *(array.sizes[name] for name in own)))


def _fate(
    data: xr.Dataset, variable: str, order: Sequence[str], over: Sequence[str]
) -> tuple[npt.NDArray[np.int8], Numbers]:
    """Status and number of each run, (P, S, X, n), -1 for its repeats; without bookkeeping all are planned, and ok."""
    if {"run_status", KEYS} <= set(data.variables):
        keys = data[KEYS]
        numbers = _ordered(xr.DataArray(run_numbers(keys), dims=keys.dims), order, over)
        status = _ordered(data["run_status"].copy(data=status_codes(data["run_status"])), order, over)
        return status, np.where(mark_first(numbers), numbers, -1)
    shape = _ordered(data[variable], order, over).shape[:4]
    return np.full(shape, Status.ok, dtype=np.int8), np.arange(math.prod(shape)).reshape(shape)


def _numbers(data: xr.Dataset, along: str | None, source: str | None, order: Sequence[str]) -> Array | None:
    """Return the numbers along, (P, S, X), or None for strings."""
    name = source or along
    if name is None or not is_numeric(data, name):
        return None
    sizes = [data.sizes.get(dim, 1) for dim in order]
    numbers = data[name].variable
    inside = [str(dim) for dim in numbers.dims if dim not in order and numbers.sizes[dim] > 1]
    if inside:
        raise InputError(
            f"`--along` must be the same within a sample, {name} follows {', '.join(inside)}; leave it out"
        )
    kept = numbers.isel({dim: 0 for dim in numbers.dims if dim not in order})
    there = [dim for dim in order if dim in kept.dims]
    bare = kept.transpose(*there).values.astype(float).reshape([kept.sizes.get(dim, 1) for dim in order])
    return np.array(np.broadcast_to(bare, sizes))


@dataclass(frozen=True, eq=False)
class SampledRuns:
    """Values (n, k) of one variable at n points (n, D) of D parameters, NaN where a run has none.

    words: the strings of each parameter by their numbers, empty for numbers.  notes: the count of runs, then omitted
    values and fixed parameters.
    """

    title: str
    label: str
    names: tuple[str, ...]
    titles: tuple[str, ...]
    points: Array
    words: tuple[tuple[str, ...], ...]
    values: Array
    notes: tuple[str, ...]
    is_error: bool = False

    def scale(self, axes: Axes, place: int, *, narrow: bool) -> None:
        """Scale the horizontal axis for a parameter: logarithmic where it suits, words at the places of words."""
        if self.words[place]:
            labels = [plain(word) for word in self.words[place]]
            axes.set_xticks(range(len(labels)), labels=labels)
            axes.set_xlim(-0.6, len(labels) - 0.4)
        else:
            scale_axis(axes, "x", self.points[:, place])
            if narrow and axes.get_xscale() == "log" and np.ptp(np.log10(self.points[:, place])) > 3:
                room = 4 if axes.figure.figure.get_figwidth() >= TEXT_WIDTH else 3  # numbers that do not meet
                axes.xaxis.set_major_locator(LogLocator(numticks=room))

    # strings: multiples of the golden ratio fill the width evenly
    def spread(self, place: int) -> Array:
        """Values of a parameter for each run, (n k,), words a little apart so that runs do not hide each other."""
        each = np.repeat(self.points[:, place], self.values.shape[1])
        if not self.words[place]:
            return each
        return np.asarray(each + 0.5 * (np.arange(len(each)) * 0.6180339887498949 % 1.0 - 0.5))

    def footnote(self, *more: str) -> str:
        """The small print."""
        return "; ".join([self.notes[0], *filter(None, more), *self.notes[1:]])


def sampled_runs(data: xr.Dataset, variable: str, places: Places) -> SampledRuns:
    """Return the runs of a sample, at the first value of other axes or at `at`.  Raises InputError without a sample."""
    here = at(data, places.at, axes_of(data, variable)) if variable in data else data
    over = (
        list(places.over)
        if places.over is not None
        else sample_dimensions(here[variable])[:1]
        if variable in here
        else []
    )
    if not over:
        raise InputError(f"`--over` must name the dimension of a sample, there is none of `{variable}`")
    over = [dim for dim in over if dim != DRAWN]
    wanted = Places(over=(*over, *([DRAWN] if DRAWN in here[variable].dims else [])), at=places.at)
    runs = arranged(data, variable, wanted, wanted=())
    sample = find_points(here[variable], over)
    count = len(sample.points)
    values = runs.values[0, 0, 0].reshape(count, -1)
    titles = tuple(title_of(here[name]) if name in here.coords else name for name in sample.names)
    return SampledRuns(
        runs.title, runs.label, sample.names, titles, sample.points, sample.strings, values,
        (runs.counted(), *runs.notes), runs.is_error,
    )  # fmt: skip


def axes_of(data: xr.Dataset, variable: str) -> tuple[str, ...]:
    """The study's axes that a variable is over."""
    own = data[variable].dims
    return tuple(str(dim) for dim in (data["run_status"].dims if "run_status" in data else own) if dim in own)


def is_numeric(data: xr.Dataset, name: str) -> bool:
    """Test for a coordinate of numbers."""
    return bool(data[name].dtype.kind in "iufb")


def is_measured(data: xr.Dataset, places: Places) -> bool:
    """Test for an `along` that is one number of each run, and follows no single axis."""
    name, axes = places.along, [] if "run_status" not in data else list(map(str, data["run_status"].dims))
    if name is None or name in axes or name in _followers(data, axes, {"by": places.by, "panel": places.panel}):
        return False
    return _of_each_run(data, name)


def at(data: xr.Dataset, point: Mapping[str, object], axes: Sequence[str]) -> xr.Dataset:
    """The runs at one value of some axes, which are then no dimensions.  Raises InputError, saying what there is."""
    position = {}
    for name, value in point.items():
        if name not in axes:
            raise InputError(f"`--at` must name axes ({', '.join(axes)}), got {shortened(name)}")
        values = [canonical(each) for each in data[name].values]
        number = find(values, str(value))
        if number is None:
            raise InputError(
                f"`{name}` must be one of {listed([text_label(each) for each in values])}, got {shortened(value)}"
            )
        position[name] = number
    return data.isel(position)


def default_over(data: xr.Dataset) -> tuple[str, ...]:
    """Return the axes that are a sample by default: the seed, and random samples."""
    return (DRAWN, *drawn_dimensions(data))


def check_places(data: xr.Dataset, places: Places) -> None:
    """Raises InputError for names that are no axes of the study, and for values that these do not have."""
    axes = tuple(map(str, data["run_status"].dims))
    inside = {str(dim) for dim in data.dims} - set(axes)  # of fields: time and directions
    at(data, {name: value for name, value in places.at.items() if name not in inside}, axes)
    if places.along is not None and not (is_measured(data, places) or along_sample(data, places.along)):
        _axis_behind(data, axes, {"along": places.along}, numeric=False)
    for option, name in (("by", places.by), ("panel", places.panel), *(("over", name) for name in places.over or ())):
        if name is not None and name not in axes:
            raise InputError(f"`--{option}` must be one of the axes {', '.join(axes)}, got {shortened(name)}")


def numbers_in(data: xr.Dataset, variable: str) -> xr.DataArray:
    """A variable that can be drawn.  Raises InputError, naming those that can."""
    drawable = numeric_variables(data)
    if variable not in drawable and not _of_each_run(data, variable):
        raise InputError(f"`--variable` must be one of {', '.join(drawable) or 'none'}, got {shortened(variable)}")
    return data[variable]


def _of_each_run(data: xr.Dataset, name: str) -> bool:
    """Test for a variable or a coordinate of numbers, one for each run, that is no axis of the study."""
    if name not in data.variables or name in data.dims or "run_status" not in data:
        return False
    if data[name].dtype.kind not in "iufb":
        return False
    return data[name].ndim > 0 and set(data[name].dims) <= set(data["run_status"].dims)


def is_error(array: xr.DataArray) -> bool:
    """Test whether a variable is declared an error: ratios matter, so comparisons estimate its geometric mean."""
    return declared_attributes(array)[1] == GEOMETRIC_MEAN


def title_of(array: xr.DataArray) -> str:
    """Long name and units of an array, as its axis is labelled."""
    return _with_units(str(array.attrs.get("long_name", array.name)), array)


def label_of(array: xr.DataArray) -> str:
    """Text that an axis of the array is labelled with: its short label, else its title as it is."""
    return short_label(array) or plain(title_of(array), LONGEST_TITLE)


def short_label(array: xr.DataArray) -> str:
    """Short label that its method declares, with units; "" if there is none that can be typeset."""
    label = array.attrs.get(LABEL)
    if not isinstance(label, str) or not 0 < len(label) <= LONGEST_LABEL:
        return ""
    try:
        return _with_units(typeset(LABEL, label), array)
    except InputError:
        return ""


def _with_units(text: str, array: xr.DataArray) -> str:
    units = str(array.attrs.get("units", ""))
    return text if units in ("", "1") or array.dtype.kind in "OUSb" else f"{text} ({plain(units)})"


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return label in ("true", "false")
    return True
