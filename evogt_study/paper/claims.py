"""Claims of the paper's text as numbers: counts of cases, a largest change, a bound and a ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

Results = Mapping[str, xr.Dataset]
Found = tuple[float, list[xr.DataArray]]
"""A number, and the variables of all runs behind it."""

COMPARED = ("oscillatory_1d", "target_1d", "operator_2d", "nonseparable_2d", "nonseparable_3d", "allen_cahn_2d")
"""Studies that compare dictionaries at equal output dimension: fifteen setups."""
OWN = "gtransnet"


def _count_below_elements(results: Results, dictionary: str) -> Found:
    pairs = [
        (results[f"{family}_1d"]["error"].sel(dictionary=dictionary), results[f"p1_fem_{family}"]["error"])
        for family in ("oscillatory", "target")
    ]
    lower = sum(int((errors.mean("seed") < elements).sum()) for errors, elements in pairs)
    return float(lower), [each for pair in pairs for each in pair]


def _compute_largest_change(results: Results) -> Found:
    errors = results["operator_2d"]["error"]
    fixed, moving = (errors.sel(modulation=each).mean("seed") for each in (0, 1))
    return float((100.0 * abs(moving - fixed) / fixed).max()), [errors]


def _compute_largest_defect(results: Results) -> Found:
    defects = [results[name]["mass_defect"] for name in ("oscillatory_1d", "threshold")]
    return max(float(each.max()) for each in defects), defects


def _count_monotone(results: Results) -> Found:
    increments = results["allen_cahn_2d"]["energy_increment"]
    return float((increments <= 0.0).sum()), [increments]


def _compute_ratio(results: Results) -> Found:
    errors = results["nonseparable_3d"]["error"]
    means = errors.mean("seed")
    ratios = means.sel(dictionary="gaussian_rf") / means.sel(dictionary=OWN)
    return float(ratios.mean()), [errors]


def _count_smallest(results: Results) -> Found:
    errors, smallest = [results[name]["error"] for name in COMPARED], 0
    for each in errors:
        means = each.mean("seed")
        smallest += int((means.sel(dictionary=OWN) <= means.min("dictionary")).sum())
    return float(smallest), errors


_FAMILIES = ("oscillatory_1d", "target_1d", "p1_fem_oscillatory", "p1_fem_target")
CLAIMS: Mapping[str, tuple[tuple[str, ...], Callable[[Results], Found]]] = {
    "cases with a lower mean error of gtransnet than of p1_fem": (
        _FAMILIES,
        lambda results: _count_below_elements(results, OWN),
    ),
    "cases with a lower mean error of transnet than of p1_fem": (
        _FAMILIES,
        lambda results: _count_below_elements(results, "transnet"),
    ),
    "largest relative change of a mean error by the time-dependent operator, percent": (
        ("operator_2d",),
        _compute_largest_change,
    ),
    "identity-mass defect, largest of all runs": (("oscillatory_1d", "threshold"), _compute_largest_defect),
    "runs with a monotone decay of the energy": (("allen_cahn_2d",), _count_monotone),
    "mean error of gaussian_rf over gtransnet, three dimensions": (("nonseparable_3d",), _compute_ratio),
    "setups in which gtransnet has the smallest mean error": (COMPARED, _count_smallest),
}
"""For each claim the studies that compute it, and its value."""


def compute_claim(results: Results, variable: str) -> tuple[float, int, int]:
    """Return the number of a claim, and how many runs are ok and planned.  Raises KeyError for an unknown claim."""
    value, variables = CLAIMS[variable][1](results)
    return value, sum(int(np.isfinite(each.values).sum()) for each in variables), sum(each.size for each in variables)
