"""Read the points of a sample from the coordinates of a result: the parameters along a dimension and their values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from evogt_study.analysis.runs import DRAWN, KEYS
from evogt_study.errors import InputError
from evogt_study.inference.kernels import Array
from evogt_study.schema.variables import DESIGN

LEVELS = 4
"""Levels of Morris' trajectories where nothing says how many: SALib's default."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """Parameters (D,) and their values at the points (n, D).  Strings are numbered in alphabetical order.

    dims: dimensions of the sample; the points are their product in C order.  seeds: whether `seed` is pooled too.
    words: the strings of each parameter by their numbers, empty for numbers.  levels: levels of Morris' trajectories.
    """

    names: tuple[str, ...]
    points: Array
    dims: tuple[str, ...]
    seeds: bool
    words: tuple[tuple[str, ...], ...]
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
    levels = [int(str(design.get("levels", LEVELS))) for dim in dims for design in [design_of(values, dim)]]
    return Sampled(tuple(names), np.stack(columns, axis=-1), tuple(dims), DRAWN in over, words, levels[0])


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
