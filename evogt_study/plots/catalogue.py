"""List plot kinds, choose the kinds that fit a result, and draw them with title and caption."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr

from evogt_study.analysis.runs import KEYS, find_drawn_dimensions, list_numeric_variables, mark_first, number_runs
from evogt_study.analysis.tables import find_variables, has_no_error, list_user_variables
from evogt_study.errors import InputError, name_error
from evogt_study.plots import array_plots, axis_plots, groups, style
from evogt_study.plots.canvas import PlottedFigure, join_sentences
from evogt_study.plots.groups import PlotRequest
from evogt_study.schema.variables import CANDIDATE, HEADLINE, LABEL, PILOT, RUN_METADATA, Status, to_status

_MARKUP = re.compile(r"[$\\{}]|\^(?=\w)")


class Choice(NamedTuple):
    """Kind and variable of a plot that fits a result."""

    kind: str
    variable: str


class PlotKind(NamedTuple):
    """Kind of plot, with the function that draws it and the test for suitable variables."""

    draw: Callable[[xr.Dataset, str, PlotRequest], PlottedFigure]
    fits: Callable[[xr.Dataset, str, PlotRequest], bool]
    of_arrays: bool = False


def choose_plots(data: xr.Dataset, request: PlotRequest | None = None) -> list[Choice]:
    """Return the plots that fit a result, or the variable of a request, in the order of `KINDS`."""
    request = request or PlotRequest()
    if request.variable is not None:
        groups.get_numeric_array(data, request.variable)
    groups.check_roles(data, request)
    about, arrays = request.variable or find_main_variable(data), list(map(str, data.data_vars))
    scalars = [about] if about and not groups.find_own_dimensions(data, about) else []
    names = ["dependence"] if CANDIDATE in data.dims else list(KINDS)  # a pilot has only this plot
    return [
        Choice(name, variable)
        for name in names
        for variable in (arrays if KINDS[name].of_arrays else scalars)
        if request.variable in (None, variable) and KINDS[name].fits(data, variable, request)
    ]


def draw_kind(data: xr.Dataset, kind: str, request: PlotRequest | None = None) -> PlottedFigure:
    """Draw a plot of one kind.  If the figure has no footnote, the caption has it."""
    if kind not in KINDS:
        raise name_error("kind", kind, KINDS)
    request = request or PlotRequest()
    look = request.title, request.xlabel, request.ylabel, request.size, request.xscale, request.yscale
    if request.ax is not None and look != ("", None, None, None, None, None):
        raise InputError("a title, labels, scales or a size have no effect with `ax`. Set them on your axes.")
    variable = request.variable or _choose_default_variable(data, kind)
    with matplotlib.rc_context(style.make_settings()):
        plot = KINDS[kind].draw(data, variable, request)
    counts, _, rest = plot.footnote.partition("; ")
    note = "" if request.notes else rest if counts in plot.caption else plot.footnote
    # declared labels need their long names in the caption
    names = [name for name in (variable, request.x) if name in data.variables and LABEL in data[name].attrs]
    meanings = [f"{_MARKUP.sub('', groups.make_label(data[name]))} = {groups.make_title(data[name])}" for name in names]
    more = join_sentences(f"Labels: {'; '.join(meanings)}" if meanings else "", note)
    prefix = "pilot_" if data.attrs.get("phase") == PILOT else ""
    title = plot.title.replace(variable, variable.replace("_", " "), 1)
    title, caption = title[:1].upper() + title[1:], "  ".join(filter(None, [plot.caption, more]))
    return replace(plot, name=prefix + (variable if kind == "time_series" else kind), title=title, caption=caption)


def list_numbers(data: xr.Dataset) -> list[str]:
    """Return the variables with one number for each run and a finite value in at least one run."""
    axes = set(data["run_status"].dims)
    return [name for name in list_user_variables(data) if {*data[name].dims} <= axes and np.isfinite(data[name]).any()]


def find_main_variable(data: xr.Dataset) -> str | None:
    """Return the first numeric variable that is a headline or has no declaration."""
    return next((name for name in list_numbers(data) if data[name].attrs.get(HEADLINE, 1) == 1), None)


def _choose_default_variable(data: xr.Dataset, kind: str) -> str:
    """Return the default variable of a kind.  Raises InputError if no variable has values."""
    if kind in ("fields", "spectrum"):
        return array_plots.FIELD if kind == "fields" else array_plots.SINGULAR_VALUES
    if kind == "time_series":
        for name in (name for name in map(str, data.data_vars) if array_plots.is_time_series(data, name)):
            return name
        message = "`FILE` must hold a time series to draw, got none"
        raise InputError(f"{message}. Put a time series such as error_history into `record`.")
    variable = find_main_variable(data)
    if variable is not None:
        return variable
    planned = to_status(data["run_status"]).ravel()[mark_first(number_runs(data[KEYS]).ravel())]
    arrays = [name for name in list_numeric_variables(data) if name not in RUN_METADATA]
    if has_no_error(data):
        find_variables(data)  # it raises the error
    if arrays and (planned == Status.ok).any():
        over = ", ".join(f"{name} over {', '.join(groups.find_own_dimensions(data, name))}" for name in arrays)
        message = f"`FILE` must hold a number for each run to draw a {kind}, got only arrays ({over})"
        raise InputError(f"{message}. Return a number as well.")
    counts = ", ".join(f"{n} {s.name}" for s in Status if (n := int(np.count_nonzero(planned == s))))
    message = f"`FILE` must have runs with numbers to draw, got none ({counts})"
    raise InputError(f"{message}. For the error messages, run `evogt status`.")


def _list_numeric_axes(data: xr.Dataset, variable: str, request: PlotRequest) -> list[str]:
    """Return the numeric axes with several values, except fixed axes and axes of the sample."""
    unsuitable = {*groups.find_sample(data, request), *request.at}
    unsuitable |= set() if groups.find_candidate_parameter(data) else {CANDIDATE}
    names = [name for name in groups.find_axes(data, variable) if name not in unsuitable and data.sizes[name] > 1]
    return [name for name in names if groups.is_numeric(data, name)]


def _has_distribution(data: xr.Dataset, variable: str, request: PlotRequest) -> bool:
    """Return True if a group has several runs, or if a dependence plot has no numeric axis."""
    over = {*groups.find_sample(data, request)} & {*data[variable].dims} - {*request.at}
    return any(data.sizes[name] > 1 for name in over) or not _list_numeric_axes(data, variable, request)


def _has_rank(data: xr.Dataset, variable: str, request: PlotRequest) -> bool:
    """Return True if the runs have an error and at least three different ranks."""
    if variable != "error" or "rank" not in list_numbers(data):
        return False
    there = np.isfinite(data["error"].values) & np.isfinite(data["rank"].values)
    return len(np.unique(data["rank"].values[there])) > 2


def _is_spectrum(data: xr.Dataset, variable: str, request: PlotRequest) -> bool:
    # a user function may return another variable with this name
    if variable != array_plots.SINGULAR_VALUES or data[variable].dtype.kind != "f":
        return False
    return len(groups.find_own_dimensions(data, variable)) == 1 and bool(np.isfinite(data[variable].values).any())


def _is_field(data: xr.Dataset, variable: str, request: PlotRequest) -> bool:
    if variable != array_plots.FIELD or data[variable].dtype.kind not in "iuf":
        return False
    over = {*groups.find_own_dimensions(data, variable)} - {"time"}
    is_over_space = bool(over) and over <= {*array_plots.DIRECTIONS}
    return is_over_space and bool((to_status(data["run_status"]) == Status.ok).any())


KINDS: Mapping[str, PlotKind] = {
    "distribution": PlotKind(axis_plots.draw_distribution, _has_distribution),
    "dependence": PlotKind(axis_plots.draw_dependence, lambda *given: len(_list_numeric_axes(*given)) > 0),
    "heat_map": PlotKind(axis_plots.draw_heat_map, lambda *given: len(_list_numeric_axes(*given)) > 1),
    "trend": PlotKind(
        axis_plots.draw_trend,
        lambda data, name, request: bool({*find_drawn_dimensions(data)} & {*data[name].dims} - {*request.at}),
    ),
    "time_series": PlotKind(array_plots.draw_time_series, array_plots.is_time_series, of_arrays=True),
    "spectrum": PlotKind(array_plots.draw_spectrum, _is_spectrum, of_arrays=True),
    "scatter": PlotKind(axis_plots.draw_scatter, _has_rank),
    "comparison": PlotKind(axis_plots.draw_comparison, axis_plots.has_comparison),
    "fields": PlotKind(array_plots.draw_fields, _is_field, of_arrays=True),
}
