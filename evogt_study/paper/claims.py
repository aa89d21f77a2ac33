"""Claims of the paper's text as numbers: counts of cases, a largest change, a bound and a ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import xarray as xr

OWN = "gtransnet"


class Claim(NamedTuple):
    """The studies and the variable behind a claim, its number from the values of these studies, and a selection."""

    studies: tuple[str, ...]
    variable: str
    compute: Callable[..., float]
    labels: Mapping[str, str] = {}


def _count_below_elements(oscillatory: xr.DataArray, target: xr.DataArray, *elements: xr.DataArray) -> float:
    pairs = zip((oscillatory, target), elements, strict=True)
    return float(sum(int((errors.mean("seed") < linear).sum()) for errors, linear in pairs))


def _compute_largest_change(errors: xr.DataArray) -> float:
    fixed, moving = (errors.sel(modulation=each).mean("seed") for each in (0, 1))
    return float((100.0 * abs(moving - fixed) / fixed).max())


def _compute_ratio(errors: xr.DataArray) -> float:
    means = errors.mean("seed")
    return float((means.sel(dictionary="gaussian_rf") / means.sel(dictionary=OWN)).mean())


def _count_smallest(*errors: xr.DataArray) -> float:
    means = [each.mean("seed") for each in errors]
    return float(sum(int((each.sel(dictionary=OWN) <= each.min("dictionary")).sum()) for each in means))


_FAMILIES = ("oscillatory_1d", "target_1d", "p1_fem_oscillatory", "p1_fem_target")
_COMPARED = ("oscillatory_1d", "target_1d", "operator_2d", "nonseparable_2d", "nonseparable_3d", "allen_cahn_2d")
CLAIMS: Mapping[str, Claim] = {
    **{
        f"cases with a lower mean error of {name} than of p1_fem": Claim(
            _FAMILIES, "error", _count_below_elements, {"dictionary": name}
        )
        for name in (OWN, "transnet")
    },
    "largest relative change of a mean error by the time-dependent operator, percent": Claim(
        ("operator_2d",), "error", _compute_largest_change
    ),
    "identity-mass defect, largest of all runs": Claim(
        ("oscillatory_1d", "threshold"), "mass_defect", lambda *defects: max(float(each.max()) for each in defects)
    ),
    "runs with a monotone decay of the energy": Claim(
        ("allen_cahn_2d",), "energy_increment", lambda increments: float((increments <= 0.0).sum())
    ),
    "mean error of gaussian_rf over gtransnet, three dimensions": Claim(("nonseparable_3d",), "error", _compute_ratio),
    "setups in which gtransnet has the smallest mean error": Claim(_COMPARED, "error", _count_smallest),
}
