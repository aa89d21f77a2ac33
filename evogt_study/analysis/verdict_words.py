"""A verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from evogt_study.analysis.labels import shown
from evogt_study.study.case_space import listed


def sentence(cell: xr.Dataset, dim: str, first: int, open_pairs: Sequence[str], units: str = "units") -> str:
    """The verdict of one cell, of which label `first` has the best mean and differs from all but `open_pairs`.

    units: the plural of what was drawn.
    """
    if first < 0:
        return "no label has a finite mean" if int(cell["n_common"]) else "no label has a value"
    name, count = shown(cell, dim)[first], int(cell["n_common"])
    runs = float(cell["best_run"].isel({dim: first}))
    parts = [f"best in {runs:.0%} of {count} common {units}"]
    chance = float(cell["best_mean"].isel({dim: first}))
    if np.isnan(chance):
        return f"{name} has the best mean, but {count} common {units} are too few to say more"
    # 999 resamples tell no probability nearer to zero or one
    parts.append(f"on average best with probability {min(max(chance, 0.001), 0.999):.3f}")
    depends = [*_other_winners(cell, name), *_left_out(cell, dim, name, units), *_faster(cell, dim, first)]
    opening = (
        f"{name} is best"
        if not open_pairs
        else f"{name} has the best mean, not told apart from " + listed(list(open_pairs), 12)
    )
    return "; ".join([opening, *parts, *(depends or ["the same by every measure"])])


def _other_winners(cell: xr.Dataset, name: str) -> list[str]:
    """Measures by which another label wins."""
    table = cell["winner"].transpose("metric", "statistic")
    return [
        f"{other} by the {statistic} of {metric}"
        for metric, row in zip(table["metric"].values, table.values, strict=True)
        for statistic, other in zip(table["statistic"].values, row, strict=True)
        if other not in ("", name)
    ]


def _left_out(cell: xr.Dataset, dim: str, name: str, units: str) -> list[str]:
    labels = shown(cell, dim)
    return [
        f"{label} without {int(number)} of the {units}, one at a time"
        for label, number in zip(labels, cell["without"].values, strict=True)
        if label != name and number > 0
    ]


def _faster(cell: xr.Dataset, dim: str, first: int) -> list[str]:
    if "best_from" not in cell:
        return []
    times, labels = cell["best_from"].values, shown(cell, dim)
    own = float(cell["seconds"].isel({dim: first}))
    return [
        f"{labels[i]} where a run may take less than {own:.2g} s"
        for i in np.argsort(times)
        if i != first and times[i] < own
    ][-1:]  # the slowest of them, which is the best: each is better than all that are faster
