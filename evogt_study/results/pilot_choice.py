"""The pilot's choice: for each point of `by` the candidate with the least mean, ties going to the smaller one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evogt_study.errors import PilotError
from evogt_study.results.run_table import Table
from evogt_study.schema.values import Value, text_label
from evogt_study.schema.variables import CANDIDATE, Status
from evogt_study.study.case_space import Chosen
from evogt_study.study.phases import Choice, Phase


def choose(pilot: Choice, table: Table) -> Chosen:
    """Choose from the pilot's finished runs.

    A candidate counts only if all of its runs are ok, so that no choice rests on survivors; a diverged run is an
    infinite one.  Raises PilotError where some point has no candidate left.
    """
    names = table.plan.space.names
    table.settle()
    measured = _measured(pilot.minimise, table).reshape(table.plan.space.shape)
    over = tuple(axis for axis, name in enumerate(names) if name not in (*pilot.by, CANDIDATE))
    means = np.mean(measured, axis=over)  # NaN where any run is missing; axes left: `by` in axis order, then candidate
    order = [name for name in names if name in pilot.by]
    choice: dict[tuple[str, ...], Value] = {}
    for position in np.ndindex(means.shape[:-1]):
        at = {name: table.plan.space.axis(name).values[i] for name, i in zip(order, position, strict=True)}
        key = tuple(text_label(at[name]) for name in pilot.by)
        candidates = pilot.candidates_at(key)
        best = _least(candidates, means[position])
        if best is None:
            where = ", ".join(f"{name} = {text_label(value)}" for name, value in at.items())
            raise PilotError(
                f"the pilot cannot choose `{pilot.parameter}`{' for ' if where else ''}{where}: no candidate "
                f"of {len(candidates)} has all of its runs ok{_commonest_message(table)}"
            )
        choice[key] = best
    return Chosen(pilot.parameter, pilot.by, choice)


def chosen_by(phase: Phase, table: Table) -> tuple[Chosen, ...]:
    """What the finished runs of a phase decide about later ones.  Raises PilotError."""
    return () if phase.choice is None else (choose(phase.choice, table),)


def chosen_so_far(phase: Phase, table: Table) -> tuple[Chosen, ...] | None:
    """As `chosen_by`; None where the phase decides and runs are missing, or there is nothing to choose from."""
    try:
        return None if phase.choice is not None and len(table.missing()) else chosen_by(phase, table)
    except PilotError:
        return None


def _commonest_message(table: Table) -> str:
    """What most runs that are not ok say, to be added to an error."""
    told = table.commonest_message()
    return f"; most often: {told}" if told else ""


def _least(candidates: tuple[Value, ...], means: npt.NDArray[np.float64]) -> Value | None:
    """The candidate of the least finite mean, the smaller of equals; None where no mean is finite."""
    usable = [
        (float(mean), float(value), value)  # type: ignore[arg-type]  # candidates are numbers, checked when read
        for value, mean in zip(candidates, means[: len(candidates)], strict=True)
        if np.isfinite(mean)
    ]
    return min(usable)[2] if usable else None


def _no_number(name: str, table: Table) -> str:
    """Why a variable cannot be minimised."""
    for own, dims, words in table.variables:
        if own == name:
            return "it is a word" if words else f"it is an array over {', '.join(dims)}, not a number"
    found = ", ".join(sorted({own for own, _, _ in table.variables})) or "none"
    return f"the runs returned no such number (they have: {found})"


def _measured(name: str, table: Table) -> npt.NDArray[np.float64]:
    """The variable over all cases: infinite where a run diverged, NaN where it is missing."""
    columns = [column for (own, _, _), column in table.variables.items() if own == name]
    if not columns or columns[0].cells.ndim != 1 or columns[0].cells.dtype.kind == "O":
        raise PilotError(f"the pilot cannot minimise `{name}`: {_no_number(name, table)}{_commonest_message(table)}")
    values = np.where(columns[0].present, columns[0].cells, np.nan).astype(float)
    values[table.status == Status.diverged] = np.inf
    values[(table.status != Status.ok) & (table.status != Status.diverged)] = np.nan
    return values
