"""Decide from finished runs how many seeds each setup needs for the target precision of the study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import StudyError, shortened
from evogt_study.inference.kernels import Array
from evogt_study.inference.sequential import Decision, decide
from evogt_study.results.table import Column, Table
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import COORDINATES, Status
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import SEED, Labels, Phase, Precision
from evogt_study.study.plan import Plan, phase_plan
from evogt_study.study.study import Study

SEEDS, HALF_WIDTH, REASON = "precision_seeds", "precision_half_width", "precision_reason"
"""Coordinates over the setups: number of seeds, half width of the confidence interval, reason to stop."""


# Seeds are only added, in the order of the axis: the plan of a resumed study does not depend on when it stopped.
def filled_as_needed(
    study: Study, phase: Phase, chosen: Sequence[Chosen], fill: Callable[[Plan], Table], *, computing: bool = False
) -> Table:
    """Fill the table of a phase by `fill`; with a target precision, add seeds until each setup has enough.

    It ends when `fill` returns no more runs, or when every setup has reached the precision or its largest number of
    seeds.  computing: `fill` computes missing runs; then it raises StudyError if no run has the variable.
    """
    if phase.precision is None:
        return fill(phase_plan(study, phase, chosen))
    counts: dict[Labels, int] = {}
    while True:
        seeds = phase.precision.seeds(phase.space, counts)
        table = fill(phase_plan(study, phase, [*chosen, seeds]))
        if computing:
            _check_variable(phase.precision.variable, table, study.file)
        wanted = {labels: each.wanted for labels, each in decisions(phase.precision, table).items()}
        if all(count <= counts.get(labels, phase.precision.goal.first) for labels, count in wanted.items()):
            return table
        counts = counts | wanted


# only its runs show what a user function returns
def _check_variable(name: str, table: Table, file: str) -> None:
    """Raise StudyError if some runs are ok and none has a number of this name."""
    known = sorted(own for own, column in table.columns.items() if column.is_number)
    if name not in known and np.any(table.status == Status.ok):
        message = f"`variable` must be one of {', '.join(known) or 'none'}, got {shortened(name)}"
        raise StudyError(f"{message} ({file}, precision.variable); finished runs are kept, a corrected file takes them")


def decisions(precision: Precision, table: Table) -> dict[Labels, Decision]:
    """Decide for each setup, by its labels, from the finished runs of a table; see `decide`.

    Both labels of a ratio have the same decision; other labels of its axis have none.
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
            # up to the first seed that is not finished: decisions use the seeds in order
            found[labels] = decide(values[place][: there[place].cumprod().sum()], precision.goal)
        elif labels[at] == precision.pair[0]:
            shown = list(map(text_label, others[at].values))
            places = [(*place[:at], shown.index(label), *place[at + 1 :]) for label in precision.pair]
            count = min(there[each].cumprod().sum() for each in places)
            made = decide(np.stack([values[each][:count] for each in places]), precision.goal)
            for label in precision.pair:
                found[(*labels[:at], label, *labels[at + 1 :])] = made
    return found


# a failed run is finished without a value, so that a setup with only failures does not need seeds without end
def _values(name: str, table: Table) -> tuple[Array, Any]:
    """The variable over all cases, NaN for a run without it, and which cases are finished."""
    column = table.columns.get(name)
    values = np.full(table.size, np.nan)
    if isinstance(column, Column) and column.is_number:
        values = np.where(column.present, column.cells, np.nan).astype(float)
    values[table.status != Status.ok] = np.nan
    return values, table.status != Status.not_run


def precision_coordinates(precision: Precision, table: Table) -> dict[str, Any]:
    """Coordinates over the setups of a result: number of seeds, half width, and the reason to stop."""
    others = [axis for axis in table.plan.space.axes if axis.name != SEED]
    shape = tuple(len(axis.values) for axis in others)
    made = decisions(precision, table)
    seeds, half = np.zeros(shape, dtype=np.int64), np.full(shape, np.nan)
    reason = np.full(shape, "", dtype=object)
    for place in np.ndindex(shape):
        labels = tuple(text_label(axis.values[i]) for axis, i in zip(others, place, strict=True))
        if labels in made:
            seeds[place], half[place] = [(0, np.nan), *((at.n, at.half_width) for at in made[labels].looks)][-1]
            reason[place] = made[labels].reason or "not finished"
    dims = tuple(axis.name for axis in others)
    what = f"{precision.goal.statistic} of {precision.variable}"
    return {
        SEEDS: (dims, seeds, {**COORDINATES[SEEDS].attributes, "comment": what}),
        HALF_WIDTH: (dims, half, {**COORDINATES[HALF_WIDTH].attributes, "comment": what}),
        REASON: (dims, reason, {**COORDINATES[REASON].attributes, "comment": what}),
    }


def planned_seeds(phase: Phase, results: Sequence[xr.Dataset]) -> Chosen | None:
    """The seeds that results have planned together, by their run keys; None for a phase without a target precision."""
    if phase.precision is None:
        return None
    names = [name for name in phase.space.names if name != SEED]
    counts: dict[Labels, int] = {}
    for data in results:
        labels = [[text_label(canonical(value)) for value in data[name].values] for name in names]
        found = (data["run_key"].astype(str) != "").sum(SEED).transpose(*names)
        for place, count in np.ndenumerate(found.values):
            cell = tuple(own[i] for own, i in zip(labels, place, strict=True))
            counts[cell] = max(int(count), counts.get(cell, 0))
    return phase.precision.seeds(phase.space, counts)
