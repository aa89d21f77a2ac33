"""Compare the runs of results bit for bit, and show the differences between two results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from evogt_study.errors import InputError, ResultError, shorten
from evogt_study.results import netcdf
from evogt_study.results.dataset import DECLARATION, to_records
from evogt_study.results.finished import ResultFile, read_unfinished
from evogt_study.results.index import check_file
from evogt_study.schema.records import ATTRIBUTE, MAX_EXACT_INT, RunRecords
from evogt_study.schema.values import to_canonical, to_string
from evogt_study.schema.variables import COORDINATES, MAIN, PILOT, RUN_METADATA, Status
from evogt_study.storage.arrays import Packed
from evogt_study.study.case_space import join_names
from evogt_study.text import format_count

RUNS_AT_ONCE = 64
MAX_RUNS = 10  # maximum number of differing runs that `ResultDiff.describe` lists
Values = npt.NDArray[Any]
_RunValues = dict[tuple[str, bool], tuple[tuple[str, ...], Values]]
"""Dimensions and values of each variable of a run.  A key is a name, and True for an attribute of a Dataset."""


def read_runs(path: Path, groups: Mapping[str, xr.Dataset]) -> dict[str, RunRecords]:
    """Read the runs of an open result by phase.  Arrays stay in the file if the file has an index."""
    partial = read_unfinished(path)
    if partial is not None:
        known = {phase: table.records()[0] for phase, table in partial.tables.items()}
    else:
        index = ResultFile(path).index if path.exists() else None
        known = {} if index is None else dict(index.phases)
    return {phase: known.get(phase) or to_records(data) for phase, data in groups.items()}


class RunsOfResult:
    """Run metadata, coordinates and finished runs of a result, by phase.

    Raises ResultError if another program has changed the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with netcdf.open_partial_result(path) as found:
            self.runs = read_runs(path, found)
            self.groups = {
                phase: netcdf.load_result(path, netcdf.select_metadata(data).assign_coords(data.coords))
                for phase, data in found.items()
            }
        if path.exists():
            check_file(path)


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Variable or status that differs in some pairs of runs.

    `pairs` lists the indices of all differing pairs.  The other fields describe the first differing pair.  `count` of
    `size` values differ.  The largest difference is between `stored` and `now` at the position `at`.  `relative` is
    this difference divided by the largest stored value, or infinite for values that are not numbers.
    """

    name: str
    stored: Any
    now: Any
    relative: float = np.inf
    at: tuple[int, ...] = ()
    count: int = 1
    size: int = 1
    pairs: tuple[int, ...] = ()

    def describe(self, stored: str = "in the file", now: str = "now") -> str:
        """Return a line about the difference.  The texts `stored` and `now` name the sources of the two values."""
        place = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        many = f" ({self.count} of {self.size} values differ)" if self.size > 1 else ""
        amount = f", relative difference {self.relative:.1e}" if np.isfinite(self.relative) else ""
        before, after = (  # 17 digits distinguish all doubles
            f"{each:.17g}" if isinstance(each, float) else shorten(each) for each in (self.stored, self.now)
        )
        return f"{self.name}{place}: {before} {stored}, {after} {now}{amount}{many}"


def compare_runs(stored: RunRecords, now: RunRecords, pairs: Sequence[tuple[int, int]] = ((0, 0),)) -> list[Difference]:
    """Compare pairs of runs from `stored` and `now`.  NaN equals a missing value."""
    found: dict[str, tuple[Difference, list[int]]] = {}
    for start in range(0, len(pairs), RUNS_AT_ONCE):
        some = pairs[start : start + RUNS_AT_ONCE]
        ours, theirs = (
            _read_values(records, sorted({pair[side] for pair in some})) for side, records in enumerate((stored, now))
        )
        for number, (a, b) in enumerate(some, start):
            one, other = Status(stored.status[a]).name, Status(now.status[b]).name
            new = _compare_pair(ours[a], theirs[b]) if one == other else [Difference("status", one, other)]
            for each in new:
                found.setdefault(each.name, (each, []))[1].append(number)
    return [replace(first, pairs=tuple(numbers)) for first, numbers in found.values()]


def _read_values(records: RunRecords, rows: list[int]) -> dict[int, _RunValues]:
    """Read the values of the runs in `rows` into memory."""
    runs: dict[int, _RunValues] = {row: {} for row in rows}
    for stack in records.select_rows(np.array(rows)).stacks:
        packed = stack.values if isinstance(stack.values, Packed) else None
        for place, row in enumerate(stack.rows.tolist()):
            values = np.asarray(stack.values[place]) if packed is None else packed.read_row(place)
            runs[rows[row]][stack.name, stack.role == ATTRIBUTE] = stack.dims, values
    return runs


def _compare_pair(one: _RunValues, other: _RunValues) -> Iterator[Difference]:
    for name in dict.fromkeys([*other, *one]):
        ours, theirs = (run[name][1] if name in run else None for run in (one, other))
        bits = [None if each is None else (each.dtype, each.shape, each.tobytes()) for each in (ours, theirs)]
        if bits[0] != bits[1] and (difference := _compare_values(name[0], ours, theirs)) is not None:
            yield difference


def _is_missing(values: Values) -> npt.NDArray[np.bool_]:
    return np.asarray(values == "" if values.dtype.kind == "U" else values != values)


def _compare_values(name: str, one: Values | None, other: Values | None) -> Difference | None:
    """Compare two arrays as float64, or as strings for text, dates and integers that float64 cannot represent."""
    there = [values for values in (one, other) if values is not None]
    kinds = [f"{'strings' if each.dtype.kind in 'UMm' else 'numbers'} of {each.ndim} dimensions" for each in there]
    if kinds[0] != kinds[-1]:
        return Difference(name, kinds[0], kinds[1])
    is_exact = all(values.dtype.kind in "iuO" for values in there)
    is_text = there[0].dtype.kind in "UMm" or (
        is_exact and any((abs(each.astype(float)) >= MAX_EXACT_INT).any() for each in there)
    )
    shape, blank = tuple(np.max([values.shape for values in there], axis=0)), "" if is_text else np.nan
    ours, theirs = (np.full(shape, blank, dtype=object if is_text else float) for _ in range(2))
    for made, values in ((ours, one), (theirs, other)):
        if values is not None:
            inside = tuple(map(slice, values.shape))
            made[inside] = np.where(_is_missing(values), "", values.astype(str)) if is_text else values
    if is_text:
        unequal = np.asarray(ours != theirs)
    else:  # as integers, to distinguish 0.0 and -0.0.  NaN with different bits are equal
        unequal = (ours.view(np.int64) != theirs.view(np.int64)) & ~(np.isnan(ours) & np.isnan(theirs))
    if not unequal.any():
        return None
    number, relative = int(unequal.argmax()), np.inf
    if not is_text:
        # relative to the largest value, because entries near zero are rounding errors of large entries
        with np.errstate(all="ignore"):  # equal infinities have no difference
            gaps = np.where(unequal, np.nan_to_num(np.abs(theirs - ours), nan=np.inf), -1.0)
            scale = np.abs(ours[np.isfinite(ours)]).max(initial=0.0)
            relative = float(gaps.max() / scale) if scale else float("inf" if gaps.max() else 0.0)
        number = int(gaps.argmax())
    at = tuple(int(i) for i in np.unravel_index(number, shape))
    before, after = (str(each[at]) if is_text else float(each[at]) for each in (ours, theirs))
    return Difference(name, before, after, relative, at, int(np.count_nonzero(unequal)), unequal.size)


def describe_software_changes(stored: str, now: str, sign: str = ", here ") -> str:
    """Describe the software versions that differ between two JSON texts, or return "" for equal versions."""
    old, new = (json.loads(text) if text else {} for text in (stored, now))
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return "; ".join(f"{name} {old.get(name, 'unknown')}{sign}{new.get(name, 'none')}" for name in names)


# --- results ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ResultDiff:
    """Comparison of two results.

    `common` counts the cases in both results, and `only` counts the cases in one result.  `runs` describes each
    differing run by its parameters, both statuses and the differing variables.  `differences` contains an example for
    each variable.  `code` names the files or functions that differ.
    """

    paths: tuple[Path, Path]
    phase: str
    common: int
    only: tuple[int, int]
    runs: tuple[Mapping[str, Any], ...]
    differences: tuple[Difference, ...]
    code: tuple[str, ...]
    software: str
    parameters: tuple[str, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table of the differing runs: parameters, both statuses and differing variables."""
        names = ("status_a", "status_b", "differs")
        rows = [
            {**run["at"], **dict(zip(names, (*run["status"], ", ".join(run["differs"])), strict=True))}
            for run in self.runs
        ]
        return pd.DataFrame(rows)

    def document(self) -> dict[str, Any]:
        """Return the differences as a mapping of JSON types."""
        own = {name: each for name, each in vars(self).items() if name not in ("paths", "differences")}
        variables = [
            {"name": each.name, "runs": len(each.pairs), "example": each.describe("in A", "in B")}
            for each in self.differences
        ]
        return {"results": list(map(str, self.paths)), "different": len(self.runs), "variables": variables, **own}

    def describe(self) -> Iterator[str]:
        """Yield lines that describe the comparison."""
        one, other = self.paths
        yield f"{one} and {other} ({self.phase}): {format_count(self.common, 'common run')}, {len(self.runs):,} differ"
        for path, count in zip(self.paths, self.only, strict=True):
            if count:
                yield f"  only in {path}: {format_count(count, 'case')}"
        yield from (f"  {line}" for line in self.parameters)
        yield f"  the code differs: {join_names(self.code, 6)}" if self.code else "  the code is the same"
        if self.software:
            yield f"  software differs: {self.software}"
        for difference in self.differences:
            runs = f"{len(difference.pairs):,} runs, first " if len(difference.pairs) > 1 else ""
            yield f"  {runs}{difference.describe(f'in {one}', f'in {other}')}"
        for run in self.runs[:MAX_RUNS]:
            at = ", ".join(f"{name}={value}" for name, value in run["at"].items())
            both = "" if run["status"][0] == run["status"][1] else f" ({', '.join(run['status'])})"
            yield f"    {at}: {', '.join(run['differs'])}{both}"
        if len(self.runs) > MAX_RUNS:
            yield f"    and {len(self.runs) - MAX_RUNS:,} more runs"


def diff(one: str | Path, other: str | Path, *, pilot: bool = False) -> ResultDiff:
    """Compare the runs with equal parameter values in two results, bit for bit.

    Parameters
    ----------
    one, other : str or Path
        Result files.  The comparison includes only finished runs.
    pilot : bool, default False
        Compare the runs of the pilots instead of the main phase.

    Returns
    -------
    ResultDiff
        The runs and variables that differ, and whether the code and the software differ.

    Raises
    ------
    ResultError
        If a file is not a result or has no runs of this phase.
    InputError
        If one result varies a parameter that the other result does not have.

    Examples
    --------
    >>> evs.diff("before.nc", "after.nc").to_dataframe()  # doctest: +SKIP
    """
    phase = PILOT if pilot else MAIN
    results = [RunsOfResult(Path(each)) for each in (one, other)]
    for each in results:
        if phase not in each.groups:
            raise ResultError(f"{each.path} has no runs of the phase {phase}. Choose another phase or result.")
    data, runs = [each.groups[phase] for each in results], [each.runs[phase] for each in results]
    names = [_list_parameters(each) for each in data]
    shared = [name for name in names[0] if name in names[1]]
    cases = [_find_cases(each.path, its_data, shared) for each, its_data in zip(results, data, strict=True)]
    both = [at for at in cases[0] if at in cases[1]]
    rows = [{key: row for row, key in enumerate(each.keys)} for each in runs]
    places: dict[tuple[int, int], tuple[str, ...]] = {}  # parameter values of the first case for each pair of runs
    for at in both:
        a, b = (own.get(each[at]) for own, each in zip(rows, cases, strict=True))
        if a is not None and b is not None:
            places.setdefault((a, b), at)
    pairs, different = list(places), dict[int, list[str]]()
    found = compare_runs(runs[0], runs[1], pairs)
    for difference in found:
        for number in difference.pairs:
            different.setdefault(number, []).append(difference.name)
    rows_of = [pairs[number] for number in different] or pairs
    changes = (describe_software_changes(runs[0].software[a], runs[1].software[b], " and ") for a, b in rows_of)
    differing = [
        {
            "at": dict(zip(shared, places[pairs[number]], strict=True)),
            "status": [Status(own.status[row]).name for own, row in zip(runs, pairs[number], strict=True)],
            "differs": different[number],
        }
        for number in sorted(different)
    ]
    parameters, paths = [], (results[0].path, results[1].path)
    for number, path in enumerate(paths):
        if own := [name for name in names[number] if name not in shared]:
            parameters.append(f"parameters only in {path}: {join_names(own)}")
    for name in () if both else shared:  # without common cases, list the parameters that always differ
        ours, theirs = (list(dict.fromkeys(map(_format_label, each[name].values.ravel()))) for each in data)
        if not set(ours) & set(theirs):
            parameters.append(
                f"{name} is {join_names(ours, 6)} in {paths[0]} and {join_names(theirs, 6)} in {paths[1]}"
            )
    return ResultDiff(
        paths, phase, len(pairs), (len(cases[0]) - len(both), len(cases[1]) - len(both)), tuple(differing),
        tuple(each for each in found if each.name != "status"), tuple(_list_code_changes(*data)),
        next(filter(None, changes), ""), tuple(parameters),
    )  # fmt: skip


def _list_parameters(data: xr.Dataset) -> list[str]:
    """Return the names of the axes, fixed parameters and dependent parameters of a result."""
    other = {
        *RUN_METADATA,
        *COORDINATES,
        *netcdf.list_returned_coordinates(data),
        *netcdf.read_returned_attributes(data).values(),
    }
    axes = set(data["run_status"].dims)
    return [str(name) for name in data.coords if name not in other and set(data[name].dims) <= axes]


def _find_cases(path: Path, data: xr.Dataset, names: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Return the run keys of planned cases by parameter values.  Raises InputError for cases with equal values."""
    keys = data["run_key"]
    with np.errstate(invalid="ignore"):  # NaN is invalid as an integer
        columns = [xr.apply_ufunc(np.vectorize(_format_label, otypes=[object]), data[name].variable) for name in names]
    wide = [each.set_dims(dict(keys.sizes)).transpose(*keys.dims).values.ravel().tolist() for each in columns]
    found: dict[tuple[str, ...], str] = {}
    for key, *at in zip(keys.values.ravel().astype(str).tolist(), *wide, strict=True):
        if key and found.setdefault(tuple(at), key) != key:
            others = join_names([name for name in _list_parameters(data) if name not in names])
            raise InputError(
                f"{path} varies {others}, which the other result does not have. Compare results with equal axes."
            )
    return found


def _format_label(value: Any) -> str:
    return to_string(to_canonical(value))


def _list_code_changes(one: xr.Dataset, other: xr.Dataset) -> Iterator[str]:
    """Yield the names of files with different code, or of functions if only fingerprints differ."""
    codes: list[dict[str, Any]] = [{}, {}]
    for number, data in enumerate((one, other)):
        with suppress(ValueError, LookupError, TypeError):  # a result without user code
            codes[number] = json.loads(str(data.attrs[DECLARATION]))["codes"]
    marks = [sorted(str(each.get("fingerprint")) for each in known.values()) for known in codes]
    if marks[0] == marks[1]:
        return
    files: list[dict[str, str]] = [{}, {}]
    for own, known in zip(files, codes, strict=True):
        for reference, code in known.items():
            own.update({name or reference.rpartition(":")[0]: mark for name, mark in code.get("files", {}).items()})
    changed = [name for name in {**files[0], **files[1]} if files[0].get(name) != files[1].get(name)]
    yield from changed or dict.fromkeys([*codes[0], *codes[1]])
