"""Choose parameter values from the pilot, and numbers of seeds for a target precision.

For each point of `by`, the pilot chooses the candidate with the lowest mean.  If means are equal, the pilot
chooses the smaller candidate.  A target precision only adds seeds, in the order of the seed axis.  So the plan of a
resumed study does not depend on when the study stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import PilotError, StudyError, shorten
from evogt_study.inference.sequential import Decision, decide
from evogt_study.results.table import RunTable
from evogt_study.schema.values import text_label, to_canonical
from evogt_study.schema.variables import CANDIDATE, COORDINATES, Status, to_losses
from evogt_study.study.case_space import ParameterTable
from evogt_study.study.phases import SEED, Candidate, Labels, Phase, Precision, join_values
from evogt_study.study.plan import Plan, plan_phase
from evogt_study.study.study import Study

SEEDS, HALF_WIDTH, REASON = "precision_seeds", "precision_half_width", "precision_reason"
"""Names of coordinates with the number of seeds, the half width and the reason to stop of each setup."""


def _numbers(name: str, table: RunTable) -> npt.NDArray[np.float64] | None:
    """Return a number for each case, or None if the variable has no numbers.  A run that is not ok has NaN."""
    column = table.columns.get(name)
    if column is None or not column.is_number:
        return None
    return np.where(column.present & (table.status == Status.ok), column.load().values, np.nan).astype(float)


# mean, not nanmean: a missing run must not make its candidate look better.  A diverged run has an infinite value.
def choose_parameters(phase: Phase, table: RunTable) -> tuple[ParameterTable, ...]:
    """Choose parameters for later phases from the finished runs of one phase.

    Raises PilotError if a point has no candidate whose runs are all ok.
    """
    if (pilot := phase.choice) is None:
        return ()
    most = f". The most frequent message is: {message}" if (message := table.commonest_message()) else ""
    measured = _numbers(pilot.minimise, table)
    if measured is None:
        reason = f"the runs returned no number of this name (returned: {', '.join(sorted(table.columns)) or 'none'})"
        if pilot.minimise in table.columns:
            reason = f"it is {table.shapes[pilot.minimise, False]}, not a number"
        raise PilotError(f"the pilot cannot minimise `{pilot.minimise}`: {reason}{most}")
    losses = np.where(table.status == Status.diverged, np.inf, to_losses(measured, pilot.better))
    space, losses = table.plan.space, losses.reshape(table.plan.space.shape)
    over = tuple(axis for axis, name in enumerate(space.names) if name not in (*pilot.by, CANDIDATE))
    means = np.mean(losses, axis=over)  # NaN where any run is missing; axes left: `by` in axis order, then candidate
    order = [name for name in space.names if name in pilot.by]
    choice: dict[tuple[str, ...], Candidate] = {}
    for position in np.ndindex(means.shape[:-1]):
        at = {name: text_label(space.axis(name).values[i]) for name, i in zip(order, position, strict=True)}
        key = tuple(at[name] for name in pilot.by)
        candidates = pilot.find_candidates(key)
        usable = [
            (float(mean), float(each[0]) if len(each) == 1 else 0.0, number)  # type: ignore[arg-type]  # checked when read
            for number, (each, mean) in enumerate(zip(candidates, means[position], strict=False))
            if np.isfinite(mean)
        ]
        if not usable:
            wanted = f"`{join_values(pilot.parameters)}`" + " for " * bool(at)
            wanted += ", ".join(f"{name} = {label}" for name, label in at.items())
            reason = f"each of the {len(candidates)} candidates has a run that is not ok{most}"
            raise PilotError(f"the pilot cannot choose {wanted}: {reason}")
        choice[key] = candidates[min(usable)[2]]
    return (ParameterTable(pilot.parameters, pilot.by, choice),)


def fill_until_precise(
    study: Study, phase: Phase, chosen: Sequence[ParameterTable], fill: Callable[[Plan], RunTable], *,
    computing: bool = False,
) -> RunTable:  # fmt: skip
    """Return the table of a phase that `fill` fills.  A target precision adds seeds until each setup has enough.

    `computing` is True if `fill` computes missing runs.  Raises StudyError if no computed run has the variable.
    """
    precision = phase.precision
    if precision is None:
        return fill(plan_phase(study, phase, chosen))
    counts: dict[Labels, int] = {}
    while True:
        table = fill(plan_phase(study, phase, [*chosen, precision.seeds(phase.space, counts)]))
        known = sorted(name for name, column in table.columns.items() if column.is_number)
        # only its runs show what a user function returns
        if computing and precision.variable not in known and np.any(table.status == Status.ok):
            message = f"`variable` must be one of {', '.join(known) or 'none'}, got {shorten(precision.variable)}"
            where = f"({study.file}, precision.variable). Correct the name. The next run reuses the finished runs."
            raise StudyError(f"{message} {where}")
        wanted = {labels: each.wanted for labels, each in decisions(precision, table).items()}
        if all(count <= counts.get(labels, precision.goal.first) for labels, count in wanted.items()):
            return table
        counts = counts | wanted


def decisions(precision: Precision, table: RunTable) -> dict[Labels, Decision]:
    """Return the decision of `decide` for each setup.  The two setups of a ratio share their decision."""
    space, numbers = table.plan.space, _numbers(precision.variable, table)
    seed = space.names.index(SEED)
    # a failed run is finished without a value, so that a setup with only failures does not need seeds without end
    both = (np.full(table.size, np.nan) if numbers is None else numbers, table.status != Status.not_run)
    values, there = (np.moveaxis(each.reshape(space.shape), seed, -1) for each in both)
    shown = [list(map(text_label, axis.values)) for axis in space.axes if axis.name != SEED]
    at = [name for name in space.names if name != SEED].index(precision.axis) if precision.axis else None
    found: dict[Labels, Decision] = {}
    for place, labels in _setups(shown):
        if at is None:
            # up to the first seed that is not finished: decisions use the seeds in order
            found[labels] = decide(values[place][: there[place].cumprod().sum()], precision.goal)
        elif labels[at] == precision.pair[0]:
            places = [(*place[:at], shown[at].index(label), *place[at + 1 :]) for label in precision.pair]
            count = min(there[each].cumprod().sum() for each in places)
            made = decide(np.stack([values[each][:count] for each in places]), precision.goal)
            found |= {(*labels[:at], label, *labels[at + 1 :]): made for label in precision.pair}
    return found


def _setups(labels: Sequence[Sequence[str]]) -> Iterator[tuple[tuple[int, ...], Labels]]:
    """Yield the position and the axis values of each setup.  `labels` has the values of each axis."""
    for place in np.ndindex(*map(len, labels)):
        yield place, tuple(own[i] for own, i in zip(labels, place, strict=True))


def precision_coordinates(precision: Precision, table: RunTable) -> dict[str, Any]:
    """Return coordinates with the number of seeds, half width and reason to stop of each setup."""
    others = [axis for axis in table.plan.space.axes if axis.name != SEED]
    shape, made = tuple(len(axis.values) for axis in others), decisions(precision, table)
    seeds, half, reason = np.zeros(shape, np.int64), np.full(shape, np.nan), np.full(shape, "", object)
    for place, labels in _setups([list(map(text_label, axis.values)) for axis in others]):
        if labels in made:
            seeds[place], half[place] = [(0, np.nan), *((at.n, at.half_width) for at in made[labels].looks)][-1]
            reason[place] = made[labels].reason or "not finished"
    dims, comment = tuple(axis.name for axis in others), f"{precision.goal.statistic} of {precision.variable}"
    return {
        name: (dims, values, {**COORDINATES[name].attributes, "comment": comment})
        for name, values in ((SEEDS, seeds), (HALF_WIDTH, half), (REASON, reason))
    }


def find_planned_seeds(phase: Phase, results: Sequence[xr.Dataset]) -> ParameterTable | None:
    """Return the seeds with a run key in at least one result, or None without a target precision."""
    if phase.precision is None:
        return None
    names = [name for name in phase.space.names if name != SEED]
    counts: dict[Labels, int] = {}
    for data in results:
        labels = [[text_label(to_canonical(value)) for value in data[name].values] for name in names]
        found = (data["run_key"].astype(str) != "").sum(SEED).transpose(*names)
        for place, setup in _setups(labels):
            counts[setup] = max(int(found.values[place]), counts.get(setup, 0))
    return phase.precision.seeds(phase.space, counts)
