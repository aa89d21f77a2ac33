"""What the page's script needs: where the marks of its pictures stand, their values, and the runs that they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from markupsafe import Markup

from evogt_study.analysis import distinct
from evogt_study.analysis.plots.parts.marks import Marks
from evogt_study.printable import shown
from evogt_study.schema.values import canonical, text_label

MOST_RUNS = 2000
"""Runs that a picture tells of: more are closer than a pointer can tell apart, and take 10 bytes each."""
MOST_OTHERS = 100
"""Other marks of a kind, as points of a line: ten lines of ten."""
MOST_CHOICES = 100
"""Values of an axis up to which the page offers to choose among them: longer lists are not read."""
GRID = 1000
"""Steps of a place across a picture: half a pixel."""

Places = npt.NDArray[np.int64]


class Marked(NamedTuple):
    """A picture of the page by its name there, the variable that its single runs show, and its marks."""

    name: str
    variable: str
    marks: Sequence[Marks]


def pointer_data(file: str, phases: Mapping[str, tuple[xr.Dataset, Sequence[Marked]]], replays: bool = True) -> Markup:
    """JSON for a script element, which no text in it can end; replays: whether `evogt replay` takes the runs."""
    page = {"file": shown(file), "replays": replays, "phases": [_phase(name, *each) for name, each in phases.items()]}
    # NaN is no JSON: a browser would refuse all of it
    text = json.dumps(page, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704  # letters of JSON, of which none is a sign of HTML any more


def _phase(name: str, data: xr.Dataset, pictures: Sequence[Marked]) -> dict[str, Any]:
    """The axes of a phase, the pictures with the places of their marks, and the values of the runs among them.

    runs of a picture: x, y and the step to the number of the run, three by three; others: x, y, value and number
    along.  cells: steps from run to run.
    """
    dims = list(map(str, data["status"].dims))
    cells = {each.name: _cells(data, each) for each in pictures if each.name}
    listed = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(found[1] for found in cells.values())]))
    shown_pictures = {
        each.name: {
            "variable": each.variable,
            "runs": _stepwise(cells[each.name][0], np.searchsorted(listed, cells[each.name][1])),
            "others": _others(each.marks),
        }
        for each in pictures
    }
    values = {
        variable: [_short(value) for value in _along(data, variable)[listed]]
        for variable in dict.fromkeys(each.variable for each in pictures if len(cells[each.name][1]))
    }
    labels, places = _labels(data, dims, listed)
    chosen = [dim for dim in dims if 1 < data.sizes[dim] <= MOST_CHOICES]
    return {
        "pilot": name == "pilot", "axes": dims, "labels": labels, "filters": chosen,
        "cells": np.diff(places, prepend=0).tolist(), "values": values, "pictures": shown_pictures,
    }  # fmt: skip


def _cells(data: xr.Dataset, picture: Marked) -> tuple[Places, Places]:
    """Places of at most `MOST_RUNS` single runs in a picture, and the cells of the study that they are of."""
    marks = [each for each in picture.marks if each.name == "runs"]
    if not marks or set(data[picture.variable].dims) != set(data["status"].dims):
        return np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=np.int64)
    places, values = np.concatenate([each.places for each in marks]), np.concatenate([each.values for each in marks])
    kept = _thinned(len(values), MOST_RUNS)
    cells = _runs_of(data, picture.variable, values[kept])
    known = cells >= 0
    return np.round(GRID * places[kept][known]).astype(np.int64), cells[known]


def _stepwise(places: Places, runs: Places) -> list[int]:
    """x, y and the step from the run before, three by three: steps are mostly 1, and numbers are longer."""
    order = np.argsort(runs, kind="stable")
    found: list[int] = np.column_stack([places[order], np.diff(runs[order], prepend=0)]).ravel().tolist()
    return found


def _others(marks: Sequence[Marks]) -> list[dict[str, Any]]:
    """Marks that are of no single run, by their name."""
    found = []
    for name in dict.fromkeys(each.name for each in marks if each.name != "runs"):
        same = [each for each in marks if each.name == name]
        places, x, values = (np.concatenate([each[i] for each in same]) for i in (1, 2, 3))
        kept = _thinned(len(x), MOST_OTHERS)
        grid = np.round(GRID * places[kept]).astype(int).tolist()
        points = [
            number
            for place, value, along in zip(grid, values[kept], x[kept], strict=True)
            for number in (*place, _short(value), _short(along))
        ]
        found.append({"name": name, "points": points})
    return found


def _thinned(count: int, most: int) -> Places:
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)


def _along(data: xr.Dataset, variable: str) -> npt.NDArray[np.float64]:
    return np.asarray(data[variable].transpose(*data["status"].dims).values, dtype=float).ravel()


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _runs_of(data: xr.Dataset, variable: str, wanted: npt.NDArray[np.float64]) -> Places:
    """The cell of the one run that has each value; -1 where there is none, or several runs have it."""
    values, numbers = _along(data, variable), distinct.run_numbers(data[distinct.KEYS]).ravel()
    there = np.flatnonzero(np.isfinite(values) & (numbers >= 0))
    order = there[np.argsort(values[there], kind="stable")]
    first, behind = (np.searchsorted(values[order], wanted, side) for side in ("left", "right"))
    other = np.concatenate([[0], np.cumsum(np.diff(numbers[order]) != 0)])  # grows where the next is another run
    found = np.full(len(wanted), -1, dtype=np.int64)
    alone = np.flatnonzero(behind > first)
    alone = alone[other[behind[alone] - 1] == other[first[alone]]]  # all cells of this value are one run
    found[alone] = order[first[alone]]
    return found


def _labels(data: xr.Dataset, dims: Sequence[str], runs: Places) -> tuple[list[list[str]], Places]:
    """Labels along each axis, of a long one those of these runs alone; and the cells of the runs among them."""
    at = np.unravel_index(runs, tuple(data.sizes[dim] for dim in dims))
    kept = [
        np.arange(data.sizes[dim]) if data.sizes[dim] <= MOST_CHOICES else np.unique(place)
        for dim, place in zip(dims, at, strict=True)
    ]
    labels = [
        [shown(text_label(canonical(value))) for value in data[dim].values[each]]
        for dim, each in zip(dims, kept, strict=True)
    ]
    cells = np.zeros(len(runs), dtype=np.int64)
    for each, place in zip(kept, at, strict=True):
        cells = cells * max(1, len(each)) + np.searchsorted(each, place)
    return labels, cells
