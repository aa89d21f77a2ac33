"""A result checked: its bytes, its schema, its keys, that nothing is missing, and some of its runs computed again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from evogt_study.errors import DamagedResultError, InPythonError
from evogt_study.operations.checks import (
    check_choice,
    check_completeness,
    check_keys,
    check_schema,
    check_twins,
    check_values,
)
from evogt_study.operations.replay import Replay, replayed
from evogt_study.results.netcdf import loaded, opened, opened_so_far
from evogt_study.results.reopened import Stored, any_phase, code_beside, stored
from evogt_study.results.seal import changed, damaged_parts
from evogt_study.schema.variables import BOOKKEEPING, Status
from evogt_study.storage.atomic import followed
from evogt_study.storage.paths import description
from evogt_study.study.phases import STUDY

# a slip in package or result shows in any run; three are enough to meet the pilot or a second dictionary, and end in
# seconds
SAMPLE = 3
OTHER_SOFTWARE_TOLERANCE = 1e-8
"""Relative difference that other versions, above all another BLAS, may make in a number that has digits.

BLAS kernels of other processors change errors by at most 6e-9.
"""


@dataclass(frozen=True, eq=False)
class Verification:
    """Outcome of a check: `findings` has a line for each thing that is wrong, `recomputed` one for each run recomputed.

    phases: the bookkeeping of the file's runs, empty where its bytes are damaged.  left_out: what could not be checked
    because of the findings, "" if nothing.
    """

    path: Path
    phases: Mapping[str, xr.Dataset]
    findings: tuple[str, ...]
    recomputed: tuple[str, ...]
    left_out: str = ""

    @property
    def well(self) -> bool:
        """True where nothing is wrong."""
        return not self.findings


def verify(
    path: str | Path,
    *,
    sample: int = SAMPLE,
    seed: int = 0,
    code: str | Path | None = None,
    folder: str | Path | None = None,
) -> Verification:
    """Check a result: checksums, schema, case keys, completeness, values, and `sample` of its runs computed again.

    The sample is drawn with `seed` from the runs that are ok, the pilot's among them.  A run is to come out equal bit
    for bit with the software that computed it, and within `OTHER_SOFTWARE_TOLERANCE` with other versions.  code: the
    study's own Python file, or its folder; left out, it is imported for a sample only, from beside the study file, and
    if its content is what computed the result.  folder: of the study here; left out, the recorded one.

    Of a result that is not written yet what is finished is checked, and what is not run is told.

    Raises ResultError for a file that is no result, or whose study or code cannot be used here.
    """
    path = Path(path)
    followed(path)  # which refuses what reading would wait for
    # bytes first: nothing else of a damaged file can be trusted, or even opened; shards are held against their digests
    # when they are read
    damage = damaged_parts(path) if path.exists() or not description(path).exists() else []
    if damage:
        return Verification(path, {}, tuple(damage), (), "nothing else was checked")
    try:
        with opened(path) if path.exists() else opened_so_far(path) as groups:
            places = [None if place is None else Path(place) for place in (code, folder)]
            found = _checked(path, groups, sample, seed, *places)
            kept = {phase: loaded(path, data[list(BOOKKEEPING)]) for phase, data in groups.items()}
            return replace(found, phases=kept)
    except DamagedResultError as error:
        return Verification(path, {}, (str(error),), (), "nothing else was checked")


# Values are checked before runs are computed again: where they do not fit their status, every run would differ, and the
# difference would blame the wrong thing.
def _checked(
    path: Path, groups: Mapping[str, xr.Dataset], sample: int, seed: int, code: Path | None, folder: Path | None
) -> Verification:
    """As `verify`, of a result whose bytes are sound; its phases are left out."""
    damage = [f"{phase}: {line}" for phase, data in groups.items() for line in (*changed(data), *_study_text(data))]
    if damage:
        return Verification(path, {}, tuple(damage), (), "nothing else was checked")
    left_out = ""
    if sample and code is None:
        try:
            code = code_beside(path, any_phase(groups), folder)
        except InPythonError as error:
            sample, left_out = 0, str(error)
    phases = stored(path, groups, code, folder=folder)
    findings = [line for result in phases.values() for line in _told(result, check_schema, check_keys)]
    findings += [line for result in phases.values() for line in _told(result, check_completeness)]
    unfit = [line for result in phases.values() for line in _told(result, check_values)]
    if unfit:
        return Verification(path, {}, (*findings, *unfit), (), "no run was computed again")
    findings += [line for result in phases.values() for line in _told(result, check_twins)]
    findings += _choices(phases)
    recomputed = [judged(replayed(result, index), result) for result, index in drawn(phases, sample, seed)]
    findings += [line for _, wrong in recomputed for line in wrong]
    return Verification(path, {}, tuple(findings), tuple(told for told, _ in recomputed), left_out)


def _study_text(data: xr.Dataset) -> Iterator[str]:
    text, digest = str(data.attrs.get("study")), data.attrs.get("study_sha256")
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        yield f"the attribute `study` must have the SHA-256 `study_sha256` = {digest}, got another text"


def _told(result: Stored, *every: Callable[[Stored], Iterator[str]]) -> Iterator[str]:
    for check in every:
        yield from (f"{result.phase}: {line}" for line in check(result))


def _choices(phases: Mapping[str, Stored]) -> Iterator[str]:
    last = phases.get(STUDY)
    if last is None:
        yield "a phase before the study is not finished, so that the study has no runs"
        return
    for phase in last.study.phases:
        if phase.name not in phases:
            yield f"the study has a {phase.name}, but the file lacks its runs"
        elif phase.choice is not None:
            yield from check_choice(last, phases[phase.name], phase.choice)


# the sample depends on the seed and the file alone, so that a finding can be shown to others
def drawn(phases: Mapping[str, Stored], sample: int, seed: int) -> list[tuple[Stored, int]]:
    """Runs to compute again: `sample` of those that are ok and are what the study asks for."""
    pool = [
        (result, int(index))
        for result in phases.values()
        for index in np.flatnonzero(result.data["status"].values.ravel() == Status.ok)
    ]
    order = np.random.default_rng(seed).permutation(len(pool))
    found: list[tuple[Stored, int]] = []
    # points whose keys are not the study's are passed over: the check of keys tells of them
    for number in order:
        if len(found) == sample:
            break
        result, index = pool[number]
        case = result.plan.case(index)
        if case is not None and case.key == result.key(index):
            found.append((result, index))
    return found


def judged(run: Replay, result: Stored) -> tuple[str, list[str]]:
    """Describe the outcome of a run computed again on one line, with a line for each thing that is wrong with it."""
    told = f"{result.phase} run {run.point}"
    if run.status != Status.ok:
        return f"{told}: {run.message}", [f"{told} is ok in the file, but computed again: {run.message}"]
    if not run.differences:
        return f"{told}: equal bit for bit", []
    # with the same versions every digit is the same, so any difference is wrong
    if not run.software:
        return f"{told}: differs", [f"{told}, computed again: {each.told()}" for each in run.differences]
    declared = result.study.method.variables
    judgeable = [each for each in run.differences if each.name not in declared or declared[each.name].is_determined]
    largest = max((each.relative for each in judgeable), default=0.0)
    # `not <=`, so that NaN, which compares as false, is wrong
    wrong = [each for each in judgeable if not each.relative <= OTHER_SOFTWARE_TOLERANCE]
    told += f": relative difference at most {largest:.1e} with other software ({run.software})"
    return told, [f"{told}: {each.told()}" for each in wrong]
