"""Design of a study from the coordinates of its result: axes, samples and their points, random streams, runs.

Every estimator takes a `Design`, adapts to it, refuses it by name, or states in `note` what it assumes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from evogt_study.analysis.runs import DRAWN, KEYS
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.methods.streams import ALL, NONE, STREAMS
from evogt_study.schema.variables import DESIGN

GIVEN = ("table", "zip", "unstated")
"""Rules of points that were listed and not drawn: their parameters may depend on each other."""
LEVELS = 4
"""Levels of Morris' trajectories where nothing says how many: SALib's default."""


@dataclass(frozen=True)
class Sample:
    """A dimension of points: its parameters and the rule that drew them, or one of `GIVEN`."""

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
        Dimensions along which a seed is one random stream.  Along the others each run has its own stream.
    planned, ok : DataArray of bool
        Planned runs, and runs with a value, over the dimensions of the runs.
    assumptions : tuple of str
        Assumptions about the runs that the result does not state.  Estimators repeat them in `note`.
    stream_assumptions : tuple of str
        Assumptions about the random streams.
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
            Dimensions along which a seed is one stream, "all" or "none".  By default the result states it.
        planned : DataArray, optional
            Run keys, or booleans.  By default the run keys that the values carry.

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
        if not isinstance(values, xr.DataArray):
            raise InputError(f"`values` must be a DataArray, got a {type(values).__name__}; use e.g. ds.error")
        keys = values.coords.get(KEYS) if planned is None else planned
        dims = [str(dim) for dim in (values.dims if keys is None else keys.dims) if dim in values.dims]
        own = [dim for dim in values.dims if dim not in dims]  # such as time
        ok = values.notnull().any(own).transpose(*dims).reset_coords(drop=True)
        lines = []
        if keys is None:
            runs = xr.ones_like(ok)
            if not bool(ok.all()):
                lines.append("missing values count as failed runs, because no run keys show excluded cases")
        else:
            runs = (keys if keys.dtype.kind == "b" else keys != "").transpose(*dims).reset_coords(drop=True)
        samples = tuple(_sample(values, dim) for dim in sample_dimensions(values) if dim in dims)
        drawn = {sample.dim for sample in samples}
        axes = tuple(dim for dim in dims if dim not in (DRAWN, *drawn))
        streams, assumed = _streams(values, axes, samples, common)
        return cls(axes, samples, streams, runs, ok, tuple(lines), tuple(assumed))

    def check_grid(self, dims: Sequence[str]) -> None:
        """Raise InputError for dimensions that are no full grid of axes."""
        for sample in self.samples:
            if sample.dim in dims:
                message = f"`{sample.dim}` is a sample of {', '.join(sample.parameters)}, and no crossed axis"
                raise InputError(f"{message}. Use evs.sensitivity.")
        empty = ~(self.planned.any(DRAWN) if DRAWN in self.planned.dims else self.planned)
        if bool(empty.any()):
            first = np.argwhere(empty.values)[0]
            where = ", ".join(f"{dim} = {empty[dim].values[i]}" for dim, i in zip(empty.dims, first, strict=True))
            message = f"the axes must be a full grid, {int(empty.sum())} of {empty.size} setups are not planned"
            raise InputError(f"{message}, the first at {where}. Select a full part with `sel`.")

    def is_fresh(self, dims: Sequence[str]) -> bool:
        """Test whether each run along `dims` has its own stream.  Raises InputError if only some dimensions do."""
        shared = [dim for dim in dims if dim in self.common]
        if shared and len(shared) < len(dims):
            message = f"seeds are common along {', '.join(shared)} only"
            raise InputError(f"{message}. Use these dimensions alone, or select one value of each.")
        return bool(dims) and not shared

    def count_lost(self) -> str:
        """Return "3 of 40 runs have no value", or "" if all planned runs have one."""
        lost, planned = int((self.planned & ~self.ok).sum()), int(self.planned.sum())
        return f"{lost:,} of {planned:,} runs have no value" if lost else ""

    def note(self, *more: str, streams: bool = True) -> str:
        """Return further notes and the assumptions, with or without those about random streams, as one text."""
        assumed = (*self.assumptions, *(self.stream_assumptions if streams else ()))
        return "; ".join(filter(None, dict.fromkeys([*more, *assumed, self.count_lost()])))


def _sample(values: xr.DataArray, dim: str) -> Sample:
    stated = design_of(values, dim)
    rule = stated.get("rule", stated.get("kind", "unstated"))
    return Sample(dim, tuple(_along(values, dim)), str(rule))


def _streams(
    values: xr.DataArray, axes: Sequence[str], samples: Sequence[Sample], common: str | Iterable[str] | None
) -> tuple[tuple[str, ...], list[str]]:
    """Dimensions along which a seed is one stream, and the assumptions about it."""
    parameters = {axis: [axis] for axis in axes} | {each.dim: list(each.parameters) for each in samples}
    assumed: list[str] = []
    chosen = common
    if chosen is None and DRAWN in values.dims:
        stated = values[DRAWN].attrs.get(STREAMS) if DRAWN in values.coords else None
        chosen = json.loads(str(stated)).get("common", ALL) if stated else ALL
        if stated is None and parameters:
            assumed = ["seeds count as common to all runs, which the result does not state"]
    if chosen is None or chosen == NONE:
        return (), assumed
    if chosen == ALL:
        return tuple(parameters), assumed
    names = [chosen] if isinstance(chosen, str) else list(chosen)
    if common is not None and (unknown := [name for name in names if name not in parameters]):
        raise InputError(f"`common` must be all, none, or of {', '.join(parameters)}, got {', '.join(unknown)}")
    # along a sample a seed is one stream if it is one along all of its parameters
    along = [dim for dim, own in parameters.items() if dim in names or set(own) <= set(names)]
    return tuple(along), assumed


@dataclass(frozen=True, eq=False)
class Sampled:
    """Parameters (D,) and their values at the points (n, D).  Strings are numbered in alphabetical order.

    dims: dimensions of the sample; the points are their product in C order.  seeds: whether `seed` is pooled too.
    words: the strings of each parameter by their numbers, empty for numbers.  along: the dimension of each parameter.
    levels: levels of Morris' trajectories.
    """

    names: tuple[str, ...]
    points: Array
    dims: tuple[str, ...]
    seeds: bool
    words: tuple[tuple[str, ...], ...]
    along: Mapping[str, str]
    levels: int = LEVELS

    def describe(self, number: int, value: float) -> str:
        """A value of a parameter in words."""
        words = self.words[number]
        return words[int(value)] if words else f"{value:.4g}"


def design_of(data: xr.DataArray | xr.Dataset, dim: str) -> Mapping[str, object]:
    """The description of the design along a dimension, empty where it is none."""
    try:
        found = json.loads(str(data[dim].attrs.get(DESIGN, "{}"))) if dim in data.coords else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def sample_dimensions(data: xr.DataArray | xr.Dataset) -> list[str]:
    """Dimensions along which several parameters vary, those that a design describes first."""
    names = [str(dim) for dim in data.dims if dim != DRAWN]
    # a single one may follow an axis by a rule, as gamma follows the dictionary
    along = [name for name in names if design_of(data, name) or len(_along(data, name)) > 1]
    return sorted(along, key=lambda dim: not design_of(data, dim))


def drawn_dimensions(data: xr.DataArray | xr.Dataset) -> tuple[str, ...]:
    """Dimensions whose points were drawn, as their design says."""
    return tuple(str(dim) for dim in data.dims if design_of(data, str(dim)).get("kind") == "sample")


def along_sample(data: xr.DataArray | xr.Dataset, name: str | None) -> bool:
    """Test for a parameter along points that were drawn."""
    return name is not None and name in data.coords and data[name].dims in [(dim,) for dim in drawn_dimensions(data)]


def sampled(values: xr.DataArray, over: Sequence[str], parameters: Sequence[str] | None = None) -> Sampled:
    """The sample along the dimensions `over`, less the seed.

    Parameters of a dimension are those that its design names, or all coordinates of one value a point; without such,
    the dimension itself.  `parameters` takes some of them.  Raises InputError where there are none.
    """
    dims = [dim for dim in over if dim != DRAWN]
    if not dims:
        raise InputError(f"`over` must name a dimension of a sample, got {', '.join(over) or 'no name'}")
    known = {name: dim for dim in dims for name in _along(values, dim)}
    unknown = [name for name in parameters or () if name not in known]
    if unknown:
        raise InputError(f"`parameters` must be of {', '.join(known)}, got {', '.join(unknown)}")
    names = [name for name in known if parameters is None or name in parameters]
    if not names:
        raise InputError(f"`over` must name dimensions along which a parameter varies, got {', '.join(over)}")
    shape = tuple(values.sizes[dim] for dim in dims)
    places = np.indices(shape).reshape(len(dims), -1)
    numbers = {name: _numbers(values, name, known[name]) for name in names}
    columns = [numbers[name][0][places[dims.index(known[name])]] for name in names]
    words = tuple(each for _, each in numbers.values())
    along = {name: known[name] for name in names}
    levels = [int(str(design.get("levels", LEVELS))) for dim in dims for design in [design_of(values, dim)]]
    return Sampled(tuple(names), np.stack(columns, axis=-1), tuple(dims), DRAWN in over, words, along, levels[0])


def _along(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """Parameters along a dimension."""
    stated = design_of(values, dim).get("parameters")
    own = [str(name) for name, coord in values.coords.items() if coord.dims == (dim,) and name not in (dim, KEYS)]
    if isinstance(stated, dict):
        return [name for name in map(str, stated) if name in own]
    return [name for name in own if values[name].dtype.kind in "iufbOU"] or [dim]


def _numbers(values: xr.DataArray, name: str, dim: str) -> tuple[Array, tuple[str, ...]]:
    """Values of a parameter along its dimension as numbers, of words their places in order; positions of neither."""
    if name not in values.coords:
        return np.arange(values.sizes[dim], dtype=float), ()
    column = values[name].values
    if column.dtype.kind in "iufb":
        return np.asarray(column, dtype=float), ()
    places, words = pd.factorize(column.astype(str), sort=True)
    return places.astype(float), tuple(map(str, words))
