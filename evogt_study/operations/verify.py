"""Verify the bytes, schema, run keys, completeness and values of a result, and optionally a sample of its runs."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DamagedResultError, InputError, InPythonError, PilotError, shorten
from evogt_study.operations.compare import read_runs
from evogt_study.operations.trial import StoredRun, Trial, repeat_run
from evogt_study.results.dataset import dataset, global_attributes, records_of
from evogt_study.results.decisions import choose_parameters
from evogt_study.results.index import Inspection, inspect
from evogt_study.results.netcdf import load_result, open_partial_result, open_phases
from evogt_study.results.reopened import ResultWithPlan, any_phase, code_to_run, files_of, point, read_plans
from evogt_study.results.run_metadata import select_metadata
from evogt_study.results.table import RunTable, are_equal
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import MAIN, Status, status_codes
from evogt_study.storage.arrays import slabs
from evogt_study.storage.files import description_path, resolve_link
from evogt_study.study.phases import join_values

Announce = Callable[[Sequence[str]], None]
OTHER_SOFTWARE_TOLERANCE = 1e-8
"""Largest relative difference that `verify` accepts between different software versions.

In tests, BLAS kernels of different processors changed errors by at most 6e-9.
"""
SETTLED_ATTRIBUTES = ("Conventions", "title", "summary", "id", "study", "study_sha256", "phase")
"""Global attributes that the study text determines.  `verify` only checks that all other attributes exist."""
ATTEMPTED = (Status.ok, Status.failed, Status.diverged)
"""Status of the runs of a complete result.  `verify` reports each planned run with any other status."""


@dataclass(frozen=True, eq=False)
class Verification:
    """Result of the verification of a result file.

    Attributes
    ----------
    path : Path
        Result file.
    phases : dict
        Run metadata of the file by phase.  The dict is empty if the file is damaged.
    findings : tuple of str
        One line for each mistake.
    recomputed : tuple of str
        One line for each run that was computed again.
    left_out : str
        Description of the checks that were not possible, or "".
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
        Function to call with the files of the study before their code is executed.

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
            raise InputError(f"`{name}` has no effect without `rerun`. Give `rerun` too, or leave out `{name}`.")
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
    """Check a result with intact bytes, as `verify` does, but leave `phases` empty."""
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
    phases, runs = read_plans(path, groups, codes, folder=folder), read_runs(path)
    findings, unfit = list[str](), list[str]()
    for phase, result in phases.items():
        wrong_keys = list(check_keys(result))
        findings += [f"{phase}: {line}" for line in (*wrong_keys, *check_completeness(result))]
        unfit += [f"{phase}: {line}" for line in check_values(result)]
        if not wrong_keys:  # runs of other keys are none of the plan
            unfit += [f"{phase}: {line}" for line in check_contents(result, runs.get(phase))]
    if unfit:
        return Verification(path, {}, (*findings, *unfit), (), "no run was computed again")
    findings += _check_choices(phases)
    recomputed = []
    for result, index in draw_runs(phases, rerun, seed):
        line, wrong = describe_rerun(repeat_run(result, index, runs), result)
        recomputed.append(line)
        findings += wrong
    return Verification(path, {}, tuple(findings), tuple(recomputed), left_out)


def _check_choices(phases: Mapping[str, ResultWithPlan]) -> Iterator[str]:
    """Check that the runs of earlier phases lead to the choices in the file."""
    last = phases.get(MAIN)
    if last is None:
        yield "the main phase has no runs, because an earlier phase is not finished"
        return
    for phase in last.study.phases:
        if phase.name not in phases:
            yield f"the study has a {phase.name}, but the file has no runs of this phase"
        elif phase.choice is not None:
            earlier = phases[phase.name]
            table = RunTable(earlier.plan)
            table.add(records_of(earlier.data))  # filled as in `run`, so that the same candidate wins a tie
            try:
                (chosen,) = choose_parameters(phase, table)
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
                    both = f"{join_values(candidate)} for {place}, but the file has {join_values(found)}"
                    yield f"the {phase.name}'s runs choose {join_values(names)} = {both}"


# the sample depends only on the seed and the file, so that others can repeat a finding
def draw_runs(phases: Mapping[str, ResultWithPlan], sample: int, seed: int) -> list[tuple[ResultWithPlan, int]]:
    """Draw `sample` of the planned runs with the status ok, to compute them again."""
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
        if (case := result.plan.case(index)) is not None and case.key == result.keys[index]
    )
    return list(itertools.islice(fitting, sample))


def describe_rerun(run: Trial, result: ResultWithPlan) -> tuple[str, list[str]]:
    """Return a line about a run that was computed again, and a list with a line for each mistake."""
    line, known = f"{result.phase} run {run.point}", cast(StoredRun, run.stored)
    if run.status != Status.ok:
        return f"{line}: {run.message}", [f"{line} is ok in the file, but not when computed again: {run.message}"]
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


def check_contents(result: ResultWithPlan, runs: RunRecords | None) -> Iterator[str]:
    """Check the attributes, coordinates and values of a result against its study and its runs.

    The result may have more attributes and variables.  `runs` are the runs in the index of the file, if any.
    """
    data, table = result.data, RunTable(result.plan)
    table.add(runs or records_of(data))
    wanted = dataset(table, result.study)
    wanted.attrs = {**global_attributes(result.study, result.phase), **wanted.attrs}
    for key, value in wanted.attrs.items():
        if key not in data.attrs:
            yield f"the attribute `{key}` is missing"
        elif key in SETTLED_ATTRIBUTES and data.attrs[key] != value:
            yield f"the attribute `{key}` must be {shorten(value)}, got {shorten(data.attrs[key])}"
    for name in wanted.variables:
        if name not in data.variables:
            yield f"`{name}` is missing"
        else:
            yield from _compare_variables(str(name), data, wanted)


def _compare_variables(name: str, data: xr.Dataset, wanted: xr.Dataset) -> Iterator[str]:
    ours, theirs = data.variables[name], wanted.variables[name]
    for attribute, value in theirs.attrs.items():
        if not np.array_equal(np.asarray(ours.attrs.get(attribute)), value):
            yield f"`{name}` must have {attribute} = {shorten(value)}, got {shorten(ours.attrs.get(attribute))}"
    if ours.sizes != theirs.sizes:
        yield f"`{name}` must have the dimensions {dict(theirs.sizes)}, got {dict(ours.sizes)}"
        return
    for slab in slabs(ours.shape):  # a variable may be larger than memory
        one, other = ours[slab].values, theirs[slab].values
        if one.dtype.kind in "OUS" or other.dtype.kind in "OUS":
            one, other = one.astype(str), other.astype(str)
        if not (same := are_equal(one, other)).all():
            at = tuple(np.argwhere(~same)[0])
            places = (begin.start + i for begin, i in zip(slab, at, strict=True))
            place = ", ".join(f"{dim}={data[dim].values[i]}" for dim, i in zip(ours.dims, places, strict=True))
            yield f"`{name}` must be {other[at]}, got {one[at]}{f' at {place}' if place else ''}"
            return


def check_keys(result: ResultWithPlan) -> Iterator[str]:
    """Check that the run keys in the file equal the run keys of the study."""
    wanted, found = result.plan.keys.astype(str), result.keys.astype(str)
    wrong = np.flatnonzero(wanted != found)
    if wrong.size:
        first = int(wrong[0])
        yield (
            f"{wrong.size} of {wanted.size} run keys differ from the keys of the study, for example at "
            f"{point(result.plan.space, first)}: {found[first] or 'none'} in the file, {wanted[first] or 'none'} in "
            "the study. The Python file of the method, this package or the result has changed."
        )


def check_values(result: ResultWithPlan) -> Iterator[str]:
    """Check that the status and the run metadata agree, because another program may have changed the file."""
    data, status = result.data, status_codes(result.data["run_status"])
    ok, has_run = status == Status.ok, status != Status.not_run
    wrong = {
        "have a status other than not_run, but are not planned": has_run & (data["run_key"].values == ""),
        "have a wrong `run_message`": (data["run_message"].values == "") == (has_run & ~ok),
        "have wrong `run_attempts`": has_run != (data["run_attempts"].values > 0),
        "have wrong `run_seconds`": has_run != np.isfinite(data["run_seconds"].values),
        "have a wrong `run_software`": has_run != (data["run_software"].values >= 0),
    }
    # a user function may return a string of this name
    if "error" in data and data["error"].dims == data["run_status"].dims and data["error"].dtype.kind in "iufb":
        wrong["are ok, but have no finite `error`"] = ok & ~np.isfinite(data["error"].values.astype(float))
    yield from _count_wrong(result, wrong)


def check_completeness(result: ResultWithPlan) -> Iterator[str]:
    """Check that every planned run has a status in `ATTEMPTED`."""
    planned = result.plan.keys.reshape(result.plan.space.shape) != b""
    status, count = status_codes(result.data["run_status"]), np.count_nonzero(planned)
    missing = {f"of {count} are {each.name}": planned & (status == each) for each in Status if each not in ATTEMPTED}
    yield from _count_wrong(result, missing, remedy=". Compute them with `evogt run --retry-failed`.")


def _count_wrong(result: ResultWithPlan, wrong: Mapping[str, npt.NDArray[np.bool_]], remedy: str = "") -> Iterator[str]:
    for text, runs in wrong.items():
        if runs.any():
            example = point(result.plan.space, int(np.flatnonzero(runs.ravel())[0]))
            yield f"{np.count_nonzero(runs)} runs {text}, for example {example}{remedy}"
