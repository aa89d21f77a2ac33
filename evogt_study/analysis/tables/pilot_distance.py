"""Distance of a pilot's choice from the one that knows the answer, where its runs have an error."""

from __future__ import annotations

import numpy as np
import xarray as xr

from evogt_study.analysis.tables.pilot_choice import ERROR, minimised, pilot_section
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import CANDIDATE


def pilot_distance(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mean error of the chosen candidate over the least of all candidates, over the axes of the choice.

    The choice is by the least mean of `minimise`, which the study in the result names.  None for a pilot that
    minimises the error itself, or without the two variables.
    """
    minimise, by = minimised(pilot_section(pilot))
    if minimise == ERROR or not {minimise, ERROR} <= set(pilot.data_vars) or not set(by) <= set(pilot.dims):
        return None
    over = [dim for dim in pilot["status"].dims if dim not in (*by, CANDIDATE)]
    means = {name: pilot[name].mean(over, skipna=False) for name in (minimise, ERROR)}
    there: xr.DataArray = means[minimise].notnull() & means[ERROR].notnull()
    if not bool(there.any(CANDIDATE).all()):
        return None
    chosen = means[minimise].where(there, np.inf).argmin(CANDIDATE)
    known = means[ERROR].where(there, np.inf)
    return (known.isel({CANDIDATE: chosen}) / known.min(CANDIDATE)).rename("pilot_distance")


def distance_told(pilot: xr.Dataset) -> str:
    """The distance in a sentence; empty where it is not known."""
    distance = pilot_distance(pilot)
    if distance is None:
        return ""
    worst = np.unravel_index(int(np.argmax(distance.values)), distance.shape)
    at = ", ".join(
        f"{dim} = {text_label(canonical(distance[dim].values[i]))}"
        for dim, i in zip(map(str, distance.dims), worst, strict=True)
    )
    same = int(np.count_nonzero(distance.values == 1.0))  # exactly, being a number over itself
    minimise, _ = minimised(pilot_section(pilot))
    told = f"chosen by {minimise}: {same} of {distance.size} choices are those of the error itself"
    if same == distance.size:
        return told
    median, most = float(np.median(distance.values)), float(distance.max())
    return f"{told}; the mean error is {median:.3g} times the least (median), at most {most:.3g} times ({at})"
