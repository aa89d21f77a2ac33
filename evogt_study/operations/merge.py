"""Join the results of one study from several machines.

Runs with equal run keys are equal runs.  If two files have different values for a run, the merge stops with an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import InputError, ResultError, StudyError
from evogt_study.operations.compare import differences, read_runs, software_changes
from evogt_study.operations.complete import summarize
from evogt_study.results.dataset import dataset, global_attributes, records_of
from evogt_study.results.decisions import find_planned_seeds
from evogt_study.results.finished import check_file
from evogt_study.results.netcdf import load_result, open_partial_result, open_written, read_result, write_result
from evogt_study.results.provenance import package_version
from evogt_study.results.reopened import CODE, choice_in, point, study_in
from evogt_study.results.run_metadata import select_metadata, with_status_names
from evogt_study.results.table import NOT_OK, RunTable
from evogt_study.schema.records import RunRecords
from evogt_study.schema.values import text_label
from evogt_study.schema.variables import FINAL, MAIN
from evogt_study.storage.files import check_result_place, parse_toml, paths_of
from evogt_study.storage.lease import lock_result
from evogt_study.study.case_space import ParameterTable, join_names
from evogt_study.study.model import write_toml
from evogt_study.study.phases import Candidate, Pilot, join_values
from evogt_study.study.plan import Plan, plan_phase
from evogt_study.study.study import Study, check_study

MERGED_FROM = "merged_from"
_PROVENANCE = (
    "history", "date_created", "study_file", "study_sha256", "git_revision", "git_dirty", "versions", "platform", "cpu",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Source:
    """Result to merge, with its run metadata, coordinates and finished runs by phase."""

    path: Path
    groups: Mapping[str, xr.Dataset]
    runs: Mapping[str, RunRecords]

    @staticmethod
    def read(path: Path) -> Source:
        """Read a result.  Raises ResultError if the file has no main phase, or if another program changed the file."""
        with open_partial_result(path) as found:
            # arrays of a result with an index are copied when a merged result is written
            runs = read_runs(path)
            runs = {phase: runs.get(phase) or records_of(data) for phase, data in found.items()}
            groups = {
                phase: load_result(path, select_metadata(data).assign_coords(data.coords))
                for phase, data in found.items()
            }
        if MAIN not in groups:
            raise ResultError(f"{path} has runs of the pilot only. Merge results with runs of the main phase.")
        if path.exists():
            check_file(path)
        return Source(path, groups, runs)


def merge(paths: str | Path | Sequence[str | Path], output: str | Path, *, study: Study | None = None) -> xr.Dataset:
    """Join results of one study in a new file.

    Runs with equal run keys must have equal values, bit for bit.  A run with the status ok replaces a run with another
    status.  The attempts of a run add up over the files.

    Parameters
    ----------
    paths : sequence of str or Path
        Result files, also of unfinished studies.
    output : str or Path
        New file.  A file that already holds this merged result does not change.
    study : Study, optional
        Study of the merged result.  By default, this is the study of the first file with the axis values of all files.

    Returns
    -------
    Dataset
        The runs of the study, opened lazily.

    Raises
    ------
    ResultError
        If the files hold different studies or different values for one run, if `output` is another file, or if another
        process is writing `output`.

    Examples
    --------
    >>> import evogt_study as evs, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> parts = [f"{folder}/{name}.nc" for name in "ab"]
    >>> for part, seeds in zip(parts, (range(2), range(2, 4))):
    ...     _ = evs.run(evs.Study(lambda seed: {"y": seed**2}, axes={"seed": seeds}), output=part, workers=0)
    >>> evs.merge(parts, f"{folder}/all.nc").y.values.tolist()
    [0, 1, 4, 9]
    """
    if study is not None:
        check_study(study)
    output, sources = Path(output), paths_of(paths)
    if len(sources) < 2:
        raise InputError(f"`FILES` must be two results or more, got {len(sources)}")
    if output.exists() and any(path.exists() and path.samefile(output) for path in sources):
        raise _explain_conflict(output, "which is one of the files to merge")
    write_joined(output, lambda: _join(sources, study))
    return with_status_names(open_written(output))


def _join(paths: Sequence[Path], study: Study | None) -> tuple[dict[str, xr.Dataset], dict[str, RunTable]]:
    """Return the joined runs by phase, as Datasets and as tables.  Raises ResultError if two files disagree."""
    sources = list(map(Source.read, paths))
    first = sources[0].groups[MAIN].attrs.get("id", "") if study is None else study.name
    owner = str(paths[0]) if study is None else study.file
    # by name, before any comparison: two studies have no common keys, which would look like missing runs
    for source in sources:
        found = source.groups[MAIN].attrs.get("id", "")
        if found != first:
            raise ResultError(
                f"{source.path} holds the study {found!r}, not {first!r} as in {owner}. Leave this file out."
            )
    try:
        joint = study or _joint_study(sources)
        plans = _plan_phases(joint, sources)
    except (ResultError, StudyError) as error:
        raise ResultError(str(error).replace(f"{CODE} says", "--study STUDY.toml says by its folder")) from None
    for phase, plan in plans.items():
        _check_equal_runs(plan, phase, sources)
    tables, whole = dict[str, RunTable](), dict[str, xr.Dataset]()
    for phase, plan in plans.items():
        having = [source for source in sources if phase in source.runs]
        tables[phase] = RunTable(plan)
        for source in having:  # attempts on different machines add up
            tables[phase].add(source.runs[phase], replaced=NOT_OK, attempts=np.add)
        data = whole[phase] = dataset(tables[phase], joint)
        data.attrs = {**global_attributes(joint, phase), **data.attrs, **_join_provenance(having, phase)}
    return whole, tables


def write_joined(output: Path, join: Callable[[], tuple[Mapping[str, xr.Dataset], Mapping[str, RunTable]]]) -> None:
    """Join results and write a new file, with the lease of this file.

    `join` returns the Datasets and the tables for `write_result`.  A file with these joined runs does not change.
    The global attributes of this file may differ, because they contain the time.  Raises ResultError if the
    file has other runs.
    """
    check_result_place(output)
    with lock_result(output) as check_alone:
        whole, tables = join()
        if not output.exists():
            check_alone()
            write_result(output, whole, tables, summarize(whole))
            return
        found: Mapping[str, xr.Dataset] = {}
        with suppress(ResultError):
            found = read_result(output)
        if found.keys() != whole.keys() or not all(
            found[phase].drop_attrs(deep=False).identical(whole[phase].drop_attrs(deep=False)) for phase in whole
        ):
            raise _explain_conflict(output, "which already exists")


def _explain_conflict(output: Path, kind: str) -> ResultError:
    return ResultError(f"`--output` must be a new file, got {output}, {kind}. Choose another output file.")


# --- the study that includes all runs ---------------------------------------------------------------------------------


def _joint_study(sources: Sequence[Source]) -> Study:
    """Return the first study with the axis values of all files, or add all axis values to the first study."""
    data = [source.groups[MAIN] for source in sources]
    names = dict.fromkeys(str(name) for each in data for name in each["run_status"].dims)
    # None for a parameter that depends on other axes, or is not in the file
    labels = {
        name: [
            {text_label(value) for value in each[name].values.ravel()}
            if name in each.coords and each[name].dims in ((), (name,)) else None
            for each in data
        ]
        for name in names
    }  # fmt: skip
    every = {name: set[str]().union(*(own or () for own in each)) for name, each in labels.items()}
    for number, source in enumerate(sources):
        if all(labels[name][number] in (None, every[name]) for name in names):
            return study_in(source.path, data[number])
    studies = [study_in(source.path, each) for source, each in zip(sources, data, strict=True)]
    tables = [parse_toml(study.text) for study in studies]
    axes = [table.pop("axes", {}) for table in tables]
    differing = {
        f"[{key}]" for table in tables for key in tables[0].keys() | table if table.get(key) != tables[0].get(key)
    }
    joint: dict[str, Any] = {}
    for name, own in axes[0].items():
        is_everywhere = all(name in each for each in axes)
        values: list[Any] = [value for study in studies if is_everywhere for value in study.space.axis(name).values]
        if is_everywhere and all(each[name] == own for each in axes):
            joint[name] = own
        elif is_everywhere and all(type(value) in (bool, int, float, str) for value in values):
            values = list(dict.fromkeys(values))
            if all(type(value) in (int, float) for value in values):
                values.sort()
            is_range = all(type(value) is int for value in values) and values[-1] - values[0] == len(values) - 1
            joint[name] = {"start": values[0], "count": len(values)} if is_range and values[0] >= 0 else values
        else:
            differing.add(name)
    if differing:
        raise ResultError(
            f"no file has a study that includes all runs: the studies differ in {join_names(sorted(differing), 6)}. "
            "Give a study file that includes all runs with --study."
        )
    return study_in(sources[0].path, data[0].assign_attrs(study=write_toml({**tables[0], "axes": joint})))


def _plan_phases(study: Study, sources: Sequence[Source]) -> dict[str, Plan]:
    """Return the plans of the study by phase.  Raises ResultError if a file has unplanned runs."""
    plans, chosen = dict[str, Plan](), list[ParameterTable]()
    for phase in study.phases:
        seeds = find_planned_seeds(
            phase, [source.groups[phase.name] for source in sources if phase.name in source.groups]
        )
        plans[phase.name] = plan_phase(study, phase, chosen if seeds is None else [*chosen, seeds])
        if phase.choice is not None:
            chosen.append(_joint_choice(study, phase.name, phase.choice, sources))
    # the main phase first, since it becomes the root group of the file
    plans = dict(reversed(plans.items()))
    for source in sources:
        for name, runs in source.runs.items():
            planned = set(plans[name].keys.astype(str).tolist()) if name in plans else set()
            lost = [key for key in runs.keys if key not in planned]
            if lost:
                keys = source.groups[name]["run_key"]
                places = zip(keys.dims, np.argwhere(keys.values.astype(str) == lost[0])[0], strict=True)
                at = ", ".join(f"{dim}={source.groups[name][dim].values[i]}" for dim, i in places)
                own = _read_constants(source)
                others = [
                    f"{constant} is {value} in {source.path} and {theirs[constant]} in {other.path}"
                    for other in sources
                    for theirs in [_read_constants(other)]
                    for constant, value in own.items()
                    if theirs.get(constant, value) != value
                ]
                reason = join_names(others, 3) or "a rule, the output, the pilot or the code of the method differs"
                raise ResultError(
                    f"{source.path} holds {len(lost)} {name} runs that {study.file} does not include, for example {at} "
                    f"({reason}). Give a study file that includes all runs with --study, or leave this file out."
                )
    return plans


def _read_constants(source: Source) -> dict[str, Any]:
    return {str(name): each.item() for name, each in source.groups[MAIN].coords.items() if not each.ndim}


def _joint_choice(study: Study, phase: str, choice: Pilot, sources: Sequence[Source]) -> ParameterTable:
    """Join the choices of a phase.  Raises ResultError if two choices differ, or if a choice is missing."""
    table: dict[tuple[str, ...], tuple[Candidate, Path]] = {}
    names = join_values(choice.parameters)

    def describe(at: Sequence[str]) -> str:
        return ", ".join(f"{name}={label}" for name, label in zip(choice.by, at, strict=True)) or "all runs"

    # of a file without the phase, the run keys contain the chosen values
    for source in (each for each in sources if phase in each.groups):
        for at, candidate in choice_in(source.path, source.groups[MAIN], study, choice).table.items():
            known, path = table.setdefault(at, (candidate, source.path))
            if known != candidate:
                raise ResultError(
                    f"the {phase}s chose different values for {describe(at)}: {names} is {join_values(known)} in "
                    f"{path} and {join_values(candidate)} in {source.path}. Run one {phase}, and give its choice to "
                    "the other studies in [[when]] rules."
                )
    missing = next((at for at in choice.choose_first_candidates(study.space).table if at not in table), None)
    if missing is not None:
        raise ResultError(
            f"no file has a {phase}'s choice of `{names}` for {describe(missing)}, but {study.file} needs it. Run this "
            "part too, or give a study file without it with --study."
        )
    return ParameterTable(choice.parameters, choice.by, {at: candidate for at, (candidate, _) in table.items()})


# --- the merged result ------------------------------------------------------------------------------------------------


# only a status that the numbers determine is compared: a run that timed out in one file and is ok in another is no
# conflict
def _check_equal_runs(plan: Plan, phase: str, sources: Sequence[Source]) -> None:
    """Raise ResultError if two files have different values for one run."""
    owners: dict[str, tuple[Source, int]] = {}
    for source in (each for each in sources if phase in each.runs):
        theirs, shared = source.runs[phase], dict[Path, tuple[Source, list[tuple[int, int]]]]()
        for row in np.flatnonzero(np.isin(theirs.status, list(FINAL))).tolist():
            owner, before = owners.setdefault(theirs.keys[row], (source, row))
            if owner is not source:
                shared.setdefault(owner.path, (owner, []))[1].append((before, row))
        for owner, pairs in shared.values():
            ours = owner.runs[phase]
            found = differences(ours, theirs, pairs)
            if not found:
                continue
            a, b = pairs[found[0].pairs[0]]
            index = next(case.index for case in plan.cases() if case.key == ours.keys[a])
            values = found[0].describe(f"in {owner.path}", f"in {source.path}")
            count, names = (
                len({pair for each in found for pair in each.pairs}),
                join_names([each.name for each in found], 6),
            )
            more = f" In total, {count} runs differ in {names}." if count > 1 else ""
            software = software_changes(ours.software[a], theirs.software[b]).replace(", here ", " and ")
            cause = f" The software differs: {software}." if software else ""
            raise ResultError(
                f"{phase} run {point(plan.space, index)} has two values: {values}.{more}{cause} To see which value "
                "this machine computes, run `evogt try`. Leave out the file with the other value."
            )


def _join_provenance(sources: Sequence[Source], phase: str) -> dict[str, str]:
    """Return the joined history of all files, and the provenance of each file under `merged_from`."""
    attributes = [source.groups[phase].attrs for source in sources]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # each line once: two files may contain the same earlier merge
    lines = dict.fromkeys(line for known in attributes for line in str(known.get("history", "")).splitlines())
    origins: list[dict[str, str]] = []
    for source, known in zip(sources, attributes, strict=True):
        own = {"file": source.path.name} | {name: str(known[name]) for name in _PROVENANCE if name in known}
        origins += json.loads(known[MERGED_FROM]) if MERGED_FROM in known else [own]
    merged = f"{now}: evogt-study {package_version()} merged {', '.join(source.path.name for source in sources)}"
    return {"history": "\n".join([*lines, merged]), MERGED_FROM: json.dumps(origins)}
