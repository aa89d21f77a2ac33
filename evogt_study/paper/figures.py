"""The paper's two figures, drawn from the results of a reproduction."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from evogt_study import plots
from evogt_study.paper.reproduction import Results
from evogt_study.publishing.page import Drawn


def draw_figures(results: Results) -> list[Drawn]:
    """The paper's two figures, where the studies that they show are among the results."""
    found = []
    if "nonseparable_2d_field" in results:
        found.append(_fields_drawn(results["nonseparable_2d_field"].squeeze(drop=True)))
    if {"allen_cahn_2d", "allen_cahn_reference"} <= set(results):
        found.append(_energies_drawn(energy_histories(results)))
    return found


def _fields_drawn(run: xr.Dataset) -> Drawn:
    largest = float(np.abs(run["field"] - run["exact_field"]).max())
    return Drawn(
        "nonseparable_2d_fields",
        "Final field of the two-dimensional nonseparable benchmark",
        "Exact solution, numerical solution (common colour scale) and absolute error at T = 0.16, for epsilon = 0.1 "
        "and the GTransNet dictionary of seed 0.",
        f"Three square panels: the exact and the numerical field look the same; the error is at most {largest:.2g}.",
        plots.field_panels(run["exact_field"], run["field"]),
    )


def _energies_drawn(histories: Mapping[str, xr.DataArray]) -> Drawn:
    falls = ", ".join(f"{name} to {float(each[-1] / each[0]):.4f}" for name, each in histories.items())
    return Drawn(
        "allen_cahn_energy",
        "Energy of the Allen-Cahn test",
        "Energy divided by its initial value, for the finite-difference reference (160 x 160, time step 0.002) and the "
        "GTransNet dictionary of seed 0.",
        f"Two curves that fall from 1 at every saved time: {falls}.",
        plots.energy_histories(histories),
    )


def energy_histories(results: Results) -> Mapping[str, xr.DataArray]:
    """The two histories of the paper's figure."""
    reference = results["allen_cahn_reference"].sel(points=160, dt=0.002)
    run = results["allen_cahn_2d"].sel(dictionary="gtransnet", seed=0)
    return {"finite differences": reference["free_energy_history"], "GTransNet": run["free_energy_history"]}
