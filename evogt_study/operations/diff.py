"""Show the runs of equal parameter values in which two results differ, and whether their code differs."""

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
from evogt_study.operations.compare import Difference, differences_of_pairs, software_changes
from evogt_study.operations.merge import Source
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.run_metadata import recorded, returned_attributes
from evogt_study.schema.values import canonical, text_label
from evogt_study.schema.variables import BOOKKEEPING, COORDINATES, MAIN, PILOT, Status
from evogt_study.study.case_space import listed

MAX_RUNS = 10
"""Number of differing runs that are printed."""


@dataclass(frozen=True)
class DifferentRun:
    """Two runs of equal parameter values, their status, and the variables that differ; "status" may be one of them."""

    at: Mapping[str, str]
    status: tuple[Status, Status]
    variables: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ResultDiff:
    """Comparison of two results.

    common: number of cases of equal parameter values that are finished in both.  only: number of cases that only one of
    them has.  runs: the runs that differ.  differences: the variables that differ, each with its first pair of runs.
    code: parts of the user's code that differ.  software: differences of the versions that computed the runs, or "".
    parameters: parameters that only one result has, or that differ in all cases, each with a description.
    """

    paths: tuple[Path, Path]
    phase: str
    common: int
    only: tuple[int, int]
    runs: tuple[DifferentRun, ...]
    differences: tuple[Difference, ...]
    code: tuple[str, ...]
    software: str
    parameters: tuple[str, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for each run that differs: parameters, both status, and the names of the variables."""
        rows = [
            {
                **run.at,
                "status_a": run.status[0].name,
                "status_b": run.status[1].name,
                "differs": ", ".join(run.variables),
            }
            for run in self.runs
        ]
        return pd.DataFrame(rows)

    def document(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "results": list(map(str, self.paths)), "phase": self.phase, "common": self.common, "only": self.only,
            "different": len(self.runs), "code": self.code, "software": self.software, "parameters": self.parameters,
            "variables": [
                {"name": each.name, "runs": len(each.pairs), "example": each.describe("in A", "in B")}
                for each in self.differences
            ],
            "runs": [
                {"at": run.at, "status": [each.name for each in run.status], "differs": run.variables}
                for run in self.runs
            ],
        }  # fmt: skip

    def describe(self) -> Iterator[str]:
        """Describe the comparison, line by line."""
        one, other = self.paths
        yield f"{one} and {other} ({self.phase}): {self.common:,} common runs, {len(self.runs):,} differ"
        for path, count in zip(self.paths, self.only, strict=True):
            if count:
                yield f"  only in {path}: {count:,} cases"
        yield from (f"  {line}" for line in self.parameters)
        if self.code:
            yield f"  the code differs: {listed(self.code, 6)}"
        else:
            yield "  the code is the same"
        if self.software:
            yield f"  software differs: {self.software}"
        for difference in self.differences:
            runs = f"{len(difference.pairs):,} runs, first " if len(difference.pairs) > 1 else ""
            yield f"  {runs}{difference.describe(f'in {one}', f'in {other}')}"
        for run in self.runs[:MAX_RUNS]:
            at = ", ".join(f"{name}={value}" for name, value in run.at.items())
            both = "" if run.status[0] == run.status[1] else f" ({run.status[0].name}, {run.status[1].name})"
            yield f"    {at}: {', '.join(run.variables)}{both}"
        if len(self.runs) > MAX_RUNS:
            yield f"    and {len(self.runs) - MAX_RUNS:,} more runs"


def diff(one: str | Path, other: str | Path, *, pilot: bool = False) -> ResultDiff:
    """Compare the runs of two results that have equal parameter values, bit for bit.

    Parameters
    ----------
    one, other : str or Path
        Result files.  Of results that are not finished, the runs so far are compared.
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
        If a parameter that only one result has takes several values in it.

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
    rows = [{key: row for row, key in enumerate(each.keys)} for each in runs]
    both = [at for at in cases[0] if at in cases[1]]
    known = [at for at in both if cases[0][at] in rows[0] and cases[1][at] in rows[1]]
    pairs = dict.fromkeys((rows[0][cases[0][at]], rows[1][cases[1][at]]) for at in known)
    place = {pair: at for at in reversed(known) for pair in [(rows[0][cases[0][at]], rows[1][cases[1][at]])]}
    status = {(a, b): (Status(runs[0].status[a]), Status(runs[1].status[b])) for a, b in pairs}
    ok = [pair for pair in pairs if status[pair] == (Status.ok, Status.ok)]
    found = differences_of_pairs(runs[0], runs[1], ok)
    different: dict[tuple[int, int], list[str]] = {pair: ["status"] for pair in pairs if len(set(status[pair])) > 1}
    for each in found:
        for number in each.pairs:
            different.setdefault(ok[number], []).append(each.name)
    software = (software_changes(runs[0].software[a], runs[1].software[b]) for a, b in different or pairs)
    return ResultDiff(
        (sources[0].path, sources[1].path), phase, len(pairs), (len(cases[0]) - len(both), len(cases[1]) - len(both)),
        tuple(
            DifferentRun(dict(zip(shared, place[pair], strict=True)), status[pair], tuple(different[pair]))
            for pair in pairs if pair in different
        ),
        tuple(found), tuple(_code_changes(*data)), next(filter(None, software), "").replace(", here ", " and "),
        tuple(_other_parameters(sources, data, names, both)),
    )  # fmt: skip


def _parameters(data: xr.Dataset) -> list[str]:
    """Names of axes, constants and dependent parameters."""
    axes = data["run_status"].dims
    other = {*BOOKKEEPING, *COORDINATES, *recorded(data), *returned_attributes(data).values()}
    return [str(name) for name in data.coords if name not in other and set(data[name].dims) <= set(axes)]


def _cases(source: Source, data: xr.Dataset, names: Sequence[str]) -> dict[tuple[str, ...], str]:
    """The run key of each planned case by the values of its parameters.  Raises InputError if two have equal values."""
    keys = data["run_key"].values
    columns = []
    for name in names:
        coord = data[name].variable
        texts = np.array([text_label(canonical(value)) for value in coord.values.ravel()], object).reshape(coord.shape)
        whole = xr.Variable(coord.dims, texts).set_dims(dict(data["run_key"].sizes))  # type: ignore[no-untyped-call]
        columns.append(whole.transpose(*data["run_key"].dims).values.ravel().tolist())
    planned = keys.ravel().astype(str).tolist()
    found: dict[tuple[str, ...], str] = {}
    for key, *at in zip(planned, *columns, strict=True):
        if key and found.setdefault(tuple(at), key) != key:
            others = [name for name in _parameters(data) if name not in names]
            raise InputError(
                f"{source.path} varies {listed(others)}, which the other result does not have. Compare results of "
                "equal axes."
            )
    return found


def _other_parameters(
    sources: Sequence[Source], data: Sequence[xr.Dataset], names: Sequence[Sequence[str]], both: Sequence[object]
) -> Iterator[str]:
    """Describe parameters that only one result has, and constants that differ if no case is common."""
    for number, source in enumerate(sources):
        own = [name for name in names[number] if name not in names[1 - number]]
        if own:
            yield f"parameters only in {source.path}: {listed(own)}"
    for name in () if both else names[0]:
        values = [
            [text_label(canonical(value)) for value in each[name].values.ravel()] for each in data if name in each
        ]
        if len(values) == 2 and not set(values[0]) & set(values[1]):
            ours, theirs = (listed(list(dict.fromkeys(each)), 6) for each in values)
            yield f"{name} is {ours} in {sources[0].path}, {theirs} in {sources[1].path}"


def _code_changes(one: xr.Dataset, other: xr.Dataset) -> Iterator[str]:
    """Yield the files, or else the functions, in which the recorded code differs."""
    codes: list[dict[str, Any]] = []
    for data in (one, other):
        codes.append({})
        with suppress(ValueError, LookupError, TypeError):  # no code of the user
            codes[-1] = json.loads(str(data.attrs[DECLARATION]))["codes"]
    marks = [sorted(str(each.get("fingerprint")) for each in known.values()) for known in codes]
    if marks[0] == marks[1]:
        return
    files = [
        {
            name or reference.rpartition(":")[0]: mark
            for reference, code in known.items()
            for name, mark in code.get("files", {}).items()
        }
        for known in codes
    ]
    changed = [name for name in {**files[0], **files[1]} if files[0].get(name) != files[1].get(name)]
    yield from changed or dict.fromkeys([*codes[0], *codes[1]])
