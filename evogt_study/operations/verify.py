"""Compute one case of a study, and verify the bytes, run keys and values of a result."""

import hashlib
import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study import errors
from evogt_study.methods.code import CodeKind, MethodSpec, UserCode
from evogt_study.operations.diff import Difference, compare_runs, describe_software_changes, read_runs
from evogt_study.results.dataset import make_global_attributes, to_dataset
from evogt_study.results.index import Inspection, inspect
from evogt_study.results.netcdf import load_result, open_partial_result, open_phases, select_metadata
from evogt_study.results.reopened import (
    ResultWithPlan,
    find_code_to_run,
    format_point,
    list_code_files,
    read_plans,
    select_main_phase,
)
from evogt_study.results.table import RunTable, are_equal
from evogt_study.schema.records import COORDINATE, VARIABLE, Case, RunRecords
from evogt_study.schema.values import Value, find_value, to_canonical, to_string
from evogt_study.schema.variables import MAIN, PILOT, Status, to_status
from evogt_study.storage.arrays import iterate_slabs
from evogt_study.storage.files import description_path, resolve_link
from evogt_study.study.case_space import CaseSpace, join_names
from evogt_study.study.plan import choose_parameters, join_values, plan_study
from evogt_study.study.study import Study
from evogt_study.text import format_count
from evogt_study.workers.batch import Batch, compute_here

_MAX_VALUES = 6  # maximum number of values of an array that `Trial.describe` prints
OTHER_SOFTWARE_TOLERANCE = 1e-8
"""Maximum relative difference that `verify` accepts between different software versions.

In tests, BLAS kernels of different processors changed errors by at most 6e-9.
"""
STUDY_ATTRIBUTES = ("Conventions", "title", "summary", "id", "study", "study_sha256", "phase")
"""Names of the global attributes that the study text determines, so that `verify` can check their values."""
END_STATUSES = (Status.ok, Status.failed, Status.diverged)
"""Valid statuses of the runs of a complete result.  `verify` reports all other planned runs."""
NO_OTHER_CHECKS = "nothing else was checked"


# --- one case ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StoredRun:
    """Run of a result that was computed again.

    `compared` names the variables of both runs.  `software` lists the versions that differ from this process.
    """

    key: str
    status: Status
    message: str
    compared: tuple[str, ...]
    differences: tuple[Difference, ...]
    software: str


@dataclass(frozen=True, eq=False)
class Trial:
    """Case that this process has computed, with its record and its traceback `raised`.

    `stored` is the run of the result that this case repeats, or None for a case of a study.
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
        """Message of the run, which is "" for the status ok."""
        return self.record.messages[0]

    @property
    def equal(self) -> bool:
        """True if the stored run has the same status, message and values, bit for bit."""
        stored, now = self.stored, (self.status, self.message)
        return stored is not None and not stored.differences and (stored.status, stored.message) == now

    def describe(self) -> Iterator[str]:
        """Yield lines that describe the run and its differences from the stored run."""
        yield f"{self.point}: {self.status.text} in {self.record.wall_seconds[0]:.3g} s, run key {self.case.key}"
        yield "  with " + ", ".join(f"{name} = {to_string(value)}" for name, value in self.case.values.items())
        for stack in self.record.stacks:
            values, kind = np.asarray(stack.values[0]), "coordinate " * (stack.role == COORDINATE)
            sizes = ", ".join(f"{dim}: {size}" for dim, size in zip(stack.dims, values.shape, strict=True))
            first = values.ravel()[:_MAX_VALUES]
            shown = ", ".join(f"{each:.6g}" if values.dtype.kind == "f" else str(each) for each in first)
            yield f"  {kind}{stack.name} ({sizes}) {values.dtype}: {shown}{' ...' * (values.size > _MAX_VALUES)}"
        stored, now = self.stored, f"{self.status.text}, {self.message}".removesuffix(", ")
        if stored is None:
            if self.message:
                yield f"  {self.message}"
            return
        if self.case.key != stored.key:
            yield f"  the file has a different run key, {stored.key or 'none'}, because this package has changed"
        if stored.software:
            yield f"  the file has a run by other software: {stored.software}"
        before = f"{stored.status.text}, {stored.message}".removesuffix(", ")
        if before != now:
            yield f"  in the file: {before}"
            yield f"  now: {now}"
        elif self.status != Status.ok:
            yield f"  as in the file: {now}"
        yield from (f"  {difference.describe()}" for difference in stored.differences)
        different = {difference.name for difference in stored.differences}
        if equal := [name for name in stored.compared if name not in different]:
            yield f"  equal bit for bit: {', '.join(equal)}"


def try_case(
    source: Study | str | Path, at: Mapping[str, object] | None = None, *, pilot: bool = False,
    code: str | Path | None = None,
) -> Trial:  # fmt: skip
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
        the study file.  `try_case` executes the file only if its code hash equals the recorded code hash.

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
        new = {name: value for name, value in at.items() if name not in axes or _find_label(axes[name], value) is None}
        plan = plan_study(source.replace(constants=new) if new else source)[-1]
        known = {name: value for name, value in at.items() if name in plan.space.names}
        index = _find_case(plan.space, known, source.file)
        case, place = plan.case(index), format_point(plan.space, index)
        if case is None:
            raise errors.InputError(f"no run is planned at {place} ({source.file}). Choose another case.")
        return Trial(place, case, *_compute_case(plan.spec, case))
    path, phase = Path(source), PILOT if pilot else MAIN
    with open_partial_result(path) as groups:
        file = None if code is None else Path(code)
        phases = read_plans(path, groups, find_code_to_run(path, select_main_phase(groups), file))
        if phase not in phases:
            remedy = "Leave out --pilot." if pilot else "Add --pilot to select a run of the pilot."
            raise errors.ResultError(f"{path} has no runs of the phase {phase}. {remedy}")
        result = phases[phase]
        return repeat_run(result, _find_case(result.plan.space, at, str(path)), read_runs(path, groups)[phase])[0]


def repeat_run(result: ResultWithPlan, index: int, runs: RunRecords) -> tuple[Trial, StoredRun]:
    """Compute the case with number `index` of a result again, and compare the run with the stored run."""
    where, case = format_point(result.plan.space, index), result.plan.case(index)
    if case is None:
        raise errors.InputError(f"no run is planned at {where} ({result.path}, {result.phase}). Choose another case.")
    now, raised = _compute_case(result.plan.spec, case)
    key, row = result.keys[index], -1
    stored = StoredRun(key, Status.not_run, "", (), (), "")
    if key in runs.keys:
        row = runs.keys.index(key)
        before, both = Status(runs.status[row]), (runs.status[row], now.status[0]) == (Status.ok, Status.ok)
        names = tuple(stack.name for stack in now.stacks if stack.role == VARIABLE) if both else ()
        found = tuple(compare_runs(runs, now, [(row, 0)])) if both else ()
        software = describe_software_changes(runs.software[row], now.software[0])
        stored = StoredRun(key, before, runs.messages[row], names, found, software)
    return Trial(where, case, now, raised, stored), stored


def _compute_case(spec: MethodSpec, case: Case) -> tuple[RunRecords, str]:
    """Compute one case without shared stages.  Return the record and the traceback of the run."""
    raised: list[BaseException] = []
    record = compute_here(Batch.from_cases(spec, [case]), raised=raised.append)
    is_program = isinstance(spec.method, UserCode) and spec.method.kind is CodeKind.COMMAND
    if not raised or (is_program and isinstance(raised[0], errors.EvogtError)):  # the traceback contains no user code
        return record, ""
    frames = errors.remove_package_frames(raised[0].__traceback__)
    return record, "".join(traceback.format_exception(raised[0].with_traceback(frames)))


def _find_case(space: CaseSpace, at: Mapping[str, object], source: str) -> int:
    """Return the number of the case with the axis values `at`.  Raises InputError if no case has these values."""
    for name in at:
        if name not in space.names:
            raise errors.InputError(f"{source} has no axis `{name}`. {errors.suggest(name, space.names)}")
    positions = []
    for axis in space.axes:
        found = _find_label(axis.values, at[axis.name]) if axis.name in at else 0
        if found is None:
            values = join_names([to_string(value) for value in axis.values])
            raise errors.InputError(f"`{axis.name}` must be one of {values} ({source}), got {str(at[axis.name])!r}")
        positions.append(found)
    return int(np.ravel_multi_index(positions, space.shape))


def _find_label(values: Sequence[Value], value: object) -> int | None:
    return find_value(values, value if isinstance(value, str) else to_string(to_canonical(value)))


# --- a whole result ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Verification:
    """Result of the verification of a result file.

    `findings` contains a line for each mistake.  `recomputed` contains a line for each run that was computed again.
    `left_out` describes the checks that were not possible.  `phases` contains run metadata unless the file is damaged.
    """

    path: Path
    findings: tuple[str, ...]
    left_out: str = ""
    recomputed: tuple[str, ...] = ()
    phases: Mapping[str, xr.Dataset] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """True if the verification found no mistake and made every check."""
        return not (self.findings or self.left_out)


def verify(
    path: str | Path, *, rerun: int = 0, seed: int = 0, code: str | Path | None = None,
    folder: str | Path | None = None, announce: Callable[[Sequence[str]], None] = lambda files: None,
) -> Verification:  # fmt: skip
    """Check the bytes, schema, run keys and completeness of a result.

    By default, `verify` executes no code of the study.

    Parameters
    ----------
    path : str or Path
        Result file.  If the study is not finished, `verify` checks the finished runs.
    rerun : int, default 0
        Number of runs to compute again.  `verify` then executes the code of the study, but only if its code
        hash equals the recorded code hash.
    seed : int, default 0
        Seed of the random choice of these runs.
    code : str or Path, optional
        Python file of the study, its folder or its installed module.  By default, this is the file beside the study
        file.
    folder : str or Path, optional
        Folder of the study.  By default, this is the folder that the result records.
    announce : callable, optional
        Function that receives the files of the study before `verify` executes their code.

    Returns
    -------
    Verification
        Findings, run metadata, and lines about the runs that were computed again.  With equal software versions, a run
        must be equal bit for bit.  With different versions, a run may differ by `OTHER_SOFTWARE_TOLERANCE`.

    Raises
    ------
    ResultError
        If the file is not a result, its study cannot be used here, or its code has changed.
    InputError
        If `seed` or `code` is given without `rerun`.

    Examples
    --------
    >>> import evogt_study as evs
    >>> evs.verify("data/results/threshold.nc").findings
    ()
    """
    for name, given in (("code", code is not None), ("seed", seed != 0)):
        if given and not rerun:
            raise errors.InputError(f"`{name}` has no effect without `rerun`. Give `rerun` too, or leave out `{name}`.")
    path = Path(path)
    resolve_link(path)  # raises an error for a pipe, which would block
    # bytes first, because a damaged file may not open.  Reading a shard checks its checksum
    read = inspect(path) if path.exists() or not description_path(path).exists() else Inspection([], [])
    if read.broken:
        return Verification(path, tuple(read.broken), NO_OTHER_CHECKS)
    try:
        with open_phases(path) if path.exists() else open_partial_result(path) as groups:
            at, beside = (None if place is None else Path(place) for place in (code, folder))
            for phase, data in groups.items():
                text, digest = str(data.attrs.get("study")), data.attrs.get("study_sha256")
                if hashlib.sha256(text.encode()).hexdigest() != digest:
                    wanted = f"the attribute `study` must have the SHA-256 `study_sha256` = {digest}"
                    raise errors.DamagedResultError(f"{phase}: {wanted}, got another text")
            codes, left_out = None, ""
            if rerun:
                try:
                    codes = find_code_to_run(path, select_main_phase(groups), at, beside)
                    announce(list_code_files(codes))
                except errors.InPythonError as error:
                    if code is not None:
                        raise
                    rerun, left_out = 0, str(error)
            found = _check_open_result(path, groups, read_plans(path, groups, codes, folder=beside), rerun, seed)
            kept = {phase: load_result(path, select_metadata(data)) for phase, data in groups.items()}
            findings = (*read.changed, *found.findings)
            return replace(found, phases=kept, findings=findings, left_out=found.left_out or left_out)
    except errors.DamagedResultError as error:
        return Verification(path, (str(error),), NO_OTHER_CHECKS)


# check the values first: if status and values disagree, every repeated run would differ
def _check_open_result(
    path: Path, groups: Mapping[str, xr.Dataset], phases: Mapping[str, ResultWithPlan], rerun: int, seed: int
) -> Verification:
    """Check the keys, run metadata and values of a result with intact bytes, and repeat some of its runs."""
    findings, unfit, runs = list[str](), list[str](), read_runs(path, groups)
    for phase, result in phases.items():
        wrong_keys = list(_check_keys(result))
        findings += [f"{phase}: {line}" for line in (*wrong_keys, *_check_completeness(result))]
        unfit += [f"{phase}: {line}" for line in _check_metadata(result)]
        if not wrong_keys:  # runs with other keys are not in the plan
            unfit += [f"{phase}: {line}" for line in _check_contents(result, runs[phase])]
    if unfit:
        return Verification(path, (*findings, *unfit), "no run was computed again")
    findings += _check_choices(phases, runs)
    recomputed = []
    for result, index in _draw_runs(phases, rerun, seed):
        line, wrong = _judge_rerun(*repeat_run(result, index, runs[result.phase]), result)
        recomputed.append(line)
        findings += wrong
    return Verification(path, tuple(findings), "", tuple(recomputed))


def _check_choices(phases: Mapping[str, ResultWithPlan], runs: Mapping[str, RunRecords]) -> Iterator[str]:
    """Check that the runs of the earlier phases give the choices in the file."""
    last = phases.get(MAIN)
    if last is None:
        yield "the main phase has no runs, because an earlier phase is not finished"
        return
    for phase in last.study.phases:
        if phase.name not in phases:
            yield f"the study has a {phase.name}, but the file has no runs of this phase"
        elif phase.choice is not None:
            table = RunTable(phases[phase.name].plan)
            table.add(runs[phase.name])  # same order as in `run`, so that the same candidate wins a tie
            try:
                (chosen,) = choose_parameters(phase, table)
            except errors.PilotError as error:
                yield str(error)
                continue
            names = phase.choice.parameters
            stated = next(known for known in last.plan.space.chosen if known.names == names)
            for at, candidate in chosen.table.items():
                found = stated.table.get(at, ("none",))
                if found != candidate:
                    labels = zip(phase.choice.by, at, strict=True)
                    place = ", ".join(f"{name}={label}" for name, label in labels) or "all runs"
                    both = f"{join_values(candidate)} for {place}, but the file has {join_values(found)}"
                    yield f"the {phase.name}'s runs choose {join_values(names)} = {both}"


# the sample depends only on the seed and the file, so that anybody can repeat a finding
def _draw_runs(phases: Mapping[str, ResultWithPlan], sample: int, seed: int) -> list[tuple[ResultWithPlan, int]]:
    """Draw a random sample of the planned runs with the status ok."""
    pool = [
        (result, int(index))
        for result in phases.values()
        for index in np.flatnonzero(to_status(result.data["run_status"]).ravel() == Status.ok)
    ]
    order = np.random.default_rng(seed).permutation(len(pool))
    # without runs that have keys of another study, which `_check_keys` reports
    fitting = (
        (result, index)
        for result, index in (pool[number] for number in order)
        if (case := result.plan.case(index)) is not None and case.key == result.keys[index]
    )
    return list(itertools.islice(fitting, sample))


def _judge_rerun(run: Trial, stored: StoredRun, result: ResultWithPlan) -> tuple[str, list[str]]:
    """Compare a repeated run with the stored run.  Return a line about the run, and one line for each mistake."""
    line = f"{result.phase} run {run.point}"
    if run.status != Status.ok:
        return f"{line}: {run.message}", [f"{line} is ok in the file, but not when computed again: {run.message}"]
    if not stored.differences:
        return f"{line}: equal bit for bit", []
    # with equal versions, each difference is a mistake
    if not stored.software:
        return f"{line}: differs", [f"{line}, computed again: {each.describe()}" for each in stored.differences]
    declared = result.study.method.variables
    judgeable = [each for each in stored.differences if each.name not in declared or declared[each.name].is_determined]
    largest = max((each.relative for each in judgeable), default=0.0)
    # with `not <=`, NaN counts as a mistake
    wrong = [each for each in judgeable if not each.relative <= OTHER_SOFTWARE_TOLERANCE]
    line += f": relative difference at most {largest:.1e} with other software ({stored.software})"
    return line, [f"{line}: {each.describe()}" for each in wrong]


def _check_contents(result: ResultWithPlan, runs: RunRecords) -> Iterator[str]:
    """Compare the attributes, coordinates and values of a result with its study and its runs."""
    data, table = result.data, RunTable(result.plan)
    table.add(runs)
    wanted = to_dataset(table, result.study)
    wanted.attrs = {**make_global_attributes(result.study, result.phase), **wanted.attrs}
    for key, value in wanted.attrs.items():
        if key not in data.attrs:
            yield f"the attribute `{key}` is missing"
        elif key in STUDY_ATTRIBUTES and data.attrs[key] != value:
            yield f"the attribute `{key}` must be {errors.shorten(value)}, got {errors.shorten(data.attrs[key])}"
    for name in wanted.variables:
        if name not in data.variables:
            yield f"`{name}` is missing"
        else:
            yield from _compare_variables(str(name), data, wanted)


def _compare_variables(name: str, data: xr.Dataset, wanted: xr.Dataset) -> Iterator[str]:
    ours, theirs = data.variables[name], wanted.variables[name]
    for attribute, value in theirs.attrs.items():
        if not np.array_equal(np.asarray(ours.attrs.get(attribute)), value):
            got = errors.shorten(ours.attrs.get(attribute))
            yield f"`{name}` must have {attribute} = {errors.shorten(value)}, got {got}"
    if ours.sizes != theirs.sizes:
        yield f"`{name}` must have the dimensions {dict(theirs.sizes)}, got {dict(ours.sizes)}"
        return
    for slab in iterate_slabs(ours.shape):  # a variable can exceed the memory
        one, other = ours[slab].values, theirs[slab].values
        if one.dtype.kind in "OUS" or other.dtype.kind in "OUS":
            one, other = one.astype(str), other.astype(str)
        if not (same := are_equal(one, other)).all():
            at = tuple(np.argwhere(~same)[0])
            places = (begin.start + i for begin, i in zip(slab, at, strict=True))
            place = ", ".join(f"{dim}={data[dim].values[i]}" for dim, i in zip(ours.dims, places, strict=True))
            yield f"`{name}` must be {other[at]}, got {one[at]}{f' at {place}' if place else ''}"
            return


def _check_keys(result: ResultWithPlan) -> Iterator[str]:
    """Compare the run keys in the file with the run keys of the study."""
    wanted, found = result.plan.keys.astype(str), result.keys.astype(str)
    wrong = np.flatnonzero(wanted != found)
    if wrong.size:
        first = int(wrong[0])
        yield (
            f"{wrong.size} of {wanted.size} run keys differ from the keys of the study, for example at "
            f"{format_point(result.plan.space, first)}: {found[first] or 'none'} in the file, "
            f"{wanted[first] or 'none'} in the study. The Python file of the method, this package or "
            "the result has changed."
        )


def _check_metadata(result: ResultWithPlan) -> Iterator[str]:
    """Check that the run metadata agree with the status of each run."""
    data, status = result.data, to_status(result.data["run_status"])
    ok, has_run = status == Status.ok, status != Status.not_run
    wrong = {
        "with a status other than not run, but not planned": has_run & (data["run_key"].values == ""),
        "with a wrong `run_message`": (data["run_message"].values == "") == (has_run & ~ok),
        "with wrong `run_attempts`": has_run != (data["run_attempts"].values > 0),
        "with wrong `run_seconds`": has_run != np.isfinite(data["run_seconds"].values),
        "with a wrong `run_software`": has_run != (data["run_software"].values >= 0),
    }
    # a user function may return a string with this name
    if "error" in data and data["error"].dims == data["run_status"].dims and data["error"].dtype.kind in "iufb":
        wrong["with the status ok and no finite `error`"] = ok & ~np.isfinite(data["error"].values.astype(float))
    yield from _count_wrong(result, wrong)


def _check_completeness(result: ResultWithPlan) -> Iterator[str]:
    """Check that all planned runs have a status of a complete result."""
    planned = result.plan.keys.reshape(result.plan.space.shape) != b""
    status, count = to_status(result.data["run_status"]), np.count_nonzero(planned)
    states = [each for each in Status if each not in END_STATUSES]
    missing = {f"of {count} with the status {each.text}": planned & (status == each) for each in states}
    yield from _count_wrong(result, missing, remedy=". Compute them with `evogt run --retry-failed`.")


def _count_wrong(result: ResultWithPlan, wrong: Mapping[str, npt.NDArray[np.bool_]], remedy: str = "") -> Iterator[str]:
    for text, runs in wrong.items():
        if runs.any():
            example = format_point(result.plan.space, int(np.flatnonzero(runs.ravel())[0]))
            yield f"{format_count(int(runs.sum()), 'run')} {text}, for example {example}{remedy}"
