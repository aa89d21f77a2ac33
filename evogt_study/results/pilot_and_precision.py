"""Decide from the finished runs of a phase: how many seeds each setup needs, and what the pilot chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import PilotError, StudyError, shortened
from evogt_study.inference.kernels import Array
from evogt_study.inference.sequential import Decision, decide
from evogt_study.results.table import Table
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import CANDIDATE, COORDINATES, Status
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import SEED, Candidate, Choice, Labels, Phase, Precision, in_words
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
    known = sorted({own for (own, dims, words) in table.variables if not dims and not words})
    if name not in known and np.any(table.status == Status.ok):
        told = f"`variable` must be one of {', '.join(known) or 'none'}, got {shortened(name)}"
        raise StudyError(f"{told} ({file}, precision.variable); finished runs are kept, a corrected file takes them")


def decisions(precision: Precision, table: Table) -> dict[Labels, Decision]:
    """Decide for each setup, by its labels, from the finished runs of a table; see `decide`.

    Both labels of a ratio have the same decision; other labels of its axis have none.
    """
    space = table.plan.space
    seed = space.names.index(SEED)
    values, there = (np.moveaxis(each.reshape(space.shape), seed, -1) for each in _values(precision.variable, table))
    truths = _are_truths(precision.variable, table)
    others = [axis for axis in space.axes if axis.name != SEED]
    names = [axis.name for axis in others]
    found: dict[Labels, Decision] = {}
    at = names.index(precision.axis) if precision.axis else None
    for place in np.ndindex(values.shape[:-1]):
        labels = tuple(text_label(axis.values[i]) for axis, i in zip(others, place, strict=True))
        if at is None:
            # up to the first seed that is not finished: decisions use the seeds in order
            found[labels] = decide(values[place][: there[place].cumprod().sum()], precision.goal, truths=truths)
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
    values = np.full(table.size, np.nan)
    for (own, dims, words), column in table.variables.items():
        if own == name and not dims and not words:
            values = np.where(column.present, column.cells, np.nan).astype(float)
    values[table.status != Status.ok] = np.nan
    return values, table.status != Status.not_run


def _are_truths(name: str, table: Table) -> bool:
    """Return True if all runs with this variable returned a boolean."""
    kinds = [column.kinds for (own, dims, words), column in table.variables.items() if own == name and not dims]
    return bool(kinds) and all(each == {"b"} for each in kinds)


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
    what = f"{precision.goal.of} of {precision.variable}"
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
        found = (data["case_key"].astype(str) != "").sum(SEED).transpose(*names)
        for place, count in np.ndenumerate(found.values):
            cell = tuple(own[i] for own, i in zip(labels, place, strict=True))
            counts[cell] = max(int(count), counts.get(cell, 0))
    return phase.precision.seeds(phase.space, counts)


# mean, not nanmean: a missing run must not make its candidate look better
def choose(pilot: Choice, table: Table) -> Chosen:
    """Choose from the pilot's finished runs.

    The candidate with the smallest mean wins at each point of `by`; the smaller candidate wins a tie.  A candidate
    counts only if all of its runs are ok.  A diverged run has an infinite value.  Raises PilotError if a point has no
    candidate left.
    """
    names = table.plan.space.names
    table.settle()
    measured = _measured(pilot.minimise, table).reshape(table.plan.space.shape)
    over = tuple(axis for axis, name in enumerate(names) if name not in (*pilot.by, CANDIDATE))
    means = np.mean(measured, axis=over)  # NaN where any run is missing; axes left: `by` in axis order, then candidate
    order = [name for name in names if name in pilot.by]
    choice: dict[tuple[str, ...], Candidate] = {}
    for position in np.ndindex(means.shape[:-1]):
        at = {name: table.plan.space.axis(name).values[i] for name, i in zip(order, position, strict=True)}
        key = tuple(text_label(at[name]) for name in pilot.by)
        candidates = pilot.candidates_at(key)
        best = _least(candidates, means[position])
        if best is None:
            where = ", ".join(f"{name} = {text_label(value)}" for name, value in at.items())
            wanted = f"`{in_words(pilot.parameters)}`{' for ' if where else ''}{where}"
            raise PilotError(
                f"the pilot cannot choose {wanted}: no candidate "
                f"of {len(candidates)} has all of its runs ok{_commonest_message(table)}"
            )
        choice[key] = best
    return Chosen(pilot.parameters, pilot.by, choice)


def _measured(name: str, table: Table) -> npt.NDArray[np.float64]:
    """The variable over all cases: infinite for a diverged run, NaN for a missing run."""
    columns = [column for (own, _, _), column in table.variables.items() if own == name]
    if not columns or columns[0].cells.ndim != 1 or columns[0].cells.dtype.kind == "O":
        raise PilotError(f"the pilot cannot minimise `{name}`: {_no_number(name, table)}{_commonest_message(table)}")
    values = np.where(columns[0].present, columns[0].cells, np.nan).astype(float)
    values[table.status == Status.diverged] = np.inf
    values[(table.status != Status.ok) & (table.status != Status.diverged)] = np.nan
    return values


def _no_number(name: str, table: Table) -> str:
    """Explain that a variable cannot be minimised."""
    for own, dims, words in table.variables:
        if own == name:
            return "it is a string" if words else f"it is an array over {', '.join(dims)}, not a number"
    found = ", ".join(sorted({own for own, _, _ in table.variables})) or "none"
    return f"the runs returned no such number (they have: {found})"


def _least(candidates: tuple[Candidate, ...], means: npt.NDArray[np.float64]) -> Candidate | None:
    """The candidate with the smallest finite mean; None if no mean is finite.

    The smaller candidate wins a tie, or the first one if a candidate has several parameters.
    """
    usable = [
        (float(mean), float(each[0]) if len(each) == 1 else 0.0, number)  # type: ignore[arg-type]  # checked when read
        for number, (each, mean) in enumerate(zip(candidates, means[: len(candidates)], strict=True))
        if np.isfinite(mean)
    ]
    return candidates[min(usable)[2]] if usable else None


def _commonest_message(table: Table) -> str:
    """The most frequent message of runs that are not ok, as the end of an error message."""
    told = table.commonest_message()
    return f"; most often: {told}" if told else ""


def chosen_by(phase: Phase, table: Table) -> tuple[Chosen, ...]:
    """Choose parameters for later phases from the finished runs of one phase.  Raises PilotError."""
    return () if phase.choice is None else (choose(phase.choice, table),)


def chosen_so_far(phase: Phase, table: Table) -> tuple[Chosen, ...] | None:
    """Choose as `chosen_by`; None if runs that the choice needs are missing, or if no candidate is left."""
    try:
        return None if phase.choice is not None and len(table.missing()) else chosen_by(phase, table)
    except PilotError:
        return None
