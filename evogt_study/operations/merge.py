"""Join the results of one study from several machines.

Runs are matched by their keys.  Two different values for one run are an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import InputError, ResultError, StudyError
from evogt_study.operations.compare import Difference, differences_of_pairs, software_changes
from evogt_study.results.dataset import dataset, global_attributes, records_of
from evogt_study.results.decisions import planned_seeds
from evogt_study.results.finished import read_unfinished
from evogt_study.results.netcdf import loaded, open_written, opened, opened_so_far, read_result, write_result
from evogt_study.results.provenance import package_version
from evogt_study.results.reopened import CODE, choice_in, point, study_in
from evogt_study.results.run_metadata import CONCATENATED, metadata, with_status_names
from evogt_study.results.sources import ResultFile, check_file
from evogt_study.results.table import RunTable
from evogt_study.schema.records import RunRecords
from evogt_study.schema.values import text_label
from evogt_study.schema.variables import FINAL, MAIN, Status
from evogt_study.storage.atomic import check_result_place, followed, remove_unfinished
from evogt_study.storage.lease import only_writer
from evogt_study.storage.paths import paths_of
from evogt_study.storage.untrusted import parse_toml
from evogt_study.study.case_space import Chosen, listed
from evogt_study.study.model import SeedRange, read_toml, validated, write_toml
from evogt_study.study.phases import Candidate, Pilot, join_values
from evogt_study.study.plan import Plan, phase_plan
from evogt_study.study.study import Study, check_study

MERGED_FROM = "merged_from"
_PROVENANCE = (
    "history", "date_created", "study_file", "study_sha256", "git_revision", "git_dirty", "versions", "platform", "cpu",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Source:
    """One of the files to merge, with its runs by phase."""

    path: Path
    groups: Mapping[str, xr.Dataset]
    runs: Mapping[str, RunRecords]

    @staticmethod
    def read(path: Path) -> Source:
        """Read a result to merge, or its finished runs.

        Raises ResultError if it is not a result, if its runs have changed since they were written, or if it has no
        runs of the main phase.
        """
        partial = read_unfinished(path)
        index = ResultFile(path).index if path.exists() and partial is None else None
        with opened_so_far(path) as found:
            # the arrays of a result with an index are copied when the merged result is written
            if index is not None:
                found = {phase: metadata(data).assign_coords(data.coords) for phase, data in found.items()}
            groups = {phase: loaded(path, data) for phase, data in found.items()}
        if MAIN not in groups:
            raise ResultError(f"{path} has runs of the pilot only. Merge results with runs of the main phase.")
        if path.exists():
            check_file(path)
        if index is not None:
            return Source(path, groups, dict(index.phases))
        tables = {} if partial is None else partial.tables  # with the types that the runs returned
        runs = {phase: tables[phase].records()[0] for phase in groups.keys() & tables.keys()}
        return Source(path, groups, {phase: runs.get(phase) or records_of(data) for phase, data in groups.items()})


def merge(paths: str | Path | Sequence[str | Path], output: str | Path, *, study: Study | None = None) -> xr.Dataset:
    """Join results of one study, write them to the new file `output`, and return the study's runs.

    study: the study of the merged result; None: the study of the first file, with the axis values of all files.
    Runs are matched by their run keys.  A run that is ok replaces one with another status.  Runs with equal keys must
    have equal values, bit for bit.  Attempts add up.

    An `output` with this merged result stays as it is: an earlier merge may have been killed after its last write.

    Raises ResultError, and writes nothing, if the files are results of different studies, if no study includes the runs
    of all files, if two files have different values for one run, or if `output` is another file or is being written by
    another process.
    """
    if study is not None:
        check_study(study)
    output, sources = Path(output), paths_of(paths)
    if len(sources) < 2:
        raise InputError(f"`FILES` must be two results or more, got {len(sources)}")
    if output.exists() and any(path.exists() and path.samefile(output) for path in sources):
        raise _explain_conflict(output, "one of the files to merge")
    check_output(output)
    write_joined(output, lambda: _joined(sources, study))
    return with_status_names(open_written(output))


def _joined(sources: Sequence[Path], study: Study | None) -> tuple[dict[str, xr.Dataset], dict[str, RunTable]]:
    read = [Source.read(path) for path in sources]
    _check_one_study(read, study)
    plans, study = _covering(read) if study is None else (_plans(study, read), study)
    for phase, plan in plans.items():
        _check_no_conflict(plan, phase, read)
    tables = {phase: _table(plan, phase, read) for phase, plan in plans.items()}
    return {phase: _merged(table, phase, read, study) for phase, table in tables.items()}, tables


def check_output(output: Path) -> None:
    """Raise ResultError at a place for joined results that has another file, or that cannot be written."""
    if output.exists():
        try:
            with opened(output) as groups:
                is_joined = bool({MERGED_FROM, CONCATENATED} & groups[MAIN].attrs.keys())
        except ResultError:
            is_joined = False
        if not is_joined:
            raise _explain_conflict(output, "a file that exists")
    check_result_place(output)


def write_joined(output: Path, join: Callable[[], tuple[Mapping[str, xr.Dataset], Mapping[str, RunTable]]]) -> None:
    """Join results as the only writer of a new file, and write the file; `join` returns what `write_result` takes.

    A file with these runs stays as it is: an earlier command may have been killed after its last write.  Only its
    global attributes, which contain the time, may differ.  Raises ResultError for another file.
    """
    with only_writer(output) as check_alone:
        remove_unfinished(followed(output).parent, followed(output).name)
        whole, tables = join()
        if not output.exists():
            check_alone()
            write_result(output, whole, tables)
        elif not _is_held(output, whole):
            raise _explain_conflict(output, "a file that exists")


def _is_held(output: Path, whole: Mapping[str, xr.Dataset]) -> bool:
    found = read_result(output)
    return found.keys() == whole.keys() and all(
        found[phase].drop_attrs(deep=False).identical(whole[phase].drop_attrs(deep=False)) for phase in whole
    )


def _explain_conflict(output: Path, kind: str) -> ResultError:
    return ResultError(f"`--output` must be a new file, got {output}, {kind}; choose another place with -o")


# by name, before any comparison: two studies have no common keys, which would look like missing runs
def _check_one_study(sources: Sequence[Source], study: Study | None) -> None:
    """Raise ResultError if the files are results of different studies."""
    first = sources[0].groups[MAIN].attrs.get("id", "") if study is None else study.name
    owner = str(sources[0].path) if study is None else study.file
    for source in sources:
        found = source.groups[MAIN].attrs.get("id", "")
        if found != first:
            raise ResultError(f"{source.path} is the result of the study {found!r}, not of {first!r} as {owner}")


# --- the study that includes all runs ---------------------------------------------------------------------------------


def _covering(sources: Sequence[Source]) -> tuple[dict[str, Plan], Study]:
    """The study that includes the runs of all files, with its plans.  Raises ResultError.

    It is the study of the first file whose axes have every value, or else the study of the first file with the axis
    values of all.
    """
    lacking = [_lacking_values(source, sources) for source in sources]
    refusals: list[str] = []
    whole = [(source, source.groups[MAIN]) for source, lacks in zip(sources, lacking, strict=True) if not lacks]
    if not whole and (text := _joint_text(sources)) is not None:
        data = sources[0].groups[MAIN]
        whole = [(sources[0], data.assign_attrs(study=text))]
    for source, data in whole:
        try:
            study = study_in(source.path, data)
            return _plans(study, sources), study
        except (ResultError, StudyError) as error:
            refusals.append(str(error))
    if refusals:
        raise ResultError(refusals[0].replace(f"{CODE} says", "--study STUDY.toml says by its folder"))
    reasons = "; ".join(f"{source.path} lacks {lacks}" for source, lacks in zip(sources, lacking, strict=True))
    raise ResultError(f"no file has a study that includes all runs: {reasons}. Name such a study with --study.")


def _joint_text(sources: Sequence[Source]) -> str | None:
    """The text of the first study with the axis values of all; None if other parts of the studies differ."""
    texts = [str(source.groups[MAIN].attrs["study"]) for source in sources]
    for text, source in zip(texts, sources, strict=True):
        read_toml(text, f"the study in {source.path}")  # it refuses text that is no study
    tables = [parse_toml(text) for text in texts]
    axes = [table.pop("axes", {}) for table in tables]
    if any(table != tables[0] or own.keys() != axes[0].keys() for table, own in zip(tables, axes, strict=True)):
        return None
    joint = {}
    for name in axes[0]:
        every = [_listed_values(own[name]) for own in axes]
        if all(own[name] == axes[0][name] for own in axes):
            joint[name] = axes[0][name]
        elif any(values is None for values in every):
            return None
        else:
            values = list(dict.fromkeys(value for values in every for value in values or ()))
            if all(type(value) in (int, float) for value in values):
                values.sort()
            is_range = all(type(value) is int for value in values) and values[-1] - values[0] == len(values) - 1
            is_range = is_range and values[0] >= 0
            joint[name] = {"start": values[0], "count": len(values)} if is_range else values
    return write_toml({**tables[0], "axes": joint})


def _listed_values(raw: Any) -> list[Any] | None:
    """The values of an axis in a study text; None for a spaced range and for objects under names."""
    if isinstance(raw, dict):
        return validated(SeedRange, raw, "axes").values if raw.keys() <= {"start", "count"} else None
    return raw if all(type(each) in (bool, int, float, str) for each in raw) else None


def _lacking_values(source: Source, sources: Sequence[Source]) -> str:
    """Describe the axis values that only other files have."""
    lacks = []
    for name in dict.fromkeys(str(name) for each in sources for name in each.groups[MAIN]["run_status"].dims):
        own = _values_in(source.groups[MAIN], name)
        every = dict.fromkeys(value for each in sources for value in _values_in(each.groups[MAIN], name) or ())
        missing = [] if own is None else [value for value in every if value not in set(own)]
        if missing:
            lacks.append(f"{name} = {listed(missing, 6)}")
    return " and ".join(lacks)


def _values_in(data: xr.Dataset, name: str) -> list[str] | None:
    """Labels of the values of a parameter in a file; None if it depends on other axes, or is not in the file."""
    if name not in data.coords or data[name].dims not in ((), (name,)):
        return None
    return [text_label(value) for value in data[name].values.ravel()]


def _plans(study: Study, sources: Sequence[Source]) -> dict[str, Plan]:
    """The study's plans by phase.  Raises ResultError if a file has runs that are in none of them."""
    plans, chosen = dict[str, Plan](), list[Chosen]()
    for phase in study.phases:
        seeds = planned_seeds(phase, [source.groups[phase.name] for source in sources if phase.name in source.groups])
        plans[phase.name] = phase_plan(study, phase, chosen if seeds is None else [*chosen, seeds])
        if phase.choice is not None:
            chosen.append(_joint_choice(study, phase.name, phase.choice, sources))
    # the main phase first, since it becomes the root group of the file
    plans = dict(reversed(plans.items()))
    asked = {phase: {case.key for case in plan.cases()} for phase, plan in plans.items()}
    for source in sources:
        for name, runs in source.runs.items():
            lost = [key for key in runs.keys if key not in asked.get(name, ())]
            if lost:
                raise ResultError(_not_asked_for(study, source, name, lost, sources))
    return plans


def _not_asked_for(study: Study, source: Source, phase: str, lost: Sequence[str], sources: Sequence[Source]) -> str:
    at = _place(source.groups[phase], lost[0])
    differing = [text for other in sources for text in _other_constants(source, other)]
    reason = (
        listed(differing, 3) if differing else "a rule, the output, the pilot's choice or the method's code differs"
    )
    return (
        f"{source.path} holds {len(lost)} runs of the {phase} that {study.file} does not ask for, e.g. {at} "
        f"({reason}); name a study file that asks for everything with --study, or leave this file out"
    )


def _other_constants(one: Source, other: Source) -> list[str]:
    """Describe the constants in which two files differ."""
    ours, theirs = one.groups[MAIN], other.groups[MAIN]
    names = [str(name) for name in ours.coords if ours[name].ndim == 0 and name in theirs.coords]
    pairs = [(name, ours[name].item(), theirs[name].item()) for name in names if theirs[name].ndim == 0]
    return [f"{name} is {a} in {one.path}, {b} in {other.path}" for name, a, b in pairs if a != b]


def _joint_choice(study: Study, phase: str, choice: Pilot, sources: Sequence[Source]) -> Chosen:
    """Join the choices of a phase.  Raises ResultError if two differ, or if a point has no choice."""
    table: dict[tuple[str, ...], Candidate] = {}
    names = join_values(choice.parameters)
    chooser: dict[tuple[str, ...], Path] = {}
    for source in sources:
        if phase not in source.groups:
            continue  # the run keys contain the chosen values
        for at, candidate in choice_in(source.path, source.groups[MAIN], study, choice).table.items():
            if table.setdefault(at, candidate) != candidate:
                both = f"{join_values(table[at])} in {chooser[at]}, {join_values(candidate)} in {source.path}"
                raise ResultError(
                    f"the {phase}s chose differently for {_at(choice.by, at)}: {names} is {both}; "
                    f"let one {phase} choose, and give the others its choice in [[when]] rules"
                )
            chooser.setdefault(at, source.path)
    open_points = [at for at in choice.first_candidates(study.space).table if at not in table]
    if open_points:
        raise ResultError(
            f"no file has a {phase}'s choice of `{names}` for {_at(choice.by, open_points[0])}, which "
            f"{study.file} asks for; run that part too, or leave it out of the study file named with --study"
        )
    return Chosen(choice.parameters, choice.by, table)


def _at(names: Sequence[str], labels: Sequence[str]) -> str:
    return ", ".join(f"{name}={label}" for name, label in zip(names, labels, strict=True)) or "all runs"


def _place(data: xr.Dataset, key: str) -> str:
    """Describe the first case with this key."""
    position = np.argwhere(data["run_key"].values == key)[0]
    dims = data["run_key"].dims
    return ", ".join(f"{name}={data[name].values[i]}" for name, i in zip(dims, position, strict=True))


# --- conflicts --------------------------------------------------------------------------------------------------------


# only a status that the numbers determine is compared: a run that timed out in one file and is ok in another is no
# conflict
def _check_no_conflict(plan: Plan, phase: str, sources: Sequence[Source]) -> None:
    """Raise ResultError if two files have different values for one run."""
    owners: dict[str, tuple[int, int]] = {}
    for number, source in enumerate(sources):
        shared: dict[int, list[tuple[int, int]]] = {}
        runs = source.runs.get(phase)
        if runs is None:
            continue
        for row, key in enumerate(runs.keys):
            if runs.status[row] in FINAL:
                owner, other = owners.setdefault(key, (number, row))
                if owner != number:
                    shared.setdefault(owner, []).append((other, row))
        for owner, pairs in shared.items():
            _check_equal(plan, phase, sources[owner], source, pairs)


def _check_equal(plan: Plan, phase: str, one: Source, other: Source, pairs: Sequence[tuple[int, int]]) -> None:
    ours, theirs = one.runs[phase], other.runs[phase]
    for a, b in pairs:
        if ours.status[a] != theirs.status[b]:
            fates = [Status(runs.status[row]).name for runs, row in ((ours, a), (theirs, b))]
            difference = f"{fates[0]} in {one.path}, {fates[1]} in {other.path}"
            raise ResultError(_conflict(plan, ours, theirs, (a, b), difference))
    found = differences_of_pairs(ours, theirs, pairs)
    if found:
        first = found[0]
        difference = first.describe(f"in {one.path}", f"in {other.path}") + _more(found)
        raise ResultError(_conflict(plan, ours, theirs, pairs[first.pairs[0]], difference))


def _more(found: Sequence[Difference]) -> str:
    runs = len({pair for difference in found for pair in difference.pairs})
    names = listed(list(dict.fromkeys(difference.name for difference in found)), 6)
    return f"; {runs} runs differ, in {names}" if runs > 1 else ""


def _conflict(plan: Plan, ours: RunRecords, theirs: RunRecords, pair: tuple[int, int], values: str) -> str:
    index = next(case.index for case in plan.cases() if case.key == ours.keys[pair[0]])
    software = software_changes(ours.software[pair[0]], theirs.software[pair[1]]).replace(", here ", " and ")
    cause = f"they were computed by other software: {software}; " if software else ""
    return (
        f"{plan.phase} run {point(plan.space, index)} has two values: {values}; {cause}`evogt try` shows which one "
        "this machine computes. Leave the other file out."
    )


# --- the merged result ------------------------------------------------------------------------------------------------


def _table(plan: Plan, phase: str, sources: Sequence[Source]) -> RunTable:
    table = RunTable(plan)
    # attempts on different machines add up
    table.add_all([source.runs[phase] for source in sources if phase in source.runs], attempts=np.add)
    return table


def _merged(table: RunTable, phase: str, sources: Sequence[Source], study: Study) -> xr.Dataset:
    having = [source for source in sources if phase in source.runs]
    data = dataset(table, study)
    data.attrs = {**global_attributes(study, phase), **data.attrs, **_provenance(having, phase)}
    return data


def _provenance(sources: Sequence[Source], phase: str) -> dict[str, str]:
    """History of all files, and the provenance of each under `merged_from`."""
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
