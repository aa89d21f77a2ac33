"""Compute one case in this process: again, to compare it with a result bit for bit, or as a trial before all others."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evogt_study.errors import InputError, ResultError
from evogt_study.operations.compare import Difference, differences, software_changes, variables
from evogt_study.results.dataset import records_of
from evogt_study.results.netcdf import opened_so_far
from evogt_study.results.reopened import Stored, any_phase, code_to_run, point, stored
from evogt_study.schema.records import COORDINATE, Case, RunRecords, Stack
from evogt_study.schema.values import Value, find, text_label
from evogt_study.schema.variables import MAIN, PILOT, Status, status_codes
from evogt_study.study.case_space import CaseSpace, listed
from evogt_study.study.plan import provisional_plans
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

MOST_VALUES = 6
"""Number of printed values of an array; with name and dimensions they fit on a line."""


@dataclass(frozen=True, eq=False)
class Replay:
    """A case computed again.

    point: description of the case.  case: the case of the study, with its key.  stored_key, stored_status,
    stored_message: values in the file.  status, message, raised: status, message and traceback (or "") of the new run.
    compared: variables of both runs.  differences: variables that are not equal bit for bit.  software: differences
    between the versions that computed the file and the versions here, or "".
    """

    point: str
    case: Case
    stored_key: str
    stored_status: Status
    stored_message: str
    status: Status
    message: str
    raised: str
    compared: tuple[str, ...]
    differences: tuple[Difference, ...]
    software: str

    @property
    def equal(self) -> bool:
        """True if both runs are ok and have the same values bit for bit."""
        return self.status == self.stored_status == Status.ok and not self.differences

    def describe(self) -> list[str]:
        """Describe the outcome, line by line."""
        lines = []
        if self.case.key != self.stored_key:
            lines.append(
                f"  another computation than the file's, case {self.stored_key or '(none)'}: this package has changed "
                "since"
            )
        if self.software:
            lines.append(f"  the file's run was made by other software: {self.software}")
        if (self.status, self.message) != (self.stored_status, self.stored_message):
            lines += [f"  in the file: {_fate(self.stored_status, self.stored_message)}"]
            lines += [f"  now: {_fate(self.status, self.message)}"]
        elif self.status != Status.ok:
            lines.append(f"  as in the file: {_fate(self.status, self.message)}")
        lines += [f"  {difference.describe()}" for difference in self.differences]
        equal = [name for name in self.compared if name not in {difference.name for difference in self.differences}]
        if equal:
            lines.append(f"  equal bit for bit: {', '.join(equal)}")
        return lines


def replay(
    path: str | Path, at: Mapping[str, object] | None = None, *, pilot: bool = False, code: str | Path | None = None
) -> Replay:
    """Compute one case of the result `path` again and compare it with the file.

    at: a value for each axis with more than one value.  pilot: replay a case of the pilot.  code: the Python file of
    the study, its folder or its installed module; by default it is beside the study file.  It is executed only if its
    code hash is the recorded one.  The choice of a pilot is read from the file.  Raises ResultError if the file is not
    a result or its code is missing or has changed, and InputError for a point that is not in the result.
    """
    path, phase = Path(path), PILOT if pilot else MAIN
    with opened_so_far(path) as groups:
        phases = stored(path, groups, code_to_run(path, any_phase(groups), None if code is None else Path(code)))
        if phase not in phases:
            remedy = "leave out --pilot" if pilot else "give --pilot for one of the phase that is not finished"
            raise ResultError(f"{path} must have {phase} runs to replay one, got a result without them; {remedy}")
        return replayed(phases[phase], index_at(phases[phase].plan.space, at or {}, path))


def replayed(here: Stored, index: int) -> Replay:
    """Compute case number `index` again, from nothing, and compare it."""
    where, case = point(here.plan.space, index), here.plan.case(index)
    if case is None:
        raise InputError(f"no run is planned at {where} ({here.path}, {here.phase}), so there is none to replay")
    raised: list[BaseException] = []
    now = compute_here(Batch.of(here.plan.spec, [case]), raised=raised.append)  # shares nothing with other runs
    run = here.run(index)
    before = records_of(run)
    both_ok = Status(now.status[0]) == Status.ok and before.status.tolist() == [Status.ok]
    return Replay(
        point=where,
        case=case,
        stored_key=here.key(index),
        stored_status=Status(status_codes(run["run_status"]).item()),
        stored_message=str(run["run_message"].values.item()),
        status=Status(now.status[0]),
        message=now.messages[0],
        raised="".join(traceback.format_exception(raised[0])) if raised else "",
        compared=variables(now) if both_ok else (),
        differences=tuple(differences(before, now)) if both_ok else (),
        software=_software(before, now),
    )


def _fate(status: Status, message: str) -> str:
    return f"{status.name}, {message}" if message else status.name


def _software(before: RunRecords, now: RunRecords) -> str:
    return software_changes(before.software[0], now.software[0]) if before.software else ""


def index_at(space: CaseSpace, at: Mapping[str, object], path: Path) -> int:
    """The number of the case at this point.  Raises InputError, which names the values of the axis."""
    known = ", ".join(space.names)
    for name in at:
        if name not in space.names:
            near = difflib.get_close_matches(name, space.names, 1)
            advice = f"; did you mean `{near[0]}`?" if near else ""
            raise InputError(f"`--at` must name axes of {path} ({known}), got {name!r}{advice}")
    positions = []
    for axis in space.axes:
        values = listed([text_label(value) for value in axis.values])
        if axis.name not in at and len(axis.values) > 1:
            raise InputError(f"`--at` must give every axis a value, got none for {axis.name} ({path} has {values})")
        found = find(axis.values, str(at[axis.name])) if axis.name in at else 0
        if found is None:
            raise InputError(f"`{axis.name}` must be one of {values} ({path}), got {str(at[axis.name])!r}")
        positions.append(found)
    return int(np.ravel_multi_index(positions, space.shape))


@dataclass(frozen=True, eq=False)
class Trial:
    """A computed case: the description `point`, the parameters `values`, the `record`, and the traceback `raised`."""

    point: str
    values: Mapping[str, Value]
    record: RunRecords
    raised: str

    def describe(self) -> Iterator[str]:
        """Describe the outcome, line by line."""
        yield f"{self.point}: {Status(self.record.status[0]).name} in {self.record.wall_seconds[0]:.3g} s"
        yield "  with " + ", ".join(f"{name} = {text_label(value)}" for name, value in self.values.items())
        for stack in self.record.stacks:
            yield f"  {_described(stack)}"
        if self.record.messages[0]:
            yield f"  {self.record.messages[0]}"


def tried(study: Study, at: Mapping[str, object]) -> Trial:
    """Compute the case at this point, in this process.  Raises InputError for a point that is not in the study."""
    plan = provisional_plans(study)[-1]
    first = {axis.name: text_label(axis.values[0]) for axis in plan.space.axes}
    index = index_at(plan.space, {**first, **at}, Path(study.file))
    case = plan.case(index)
    if case is None:
        raise InputError(f"no run is planned at {point(plan.space, index)} ({study.file}); say another with --at")
    raised: list[BaseException] = []
    record = compute_here(Batch.of(plan.spec, [case]), raised=raised.append)
    text = "".join(traceback.format_exception(raised[0])) if raised else ""
    return Trial(point(plan.space, index), case.values, record, text)


def _described(stack: Stack) -> str:
    """Describe dimensions, type and first values of a variable on one line."""
    values, kind = stack.values[0], "coordinate " if stack.role == COORDINATE else ""
    sizes = ", ".join(f"{dim}: {size}" for dim, size in zip(stack.dims, values.shape, strict=True))
    flat = np.ravel(values)
    shown = ", ".join(f"{each:.6g}" if flat.dtype.kind == "f" else str(each) for each in flat[:MOST_VALUES])
    return f"{kind}{stack.name} ({sizes}) {values.dtype}: {shown}{' ...' if flat.size > MOST_VALUES else ''}"
