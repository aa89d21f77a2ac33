"""How well the cells of a study with a precision are known by its finished runs, and the seeds that they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.inference.kernels import Array
from evogt_study.inference.sequential import Decision, decide
from evogt_study.planning.plan import Plan, phase_plan
from evogt_study.results.run_table import Table
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import Status
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import Phase
from evogt_study.study.precision import SEED, Labels, Precision
from evogt_study.study.study import Study

SEEDS, HALF_WIDTH, REASON = "precision_seeds", "precision_half_width", "precision_reason"
"""Coordinates of a result: seeds that each cell used, half the width of its interval, and why no more were added."""


def filled_as_needed(study: Study, phase: Phase, chosen: Sequence[Chosen], fill: Callable[[Plan], Table]) -> Table:
    """The table of a phase, filled by `fill`; where it has a precision, of as many seeds as its runs say it needs.

    Batches end where `fill` has runs no more, or every cell is known, or has as many seeds as it may.
    """
    if phase.precision is None:
        return fill(phase_plan(study, phase, chosen))
    counts: dict[Labels, int] = {}
    while True:
        seeds = phase.precision.seeds(phase.space, counts)
        table = fill(phase_plan(study, phase, [*chosen, seeds]))
        wanted = {labels: each.wanted for labels, each in decisions(phase.precision, table).items()}
        if all(count <= counts.get(labels, phase.precision.goal.first) for labels, count in wanted.items()):
            return table
        counts = counts | wanted


def decisions(precision: Precision, table: Table) -> dict[Labels, Decision]:
    """What is known of each cell by the finished runs of a table, by the labels of its points; see `decide`.

    Both labels of a ratio have the decision of their cell; other labels of its axis have none.
    """
    space = table.plan.space
    seed = space.names.index(SEED)
    values, there = (np.moveaxis(each.reshape(space.shape), seed, -1) for each in _values(precision.variable, table))
    others = [axis for axis in space.axes if axis.name != SEED]
    names = [axis.name for axis in others]
    found: dict[Labels, Decision] = {}
    at = names.index(precision.axis) if precision.axis else None
    for place in np.ndindex(values.shape[:-1]):
        labels = tuple(text_label(axis.values[i]) for axis, i in zip(others, place, strict=True))
        if at is None:
            found[labels] = decide(values[place][: there[place].cumprod().sum()], precision.goal)
        elif labels[at] == precision.pair[0]:
            shown = list(map(text_label, others[at].values))
            places = [(*place[:at], shown.index(label), *place[at + 1 :]) for label in precision.pair]
            count = min(there[each].cumprod().sum() for each in places)
            made = decide(np.stack([values[each][:count] for each in places]), precision.goal)
            for label in precision.pair:
                found[(*labels[:at], label, *labels[at + 1 :])] = made
    return found


def _values(name: str, table: Table) -> tuple[Array, Any]:
    """The variable over all cases, NaN where a run has none, and which of them are finished."""
    values = np.full(table.size, np.nan)
    for (own, dims, words), column in table.variables.items():
        if own == name and not dims and not words:
            values = np.where(column.present, column.cells, np.nan).astype(float)
    values[table.status != Status.ok] = np.nan
    return values, table.status != Status.not_run


def precision_coordinates(precision: Precision, table: Table) -> dict[str, Any]:
    """Coordinates over the cells of a result: seeds used, half width reached, and why no more seeds were added."""
    others = [axis for axis in table.plan.space.axes if axis.name != SEED]
    shape = tuple(len(axis.values) for axis in others)
    made = decisions(precision, table)
    seeds, half = np.zeros(shape, dtype=np.int64), np.full(shape, np.nan)
    reason = np.full(shape, "", dtype=object)
    for place in np.ndindex(shape):
        labels = tuple(text_label(axis.values[i]) for axis, i in zip(others, place, strict=True))
        decision = made.get(labels)
        if decision is not None:
            last = decision.looks[-1] if decision.looks else None
            seeds[place] = 0 if last is None else last.n
            half[place] = np.nan if last is None else last.half_width
            reason[place] = decision.reason or "not finished"
    dims = tuple(axis.name for axis in others)
    what = f"{precision.goal.of} of {precision.variable}"
    return {
        SEEDS: (dims, seeds, {"long_name": f"seeds after which the {what} was looked at last", "units": "1"}),
        HALF_WIDTH: (dims, half, {"long_name": f"half width of the interval of the {what}", "units": "1"}),
        REASON: (dims, reason, {"long_name": f"why no more seeds were added for the {what}"}),
    }


def planned_seeds(phase: Phase, results: Sequence[xr.Dataset]) -> Chosen | None:
    """The seeds that results have planned between them, by their case keys; None for a phase without a precision."""
    if phase.precision is None:
        return None
    names = [name for name in phase.space.names if name != SEED]
    counts: dict[Labels, int] = {}
    for data in results:
        labels = [[text_label(canonical(value)) for value in data[name].values] for name in names]
        found = (data["case_key"].astype(str) != "").sum(SEED).transpose(*names)
        for place, count in np.ndenumerate(found.values):
            cell = tuple(own[i] for own, i in zip(labels, place, strict=True))
            counts[cell] = max(int(count), counts.get(cell, 0))
    return phase.precision.seeds(phase.space, counts)
