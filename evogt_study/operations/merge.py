"""Join results of one study, or results of different studies along a new dimension.

Runs with equal run keys are the same run.  The merge stops with an error if two files have different values for a run.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.errors import InputError, ResultError, StudyError, shorten
from evogt_study.operations.complete import summarise_runs
from evogt_study.operations.diff import RunsOfResult, compare_runs, describe_software_changes
from evogt_study.results import netcdf
from evogt_study.results.dataset import DECLARATION, choose_fill_value, make_global_attributes, to_dataset
from evogt_study.results.index import DIGESTS
from evogt_study.results.provenance import PLAN_DIGEST, read_package_version
from evogt_study.results.reopened import CODE_OPTION, format_point, read_choice, read_recorded_study
from evogt_study.results.table import NOT_OK, Cells, RunTable
from evogt_study.schema import variables
from evogt_study.schema.records import MAX_EXACT_INT, classify_dtype
from evogt_study.storage.files import check_result_place, parse_toml, to_paths
from evogt_study.storage.lease import lock_result
from evogt_study.study.case_space import ParameterTable
from evogt_study.study.model import write_toml
from evogt_study.study.plan import Candidate, Pilot, Plan, find_planned_seeds, join_values, plan_phase
from evogt_study.study.study import Study, check_study, describe_changes
from evogt_study.text import format_count

MERGED_FROM = "merged_from"
_PROVENANCE = (
    "history", "date_created", "study_file", "study_sha256", "git_revision", "git_dirty", "versions", "platform", "cpu",
)  # fmt: skip
JoinedRuns = tuple[Mapping[str, xr.Dataset], Mapping[str, RunTable]]
"""Joined runs of each phase, as Datasets and as tables."""


def merge(paths: str | Path | Sequence[str | Path], output: str | Path, *, study: Study | None = None) -> xr.Dataset:
    """Join results of one study in a new file.

    Runs with equal run keys must have equal values, bit for bit.  A run with the status ok replaces a run with another
    status.  The attempts of a run add up over the files.

    Parameters
    ----------
    paths : sequence of str or Path
        Result files, also of unfinished studies.
    output : str or Path
        New file.  The function does not change a file that already holds this merged result.
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
    output, sources = Path(output), to_paths(paths)
    if len(sources) < 2:
        raise InputError(f"`paths` must be two results or more, got {len(sources)}")
    if output.exists() and any(path.exists() and path.samefile(output) for path in sources):
        raise _explain_conflict(output, "which is one of the files to merge")
    _write_joined(output, lambda: _merge_runs(list(map(RunsOfResult, sources)), study))
    return netcdf.with_status_names(netcdf.open_written(output))


def _merge_runs(sources: Sequence[RunsOfResult], study: Study | None) -> JoinedRuns:
    """Join the runs of one study.  Raises ResultError if two results disagree."""
    names = []
    for source in sources:
        if variables.MAIN not in source.groups:
            raise ResultError(f"{source.path} has runs of the pilot only. Merge results with runs of the main phase.")
        names.append(source.groups[variables.MAIN].attrs.get("id", ""))
    # compare the names first, because runs of another study would look like missing runs
    first, owner = (names[0], str(sources[0].path)) if study is None else (study.name, study.file)
    for source, name in zip(sources, names, strict=True):
        if name != first:
            raise ResultError(
                f"{source.path} holds the study {name!r}, not {first!r} as in {owner}. Leave this file out."
            )
    try:
        joint = study or _make_joint_study(sources)
        plans = _plan_phases(joint, sources)
    except (ResultError, StudyError) as error:
        raise ResultError(str(error).replace(f"{CODE_OPTION} says", "--study STUDY.toml says by its folder")) from None
    tables, whole = dict[str, RunTable](), dict[str, xr.Dataset]()
    for phase, plan in plans.items():
        having = [source for source in sources if phase in source.runs]
        _check_equal_runs(plan, having)
        tables[phase] = RunTable(plan)
        for source in having:  # add up the attempts on different machines
            tables[phase].add(source.runs[phase], replaced=NOT_OK, attempts=np.add)
        data = whole[phase] = to_dataset(tables[phase], joint)
        data.attrs = {**make_global_attributes(joint, phase), **data.attrs, **_join_provenance(having, phase)}
    return whole, tables


def _write_joined(output: Path, join: Callable[[], JoinedRuns]) -> None:
    """Join results and write a new file.  Raises ResultError if `output` exists and holds other runs."""
    check_result_place(output)
    with lock_result(output) as check_alone:
        whole, tables = join()
        if not output.exists():
            check_alone()
            netcdf.write_result(output, whole, tables, summarise_runs(whole))
            return
        found: Mapping[str, xr.Dataset] = {}
        with suppress(ResultError):
            found = netcdf.read_result(output)
        if found.keys() != whole.keys() or not all(
            found[phase].drop_attrs(deep=False).identical(whole[phase].drop_attrs(deep=False)) for phase in whole
        ):
            raise _explain_conflict(output, "which already exists")


def _explain_conflict(output: Path, kind: str) -> ResultError:
    return ResultError(f"`output` must be a new file, got {output}, {kind}. Choose another output file.")


def _make_joint_study(sources: Sequence[RunsOfResult]) -> Study:
    """Return a study that includes all runs.  If no file has such a study, extend the first study by axis values."""
    data = [source.groups[variables.MAIN] for source in sources]
    planned = [set(each["run_key"].values.ravel().astype(str).tolist()) - {""} for each in data]
    studies = [read_recorded_study(source.path, each) for source, each in zip(sources, data, strict=True)]
    every = set[str]().union(*planned)
    for study, keys in zip(studies, planned, strict=True):
        if keys == every:
            return study
    tables = [parse_toml(study.text) for study in studies]
    axes = [table.pop("axes", {}) for table in tables]
    joint = dict(axes[0])
    is_joint = all(table == tables[0] and own.keys() == joint.keys() for table, own in zip(tables, axes, strict=True))
    for name in joint if is_joint else ():
        if any(own[name] != joint[name] for own in axes):
            values: list[Any] = [value for study in studies for value in study.space.axis(name).values]
            if not all(type(value) in (bool, int, float, str) for value in values):
                is_joint = False
                break
            values = list(dict.fromkeys(values))
            if all(type(value) in (int, float) for value in values):
                values.sort()
            is_range = all(type(value) is int for value in values) and values[-1] - values[0] == len(values) - 1
            joint[name] = {"start": values[0], "count": len(values)} if is_range and values[0] >= 0 else values
    if not is_joint:
        texts = [{"study": study.text, "code": study.spec.declaration} for study in studies]
        other = next(number for number, each in enumerate(texts) if each != texts[0])
        raise ResultError(
            f"no file has a study that includes all runs. {sources[0].path} and {sources[other].path} differ: "
            f"{describe_changes(texts[0], texts[other])}. Give a study file that includes all runs with `study`."
        )
    return read_recorded_study(sources[0].path, data[0].assign_attrs(study=write_toml({**tables[0], "axes": joint})))


def _plan_phases(study: Study, sources: Sequence[RunsOfResult]) -> dict[str, Plan]:
    """Plan the phases of a study, the main phase first.  Raises ResultError if a file has unplanned runs."""
    plans, chosen = dict[str, Plan](), list[ParameterTable]()
    for phase in study.phases:
        groups = [source.groups[phase.name] for source in sources if phase.name in source.groups]
        seeds = find_planned_seeds(phase, groups)
        plans[phase.name] = plan_phase(study, phase, chosen if seeds is None else [*chosen, seeds])
        if phase.choice is not None:
            chosen.append(_join_choices(study, phase.name, phase.choice, sources))
    now = {"study": study.text, "code": study.spec.declaration}
    for source in sources:
        attributes = source.groups[variables.MAIN].attrs
        for name, runs in source.runs.items():
            planned = set(plans[name].keys.astype(str).tolist()) if name in plans else set()
            if lost := len(set(runs.keys) - planned):
                own = {"study": str(attributes["study"]), "code": str(attributes.get(DECLARATION, ""))}
                changes = describe_changes(own, now)
                raise ResultError(
                    f"{source.path} holds {format_count(lost, f'{name} run')} that {study.file} does not include "
                    f"({changes}). Give a study file that includes all runs with `study`, or leave this file out."
                )
    return dict(reversed(plans.items()))


def _join_choices(study: Study, phase: str, choice: Pilot, sources: Sequence[RunsOfResult]) -> ParameterTable:
    """Join the choices of a phase from all files.  Raises ResultError if choices differ or are missing."""
    table: dict[tuple[str, ...], tuple[Candidate, Path]] = {}
    names = join_values(choice.parameters)

    def describe(at: Sequence[str]) -> str:
        return ", ".join(f"{name}={label}" for name, label in zip(choice.by, at, strict=True)) or "all runs"

    # in a file without the phase, the run keys contain the chosen values
    for source in (each for each in sources if phase in each.groups):
        for at, candidate in read_choice(source.path, source.groups[variables.MAIN], study, choice).table.items():
            known, path = table.setdefault(at, (candidate, source.path))
            if known != candidate:
                raise ResultError(
                    f"the {phase}s chose different values for {describe(at)}: {names} is {join_values(known)} in "
                    f"{path} and {join_values(candidate)} in {source.path}. Run one {phase}, and give its choice to "
                    "the other studies in [[when]] rules."
                )
    missing = next((at for at in choice.candidates if at not in table), None)
    if missing is not None:
        raise ResultError(
            f"no file has a {phase}'s choice of `{names}` for {describe(missing)}, but {study.file} needs it. Run this "
            "part too, or give a study file without it with --study."
        )
    return ParameterTable(choice.parameters, choice.by, {at: candidate for at, (candidate, _) in table.items()})


# a run that timed out in one file and is ok in another file is no conflict
def _check_equal_runs(plan: Plan, sources: Sequence[RunsOfResult]) -> None:
    """Raise ResultError if a result has other values for a run than the first result with this run."""
    first = dict[str, tuple[int, int]]()  # number of the first result with each run, and the row of the run there
    for at, other in enumerate(sources):
        records, shared = other.runs[plan.phase], dict[int, list[tuple[int, int]]]()
        for row in np.flatnonzero(np.isin(records.status, list(variables.FINAL_STATUSES))).tolist():
            owner, before = first.setdefault(records.keys[row], (at, row))
            if owner != at:
                shared.setdefault(owner, []).append((before, row))
        for owner, pairs in shared.items():
            _compare_shared_runs(plan, sources[owner], other, pairs)


def _compare_shared_runs(plan: Plan, one: RunsOfResult, other: RunsOfResult, pairs: list[tuple[int, int]]) -> None:
    """Raise ResultError if two results have different values for a pair of equal runs."""
    ours, theirs = (each.runs[plan.phase] for each in (one, other))
    for found in compare_runs(ours, theirs, pairs):
        a, b = pairs[found.pairs[0]]
        index = next(case.index for case in plan.cases() if case.key == ours.keys[a])
        software = describe_software_changes(ours.software[a], theirs.software[b], " and ")
        cause = f" The software differs: {software}." if software else ""
        raise ResultError(
            f"{plan.phase} run {format_point(plan.space, index)} has two values: "
            f"{found.describe(f'in {one.path}', f'in {other.path}')}.{cause} To see which value this machine computes, "
            "run `evogt try`. To list all differences, run `evogt diff`. Leave out the file with the other value."
        )


def _join_provenance(sources: Sequence[RunsOfResult], phase: str) -> dict[str, str]:
    """Return the joined history of all files, and the provenance of each file in the attribute `merged_from`."""
    # without repeated lines, because two files may contain the same merge
    lines, origins = dict[str, None](), list[dict[str, str]]()
    for source in sources:
        known = source.groups[phase].attrs
        lines |= dict.fromkeys(str(known.get("history", "")).splitlines())
        own = {"file": source.path.name} | {name: str(known[name]) for name in _PROVENANCE if name in known}
        origins += json.loads(known[MERGED_FROM]) if MERGED_FROM in known else [own]
    merged = _write_history(f"merged {', '.join(source.path.name for source in sources)}")
    return {"history": "\n".join([*lines, merged]), MERGED_FROM: json.dumps(origins)}


def _write_history(what: str) -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}: evogt-study {read_package_version()} {what}"


# --- results of different studies -------------------------------------------------------------------------------------

Results = Mapping[Any, xr.Dataset]  # mapping from the value along the new dimension to the result
NOT_PLANNED = {"run_status": variables.Status.not_run, "run_attempts": 0, "run_software": -1}
MISSING = {
    "numbers": np.nan, "strings": "", "dates": np.datetime64("NaT", "ns"), "durations": np.timedelta64("NaT", "ns")
}  # fmt: skip
"""Fill value for cases that a result does not have, by kind of dtype."""
SINGLE_STUDY_ATTRIBUTES = {
    DIGESTS, netcdf.RETURNED_ATTRIBUTES, PLAN_DIGEST, DECLARATION,
    *(f"{phase}_group" for phase in variables.EARLIER_PHASES),
}  # fmt: skip
"""Names of global attributes that have no meaning for joined results."""


def concat(
    results: Mapping[Any, xr.Dataset | str | Path], dim: str = "problem", *, output: str | Path | None = None
) -> xr.Dataset:
    """Join results of different studies along a new dimension.

    A fixed parameter that differs, or that some results do not have, becomes a coordinate along `dim`.  A dependent
    parameter with different rules also becomes a coordinate along `dim`.  An axis of one result that is a fixed
    parameter of another result becomes an axis of the joined result.  A case that is not in a result has the status
    not_run.  The joined result has no pilots.

    Parameters
    ----------
    results : mapping
        Datasets of `run` or `open`, or result files, by their value along `dim`.
    dim : str, default "problem"
        Name of the new dimension.
    output : str or Path, optional
        New file for the joined result.  Commands read this file like any other result, but it has no study to run.

    Returns
    -------
    Dataset
        The runs of all results, with `dim` as the first dimension.

    Raises
    ------
    InputError
        If a result lacks an axis of another result, or a variable has different dimensions, units or types.
    ResultError
        If a file cannot be read or written.

    Examples
    --------
    >>> import evogt_study as evs
    >>> lines = {k: evs.run(evs.Study(lambda x, k: {"y": k * x}, axes={"x": [1, 2]}, constants={"k": k}), workers=0)
    ...          for k in (2, 3)}
    >>> evs.concat({"two": lines[2], "three": lines[3]}, dim="line").y.values.tolist()
    [[2, 4], [3, 6]]
    """
    if not isinstance(results, Mapping) or len(results) < 2:
        raise InputError(f"`results` must map values of `{dim}` to two or more results, got {shorten(results)}")
    kinds = {isinstance(label, str) for label in results}
    if len(kinds) > 1 or not all(isinstance(label, (str, int, float)) for label in results):
        raise InputError(f"the keys of `results` must be all strings or all numbers, got {shorten(list(results))}")
    with ExitStack() as opened:
        given = {label: _read_all_runs(label, result, opened) for label, result in results.items()}
        owner = next((label for label, data in given.items() if dim in data.variables or dim in data.dims), None)
        conflict = "" if owner is None else f"the result {owner!r} has a variable of this name. Choose another name."
        if reason := variables.explain_reserved_name(dim) or conflict:
            raise InputError(f"`dim` must be a new name, got {dim!r}: {reason}")
        joined = _concat_runs(given, dim)
        if output is None:
            return netcdf.with_status_names(joined.load())
        _write_joined(Path(output), lambda: ({variables.MAIN: joined}, {}))
    return netcdf.with_status_names(netcdf.open_written(Path(output)))


def _read_all_runs(label: object, result: xr.Dataset | str | Path, opened: ExitStack) -> xr.Dataset:
    """Read the runs of a result with statuses as integers, and the variables of a large file in chunks."""
    if not isinstance(result, xr.Dataset):
        data = opened.enter_context(netcdf.open_result(Path(result)))
        if data.nbytes > netcdf.MAX_LOADED_BYTES:
            return opened.enter_context(netcdf.open_result(Path(result), chunks={}))
        return netcdf.load_result(Path(result), data)
    if netcdf.lacks_parts(result):
        raise InputError(f"`results` must be results of this package, got a Dataset without run metadata for {label!r}")
    axes = result["run_status"].dims
    names = {name for name in result.data_vars if result[name].dims[: len(axes)] == axes}
    wanted = [name for name in result.variables if name in names or name == "run_key"]
    return netcdf.with_status_codes(
        result.reset_coords([name for name in wanted if name in result.coords])[wanted].load()
    )


def _concat_runs(given: Results, dim: str) -> xr.Dataset:
    """Join results along a new first dimension, with the axis values of all results on each other axis."""
    axes = list(dict.fromkeys(str(name) for data in given.values() for name in data["run_status"].dims))
    sets = sorted(
        {json.dumps(entry, sort_keys=True) for data in given.values() for entry in netcdf.read_software_sets(data)}
    )
    parts = {label: _renumber_software(_expand_axes(axes, label, data, given), sets) for label, data in given.items()}
    found: dict[str, dict[Any, xr.Variable]] = {}
    for label, data in parts.items():
        for name, variable in data.variables.items():
            found.setdefault(str(name), {})[label] = variable
    fill, stored = dict[str, Any](), dict[str, list[np.dtype[Any]]]()
    for name, each in sorted(found.items(), key=lambda entry: entry[0] not in axes):
        stored[name] = [np.dtype(own.encoding.get("dtype", own.dtype)) for own in each.values()]
        # integers that no float can hold are objects
        kinds = [classify_dtype(kept if own.dtype.kind == "O" and kept.kind in "iu" else own.dtype)
                 for own, kept in zip(each.values(), stored[name], strict=True)]  # fmt: skip
        units = [own.attrs.get("units", "1") for own in each.values()]
        texts = [kind + f" in {unit}" * (unit != "1") for kind, unit in zip(kinds, units, strict=True)]
        _check_same(name, dict(zip(each, texts, strict=True)))
        fill[name] = NOT_PLANNED.get(name, MISSING[kinds[0]])
        if name not in variables.RUN_METADATA and any(name in data.data_vars for data in parts.values()):
            _check_same(name, {label: f"over ({', '.join(map(str, own.dims))})" for label, own in each.items()})
    beside = dict.fromkeys(str(name) for data in parts.values() for name in data.coords if name not in data.dims)

    # a coordinate that differs or is missing in a result varies along the new dimension
    def differs(name: str) -> bool:
        first, *others = found[name].values()
        return len(found[name]) < len(parts) or not all(first.equals(each) for each in others)  # type: ignore[no-untyped-call]

    along = list(filter(differs, beside))
    wide = []
    for data in parts.values():
        moved = data.reset_coords([name for name in along if name in data.coords])
        room = {name: _make_nullable(moved[name]) for name in moved.data_vars if name not in NOT_PLANNED}
        wide.append(moved.assign(room))
    values = np.array(list(parts), dtype=object if isinstance(next(iter(parts)), str) else None)
    joined = xr.concat(
        wide, xr.DataArray(values, dims=dim, name=dim, attrs={"long_name": dim}), data_vars="all", coords="minimal",
        compat="override", join="outer", fill_value=fill, combine_attrs="override",
    )  # fmt: skip
    # axes keep the order of the study, and values along other dimensions, such as time, increase
    labels = {
        axis: dict.fromkeys(value for each in found[axis].values() for value in each.values.tolist()) for axis in axes
    }
    joined = joined.sel({axis: list(every) for axis, every in labels.items()})
    names = list(map(str, joined.data_vars))
    joined = joined.assign({name: _restore_dtype(joined[name], stored[name], name in along) for name in names})
    returned = [name for name in names if name not in along]
    joined = joined.set_coords(along)[sorted(returned, key=lambda name: name in variables.RUN_METADATA)]
    return joined.assign_attrs(_join_attributes(parts, dim))


def _expand_axes(axes: Sequence[str], label: object, data: xr.Dataset, given: Results) -> xr.Dataset:
    """Add a dimension to a result for each fixed parameter that is an axis of another result."""
    own = data["run_status"].dims
    returned = [*netcdf.list_returned_coordinates(data), *netcdf.read_returned_attributes(data).values()]
    of_runs = [*data.data_vars, *(name for name in returned if name in data.coords and {*data[name].dims} & {*own})]
    for name in (name for name in axes if name not in own):
        if name not in data.coords or data[name].ndim:
            owner = next(each for each, other in given.items() if name in other["run_status"].dims)
            what = f"depends on other axes of {label!r}" if name in data.coords else f"is no parameter of {label!r}"
            raise InputError(
                f"`{name}` is an axis of {owner!r}, but {what}. Select one value of `{name}` in {owner!r}."
            )
        constant = data[name]
        data = data.drop_vars(name)
        data = data.assign({each: data[each].expand_dims({name: [constant.item()]}) for each in of_runs})
        data[name].attrs = constant.attrs
    return data.transpose(*axes, ...)


def _check_same(name: str, facts: Mapping[Any, str]) -> None:
    """Raise InputError if properties of a variable, such as its units, differ between results."""
    first, *others = facts
    for label in others:
        if facts[label] != facts[first]:
            raise InputError(
                f"`{name}` cannot be joined: {facts[first]} in {first!r}, {facts[label]} in {label!r}. Rename or "
                "drop this variable in one of the results."
            )


def _make_nullable(variable: xr.DataArray) -> xr.DataArray:
    """Convert integers and booleans to a type that can hold NaN."""
    if variable.dtype.kind not in "biu":
        return variable
    large = variable.dtype.itemsize == 8 and bool((abs(variable.astype(float)) >= MAX_EXACT_INT).any())
    return variable.astype(object if large else float)


def _restore_dtype(joined: xr.DataArray, stored: Sequence[np.dtype[Any]], is_coordinate: bool) -> xr.DataArray:
    """Set the storage type of a joined variable to integer if all results have integers, even with missing values."""
    joined.encoding = {}
    if joined.dtype.kind not in "fO" or any(dtype.kind not in "biu" for dtype in stored):
        return joined
    missing, dtype = np.asarray(joined.values != joined.values), np.result_type(*stored)
    if not missing.any():
        return joined.astype(bool if joined.attrs.get("flag_meanings") == variables.TRUTH_MEANINGS else dtype)
    if not is_coordinate:  # in CF, coordinates have no fill value
        own = joined.values[~missing].astype(dtype)
        joined.encoding = choose_fill_value(dtype, own, lambda: Cells(own, np.zeros(own.shape, dtype=bool)))[1]
    return joined


# index -1, for cases that were not run, selects the last new number, which is -1
def _renumber_software(data: xr.Dataset, sets: Sequence[str]) -> xr.Dataset:
    """Replace the values of `run_software` by indices into the version sets `sets`."""
    numbers = [sets.index(json.dumps(entry, sort_keys=True)) for entry in netcdf.read_software_sets(data)]
    software = data["run_software"].copy(data=np.array([*numbers, -1], np.int32)[data["run_software"].values])
    software.attrs = {**software.attrs, netcdf.SOFTWARE_SETS: json.dumps([json.loads(each) for each in sets])}
    return data.assign(run_software=software)


def _join_attributes(parts: Results, dim: str) -> dict[str, Any]:
    """Return the global attributes that all results share, the origin of each result, and the history."""
    each = {str(label): data.attrs for label, data in parts.items()}
    first = next(iter(each.values()))
    common = {key for key in first if all(other.get(key) == first[key] for other in each.values())}
    members = ", ".join(f"{label} ({known.get('id', '')})" for label, known in each.items())
    history = _write_history(f"joined {members} along {dim}")
    left_out = (DIGESTS, netcdf.RECORDED_COORDINATES, netcdf.RETURNED_ATTRIBUTES)
    origins = [
        {dim: label, **{key: str(value) for key, value in known.items() if key not in left_out}}
        for label, known in each.items()
    ]
    return {key: first[key] for key in first if key in common - SINGLE_STUDY_ATTRIBUTES} | {
        netcdf.RESULT_SCHEMA: netcdf.SCHEMA_VERSION,
        "title": " and ".join(dict.fromkeys(str(known.get("title", "")) for known in each.values())),
        "summary": f"Results of {len(each)} studies along {dim}: {members}.",
        "id": "+".join(dict.fromkeys(str(known.get("id", "")) for known in each.values())),
        "study": "",
        "study_sha256": hashlib.sha256(b"").hexdigest(),
        "date_created": history.partition(": ")[0],
        "product_version": read_package_version(),
        "history": history,
        netcdf.RECORDED_COORDINATES: " ".join(
            sorted({name for data in parts.values() for name in netcdf.list_returned_coordinates(data)})
        ),
        netcdf.CONCATENATED: json.dumps(origins),
    }
