"""The choice of a pilot, found again from its runs and the study in its result."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.schema.variables import CANDIDATE, Status

ERROR = "error"


def pilot_section(pilot: xr.Dataset) -> dict[str, Any]:
    """The ``[pilot]`` section of the study in a result, empty where it cannot be read."""
    try:
        section = tomllib.loads(str(pilot.attrs.get("study", ""))).get("pilot", {})
    except tomllib.TOMLDecodeError:
        return {}
    return section if isinstance(section, dict) else {}


def minimised(section: dict[str, Any]) -> tuple[str, list[str]]:
    """The variable that the pilot minimises, and the axes at whose points it chooses."""
    return str(section.get("minimise", ERROR)), list(map(str, section.get("by", [])))


def chosen(pilot: xr.Dataset) -> xr.DataArray | None:
    """Mask of the chosen candidate over `by` and the candidates, as `results.decisions.choose` chooses.

    The least mean, over the other axes, of the candidates of which all runs are ok; of equals the smaller, or the first
    where a candidate is of several parameters.  None where the runs or their study do not say it.
    """
    section = pilot_section(pilot)
    minimise, by = minimised(section)
    known = {minimise, "status"} <= set(pilot.data_vars) and {*by, CANDIDATE} <= set(pilot.dims)
    if not section or not known or pilot[minimise].dims != pilot["status"].dims:
        return None
    over = [dim for dim in pilot["status"].dims if dim not in (*by, CANDIDATE)]
    values = pilot[minimise].astype(float).where(pilot["status"] == Status.ok)
    means = values.mean(over, skipna=False)
    usable = means.notnull() & (abs(means) < np.inf)
    best = usable & (means == means.where(usable, np.inf).min(CANDIDATE))
    parameter = section.get("parameter")
    order = pilot[parameter] if isinstance(parameter, str) and parameter in pilot.coords else pilot[CANDIDATE]
    ranked = order.broadcast_like(best).where(best, np.inf)
    return best & (ranked == ranked.min(CANDIDATE))
