"""Group the runs of a variable for a figure by panels, series, positions along x and samples."""

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evogt_study.analysis import runs as study_runs
from evogt_study.analysis.runs import KEYS, SEED, Numbers, count_runs, format_coordinates, select_point
from evogt_study.errors import InputError, name_error
from evogt_study.inference.intervals import Interval, interval
from evogt_study.inference.kernels import Array
from evogt_study.plots.style import parse_label, to_drawable
from evogt_study.schema.values import to_canonical, to_string
from evogt_study.schema.variables import CANDIDATE, GEOMETRIC_MEAN, LABEL, Status, read_direction, to_status
from evogt_study.study.case_space import join_names

MAX_PANELS, MAX_SERIES = 6, 12  # two rows of three panels fit on a page
MAX_LISTED = 6  # largest number of values in a caption
MAX_TITLE, MAX_LABEL = 160, 60  # characters of a long name and of a declared label
ROLES = ("col", "hue", "x")  # order of the dimensions of grouped runs
_GREEK = re.compile("[A-Za-z]?[Α-ωϕ][A-Za-z]?")


@dataclass(frozen=True)
class PlotRequest:
    """Arguments of `Result.plot` for one plot.  `compared` is a comparison that the caller has computed."""

    variable: str | None = None
    x: str | None = None
    hue: str | None = None
    col: str | None = None
    over: tuple[str, ...] | None = None
    at: Mapping[str, object] = field(default_factory=dict)
    slope: tuple[float, ...] = ()
    title: str = ""
    xlabel: str | None = None
    ylabel: str | None = None
    size: tuple[float, float] | None = None
    xscale: str | None = None
    yscale: str | None = None
    ax: Axes | Sequence[Axes] | Figure | None = None
    notes: bool = True
    compared: xr.Dataset | None = None


@dataclass(frozen=True)
class AxisRole:
    """Axis in a figure, with its name, its label and its values as text.  The name "" means no axis."""

    name: str = ""
    label: str = ""
    values: tuple[str, ...] = ("",)

    def describe(self, number: int) -> str:
        """Return one value of the axis with its name, such as "N = 40", but a string without the name."""
        value = self.values[number]
        with suppress(ValueError):
            float({"true": "1", "false": "0"}.get(value, value))
            return f"{self.name} = {value}" if self.name else value
        return value

    def list_values(self) -> str:
        """Return the name and all values of the axis, such as "dictionary = transnet, gtransnet"."""
        return f"{self.name} = {join_names(self.values, MAX_LISTED)}"


@dataclass(frozen=True, eq=False)
class GroupedRuns:
    """Runs of one variable, grouped by panel P, series S, point X along x, and sample n.

    `values` (P, S, X, n, ...) have NaN for a run without a value.  `status` and `runs` (P, S, X, n) are the status and
    number of each run.  A repeated or unplanned run has the number -1.  `over` lists the axes of the sample with
    several values, and `lengths` their sizes.  `numbers` (P, S, X) are the numbers along x.
    """

    title: str
    label: str
    is_error: bool
    values: Array
    status: npt.NDArray[np.int8]
    runs: Numbers
    col: AxisRole
    hue: AxisRole
    x: AxisRole
    over: tuple[str, ...]
    lengths: tuple[int, ...]
    numbers: Array | None
    notes: tuple[str, ...]

    @property
    def planned(self) -> npt.NDArray[np.bool_]:
        """Mask of the planned runs, (P, S, X, n), without repeated runs."""
        return self.runs >= 0

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Mask of the runs with at least one finite value, (P, S, X, n)."""
        return np.asarray(np.isfinite(self.values).reshape(*self.planned.shape, -1).any(axis=-1))

    @property
    def largest(self) -> int:
        """Largest number of runs with a value in a group.  All groups have the same symbols for this number."""
        return int(self.present.sum(axis=-1).max(initial=0))

    def get_sample(self, *position: int) -> Array:
        """Return the finite values of one group, in increasing order."""
        values = self.values[position].ravel()
        return np.sort(values[np.isfinite(values)])

    @property
    def medians(self) -> Array:
        """Median of the values of each group, (P, S, X), or NaN for an empty group."""
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of empty groups
            return np.asarray(np.nanmedian(self.values.reshape(*self.planned.shape[:3], -1), axis=-1))

    def compute_median_intervals(self) -> Array:
        """Return the 95 % interval of the median of each group, (P, S, X, 2), with seeds of the sample as units."""
        if SEED not in self.over:
            return interval(self.values[..., None], Interval("median"))
        values = self.values.reshape(*self.values.shape[:3], *self.lengths)
        first = np.moveaxis(values, 3 + self.over.index(SEED), 3)
        return interval(first.reshape(*first.shape[:4], -1), Interval("median"))

    def format_missing(self, *position: int) -> str:
        """Return k/n for a group with missing runs, or an empty string."""
        ok, planned = int(self.present[position].sum()), int(self.planned[position].sum())
        return f"{ok}/{planned}" if ok < planned else ""

    def describe_group(self, panel: int, series: int, place: int) -> str:
        """Return the axis values of a group as text, such as "N = 40, gtransnet, epsilon = 0.1"."""
        along = self.x.describe(place) if self.x.name else ""
        if self.numbers is not None:
            along = f"{self.x.name} = {self.numbers[panel, series, place]:g}"
        return ", ".join(filter(None, [along, self.hue.describe(series), self.col.describe(panel)]))

    def list_incomplete(self, most: int = 12) -> str:
        """Return the first `most` groups with missing runs, such as "3/4 at N = 40, fast", and count all others."""
        groups = [each for each in np.ndindex(*self.planned.shape[:3]) if self.format_missing(*each)]
        texts = [" at ".join(filter(None, (self.format_missing(*each), self.describe_group(*each)))) for each in groups]
        return ", ".join(texts[:most]) + (f" and {len(texts) - most} more groups" if len(texts) > most else "")

    def describe_counts(self) -> str:
        """Return the number of runs with a value and the status of all others, such as "38 of 40 runs (2 failed)"."""
        lost = self.planned & ~self.present
        reasons = [
            f"{number} {state.text if state != Status.ok else 'without a value'}"
            for state in Status
            if (number := count_runs(self.runs[lost & (self.status == state)]))
        ]
        more = f" ({', '.join(reasons)})" if reasons else ""
        return f"{count_runs(self.runs[self.present]):,} of {count_runs(self.runs):,} runs{more}"

    def describe_subject(self) -> str:
        """Return variable, axes and counts, such as "error against N = 20, 40, over 2 values of seed; 4 of 4 runs"."""
        parts = []
        if self.x.name:
            known = [] if self.numbers is None else np.unique(self.numbers[np.isfinite(self.numbers)]).tolist()
            values = tuple(f"{each:g}" for each in known) or self.x.values
            span = f"{self.x.name} = {values[0]} to {values[-1]}" if len(known) > MAX_LISTED else ""
            parts.append(f"against {span or replace(self.x, values=values).list_values()}")
        parts += [f"for {self.hue.list_values()}"] if self.hue.name else []
        parts += [f"with a panel for each {self.col.list_values()}"] if self.col.name else []
        parts += [f"over {size:,} values of {name}" for name, size in zip(self.over, self.lengths, strict=True)]
        return f"{self.title} {', '.join([*parts, *self.notes])}".strip() + f"; {self.describe_counts()}"

    def describe_extremes(self, numbers: Array | None = None, what: str = "") -> str:
        """Return a sentence on the extremes of numbers (P, S, X), by default the medians, with the run counts."""
        values = self.medians if numbers is None else numbers
        if not np.isfinite(values).any():
            return f"No run has a value: {self.describe_counts()}."
        ends = []
        for position in (np.nanargmin(values), np.nanargmax(values)):
            place = tuple(map(int, np.unravel_index(int(position), values.shape)))
            where = self.describe_group(*place)
            ends.append(f"{values[place]:.3g}" + (f" ({where})" if where else ""))
        span = f"from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else ends[0]
        counts = "; ".join(filter(None, [self.describe_counts(), self.list_incomplete()]))
        return f"{what or ('Medians of' if self.over else 'Values of')} {self.title}: {span}. {counts}."

    def make_footnote(self, *more: str) -> str:
        """Return the note below a figure."""
        return "; ".join([self.describe_counts(), *filter(None, more), *self.notes])


def group_runs(
    data: xr.Dataset, variable: str, request: PlotRequest, *, wanted: Sequence[str] = ROLES, numeric: bool = False,
    pooled: bool = False, max_x: int | None = None, max_hue: int | None = MAX_SERIES, own: bool = False,
) -> GroupedRuns:  # fmt: skip
    """Group the runs of a variable.  Axes without a role join the sample if `pooled`, else have their first value."""
    get_numeric_array(data, variable)
    if variable not in data.data_vars:  # a coordinate may have fewer axes than the runs
        bare = data.reset_coords(variable)
        data = bare.assign({variable: bare[variable].broadcast_like(bare["run_status"])})
    inner = [str(dim) for dim in data[variable].dims if dim not in find_axes(data, variable)]
    if inner and not own:
        raise InputError(f"`variable` must be one number of each run here, got {variable} over {', '.join(inner)}")
    here = select_point(data, request.at, find_axes(data, variable))
    axes = find_axes(here, variable)
    found, over, follower = _assign_axes(here, axes, request, wanted, numeric)
    left = [name for name in axes if name not in (*found.values(), *over)]
    notes = [f"at {name} = {value}" for name, value in request.at.items()]
    if pooled:
        over = (*over, *left)
    else:
        firsts = [(name, to_string(to_canonical(here[name].values[0])), here.sizes[name]) for name in left]
        notes += [f"at {name} = {value}, the first of {size}" for name, value, size in firsts if size > 1]
        here = here.isel(dict.fromkeys(left, 0))
    limits, axis = {"col": MAX_PANELS, "hue": max_hue, "x": max_x}, dict[str, AxisRole]()
    for role, name in found.items():
        size, most = here.sizes[name], limits[role]
        if most is not None and size > most:
            kept = np.unique(np.linspace(0, size - 1, most).round().astype(int))
            here = here.isel({name: kept})
            notes.append(f"{len(kept)} of {size:,} values of {name}")
        axis[role] = AxisRole(name, make_label(here[name]), tuple(format_coordinates(here, name)))
    order = {name: here.sizes.get(name, 1) for name in (found.get(role, f"no {role}") for role in ROLES)}
    sample = {name: here.sizes[name] for name in over}
    if follower is not None:
        axis["x"] = replace(axis["x"], name=follower, label=make_label(here[follower]))
    values = _reshape_to_groups(here[variable].variable, order, sample).astype(float)
    status: npt.NDArray[np.int8] = np.full(values.shape[:4], Status.ok, dtype=np.int8)
    runs: Numbers = np.arange(status.size).reshape(status.shape)
    if {"run_status", KEYS} <= set(here.variables):
        codes, numbers = to_status(here["run_status"]), study_runs.number_runs(here[KEYS])
        status = _reshape_to_groups(here["run_status"].variable.copy(data=codes), order, sample)
        runs = _reshape_to_groups(xr.Variable(here[KEYS].dims, numbers), order, sample)
        runs = np.where(study_runs.mark_first(runs), runs, -1)
    values[runs < 0] = np.nan  # draw and count a repeated run only once
    several = {name: size for name, size in sample.items() if size > 1}
    return GroupedRuns(
        make_title(here[variable]), make_label(here[variable]),
        read_direction(here[variable])[1] == GEOMETRIC_MEAN, values, status, runs,
        axis.get("col", AxisRole()), axis.get("hue", AxisRole()), axis.get("x", AxisRole()),
        tuple(several), tuple(several.values()),
        _get_numbers_along(here, follower or found.get("x"), order), tuple(notes),
    )  # fmt: skip


def _assign_axes(
    data: xr.Dataset, axes: Sequence[str], request: PlotRequest, wanted: Sequence[str], numeric: bool
) -> tuple[dict[str, str], tuple[str, ...], str | None]:
    """Return the axis of each role, the axes of the sample, and the dependent parameter along x."""
    given = {role: name for role in wanted if (name := getattr(request, role)) is not None}
    follower = given["x"] if "x" in given and given["x"] not in axes else None
    if follower is not None:
        followers = _find_followers(data, axes, request)
        _check_axes([("x", follower)], [*axes, *followers])
        given["x"] = followers[follower]
    over = find_sample(data, request)
    if request.over is None:
        over = tuple(name for name in over if name in axes and name not in given.values())
    named = [*given.items(), *(("over", name) for name in over)]
    _check_axes(named, axes)
    twice = [name for _, name in named]
    if len(set(twice)) < len(twice):
        name = next(name for name in twice if twice.count(name) > 1)
        raise InputError(f"`{next(iter(given))}` and the other options must name different axes, got {name} twice")
    free = [name for name in axes if name not in twice and data.sizes[name] > 1]
    # x has the longest axis of numbers, and hue has the first axis of strings
    numbers = sorted((name for name in free if is_numeric(data, name)), key=lambda name: -data.sizes[name])
    strings = [name for name in free if name not in numbers]
    found, candidates = dict(given), numbers or ([] if numeric else strings[1:] or strings)
    if "x" in wanted and "x" not in given and candidates:
        found["x"] = candidates[0]
    for role in ("hue", "col"):
        rest = [name for name in free if name not in found.values()]
        if role in wanted and role not in given and rest:
            first = next((name for name in rest if name in strings), "")
            found[role] = first or min(rest, key=lambda name: data.sizes[name])
    if not numeric or "x" not in wanted:
        return found, over, follower
    if found.get("x") == CANDIDATE and follower is None:  # a pilot numbers its candidates
        follower = find_candidate_parameter(data)
    if follower is None and not ("x" in found and is_numeric(data, found["x"])):
        known = ", ".join(name for name in axes if is_numeric(data, name) and data.sizes[name] > 1) or "there is none"
        raise InputError(f"`x` must be an axis with numbers ({known}), got {given.get('x', 'none')}")
    return found, over, follower


def find_candidate_parameter(data: xr.Dataset) -> str | None:
    """Return the first numeric parameter of the candidates of a pilot, or None."""
    names = [str(name) for name, coord in data.coords.items() if CANDIDATE in coord.dims and name != CANDIDATE]
    return next((name for name in names if is_numeric(data, name)), None)


def _check_axes(named: Sequence[tuple[str, str | None]], axes: Sequence[str]) -> None:
    """Raise InputError if an option has a name that is not an axis."""
    for option, name in named:
        if name is not None and name not in axes:
            raise name_error(f"{option}", name, axes)


def _find_followers(data: xr.Dataset, axes: Sequence[str], request: PlotRequest) -> dict[str, str]:
    """Return the axis of each numeric parameter that depends on one axis, without counting series and panels."""
    others = {request.hue, request.col, *(name for name in axes if not is_numeric(data, name))}
    return {
        str(other): dims[0]
        for other, coord in data.coords.items()
        if other not in axes and coord.dtype.kind in "iuf" and set(coord.dims) <= set(axes)
        and len(dims := [str(dim) for dim in coord.dims if len(coord.dims) == 1 or dim not in others]) == 1
    }  # fmt: skip


def _reshape_to_groups(variable: xr.Variable, order: Mapping[str, int], sample: Mapping[str, int]) -> npt.NDArray[Any]:
    """Reshape an array to (P, S, X, n, ...), with missing dimensions expanded to their sizes."""
    own = {str(dim): size for dim, size in variable.sizes.items() if dim not in {**order, **sample}}
    values = variable.set_dims({**order, **sample, **own}).values  # type: ignore[no-untyped-call]  # xarray's
    return np.reshape(values, (*order.values(), math.prod(sample.values()), *own.values()))


def _get_numbers_along(data: xr.Dataset, name: str | None, order: Mapping[str, int]) -> Array | None:
    """Return the numbers along x, (P, S, X), or None for strings."""
    if name is None or not is_numeric(data, name):
        return None
    numbers = data[name].variable
    inner = [str(dim) for dim in numbers.dims if dim not in order]
    if moving := [dim for dim in inner if numbers.sizes[dim] > 1]:
        message = f"`x` must be constant within a sample, but {name} follows {', '.join(moving)}"
        raise InputError(f"{message}. Leave it out.")
    kept = numbers.isel(dict.fromkeys(inner, 0)).set_dims(order)  # type: ignore[no-untyped-call]  # xarray's
    return np.asarray(kept.values, dtype=np.float64)


def find_axes(data: xr.Dataset, variable: str) -> tuple[str, ...]:
    """Return the axes of the study that are dimensions of a variable."""
    own = data[variable].dims
    return tuple(str(dim) for dim in (data["run_status"].dims if "run_status" in data else own) if dim in own)


def find_own_dimensions(data: xr.Dataset, variable: str) -> list[str]:
    """Return the dimensions of a variable that are not axes of the study."""
    axes = find_axes(data, variable) if "run_status" in data else ()
    return [str(dim) for dim in data[variable].dims if dim not in axes]


def is_numeric(data: xr.Dataset, name: str) -> bool:
    """Return True for a coordinate of numbers."""
    return bool(data[name].dtype.kind in "iufb")


def has_recorded_x(data: xr.Dataset, request: PlotRequest) -> bool:
    """Return True if x is a number of each run that does not depend on one axis only."""
    axes = [] if "run_status" not in data else list(map(str, data["run_status"].dims))
    known = (None, *axes, *_find_followers(data, axes, request))
    return request.x not in known and _has_each_run(data, str(request.x))


def find_sample(data: xr.Dataset, request: PlotRequest) -> tuple[str, ...]:
    """Return the axes of the sample, by default the seed and the dimensions of random samples."""
    return (SEED, *study_runs.find_drawn_dimensions(data)) if request.over is None else request.over


def check_roles(data: xr.Dataset, request: PlotRequest) -> None:
    """Raise InputError for names that are not axes of the study, and for unknown axis values."""
    axes = tuple(map(str, data["run_status"].dims))
    inside = {str(dim) for dim in data.dims} - set(axes)  # time and directions of fields
    select_point(data, {name: value for name, value in request.at.items() if name not in inside}, axes)
    if not has_recorded_x(data, request) and not study_runs.is_along_sample(data, request.x):
        _check_axes([("x", request.x)], [*axes, *_find_followers(data, axes, request)])
    _check_axes([("hue", request.hue), ("col", request.col), *(("over", name) for name in request.over or ())], axes)


def get_numeric_array(data: xr.Dataset, variable: str) -> xr.DataArray:
    """Return a numeric variable.  Raises InputError with the names of all numeric variables."""
    drawable = study_runs.list_numeric_variables(data)
    if variable not in drawable and not _has_each_run(data, variable):
        raise name_error("variable", variable, drawable)
    return data[variable]


def _has_each_run(data: xr.Dataset, name: str) -> bool:
    """Return True if a variable or coordinate has a number for each run and is not an axis."""
    if name not in data.variables or name in data.dims or "run_status" not in data or not is_numeric(data, name):
        return False
    return data[name].ndim > 0 and set(data[name].dims) <= set(data["run_status"].dims)


def make_title(array: xr.DataArray) -> str:
    """Return the long name of an array with its units.  If the long name is a Greek letter, use the name instead."""
    long_name = str(array.attrs.get("long_name", array.name))
    return _add_units(str(array.name) if _GREEK.fullmatch(long_name) else long_name, array)


def make_label(array: xr.DataArray) -> str:
    """Return the label of an array in a figure, by default its long name with units."""
    label = array.attrs.get(LABEL)
    with suppress(InputError):
        if isinstance(label, str) and 0 < len(label) <= MAX_LABEL:
            return _add_units(parse_label(LABEL, label), array)
    return to_drawable(make_title(array), MAX_TITLE)


def _add_units(text: str, array: xr.DataArray) -> str:
    units = str(array.attrs.get("units", ""))
    return text if units in ("", "1") or array.dtype.kind in "OUSb" else f"{text} ({to_drawable(units)})"
