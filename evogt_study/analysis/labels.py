"""Labels of an axis as a person names them: in Python by value, on the command line by text."""

from __future__ import annotations

import xarray as xr

from evogt_study.errors import InputError, ParameterError
from evogt_study.sweep.stored import listed
from evogt_study.sweep.values import canonical, text_label


def shown(values: xr.DataArray | xr.Dataset, dim: str) -> list[str]:
    """The labels along a dimension, as they are typed; positions where it has none."""
    return [text_label(canonical(label)) for label in values[dim].values]


def position(values: xr.DataArray, dim: str, label: object) -> int:
    """Where a label stands, given as its value or as text.  Raises InputError, with the labels that there are."""
    if dim not in values.dims:
        raise InputError(f"`dim` must be one of {', '.join(map(str, values.dims))}, got {dim!r}")
    found = shown(values, dim)
    try:
        wanted = text_label(canonical(label))
        wanted = wanted if wanted in found else text_label(canonical(float(wanted)))
    except ValueError:
        wanted = str(label)
    if wanted not in found:
        raise ParameterError(dim, f"one of {listed(found)}", label)
    return found.index(wanted)
