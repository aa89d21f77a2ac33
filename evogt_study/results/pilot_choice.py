"""Decide from the finished runs of the pilot which parameter values the main phase uses.

For each point of `by`, the pilot chooses the candidate with the lowest mean, and the smaller candidate of equal ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evogt_study.errors import PilotError
from evogt_study.results.table import Column, Table
from evogt_study.schema.values import text_label
from evogt_study.schema.variables import CANDIDATE, Status, to_losses
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import Candidate, Choice, Phase, in_words


# mean, not nanmean: a missing run must not make its candidate look better
def choose(pilot: Choice, table: Table) -> Chosen:
    """Choose from the pilot's finished runs.

    The candidate with the smallest mean wins at each point of `by`, or as the declared direction says; the smaller
    candidate wins a tie.  A candidate counts only if all of its runs are ok.  A diverged run has an infinite value.
    Raises PilotError if a point has no candidate left.
    """
    names = table.plan.space.names
    measured = _measured(pilot.minimise, table, pilot.better).reshape(table.plan.space.shape)
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


def _measured(name: str, table: Table, better: str) -> npt.NDArray[np.float64]:
    """The variable over all cases, lower is better: infinite for a diverged run, NaN for a missing run."""
    column = table.columns.get(name)
    if not isinstance(column, Column) or not column.is_number:
        raise PilotError(f"the pilot cannot minimise `{name}`: {_no_number(name, table)}{_commonest_message(table)}")
    values = to_losses(np.where(column.present, column.cells, np.nan).astype(float), better)
    values[table.status == Status.diverged] = np.inf
    values[(table.status != Status.ok) & (table.status != Status.diverged)] = np.nan
    return values


def _no_number(name: str, table: Table) -> str:
    """Explain that a variable cannot be minimised."""
    if name in table.columns:
        return f"it is {table.shapes.known[name, False]}, not a number"
    found = ", ".join(sorted(table.columns)) or "none"
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
    message = table.commonest_message()
    return f"; most often: {message}" if message else ""


def chosen_by(phase: Phase, table: Table) -> tuple[Chosen, ...]:
    """Choose parameters for later phases from the finished runs of one phase.  Raises PilotError."""
    return () if phase.choice is None else (choose(phase.choice, table),)


def chosen_so_far(phase: Phase, table: Table) -> tuple[Chosen, ...] | None:
    """Choose as `chosen_by`; None if runs that the choice needs are missing, or if no candidate is left."""
    try:
        return None if phase.choice is not None and len(table.missing()) else chosen_by(phase, table)
    except PilotError:
        return None
