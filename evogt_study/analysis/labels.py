"""Labels of an axis as a person names them: in Python by value, on the command line by text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import xarray as xr

from evogt_study.errors import InputError, ParameterError
from evogt_study.schema.values import canonical, find, text_label
from evogt_study.study.case_space import listed


def numeric_variables(data: xr.Dataset) -> list[str]:
    """Names of the variables that hold numbers."""
    return [str(name) for name, array in data.data_vars.items() if array.dtype.kind in "iufb"]


def shown(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """The labels along a dimension, as they are typed; positions where it has none."""
    return [text_label(canonical(label)) for label in values[dim].values]


def across(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """The labels along a dimension as headings: words as they are, numbers with the dimension's name."""
    found = shown(values, dim)
    return found if values[dim].dtype.kind in "OU" else [f"{dim}={label}" for label in found]


def position(values: xr.DataArray, dim: str, label: object) -> int:
    """Position of a label, given as its value or as text.  Raises InputError, with the labels that there are."""
    if dim not in values.dims:
        raise InputError(f"`dim` must be one of {', '.join(map(str, values.dims))}, got {dim!r}")
    found = find([canonical(each) for each in values[dim].values], str(label))
    if found is None:
        raise ParameterError(dim, f"one of {listed(shown(values, dim))}", label)
    return found


def heads(data: xr.Dataset, names: Sequence[str], dims: Sequence[str]) -> tuple[list[str], list[tuple[str, ...]]]:
    """The dimensions among `names`, in their order, and for each point of them the labels of all `names`.

    A name is one of `dims`, or of a coordinate over some of them: a parameter that follows.  A dimension of one label
    may be left out.  Raises InputError where another is, or where a name is no such one, or stands twice.
    """
    order = [name for name in names if name in dims]
    followers = [str(name) for name, coord in data.coords.items() if coord.ndim and name not in data.dims]
    unknown = [name for name in names if name not in dims and name not in followers]
    if unknown:
        known = ", ".join([*dims, *followers]) or "none, since there is one number only"
        raise InputError(f"`rows` and `columns` must be of {known}, got {', '.join(unknown)}")
    lacking = [dim for dim in dims if dim not in order and data.sizes[dim] > 1]
    if lacking or len(set(names)) < len(names):
        told = f"; {', '.join(lacking)} is left out" if lacking else ""
        raise InputError(
            f"`rows` and `columns` must name each of {', '.join(dims)} once, got {', '.join(names) or 'none'}{told}"
        )
    order += [dim for dim in dims if dim not in order]
    columns = {name: _along(data, name, order) for name in names}
    points = product(*(range(data.sizes[dim]) for dim in order))
    return order, [tuple(columns[name](point) for name in names) for point in points]


def _along(data: xr.Dataset, name: str, order: Sequence[str]) -> Callable[[tuple[int, ...]], str]:
    """The label of a name at a point of the dimensions `order`."""
    if name in order:
        labels, place = shown(data, name), order.index(name)
        return lambda point: labels[point[place]]
    coord = data[name]
    places = [order.index(str(dim)) for dim in coord.dims]
    return lambda point: text_label(canonical(coord.values[tuple(point[i] for i in places)]))
