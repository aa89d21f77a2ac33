"""Verify a result: its bytes, schema, run keys, completeness and values, and if it is wished a sample of its runs."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, InPythonError, PilotError, shorten
from evogt_study.operations.compare import differences, read_runs
from evogt_study.operations.trial import StoredRun, Trial, repeat_run
from evogt_study.results.dataset import axis_coordinates, global_attributes, records_of
from evogt_study.results.decisions import choose
from evogt_study.results.index import Inspection, inspect
from evogt_study.results.netcdf import load_result, open_partial_result, open_phases
from evogt_study.results.reopened import ResultWithPlan, any_phase, code_to_run, files_of, point, read_plans
from evogt_study.results.run_metadata import RECORDED, select_metadata
from evogt_study.results.table import RunTable
from evogt_study.schema.variables import BOOKKEEPING, MAIN, Status, status_codes
from evogt_study.storage.arrays import slabs
from evogt_study.storage.atomic import resolve_link
from evogt_study.storage.paths import description_path
from evogt_study.study.case_space import join_names
from evogt_study.study.phases import join_values

Announce = Callable[[Sequence[str]], None]
OTHER_SOFTWARE_TOLERANCE = 1e-8
"""Relative difference that other software versions, above all another BLAS, may cause.

BLAS kernels of other processors change errors by at most 6e-9.
"""
SETTLED_ATTRIBUTES = ("Conventions", "title", "summary", "id", "study", "study_sha256", "phase")
"""Global attributes that the study text determines.  Of the others only the presence is checked."""
ATTEMPTED = (Status.ok, Status.failed, Status.diverged)
"""Status of a run with an outcome.  A run with any other status is missing."""


@dataclass(frozen=True, eq=False)
class Verification:
    """Result of a check: `findings` has a line for each mistake, `recomputed` a line for each run computed again.

    phases: the run metadata of the file, empty if its bytes are damaged.  left_out: the checks that were not possible,
    or "".
    """

    path: Path
    phases: Mapping[str, xr.Dataset]
    findings: tuple[str, ...]
    recomputed: tuple[str, ...]
    left_out: str = ""

    @property
    def well(self) -> bool:
        """True if there is no finding."""
        return not self.findings


def verify(
    path: str | Path,
    *,
    rerun: int = 0,
    seed: int = 0,
    code: str | Path | None = None,
    folder: str | Path | None = None,
    announce: Announce = lambda files: None,
) -> Verification:
    """Check the bytes, schema, run keys and completeness of a result.  This executes no code of the study.

    Parameters
    ----------
    path : str or Path
        Result file.  Of a result that is not finished, the finished runs are checked.
    rerun : int, default 0
        Number of runs to compute again.  This executes the code of the study, if its code hash is the recorded one.
    seed : int, default 0
        Seed that draws these runs.
    code : str or Path, optional
        Python file of the study, its folder or its installed module.  By default it is beside the study file.
    folder : str or Path, optional
        Folder of the study; by default the recorded one.
    announce : callable, optional
        Called with the files of the study before they are executed.

    Returns
    -------
    Verification
        Findings, number of runs, and runs that were computed again.  A run must be equal bit for bit with the software
        that computed it, and within `OTHER_SOFTWARE_TOLERANCE` with other versions.

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
            raise InputError(f"`{name}` must be given with `rerun`, since nothing is executed without it")
    path = Path(path)
    resolve_link(path)  # it refuses pipes, which reading would wait for
    # bytes first, since a damaged file cannot be trusted or even opened; reading a shard checks its checksum
    read = inspect(path) if path.exists() or not description_path(path).exists() else Inspection([], [])
    if read.broken:
        return Verification(path, {}, tuple(read.broken), (), "nothing else was checked")
    try:
        with open_phases(path) if path.exists() else open_partial_result(path) as groups:
            at, beside = (None if place is None else Path(place) for place in (code, folder))
            found = _check(path, groups, rerun, seed, at, beside, announce)
            kept = {phase: load_result(path, select_metadata(data)) for phase, data in groups.items()}
            return replace(found, phases=kept, findings=(*read.changed, *found.findings))
    except DamagedResultError as error:
        return Verification(path, {}, (str(error),), (), "nothing else was checked")


# values are checked before runs are computed again: if status and values disagree, every run would differ
def _check(
    path: Path,
    groups: Mapping[str, xr.Dataset],
    rerun: int,
    seed: int,
    code: Path | None,
    folder: Path | None,
    announce: Announce,
) -> Verification:
    """Check as `verify` a result with intact bytes.  `phases` stays empty."""
    for phase, data in groups.items():
        digest = data.attrs.get("study_sha256")
        if hashlib.sha256(str(data.attrs.get("study")).encode()).hexdigest() != digest:
            line = f"{phase}: the attribute `study` must have the SHA-256 `study_sha256` = {digest}, got another text"
            return Verification(path, {}, (line,), (), "nothing else was checked")
    left_out, codes = "", None
    if rerun:
        try:
            codes = code_to_run(path, any_phase(groups), code, folder)
            announce(files_of(codes))
        except InPythonError as error:
            if code is not None:
                raise
            rerun, left_out = 0, str(error)
    phases = read_plans(path, groups, codes, folder=folder)
    findings = _run_checks(phases, check_schema, check_keys, check_completeness)
    unfit = _run_checks(phases, check_values)
    if unfit:
        return Verification(path, {}, (*findings, *unfit), (), "no run was computed again")
    findings += [*_run_checks(phases, check_twins), *_check_choices(phases)]
    runs, recomputed = read_runs(path) if rerun else {}, list[str]()
    for result, index in draw_runs(phases, rerun, seed):
        line, wrong = judge(repeat_run(result, index, runs), result)
        recomputed.append(line)
        findings += wrong
    return Verification(path, {}, tuple(findings), tuple(recomputed), left_out)


def _run_checks(phases: Mapping[str, ResultWithPlan], *checks: Callable[[ResultWithPlan], Iterator[str]]) -> list[str]:
    return [f"{result.phase}: {line}" for check in checks for result in phases.values() for line in check(result)]


def _check_choices(phases: Mapping[str, ResultWithPlan]) -> Iterator[str]:
    """Check that the runs of earlier phases lead to the choices in the file."""
    last = phases.get(MAIN)
    if last is None:
        yield "a phase before the study is not finished, so that the study has no runs"
        return
    for phase in last.study.phases:
        if phase.name not in phases:
            yield f"the study has a {phase.name}, but the file lacks its runs"
        elif phase.choice is not None:
            earlier = phases[phase.name]
            table = RunTable(earlier.plan)
            table.add_all([records_of(earlier.data)])  # filled as in `run`, so that the same candidate wins a tie
            try:
                chosen = choose(phase.choice, table)
            except PilotError as error:
                yield str(error)
                continue
            names = phase.choice.parameters
            stated = next(known for known in last.plan.space.chosen if known.names == names)
            for at, candidate in chosen.table.items():
                found = stated.table.get(at, ("none",))
                if found != candidate:
                    labels = zip(phase.choice.by, at, strict=True)
                    place = ", ".join(f"{name}={label}" for name, label in labels) or "all runs"
                    both = f"{join_values(candidate)} for {place}, the file has {join_values(found)}"
                    yield f"the {phase.name}'s runs choose {join_values(names)} = {both}"


# the sample depends only on the seed and the file, so that others can repeat a finding
def draw_runs(phases: Mapping[str, ResultWithPlan], sample: int, seed: int) -> list[tuple[ResultWithPlan, int]]:
    """Draw `sample` runs to compute again, from the runs that are ok and planned."""
    pool = [
        (result, int(index))
        for result in phases.values()
        for index in np.flatnonzero(status_codes(result.data["run_status"]).ravel() == Status.ok)
    ]
    order = np.random.default_rng(seed).permutation(len(pool))
    # runs with other keys than the study are left out: `check_keys` reports them
    fitting = (
        (result, index)
        for result, index in (pool[number] for number in order)
        if (case := result.plan.case(index)) is not None and case.key == result.key(index)
    )
    return list(itertools.islice(fitting, sample))


def judge(run: Trial, result: ResultWithPlan) -> tuple[str, list[str]]:
    """Describe a run computed again on one line, with a further line for each mistake."""
    line, known = f"{result.phase} run {run.point}", cast(StoredRun, run.stored)
    if run.status != Status.ok:
        return f"{line}: {run.message}", [f"{line} is ok in the file, but computed again: {run.message}"]
    if not known.differences:
        return f"{line}: equal bit for bit", []
    # with the same versions every difference is a mistake
    if not known.software:
        return f"{line}: differs", [f"{line}, computed again: {each.describe()}" for each in known.differences]
    declared = result.study.method.variables
    judgeable = [each for each in known.differences if each.name not in declared or declared[each.name].is_determined]
    largest = max((each.relative for each in judgeable), default=0.0)
    # `not <=`, so that NaN counts as a mistake
    wrong = [each for each in judgeable if not each.relative <= OTHER_SOFTWARE_TOLERANCE]
    line += f": relative difference at most {largest:.1e} with other software ({known.software})"
    return line, [f"{line}: {each.describe()}" for each in wrong]


# extra variables are allowed: a later minor version, or a user function, may record more
def check_schema(result: ResultWithPlan) -> Iterator[str]:
    """Check that dimensions, variables and attributes are as documented, and the coordinates as in the study."""
    names, data = result.plan.space.names, result.data
    expected = global_attributes(result.study, result.phase)
    for key in (*expected, RECORDED):
        if key not in data.attrs:
            yield f"the attribute `{key}` is missing"
        elif key in SETTLED_ATTRIBUTES and data.attrs[key] != expected[key]:
            yield f"the attribute `{key}` must be {shorten(expected[key])}, got {shorten(data.attrs[key])}"
    yield from _check_coordinates(result)
    for name, variable in data.data_vars.items():
        if variable.dims[: len(names)] != names or (name in BOOKKEEPING and variable.dims != names):
            yield f"`{name}` must be over the axes ({', '.join(names)}), got ({', '.join(map(str, variable.dims))})"
        yield from _check_attributes(result, str(name), variable)
    for dim in data.dims:
        if dim not in data.coords:
            yield f"the dimension `{dim}` has no coordinate"


def _check_attributes(result: ResultWithPlan, name: str, variable: xr.DataArray) -> Iterator[str]:
    declared: Mapping[str, Any] = {}
    if name in BOOKKEEPING:
        declared = BOOKKEEPING[name].attributes
    elif name in result.study.method.variables:
        declared = result.study.method.variables[name].attributes
    for attribute, wanted in declared.items():
        if variable.attrs.get(attribute) != wanted:
            got = shorten(variable.attrs.get(attribute))
            yield f"`{name}` must have the attribute {attribute} = {wanted!r}, got {got}"
    if not variable.attrs.get("long_name"):
        yield f"`{name}` must have a long_name, got none"
    if name == "run_status":
        flags = [int(value) for value in np.ravel(variable.attrs.get("flag_values", []))]
        meanings = str(variable.attrs.get("flag_meanings", "")).split()
        if flags != [int(status) for status in Status] or meanings != [status.name for status in Status]:
            yield f"the flags of `run_status` must be {', '.join(status.name for status in Status)}, got {meanings}"


def _check_coordinates(result: ResultWithPlan) -> Iterator[str]:
    """Check the coordinates of the study.  `_check_choices` checks the choices of earlier phases."""
    for name, (dims, values, attributes) in axis_coordinates(result.plan.space, result.study).items():
        found = result.data.coords.get(name)
        wanted = np.asarray(values)
        dims = (dims,) if isinstance(dims, str) else tuple(dims)
        if found is None or found.dims != dims or not _equal(found.values, wanted):
            got = "none" if found is None else f"{join_names(list(map(str, found.values.ravel())))} over {found.dims}"
            yield f"the coordinate `{name}` must be {join_names(list(map(str, wanted.ravel())))}, got {got}"
        elif any(found.attrs.get(key) != text for key, text in attributes.items()):
            yield f"the attributes of the coordinate `{name}` must be {dict(attributes)}, got {found.attrs}"


def _equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    words = [values.dtype.kind in "OU" for values in (one, other)]  # strings are not cast to numbers
    if all(words):
        return bool(one.astype(str).tolist() == other.astype(str).tolist())
    return not any(words) and np.array_equal(one.astype(float), other.astype(float), equal_nan=True)


def check_keys(result: ResultWithPlan) -> Iterator[str]:
    """Check that the run keys in the file are the run keys of the study."""
    plan = result.plan
    asked = plan.keys.astype(str)
    found = result.data["run_key"].values.ravel().astype(str)
    wrong = np.flatnonzero(asked != found)
    if wrong.size:
        first = int(wrong[0])
        yield (
            f"{wrong.size} of {plan.space.size} run keys differ from the keys of the study, for example at "
            f"{point(plan.space, first)}: {found[first] or 'none'} in the file, {asked[first] or 'none'} in the study; "
            "the method's Python file, this package, or the result was changed"
        )


# cases have equal keys if they differ only in parameters that they do not use: their values are copies of one run
def check_twins(result: ResultWithPlan) -> Iterator[str]:
    """Check that cases with equal keys, which share a run, have equal values."""
    keys = result.keys[result.keys != ""]
    if len(np.unique(keys)) == len(keys):
        return
    records = records_of(result.data)
    first_of: dict[str, int] = {}
    pairs = [
        (first_of[key], row)
        for row, key in enumerate(records.keys)
        if first_of.setdefault(key, row) != row and records.status[row] == records.status[first_of[key]] == Status.ok
    ]
    for difference in differences(records, records, pairs) if pairs else ():
        yield f"{len(difference.pairs)} cases have the key of another, but other values: {difference.describe('there')}"


# this finds changes by another program, while `check_twins` and the sample compare numbers
def check_values(result: ResultWithPlan) -> Iterator[str]:
    """Check that status and values agree: only runs that are ok have values, and these have an error."""
    data = result.data
    status = status_codes(data["run_status"])
    planned = data["run_key"].values != ""
    ok = status == Status.ok
    measured = [name for name in data.data_vars if name not in BOOKKEEPING]
    # a user function may return a string of this name
    if "error" in measured and data["error"].dims == data["run_status"].dims and data["error"].dtype.kind in "iufb":
        yield from _where(
            result, ok & ~np.isfinite(data["error"].values.astype(float)), "are ok without finite `error`"
        )
    for name in measured:
        there = np.zeros_like(ok)
        # an array variable may be larger than memory
        for slab in slabs(data[name].shape):
            found = data[name].variable[slab].values
            present = (found != "") & (found == found) if found.dtype.kind in "OU" else ~np.isnan(found)
            there[slab[: status.ndim]] |= present.any(axis=tuple(range(status.ndim, data[name].ndim)))
        yield from _where(result, there & ~ok, f"are not ok but have a value of `{name}`")
    run = status != Status.not_run
    yield from _where(result, run & ~planned, "were run where none is planned")
    yield from _where(result, (data["run_message"].values == "") == (run & ~ok), "have a `run_message` that is wrong")
    yield from _where(result, run != (data["run_attempts"].values > 0), "have `run_attempts` that are wrong")
    yield from _where(result, run != np.isfinite(data["run_seconds"].values), "have `run_seconds` that are wrong")
    yield from _where(result, run != (data["run_software"].values >= 0), "have a `run_software` that is wrong")


def _where(result: ResultWithPlan, wrong: npt.NDArray[np.bool_], text: str) -> Iterator[str]:
    if wrong.any():
        first = int(np.flatnonzero(wrong.ravel())[0])
        yield f"{np.count_nonzero(wrong)} runs {text}, e.g. {point(result.plan.space, first)}"


def check_completeness(result: ResultWithPlan) -> Iterator[str]:
    """Check that every planned run has an outcome."""
    planned = result.plan.keys.reshape(result.plan.space.shape) != b""
    status = status_codes(result.data["run_status"])
    for state in Status:
        if state not in ATTEMPTED:
            text = f"of {np.count_nonzero(planned)} are {state.name}; `evogt run` computes them (--retry-failed)"
            yield from _where(result, planned & (status == state), text)
