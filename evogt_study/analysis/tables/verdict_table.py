"""A verdict as text: a sentence for each cell, and a table of its pairs."""

from __future__ import annotations

from itertools import product

import numpy as np
import xarray as xr

from evogt_study.analysis.blocks import BOUND
from evogt_study.analysis.labels import shown
from evogt_study.analysis.tables.numbers import NumberFormat
from evogt_study.analysis.tables.tables import rendered
from evogt_study.analysis.verdict import PAIR


def verdict_lines(found: xr.Dataset) -> str:
    """Sentences of the cells, then effects, simultaneous intervals and adjusted p-values of their pairs."""
    rest = [str(dim) for dim in found["n_common"].dims]
    form = NumberFormat(3)
    told, body = [], []
    for place, labels in zip(
        np.ndindex(*found["n_common"].shape), product(*(shown(found, dim) for dim in rest)), strict=True
    ):
        cell = found.isel(dict(zip(rest, place, strict=True)))
        where = ", ".join(f"{dim} = {label}" for dim, label in zip(rest, labels, strict=True))
        told.append(f"{where}: {cell['verdict'].item()}" if where else str(cell["verdict"].item()))
        limits = cell["effect_ci"].transpose(PAIR, BOUND).values
        numbers = zip(cell[PAIR].values, cell["effect"].values, limits, cell["p_value"].values, strict=True)
        body += [
            [*labels, str(pair), *map(form.text, map(float, (effect, low, high, p)))]
            for pair, effect, (low, high), p in numbers
            if np.isfinite(effect)
        ]
    effect = str(found.attrs["effect"])
    header = [*rest, PAIR, effect, "lower", "upper", "p"]
    return "\n".join([*told, "", rendered(header, body, "text")])
