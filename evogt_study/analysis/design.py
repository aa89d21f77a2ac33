"""Read the design of a study from the coordinates of its result: axes, samples, random streams and runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import xarray as xr

from evogt_study.analysis.runs import DRAWN, KEYS, each_once
from evogt_study.analysis.statistics import check_array
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.methods.current_run import ALL, NONE, STREAMS
from evogt_study.schema.variables import DESIGN

GIVEN = ("table", "zip", "unstated")  # rules of points that were listed, whose parameters may depend on each other
_LEVELS = 4  # of Morris' trajectories, if nothing says how many: SALib's default


@dataclass(frozen=True)
class Sample:
    """A dimension of points, with its parameters and its sampling rule, or one of `GIVEN`."""

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
    assumptions : tuple of str
        Assumptions about the runs that the result does not state.  Estimators repeat these assumptions in `note`.
    stream_assumptions : tuple of str
        Assumptions about the random streams.

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
            Dimensions along which runs share the stream of a seed, "all" or "none".  By default, the result states the
            dimensions.
        planned : DataArray, optional
            Run keys, or booleans.  The default is the coordinate `run_key` of the values.

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
        samples = []
        for dim in (dim for dim in find_sample_dimensions(values) if dim in dims):
            stated = design_of(values, dim)
            rule = str(stated.get("rule", stated.get("kind", "unstated")))
            samples.append(Sample(dim, tuple(_find_parameters(values, dim)), rule))
        axes = tuple(dim for dim in dims if dim not in (DRAWN, *(sample.dim for sample in samples)))
        streams, of_streams = _find_streams(values, axes, samples, common)
        runs = runs.transpose(*dims).reset_coords(drop=True)
        return cls(axes, tuple(samples), streams, runs, ok, assumed, of_streams)

    def check_grid(self, dims: Sequence[str]) -> None:
        """Raise InputError if the dimensions are not a full grid of axes."""
        for sample in self.samples:
            if sample.dim in dims:
                names = ", ".join(sample.parameters)
                raise InputError(f"`{sample.dim}` is a sample of {names}, not a crossed axis. Use evs.sensitivity.")
        empty = ~(self.planned.any(DRAWN) if DRAWN in self.planned.dims else self.planned)
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
        """Return further notes, the assumptions and the number of runs without a value as one text."""
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
    if common is None and DRAWN in values.dims:
        stated = values[DRAWN].attrs.get(STREAMS) if DRAWN in values.coords else None
        chosen = json.loads(str(stated)).get("common", ALL) if stated else ALL
        if stated is None and parameters:
            assumed = ("seeds count as common to all runs, because the result does not state the streams",)
    names = [] if chosen in (None, NONE) else list(parameters) if chosen == ALL else each_once(chosen or ())
    if common not in (None, ALL, NONE) and (unknown := [name for name in names if name not in parameters]):
        raise InputError(f"`common` must be all, none or some of {', '.join(parameters)}, got {', '.join(unknown)}")
    # along a sample a seed is one stream if it is one along all of its parameters
    return tuple(dim for dim, own in parameters.items() if dim in names or set(own) <= set(names)), assumed


@dataclass(frozen=True, eq=False)
class SamplePoints:
    """Parameters (D,) along dimensions, values at the points (n, D) of their product, strings of numbers, levels."""

    names: tuple[str, ...]
    points: Array
    dims: tuple[str, ...]
    seeds: bool
    strings: tuple[tuple[str, ...], ...]
    along: Mapping[str, str]
    levels: int


def design_of(data: xr.DataArray | xr.Dataset, dim: str) -> Mapping[str, object]:
    """Return the design that the attributes of a dimension state, or an empty mapping."""
    with suppress(ValueError):
        found = json.loads(str(data[dim].attrs.get(DESIGN, "{}"))) if dim in data.coords else {}
        return found if isinstance(found, dict) else {}
    return {}


def find_sample_dimensions(data: xr.DataArray | xr.Dataset) -> list[str]:
    """Return dimensions along which several parameters vary, with stated designs first."""
    names = [str(dim) for dim in data.dims if dim != DRAWN]
    # a single one may follow an axis by a rule, as gamma follows the dictionary
    along = [name for name in names if design_of(data, name) or len(_find_parameters(data, name)) > 1]
    return sorted(along, key=lambda dim: not design_of(data, dim))


def find_drawn_dimensions(data: xr.DataArray | xr.Dataset) -> tuple[str, ...]:
    """Return the dimensions whose design states a sample."""
    return tuple(str(dim) for dim in data.dims if design_of(data, str(dim)).get("kind") == "sample")


def is_along_sample(data: xr.DataArray | xr.Dataset, name: str | None) -> bool:
    """Return True if a parameter varies along a sample."""
    return name in data.coords and data[name].dims in [(dim,) for dim in find_drawn_dimensions(data)]


def find_points(values: xr.DataArray, over: Sequence[str], parameters: Sequence[str] | None = None) -> SamplePoints:
    """Return the points of the sample along `over` without the seed.  Raises InputError if `over` has no sample."""
    dims = [dim for dim in over if dim != DRAWN]
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
    points, levels = np.stack(columns, axis=-1), int(str(design_of(values, dims[0]).get("levels", _LEVELS)))
    return SamplePoints(tuple(along), points, tuple(dims), DRAWN in over, tuple(strings), along, levels)


def _find_parameters(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Return the parameters of a dimension from its design, its coordinates or its own name."""
    stated = design_of(values, dim).get("parameters")
    own = [str(name) for name, coord in values.coords.items() if coord.dims == (dim,) and name not in (dim, KEYS)]
    if isinstance(stated, dict):
        return [name for name in map(str, stated) if name in own]
    return [name for name in own if values[name].dtype.kind in "iufbOU"] or [dim]
