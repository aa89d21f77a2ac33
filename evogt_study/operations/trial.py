"""Compute one case of a study in this process, or compute a run of a result again for a comparison."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evogt_study.errors import EvogtError, InputError, ResultError, suggest, without_package_frames
from evogt_study.methods.code import CodeKind, MethodSpec, UserCode
from evogt_study.operations.compare import Difference, differences, name_variables, read_runs, software_changes
from evogt_study.results.dataset import records_of
from evogt_study.results.netcdf import open_partial_result
from evogt_study.results.reopened import ResultWithPlan, any_phase, code_to_run, point, read_plans
from evogt_study.schema.records import COORDINATE, Case, RunRecords, Stack
from evogt_study.schema.values import Value, find_value, text_label, to_canonical
from evogt_study.schema.variables import MAIN, PILOT, Status, status_codes
from evogt_study.study.case_space import CaseSpace, join_names
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

_MAX_VALUES = 6
"""Number of printed values of an array.  With name and dimensions, these values fit on a line."""


@dataclass(frozen=True, eq=False)
class StoredRun:
    """Run of a result that was computed again.

    Attributes
    ----------
    key : str
        Run key in the file.
    status : Status
        Status in the file.
    message : str
        Message in the file.
    compared : tuple of str
        Names of the variables that both runs have.
    differences : tuple of Difference
        Variables that are not equal bit for bit.
    software : str
        Software versions that differ between the file and this process, or "".
    """

    key: str
    status: Status
    message: str
    compared: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    software: str = ""


@dataclass(frozen=True, eq=False)
class Trial:
    """Case that this process has computed.

    Attributes
    ----------
    point : str
        Axis values of the case.
    case : Case
        Parameters and run key.
    record : RunRecords
        Status and values.
    raised : str
        Traceback of the run, or "".
    stored : StoredRun or None
        Run of the result that this case repeats, or None for a case of a study.
    """

    point: str
    case: Case
    record: RunRecords
    raised: str
    stored: StoredRun | None = None

    @property
    def status(self) -> Status:
        """Status of the run."""
        return Status(self.record.status[0])

    @property
    def message(self) -> str:
        """Message of the run, or "" for a run with the status ok."""
        return self.record.messages[0]

    @property
    def equal(self) -> bool:
        """True if the stored run has equal status, message and values, bit for bit."""
        known = self.stored
        return known is not None and not known.differences and (known.status, known.message) == (
            self.status, self.message,
        )  # fmt: skip

    def describe(self) -> Iterator[str]:
        """Yield the lines of a description of the run and its differences from the stored run."""
        yield f"{self.point}: {self.status.name} in {self.record.wall_seconds[0]:.3g} s, run key {self.case.key}"
        yield "  with " + ", ".join(f"{name} = {text_label(value)}" for name, value in self.case.values.items())
        for stack in self.record.stacks:
            yield f"  {_describe_values(stack)}"
        if self.stored is None:
            if self.message:
                yield f"  {self.message}"
            return
        if self.case.key != self.stored.key:
            yield f"  the file has a different run key, {self.stored.key or 'none'}, because this package has changed"
        if self.stored.software:
            yield f"  the file has a run by other software: {self.stored.software}"
        if (self.status, self.message) != (self.stored.status, self.stored.message):
            yield f"  in the file: {_describe_status(self.stored.status, self.stored.message)}"
            yield f"  now: {_describe_status(self.status, self.message)}"
        elif self.status != Status.ok:
            yield f"  as in the file: {_describe_status(self.status, self.message)}"
        yield from (f"  {difference.describe()}" for difference in self.stored.differences)
        different = {difference.name for difference in self.stored.differences}
        equal = [name for name in self.stored.compared if name not in different]
        if equal:
            yield f"  equal bit for bit: {', '.join(equal)}"


def _describe_status(status: Status, message: str) -> str:
    return f"{status.name}, {message}" if message else status.name


def _describe_values(stack: Stack) -> str:
    """Describe dimensions, type and first values of a variable on one line."""
    values, kind = stack.values[0], "coordinate " if stack.role == COORDINATE else ""
    sizes = ", ".join(f"{dim}: {size}" for dim, size in zip(stack.dims, values.shape, strict=True))
    flat = np.ravel(values)
    shown = ", ".join(f"{each:.6g}" if flat.dtype.kind == "f" else str(each) for each in flat[:_MAX_VALUES])
    return f"{kind}{stack.name} ({sizes}) {values.dtype}: {shown}{' ...' if flat.size > _MAX_VALUES else ''}"


def try_case(
    source: Study | str | Path,
    at: Mapping[str, object] | None = None,
    *,
    pilot: bool = False,
    code: str | Path | None = None,
) -> Trial:
    """Compute one case in this process, and compare it with a result.

    Parameters
    ----------
    source : Study, str or Path
        Study, or result file.
    at : mapping, optional
        Axis values of the case.  An axis without a value here has its first value.  For a study, new axis values and
        values of fixed parameters are also possible.
    pilot : bool, default False
        For a result, compute a run of the pilot instead of the main phase.
    code : str or Path, optional
        Python file of the study in a result, its folder or its installed module.  By default, this is the file beside
        the study file.  This function executes the file only if its code hash equals the recorded code hash.

    Returns
    -------
    Trial
        Status, message, values and traceback of the run.  For a result, the Trial also has the differences from the
        stored run.

    Raises
    ------
    InputError
        If the study has no such case.
    ResultError
        If the file is not a result, or its code is missing or has changed.

    Examples
    --------
    >>> evs.try_case("results/lorenz.nc", {"rho": 28, "seed": 3}).equal  # doctest: +SKIP
    True
    """
    at = at or {}
    if isinstance(source, Study):
        axes = {axis.name: axis.values for axis in source.space.axes}
        new = {name: value for name, value in at.items() if name not in axes or _index_of(axes[name], value) is None}
        plan = plan_study(source.replace(constants=new) if new else source)[-1]
        known = {name: value for name, value in at.items() if name in plan.space.names}
        index = _find_case(plan.space, known, source.file)
        case = plan.case(index)
        if case is None:
            raise InputError(f"no run is planned at {point(plan.space, index)} ({source.file}). Choose another case.")
        return Trial(point(plan.space, index), case, *_compute(plan.spec, case))
    path, phase = Path(source), PILOT if pilot else MAIN
    with open_partial_result(path) as groups:
        phases = read_plans(path, groups, code_to_run(path, any_phase(groups), None if code is None else Path(code)))
        if phase not in phases:
            remedy = "Leave out --pilot." if pilot else "Add --pilot to select a run of the pilot."
            raise ResultError(f"{path} has no runs of the phase {phase}. {remedy}")
        return repeat_run(phases[phase], _find_case(phases[phase].plan.space, at, str(path)), read_runs(path))


def repeat_run(here: ResultWithPlan, index: int, runs: Mapping[str, RunRecords]) -> Trial:
    """Compute case number `index` of a result again, and compare it with its run in `runs`, from `read_runs`."""
    where, case = point(here.plan.space, index), here.plan.case(index)
    if case is None:
        raise InputError(f"no run is planned at {where} ({here.path}, {here.phase}). Choose another case.")
    now, raised = _compute(here.plan.spec, case)
    run, known, key = here.run(index), runs.get(here.phase), here.keys[index]
    has_run = known is not None and key in known.keys
    before = known.select_rows(np.array([known.keys.index(key)])) if known is not None and has_run else records_of(run)
    both_ok = Status(now.status[0]) == Status.ok and before.status.tolist() == [Status.ok]
    stored_run = StoredRun(
        key,
        Status(status_codes(run["run_status"]).item()),
        str(run["run_message"].values.item()),
        name_variables(now) if both_ok else (),
        tuple(differences(before, now)) if both_ok else (),
        software_changes(before.software[0], now.software[0]) if before.software else "",
    )
    return Trial(where, case, now, raised, stored_run)


def _compute(spec: MethodSpec, case: Case) -> tuple[RunRecords, str]:
    """Compute a case without shared stages, and return its record and its traceback."""
    raised: list[BaseException] = []
    record = compute_here(Batch.of(spec, [case]), raised=raised.append)
    is_program = isinstance(spec.method, UserCode) and spec.method.kind is CodeKind.COMMAND
    if not raised or (is_program and isinstance(raised[0], EvogtError)):  # there is no code of the user to show
        return record, ""
    frames = without_package_frames(raised[0].__traceback__)
    return record, "".join(traceback.format_exception(raised[0].with_traceback(frames)))


def _find_case(space: CaseSpace, at: Mapping[str, object], source: str) -> int:
    """Return the number of the case with these axis values.  Raises InputError if there is no such case."""
    for name in at:
        if name not in space.names:
            raise InputError(f"{source} has no axis `{name}`. {suggest(name, space.names)}")
    positions = []
    for axis in space.axes:
        found = _index_of(axis.values, at[axis.name]) if axis.name in at else 0
        if found is None:
            values = join_names([text_label(value) for value in axis.values])
            raise InputError(f"`{axis.name}` must be one of {values} ({source}), got {str(at[axis.name])!r}")
        positions.append(found)
    return int(np.ravel_multi_index(positions, space.shape))


def _index_of(values: Sequence[Value], value: object) -> int | None:
    return find_value(values, value if isinstance(value, str) else text_label(to_canonical(value)))
