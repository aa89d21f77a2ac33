"""Compare runs bit for bit, and describe the differences between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import shorten
from evogt_study.results.finished import ResultFile, read_unfinished
from evogt_study.schema.records import ATTRIBUTE, EXACT, VARIABLE, RunRecords
from evogt_study.schema.variables import Status
from evogt_study.storage.arrays import Packed

RUNS_AT_ONCE = 64
Values = npt.NDArray[Any]
_Run = dict[tuple[str, bool], tuple[tuple[str, ...], Values]]
"""Dimensions and values of the variables of a run, by name and True for an attribute of the returned Dataset."""


@dataclass(frozen=True)
class Difference:
    """A variable, or the status, that differs in some pairs of runs.

    `pairs` has the numbers of the differing pairs.  All other fields describe the first differing pair.  In this pair,
    `count` of `size` values differ.  `at`, `stored` and `now` are the position and the two values of the largest
    difference.  `relative` is the largest difference divided by the largest stored value.  `relative` is infinite if
    one of the two values is not a number.
    """

    name: str
    pairs: tuple[int, ...]
    count: int
    size: int
    at: tuple[int, ...]
    stored: Any
    now: Any
    relative: float

    def describe(self, stored: str = "in the file", now: str = "now") -> str:
        """Return a line about the difference.  The texts `stored` and `now` say where the two values come from."""
        place = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        many = f" ({self.count} of {self.size} values differ)" if self.size > 1 else ""
        amount = f", relative difference {self.relative:.1e}" if np.isfinite(self.relative) else ""
        return (
            f"{self.name}{place}: {_format_value(self.stored)} {stored}, {_format_value(self.now)} {now}{amount}{many}"
        )


def _format_value(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else shorten(value)  # 17 digits separate any two doubles


def read_runs(path: Path) -> dict[str, RunRecords]:
    """Return the runs of a result by phase, or an empty dictionary if the file has no index."""
    partial = read_unfinished(path)
    if partial is not None:
        return {phase: table.records()[0] for phase, table in partial.tables.items()}
    index = ResultFile(path).index if path.exists() else None
    return {} if index is None else dict(index.phases)


def differences(stored: RunRecords, now: RunRecords, pairs: Sequence[tuple[int, int]] = ((0, 0),)) -> list[Difference]:
    """Return the differences between pairs of runs.

    A pair has the number of a run in `stored` and the number of a run in `now`.  Two values are equal if their bits are
    equal.  A NaN equals any other NaN, and also a missing variable.  At most `RUNS_AT_ONCE` pairs are in memory.
    """
    found: dict[str, tuple[Difference, list[int]]] = {}
    for start in range(0, len(pairs), RUNS_AT_ONCE):
        some = pairs[start : start + RUNS_AT_ONCE]
        ours, theirs = (
            _read_runs(records, sorted({pair[side] for pair in some})) for side, records in enumerate((stored, now))
        )
        for number, (a, b) in enumerate(some, start):
            status = [Status(stored.status[a]), Status(now.status[b])]
            if status[0] != status[1]:
                one, other = (state.name for state in status)
                new = [Difference("status", (), 1, 1, (), one, other, np.inf)]
            else:
                new = list(_compare_runs(ours[a], theirs[b]))
            for each in new:
                found.setdefault(each.name, (each, []))[1].append(number)
    return [replace(first, pairs=tuple(numbers)) for first, numbers in found.values()]


def _read_runs(records: RunRecords, rows: list[int]) -> dict[int, _Run]:
    """Read the values of the runs in `rows` into memory."""
    runs: dict[int, _Run] = {row: {} for row in rows}
    for stack in records.select_rows(np.array(rows)).stacks:
        packed = stack.values if isinstance(stack.values, Packed) else None
        for place, row in enumerate(stack.rows.tolist()):
            values = np.asarray(stack.values[place]) if packed is None else packed.read_row(place)
            runs[rows[row]][stack.name, stack.role == ATTRIBUTE] = stack.dims, values
    return runs


def _compare_runs(one: _Run, other: _Run) -> Iterator[Difference]:
    names = dict.fromkeys([*other, *one])
    pairs = [(one[name][1], other[name][1]) for name in names if name in one and name in other]
    same = [a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs]
    if len(same) == len(names) and all(same):
        return
    one, other = map(_without_missing_labels, (one, other))
    for name in names:
        ours, theirs = (run[name][1] if name in run else None for run in (one, other))
        difference = _compare(name[0], ours, theirs)
        if difference is not None:
            yield difference


def _without_missing_labels(run: _Run) -> _Run:
    """Drop the coordinate values of other runs, which a file without an index adds to each run."""
    for name, (dims, labels) in list(run.items()):
        if dims == (name[0],) and labels.dtype.kind in "UMiu":
            along = {key: each for key, each in run.items() if name[0] in each[0] and key != name}
            there = np.zeros(len(labels), dtype=bool)
            for own, values in along.values():
                present = np.moveaxis(~_is_missing(values), own.index(name[0]), 0)
                there |= present.reshape(len(labels), -1).any(axis=1)
            for key, (own, values) in {**along, name: run[name]}.items() if along else ():
                run = {**run, key: (own, values.compress(there, axis=own.index(name[0])))}
    return run


def _is_missing(values: Values) -> npt.NDArray[np.bool_]:
    if values.dtype.kind == "U":
        return np.asarray(values == "")
    return np.asarray(values != values)


def _compare(name: str, one: Values | None, other: Values | None) -> Difference | None:
    """Compare two arrays as float64, or as strings for text, dates and integers that float64 cannot represent."""
    kinds = [None if values is None else _kind(values) for values in (one, other)]
    if None not in kinds and kinds[0] != kinds[1]:
        return Difference(name, (), 1, 1, (), kinds[0], kinds[1], np.inf)
    there = [values for values in (one, other) if values is not None]
    is_exact = all(values.dtype.kind in "iuO" for values in there)
    is_text = there[0].dtype.kind in "UMm" or (
        is_exact and any((abs(each.astype(float)) >= EXACT).any() for each in there)
    )
    shape = tuple(np.max([values.shape for values in there], axis=0))
    blank: Any = "" if is_text else np.nan
    wide = []
    for values in (one, other):
        made = np.full(shape, blank, dtype=object if is_text else float)
        if values is not None:
            inside = tuple(map(slice, values.shape))
            made[inside] = np.where(_is_missing(values), blank, values.astype(str)) if is_text else values
        wide.append(made)
    ours, theirs = wide
    if is_text:
        unequal = np.asarray(ours != theirs)
    else:  # as integers, since 0.0 == -0.0, although these are different results; NaN with different bits are equal
        unequal = (ours.view(np.int64) != theirs.view(np.int64)) & ~(np.isnan(ours) & np.isnan(theirs))
    if not unequal.any():
        return None
    count, size = int(np.count_nonzero(unequal)), unequal.size
    if is_text:
        at = tuple(int(i) for i in np.argwhere(unequal)[0])
        return Difference(name, (), count, size, at, str(ours[at]), str(theirs[at]), np.inf)
    # relative to the largest value of the variable, since an entry near zero is a rounding error of the large ones
    with np.errstate(all="ignore"):
        gaps = np.where(unequal, np.nan_to_num(np.abs(theirs - ours), nan=np.inf), -1.0)  # equal infinities have no gap
        scale = np.abs(ours[np.isfinite(ours)]).max(initial=0.0)
        relative = float(gaps.max() / scale) if scale else float("inf" if gaps.max() else 0.0)
    at = tuple(int(i) for i in np.unravel_index(int(gaps.argmax()), gaps.shape))
    return Difference(name, (), count, size, at, float(ours[at]), float(theirs[at]), relative)


def _kind(values: Values) -> str:
    return f"{'strings' if values.dtype.kind in 'UMm' else 'numbers'} of {values.ndim} dimensions"


def name_variables(records: RunRecords) -> tuple[str, ...]:
    """Return the names of the variables of the runs, without coordinates."""
    return tuple(stack.name for stack in records.stacks if stack.role == VARIABLE)


def software_changes(stored: str, now: str) -> str:
    """Describe the versions that differ between two JSON texts, or return "" if all versions are equal."""
    old, new = (json.loads(text) if text else {} for text in (stored, now))
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return "; ".join(f"{name} {old.get(name, 'unknown')}, here {new.get(name, 'none')}" for name in names)
