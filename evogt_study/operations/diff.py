"""Compare the runs with equal parameter values in two results, and the code and software of the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from evogt_study.errors import InputError, ResultError
from evogt_study.operations.compare import Difference, differences, software_changes
from evogt_study.operations.merge import Source
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.run_metadata import returned_attributes, returned_coordinates
from evogt_study.schema.values import text_label, to_canonical
from evogt_study.schema.variables import COORDINATES, MAIN, PILOT, RUN_METADATA, Status
from evogt_study.study.case_space import join_names

MAX_RUNS = 10
"""Largest number of differing runs that `ResultDiff.describe` lists."""


@dataclass(frozen=True, eq=False)
class ResultDiff:
    """Comparison of two results.

    Attributes
    ----------
    paths : tuple of Path
        The two result files.
    phase : str
        Phase of the compared runs, "pilot" or "main".
    common : int
        Number of cases with equal parameter values that are finished in both results.
    only : tuple of int
        Number of cases that only the first result has, and number of cases that only the second result has.
    runs : tuple of dict
        The runs that differ.  Each run has its parameters `at`, its `status` in both results, and a list `differs`.
        The list `differs` has the names of the variables that differ, and "status" if the status differs.
    differences : tuple of Difference
        The variables that differ, each with an example.
    code : tuple of str
        Files or functions of the user that differ.
    software : str
        Software versions that differ, or "".
    parameters : tuple of str
        Descriptions of parameters that only one result has, or that differ in all cases.
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
        """Return a table with one row for each run that differs.

        The columns are the parameters, the status in both results, and the names of the variables that differ.
        """
        columns = ("status_a", "status_b", "differs")
        return pd.DataFrame(
            [
                {**run["at"], **dict(zip(columns, (*run["status"], ", ".join(run["differs"])), strict=True))}
                for run in self.runs
            ]
        )

    def document(self) -> dict[str, Any]:
        """Return the comparison as a dictionary for JSON."""
        return {
            "results": list(map(str, self.paths)), "phase": self.phase, "common": self.common, "only": self.only,
            "different": len(self.runs), "code": self.code, "software": self.software, "parameters": self.parameters,
            "variables": [
                {"name": each.name, "runs": len(each.pairs), "example": each.describe("in A", "in B")}
                for each in self.differences
            ],
            "runs": self.runs,
        }  # fmt: skip

    def describe(self) -> Iterator[str]:
        """Yield the lines of a description of the comparison."""
        one, other = self.paths
        yield f"{one} and {other} ({self.phase}): {self.common:,} common runs, {len(self.runs):,} differ"
        for path, count in zip(self.paths, self.only, strict=True):
            if count:
                yield f"  only in {path}: {count:,} cases"
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
    sources = [Source.read(Path(each)) for each in (one, other)]
    for source in sources:
        if phase not in source.groups:
            raise ResultError(f"{source.path} has no runs of the phase {phase}. Choose another phase or result.")
    data, runs = [source.groups[phase] for source in sources], [source.runs[phase] for source in sources]
    names = [_parameters(each) for each in data]
    shared = [name for name in names[0] if name in names[1]]
    cases = [_cases(source, each, shared) for source, each in zip(sources, data, strict=True)]
    both = [at for at in cases[0] if at in cases[1]]
    rows = [{key: row for row, key in enumerate(each.keys)} for each in runs]
    places: dict[tuple[int, int], tuple[str, ...]] = {}  # the first case of each pair of runs
    for at in both:
        a, b = (own.get(each[at]) for own, each in zip(rows, cases, strict=True))
        if a is not None and b is not None:
            places.setdefault((a, b), at)
    pairs, different = list(places), dict[int, list[str]]()
    found = differences(runs[0], runs[1], pairs)
    for each in found:
        for number in each.pairs:
            different.setdefault(number, []).append(each.name)
    rows_of = [pairs[number] for number in different] or pairs
    changes = (software_changes(runs[0].software[a], runs[1].software[b]) for a, b in rows_of)
    return ResultDiff(
        paths=(sources[0].path, sources[1].path),
        phase=phase,
        common=len(pairs),
        only=(len(cases[0]) - len(both), len(cases[1]) - len(both)),
        runs=tuple(
            {
                "at": dict(zip(shared, places[pairs[number]], strict=True)),
                "status": [Status(own.status[row]).name for own, row in zip(runs, pairs[number], strict=True)],
                "differs": different[number],
            }
            for number in sorted(different)
        ),
        differences=tuple(each for each in found if each.name != "status"),
        code=tuple(_code_changes(*data)),
        software=next(filter(None, changes), "").replace(", here ", " and "),
        parameters=tuple(_other_parameters(sources, data, names, is_common=bool(both))),
    )


def _parameters(data: xr.Dataset) -> list[str]:
    """Return the names of axes, fixed parameters and dependent parameters."""
    axes = data["run_status"].dims
    other = {*RUN_METADATA, *COORDINATES, *returned_coordinates(data), *returned_attributes(data).values()}
    return [str(name) for name in data.coords if name not in other and set(data[name].dims) <= set(axes)]


def _cases(source: Source, data: xr.Dataset, names: Sequence[str]) -> dict[tuple[str, ...], str]:
    """Return the run keys of planned cases by parameter values.  Raises InputError if two cases have equal values."""
    keys = data["run_key"]
    with np.errstate(invalid="ignore"):  # of NaN
        columns = [xr.apply_ufunc(np.vectorize(_label, otypes=[object]), data[name].variable) for name in names]
    wide = [each.set_dims(dict(keys.sizes)).transpose(*keys.dims).values.ravel().tolist() for each in columns]
    found: dict[tuple[str, ...], str] = {}
    for key, *at in zip(keys.values.ravel().astype(str).tolist(), *wide, strict=True):
        if key and found.setdefault(tuple(at), key) != key:
            others = [name for name in _parameters(data) if name not in names]
            raise InputError(
                f"{source.path} varies {join_names(others)}, which the other result does not have. Compare results "
                "with equal axes."
            )
    return found


def _label(value: Any) -> str:
    return text_label(to_canonical(value))


def _other_parameters(
    sources: Sequence[Source], data: Sequence[xr.Dataset], names: Sequence[Sequence[str]], *, is_common: bool
) -> Iterator[str]:
    """Describe parameters that only one result has, and without common cases also parameters that always differ."""
    for number, source in enumerate(sources):
        own = [name for name in names[number] if name not in names[1 - number]]
        if own:
            yield f"parameters only in {source.path}: {join_names(own)}"
    for name in () if is_common else [name for name in names[0] if name in names[1]]:
        ours, theirs = (list(dict.fromkeys(map(_label, each[name].values.ravel()))) for each in data)
        if not set(ours) & set(theirs):
            both = f"{join_names(ours, 6)} in {sources[0].path} and {join_names(theirs, 6)} in {sources[1].path}"
            yield f"{name} is {both}"


def _code_changes(one: xr.Dataset, other: xr.Dataset) -> Iterator[str]:
    """Yield the files whose recorded code differs, or the functions if only fingerprints differ."""
    codes: list[dict[str, Any]] = [{}, {}]
    for number, data in enumerate((one, other)):
        with suppress(ValueError, LookupError, TypeError):  # no code of the user
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
