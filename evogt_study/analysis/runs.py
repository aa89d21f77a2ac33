"""Read the design, the runs and the sampling units of a result.  Cases with equal run keys count as one run."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from evogt_study.errors import Completeness, InputError, Message, MissingRuns, ParameterError, Status, shorten
from evogt_study.inference.kernels import Array, Bools
from evogt_study.methods.current_run import ALL, NONE, STREAMS_ATTRIBUTE
from evogt_study.schema.values import find_value, to_canonical, to_string
from evogt_study.schema.variables import DESIGN, to_status
from evogt_study.storage.arrays import iterate_slabs
from evogt_study.study.case_space import join_names

KEYS = "run_key"
Numbers = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
LISTED_RULES = ("table", "zip", "unstated")  # rules of listed points, whose parameters may be dependent
_DEFAULT_LEVELS = 4  # levels of Morris' trajectories if the design does not state them (default of SALib)
MAX_MESSAGE_PATTERNS, _MAX_AXIS_VALUES = 20, 12  # largest numbers of message patterns and of axis values in a list
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")
SEED = "seed"  # dimension with the default sampling units


def number_runs(planned: xr.DataArray) -> Numbers:
    """Return the run number of each case.  Equal run keys have equal numbers, and an unplanned case has -1."""
    if planned.dtype.kind == "b":
        return np.where(planned.values, np.arange(planned.size).reshape(planned.shape), -1)
    # 64 bits of the hash of a key: two of a million runs have equal bits with probability 3e-8
    hashes, there = np.zeros(planned.shape, dtype=np.uint64), np.zeros(planned.shape, dtype=bool)
    for slab in iterate_slabs(planned.shape):
        keys = np.asarray(planned.variable[slab].values, dtype=object)
        hashes[slab] = pd.util.hash_array(keys.ravel(), categorize=False).reshape(keys.shape)
        there[slab] = keys.astype(bool)
    return np.where(there, pd.factorize(hashes.ravel())[0].reshape(planned.shape), -1)


def number_planned_runs(values: xr.DataArray, planned: xr.DataArray | None) -> xr.DataArray | None:
    """Return run numbers from `planned`, or else from the run keys of the values.  Without run keys, return None."""
    keys = values.coords.get(KEYS) if planned is None else planned
    return None if keys is None else xr.DataArray(number_runs(keys), dims=keys.dims)


def find_finished_keys(data: xr.Dataset) -> xr.DataArray | None:
    """Return the run keys of finished planned runs, "" for other cases, or None for a Dataset without run keys."""
    keys = data.get(KEYS)
    if keys is None or "run_status" not in data:
        return keys
    return keys.copy(data=np.where(to_status(data["run_status"]) == Status.not_run, "", keys.values))


def count_runs(numbers: Numbers) -> int:
    """Return the number of distinct runs from run numbers."""
    return int(np.unique(numbers[numbers >= 0]).size)


def mark_first(numbers: Numbers) -> npt.NDArray[np.bool_]:
    """Mark the first case of each planned run along the last axis, (..., n) -> (..., n)."""
    if (numbers[..., 1:] > numbers[..., :-1]).all():  # all runs differ: no sort
        return numbers >= 0
    order = np.argsort(numbers, axis=-1, kind="stable")  # a stable sort keeps the first of equal numbers first
    ordered = np.take_along_axis(numbers, order, axis=-1)
    new = ordered >= 0
    new[..., 1:] &= ordered[..., 1:] != ordered[..., :-1]
    found = np.empty_like(new)
    np.put_along_axis(found, order, new, axis=-1)
    return found


def mark_runs(
    values: xr.DataArray, over: Sequence[str], planned: xr.DataArray | None, *, paired: str = ""
) -> xr.DataArray | None:
    """Mark the first case of each planned run, or of each pair along `paired`, in samples over `over`."""
    numbers = number_planned_runs(values, planned)
    if numbers is None:
        return None
    dims = [dim for dim in over if dim in numbers.dims]
    rest = [dim for dim in map(str, numbers.dims) if dim not in (paired, *dims)]
    ordered = numbers.transpose(*rest, *([paired] if paired in numbers.dims else []), *dims)
    table = ordered.values.reshape(*ordered.shape[: ordered.ndim - len(dims)], -1)
    if paired not in numbers.dims:
        return ordered.copy(data=mark_first(table).reshape(ordered.shape))
    there, pairs = table >= 0, np.moveaxis(table, -2, -1)
    joint = np.unique(pairs.reshape(-1, pairs.shape[-1]), axis=0, return_inverse=True)[1].reshape(pairs.shape[:-1])
    return ordered.copy(data=(mark_first(joint)[..., None, :] & there).reshape(ordered.shape))


@dataclass(frozen=True)
class Layout:
    """Layout of samples over `dims`.  A sample has `count` units of `within` values, and a run has `places` values."""

    dims: tuple[str, ...]
    count: int
    within: int
    places: int
    unit: str
    runs: xr.DataArray | None

    def split_units(self, samples: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Reshape samples (..., n) to units (..., count, within)."""
        return samples.reshape(*samples.shape[:-1], self.count, self.within)

    def get_complete_units(self, samples: Array, once: Bools) -> Array:
        """Return the values of units, (..., n) -> (..., count, within), or NaN for a unit with a missing run."""
        if self.within == 1:
            return self.split_units(samples)
        planned, there = self._count_runs(samples, once)
        return np.where((there == planned)[..., None], self.split_units(samples), np.nan)

    def count_units(self, samples: Array, once: Bools) -> list[Array]:
        """Return the numbers of complete units, planned units, runs with a value and planned runs, each (...)."""
        planned, there = self._count_runs(samples, once)
        both = [(planned > 0) & (there == planned), planned > 0, there, planned]
        return [each.sum(axis=-1).astype(float) for each in both]

    def _count_runs(self, samples: Array, once: Bools) -> list[Numbers]:
        """Return the numbers of planned runs and of runs with a value in each unit, two arrays (..., count)."""
        shape = (*samples.shape[:-1], self.count, self.within // max(self.places, 1), self.places)
        return [each.reshape(shape).any(axis=-1).sum(axis=-1) for each in (once, ~np.isnan(samples))]


def lay_out_units(
    values: xr.DataArray, over: Sequence[str], units: str | Iterable[str] | None, planned: xr.DataArray | None = None,
    *, paired: str = "",
) -> Layout:  # fmt: skip
    """Return the layout of samples over the dimensions `over`.  Dimensions without runs, such as time, come last."""
    keys = values.coords.get(KEYS) if planned is None else planned
    own = [] if keys is None else [dim for dim in over if dim not in keys.dims]
    if units is None:
        named = [SEED] if SEED in over else [dim for dim in over if dim not in own]
    else:
        named = list_unique(units)
        unknown = [str(dim) for dim in named if dim not in over]
        if unknown or not named:
            raise InputError(f"`units` must be among {', '.join(over)}, got {', '.join(unknown) or 'no name'}")
    inner = [dim for dim in own if dim not in named]
    rest = [*(dim for dim in over if dim not in (*named, *own)), *inner]
    count, within, places = (math.prod(values.sizes[dim] for dim in dims) for dims in (named, rest, inner))
    dims, unit = (*named, *rest), named[0] if len(named) == 1 else "unit"
    return Layout(dims, count, within, places, unit, mark_runs(values, dims, planned, paired=paired))


def list_unique(names: str | Iterable[str]) -> list[str]:
    """Return one or several names as a list without duplicates."""
    return list(dict.fromkeys(names)) if isinstance(names, Iterable) and not isinstance(names, str) else [names]


def list_numeric_variables(data: xr.Dataset) -> list[str]:
    """Return the names of the numeric variables."""
    return [str(name) for name, array in data.data_vars.items() if array.dtype.kind in "iufb"]


def format_coordinates(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Return the coordinate values along a dimension as a user types them, or positions without a coordinate."""
    return [to_string(to_canonical(label)) for label in values[dim].values]


def list_headings(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Return the coordinate values along a dimension as headings, with the name of the dimension before numbers."""
    found = format_coordinates(values, dim)
    return found if values[dim].dtype.kind in "OU" else [f"{dim}={label}" for label in found]


def select_point(data: xr.Dataset, point: Mapping[str, object], axes: Sequence[str] | None = None) -> xr.Dataset:
    """Select the runs at one value of each given axis.  Raises InputError for an unknown axis or value."""
    known = list(map(str, data["run_status"].dims)) if axes is None else axes
    if unknown := [name for name in point if name not in known]:
        raise InputError(f"`at` must name axes ({', '.join(known)}), got {shorten(unknown[0])}")
    return data.isel({name: find_position(data[name], name, value) for name, value in point.items()})


def find_position(values: xr.DataArray | xr.Dataset, dim: str, label: object) -> int:
    """Return the position of a coordinate value or of its text.  Raises InputError for an unknown value."""
    found = find_value([to_canonical(each) for each in values[dim].values], str(label))
    if found is None:
        raise ParameterError(dim, f"one of {join_names(format_coordinates(values, dim))}", label)
    return found


def check_array(values: xr.DataArray) -> None:
    """Raise InputError for an object that is not a DataArray."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}. Use e.g. ds.error")


@dataclass(frozen=True)
class Sample:
    """A dimension of design points, with its parameters and the rule of its points."""

    dim: str
    parameters: tuple[str, ...]
    rule: str


@dataclass(frozen=True, eq=False)
class Design:
    """The design of a study: its crossed axes, samples, random streams and runs.

    Attributes
    ----------
    axes : tuple of str
        Crossed dimensions, without the seed.
    samples : tuple of Sample
        Dimensions of points along which several parameters change.
    common : tuple of str
        Dimensions along which runs share the random stream of a seed.  Along other dimensions, each run has its own
        stream.
    planned, ok : DataArray of bool
        Planned runs, and runs with a value, over the dimensions of the runs.
    assumptions, stream_assumptions : tuple of str
        Assumptions about the runs and their streams that the result does not state.

    Examples
    --------
    >>> import evogt_study as evs
    >>> with evs.open("data/results/threshold.nc") as ds:
    ...     ds.evogt.design.axes
    ('tau', 'dictionary')
    """

    axes: tuple[str, ...]
    samples: tuple[Sample, ...]
    common: tuple[str, ...]
    planned: xr.DataArray
    ok: xr.DataArray
    assumptions: tuple[str, ...] = ()
    stream_assumptions: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, values: xr.DataArray, *, common: str | Iterable[str] | None = None, planned: xr.DataArray | None = None
    ) -> Design:
        """Read the design from the coordinates of values.

        Parameters
        ----------
        values : DataArray
            Values of one variable, such as ``ds.error``.
        common : str or list of str, optional
            Dimensions along which runs share the stream of a seed, "all" or "none".  Default: stated in the result.
        planned : DataArray, optional
            Run keys, or a boolean mask.  Default: the coordinate `run_key` of the values.

        Returns
        -------
        Design

        Raises
        ------
        InputError
            If `values` is not a DataArray, or `common` names another dimension.

        Examples
        --------
        >>> error = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], dims=("n", "seed"), name="error")
        >>> Design.of(error, common="all").common
        ('n',)
        """
        check_array(values)
        keys = values.coords.get(KEYS) if planned is None else planned
        dims = [str(dim) for dim in (values.dims if keys is None else keys.dims) if dim in values.dims]
        ok = values.notnull().any([dim for dim in values.dims if dim not in dims])  # such as time
        ok = ok.transpose(*dims).reset_coords(drop=True)
        runs = xr.ones_like(ok) if keys is None else keys if keys.dtype.kind == "b" else keys != ""
        unknown = keys is None and not bool(ok.all())
        assumed = ("missing values count as failed runs, because no run keys show excluded cases",) * unknown
        stated = {dim: read_design(values, dim) for dim in find_sample_dimensions(values) if dim in dims}
        rules = {dim: str(each.get("rule", each.get("kind", "unstated"))) for dim, each in stated.items()}
        samples = tuple(Sample(dim, tuple(_find_parameters(values, dim)), rule) for dim, rule in rules.items())
        axes = tuple(dim for dim in dims if dim not in (SEED, *rules))
        streams, of_streams = _find_streams(values, axes, samples, common)
        return cls(axes, samples, streams, runs.transpose(*dims).reset_coords(drop=True), ok, assumed, of_streams)

    def check_grid(self, dims: Sequence[str]) -> None:
        """Raise InputError if the dimensions are not a full grid of axes."""
        for sample in self.samples:
            if sample.dim in dims:
                names = ", ".join(sample.parameters)
                raise InputError(f"`{sample.dim}` is a sample of {names}, not a crossed axis. Use evs.sensitivity.")
        empty = ~(self.planned.any(SEED) if SEED in self.planned.dims else self.planned)
        if bool(empty.any()):
            first = np.argwhere(empty.values)[0]
            where = ", ".join(f"{dim} = {empty[dim].values[i]}" for dim, i in zip(empty.dims, first, strict=True))
            message = f"the axes must be a full grid, but {int(empty.sum())} of {empty.size} setups are not planned"
            raise InputError(f"{message}, the first at {where}. Select a full part with `sel`.")

    def is_fresh(self, dims: Sequence[str]) -> bool:
        """Return True if each run along `dims` has its own stream.  Raises InputError for partly common streams."""
        shared = [dim for dim in dims if dim in self.common]
        if shared and len(shared) < len(dims):
            message = f"seeds are common only along {', '.join(shared)}"
            raise InputError(f"{message}. Use these dimensions alone, or select one value of each.")
        return bool(dims) and not shared

    def note(self, *more: str, streams: bool = True) -> str:
        """Return one text of the notes `more`, the assumptions and the number of runs without a value."""
        assumed = (*self.assumptions, *(self.stream_assumptions if streams else ()))
        lost, planned = int((self.planned & ~self.ok).sum()), int(self.planned.sum())
        runs = f"{lost:,} of {planned:,} runs have no value" if lost else ""
        return "; ".join(filter(None, dict.fromkeys([*more, *assumed, runs])))


def _find_streams(
    values: xr.DataArray, axes: Sequence[str], samples: Sequence[Sample], common: str | Iterable[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the dimensions along which runs share streams, and the assumptions about the streams."""
    parameters = {axis: [axis] for axis in axes} | {each.dim: list(each.parameters) for each in samples}
    chosen, assumed = common, tuple[str, ...]()
    if common is None and SEED in values.dims:
        stated = values[SEED].attrs.get(STREAMS_ATTRIBUTE) if SEED in values.coords else None
        chosen = json.loads(str(stated)).get("common", ALL) if stated else ALL
        if stated is None and parameters:
            assumed = ("seeds count as common to all runs, because the result does not state the streams",)
    names = [] if chosen in (None, NONE) else list(parameters) if chosen == ALL else list_unique(chosen or ())
    if common not in (None, ALL, NONE) and (unknown := [name for name in names if name not in parameters]):
        raise InputError(f"`common` must be all, none or some of {', '.join(parameters)}, got {', '.join(unknown)}")
    # runs along a sample share a stream if runs along each parameter of the sample share it
    return tuple(dim for dim, own in parameters.items() if dim in names or set(own) <= set(names)), assumed


@dataclass(frozen=True, eq=False)
class SamplePoints:
    """Values (n, D) of the D parameters of a sample.  Values of strings are positions in `strings`."""

    names: tuple[str, ...]
    points: Array
    dims: tuple[str, ...]
    seeds: bool
    strings: tuple[tuple[str, ...], ...]
    along: Mapping[str, str]
    levels: int


def read_design(data: xr.DataArray | xr.Dataset, dim: str) -> Mapping[str, object]:
    """Return the design that the attributes of a dimension state, or an empty mapping."""
    with suppress(ValueError):
        found = json.loads(str(data[dim].attrs.get(DESIGN, "{}"))) if dim in data.coords else {}
        return found if isinstance(found, dict) else {}
    return {}


def find_sample_dimensions(data: xr.DataArray | xr.Dataset) -> list[str]:
    """Return the dimensions along which several parameters vary.  Dimensions with a stated design come first."""
    names = [str(dim) for dim in data.dims if dim != SEED]
    # a single parameter may depend on an axis by a rule, such as gamma on the dictionary
    along = [name for name in names if read_design(data, name) or len(_find_parameters(data, name)) > 1]
    return sorted(along, key=lambda dim: not read_design(data, dim))


def find_drawn_dimensions(data: xr.DataArray | xr.Dataset) -> tuple[str, ...]:
    """Return the dimensions of random samples, as their designs state."""
    return tuple(str(dim) for dim in data.dims if read_design(data, str(dim)).get("kind") == "sample")


def is_along_sample(data: xr.DataArray | xr.Dataset, name: str | None) -> bool:
    """Return True if a parameter varies along a sample."""
    return name in data.coords and data[name].dims in [(dim,) for dim in find_drawn_dimensions(data)]


def find_points(values: xr.DataArray, over: Sequence[str], parameters: Sequence[str] | None = None) -> SamplePoints:
    """Return the design points along `over`, without the seed.  Raises InputError if no parameter varies there."""
    dims = [dim for dim in over if dim != SEED]
    if not dims:
        raise InputError(f"`over` must name a dimension of a sample, got {', '.join(over) or 'no name'}")
    along = {name: dim for dim in dims for name in _find_parameters(values, dim)}
    unknown = [name for name in parameters or () if name not in along]
    if unknown:
        raise InputError(f"`parameters` must be some of {', '.join(along)}, got {', '.join(unknown)}")
    along = {name: dim for name, dim in along.items() if parameters is None or name in parameters}
    if not along:
        raise InputError(f"`over` must name dimensions along which a parameter varies, got {', '.join(over)}")
    places = np.indices(tuple(values.sizes[dim] for dim in dims)).reshape(len(dims), -1)
    columns, strings = [], []
    for name, dim in along.items():
        column, own = values[name].values, np.empty(0, dtype=str)
        if column.dtype.kind not in "iufb":
            own, column = np.unique(column.astype(str), return_inverse=True)
        columns.append(np.asarray(column, dtype=float)[places[dims.index(dim)]])
        strings.append(tuple(map(str, own)))
    points, levels = np.stack(columns, axis=-1), int(str(read_design(values, dims[0]).get("levels", _DEFAULT_LEVELS)))
    return SamplePoints(tuple(along), points, tuple(dims), SEED in over, tuple(strings), along, levels)


def _find_parameters(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Return the parameters of a dimension from its design, its coordinates or its own name."""
    stated = read_design(values, dim).get("parameters")
    own = [str(name) for name, coord in values.coords.items() if coord.dims == (dim,) and name not in (dim, KEYS)]
    if isinstance(stated, dict):
        return [name for name in map(str, stated) if name in own]
    return [name for name in own if values[name].dtype.kind in "iufbOU"] or [dim]


def count_status(data: xr.Dataset) -> Completeness:
    """Count the planned runs of one phase by status and message."""
    runs, status, dims = number_runs(data[KEYS]), to_status(data["run_status"]), list(map(str, data[KEYS].dims))
    once = mark_first(runs.ravel()).reshape(runs.shape)
    states = np.bincount(status[once].astype(np.int64), minlength=len(Status))
    patterns, first = Counter[str](), dict[str, tuple[list[int], str]]()
    for slab in iterate_slabs(status.shape):
        texts = data["run_message"].isel(dict(zip(dims, slab, strict=True))).values.astype(object)
        for place in np.argwhere((texts != "") & once[slab]):
            text = str(texts[tuple(place)])
            pattern = _NUMBER.sub("#", text)
            patterns[pattern] += 1
            first.setdefault(pattern, ([int(i) + own.start for i, own in zip(place, slab, strict=True)], text))
    messages = []
    for pattern, count in patterns.most_common(MAX_MESSAGE_PATTERNS):
        places, text = first[pattern]
        at = {name: to_string(to_canonical(data[name].values[i])) for name, i in zip(dims, places, strict=True)}
        messages.append(Message(text, count, ", ".join(f"{name} = {value}" for name, value in at.items()), at))
    counts, left = {state.name: int(states[state]) for state in Status if states[state]}, status == Status.not_run
    lacking = _count_missing(data, runs, (status != Status.ok) & ~left, "not ok")
    lacking += _count_missing(data, runs, left, "not run")
    return Completeness(int(np.count_nonzero(runs >= 0)), int(states.sum()), counts, lacking, messages)


def _count_missing(data: xr.Dataset, runs: Numbers, wrong: npt.NDArray[np.bool_], state: str) -> list[MissingRuns]:
    """Count the missing runs at each value of each axis with several values.  `runs` holds run numbers by axis."""
    lacking = []
    for axis, name in enumerate(map(str, data["run_status"].dims)) if (wrong & (runs >= 0)).any() else ():
        labels = data[name].values
        once = mark_first(np.moveaxis(runs, axis, 0).reshape(len(labels), -1))
        bad, total = (once & np.moveaxis(wrong, axis, 0).reshape(once.shape)).sum(axis=1), once.sum(axis=1)
        places = np.flatnonzero(bad)
        values = [(to_string(to_canonical(labels[i])), int(bad[i]), int(total[i])) for i in places[:_MAX_AXIS_VALUES]]
        if len(np.unique(bad[total > 0] / total[total > 0])) > 1:  # equal shares do not locate missing runs
            lacking.append(MissingRuns(state, name, values, len(places) - len(values)))
    return lacking
