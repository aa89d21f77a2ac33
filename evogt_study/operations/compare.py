"""Compare runs bit for bit, and describe their differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import shortened
from evogt_study.schema.records import ATTRIBUTE, COORDINATE, EXACT, VARIABLE, RunRecords, Stack
from evogt_study.storage.arrays import Packed

RUNS_AT_ONCE = 64


@dataclass(frozen=True)
class Difference:
    """A variable with different values in some pairs of runs.

    pairs: the numbers of the pairs that differ.  The other fields describe the first of them: how many of its `size`
    values differ, and the position and the values of the largest difference.  relative: largest difference divided by
    the largest stored value; infinite if it is not a number.
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
        """Describe the difference on one line; `stored` and `now` name the two values."""
        place = f"[{', '.join(map(str, self.at))}]" if self.at else ""
        many = f" ({self.count} of {self.size} values differ)" if self.size > 1 else ""
        amount = f", relative difference {self.relative:.1e}" if np.isfinite(self.relative) else ""
        return f"{self.name}{place}: {_shown(self.stored)} {stored}, {_shown(self.now)} {now}{amount}{many}"


def _shown(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else shortened(value)  # 17 digits separate any two doubles


def differences(stored: RunRecords, now: RunRecords, pairs: Sequence[tuple[int, int]] = ((0, 0),)) -> list[Difference]:
    """The variables and recorded coordinates in which pairs of runs, by their numbers in `stored` and `now`, differ.

    Two values are equal if their bits are equal.  All NaN are equal, also to a variable that a run does not have.
    """
    left, right = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    stored, now = _on_common_labels(*map(_in_memory, (stored, now)))
    found = []
    for key in dict.fromkeys((stack.name, stack.role == ATTRIBUTE) for each in (stored, now) for stack in each.stacks):
        ours, theirs = ([stack for stack in each.stacks if _key(stack) == key] for each in (stored, now))
        difference = _difference(key[0], _values(ours, left), _values(theirs, right))
        if difference is not None:
            found.append(difference)
    return found


def differences_of_pairs(stored: RunRecords, now: RunRecords, pairs: Sequence[tuple[int, int]]) -> list[Difference]:
    """Return `differences` of many pairs, each variable once, with the arrays of a few runs in memory at a time."""
    found: dict[str, Difference] = {}
    for start in range(0, len(pairs), RUNS_AT_ONCE):
        some = pairs[start : start + RUNS_AT_ONCE]
        rows = [np.unique(np.array(own)) for own in zip(*some, strict=True)]
        left, right = (np.searchsorted(own, each) for own, each in zip(rows, zip(*some, strict=True), strict=True))
        numbers = list(zip(left.tolist(), right.tolist(), strict=True))
        for each in differences(stored.selected(rows[0]), now.selected(rows[1]), numbers):
            here = tuple(number + start for number in each.pairs)
            first = found.setdefault(each.name, replace(each, pairs=()))
            found[each.name] = replace(first, pairs=first.pairs + here)
    return list(found.values())


def _in_memory(records: RunRecords) -> RunRecords:
    """Return the records with their arrays read; the values that shorter arrays lack are missing."""
    return replace(records, stacks=tuple(map(_read, records.stacks)))


def _read(stack: Stack) -> Stack:
    values = np.asarray(stack.values)
    if isinstance(stack.values, Packed) and values.dtype.kind in "biu":
        return replace(stack, values=values, absent=stack.values.lacks(values.shape[1:]))
    return replace(stack, values=values.astype(str) if values.dtype.kind == "O" else values)


def _key(stack: Stack) -> tuple[str, bool]:
    return stack.name, stack.role == ATTRIBUTE


# a result aligns its runs by their labels, but a run that is computed again has only its own
def _on_common_labels(*several: RunRecords) -> tuple[RunRecords, ...]:
    """Return the records with the labels of all runs along each dimension that has strings, dates or integers."""
    labels: dict[str, list[Stack]] = {}
    for stack in (stack for records in several for stack in records.stacks):
        if stack.role == COORDINATE and stack.dims == (stack.name,) and stack.values.dtype.kind in "UMiu":
            labels.setdefault(stack.name, []).append(stack)
    for dim, stacks in labels.items():
        rows = [set(row) for stack in stacks for row in stack.values.tolist()]
        unique = all(len(set(row)) == len(row) for stack in stacks for row in stack.values.tolist())
        if unique and any(row != rows[0] for row in rows):
            union = np.unique(np.concatenate([stack.values.ravel() for stack in stacks]))
            several = tuple(replace(each, stacks=tuple(_spread(each, dim, union))) for each in several)
    return several


def _spread(records: RunRecords, dim: str, union: npt.NDArray[Any]) -> Iterator[Stack]:
    """Yield the stacks with the labels `union` along a dimension; other labels of a run are missing."""
    own = {
        run: row
        for stack in records.stacks
        if stack.name == dim and stack.role == COORDINATE
        for run, row in zip(stack.rows.tolist(), stack.values, strict=True)
    }
    for stack in records.stacks:
        if dim not in stack.dims or stack.name == dim or not all(run in own for run in stack.rows.tolist()):
            yield stack
            continue
        axis = stack.dims.index(dim)
        values = _comparable([stack])
        wide = np.full(
            (*values.shape[: axis + 1], len(union), *values.shape[axis + 2 :]), _missing(values), values.dtype
        )
        for place, run in enumerate(stack.rows.tolist()):
            at = np.searchsorted(union, own[run])
            wide[place][(*(slice(None),) * axis, at)] = values[place]
        yield replace(stack, values=wide, absent=None)


def variables(records: RunRecords) -> tuple[str, ...]:
    """Names of the variables of the runs, without recorded coordinates."""
    return tuple(stack.name for stack in records.stacks if stack.role == VARIABLE)


def software_changes(stored: str, now: str) -> str:
    """Describe the differences of two version sets; empty if they are equal."""
    old, new = (json.loads(text) if text else {} for text in (stored, now))
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return "; ".join(f"{name} {old.get(name, 'unknown')}, here {new.get(name, 'none')}" for name in names)


def _values(stacks: Sequence[Stack], runs: npt.NDArray[np.intp]) -> npt.NDArray[Any] | None:
    """The values of these runs, NaN or "" for a run without a value; None if no run has one."""
    if not sum(len(stack.rows) for stack in stacks):
        return None
    values = _comparable(stacks)
    own = np.concatenate([stack.rows for stack in stacks])
    rows = np.full(1 + max(runs.max(initial=-1), own.max(initial=-1)), -1, dtype=np.intp)
    rows[own] = np.arange(len(own))
    picked = rows[runs]
    values = values[picked]
    values[picked < 0] = _missing(values)
    return values


def _comparable(stacks: Sequence[Stack]) -> npt.NDArray[Any]:
    """The rows of stacks of one variable as float64, or as strings: dates, and integers that no float64 holds."""
    text = any(stack.values.dtype.kind in "UMm" or _is_large(stack.values) for stack in stacks)
    made = []
    for stack in stacks:
        values = stack.values.astype(str if text else np.float64)
        if stack.values.dtype.kind in "Mm":
            values[np.isnat(stack.values)] = ""
        if stack.absent is not None:
            values[stack.absent] = _missing(values)
        made.append(values)
    lengths = np.max([values.shape[1:] for values in made], axis=0) if made[0].ndim > 1 else ()
    return np.concatenate([_of_shape(values, (len(values), *map(int, lengths))) for values in made])


def _is_large(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" and bool((np.abs(values.astype(float)) >= EXACT).any())


def _missing(values: npt.NDArray[Any]) -> Any:
    return "" if values.dtype.kind == "U" else np.nan


def _difference(name: str, stored: npt.NDArray[Any] | None, now: npt.NDArray[Any] | None) -> Difference | None:
    if stored is None or now is None:
        there = stored if stored is not None else now
        if there is None:
            return None
        missing = np.full(there.shape, "" if there.dtype.kind == "U" else np.nan, dtype=there.dtype)
        stored, now = (missing, there) if stored is None else (there, missing)
    if stored.ndim != now.ndim or (stored.dtype.kind == "U") != (now.dtype.kind == "U"):
        return Difference(name, tuple(range(len(stored))), 1, 1, (), _kind(stored), _kind(now), np.inf)
    stored, now = _of_one_shape(stored, now)
    unequal = ~_same(stored, now)
    runs = np.flatnonzero(unequal.reshape(len(unequal), -1).any(axis=1))
    if not runs.size:
        return None
    first = int(runs[0])
    return _largest(name, tuple(map(int, runs)), *(np.asarray(each[first]) for each in (unequal, stored, now)))


# relative to the largest value of the variable, since an entry near zero is a rounding error of the large ones
def _largest(
    name: str, runs: tuple[int, ...], unequal: npt.NDArray[np.bool_], stored: npt.NDArray[Any], now: npt.NDArray[Any]
) -> Difference:
    count, size = int(np.count_nonzero(unequal)), unequal.size
    if stored.dtype.kind == "U":
        at = tuple(int(i) for i in np.argwhere(unequal)[0])
        return Difference(name, runs, count, size, at, str(stored[at]), str(now[at]), np.inf)
    with np.errstate(all="ignore"):
        gaps = np.where(unequal, np.nan_to_num(np.abs(now - stored), nan=np.inf), -1.0)  # equal infinities have no gap
        scale = np.abs(stored[np.isfinite(stored)]).max(initial=0.0)
        relative = float(gaps.max() / scale) if scale else float("inf" if gaps.max() else 0.0)
    at = tuple(int(i) for i in np.unravel_index(int(gaps.argmax()), gaps.shape))
    return Difference(name, runs, count, size, at, float(stored[at]), float(now[at]), relative)


def _kind(values: npt.NDArray[Any]) -> str:
    return f"{'strings' if values.dtype.kind == 'U' else 'numbers'} of {values.ndim - 1} dimensions"


def _of_one_shape(*arrays: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Pad the arrays to one shape, as a result pads the shorter arrays of some runs."""
    shape = tuple(np.max([array.shape for array in arrays], axis=0))
    return [_of_shape(array, shape) for array in arrays]


def _of_shape(array: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    if array.shape == shape:
        return array
    whole = np.full(shape, _missing(array), dtype=array.dtype)
    whole[tuple(slice(0, n) for n in array.shape)] = array
    return whole


# as integers, since 0.0 == -0.0, although these are different results; NaN with different bits are equal
def _same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if one.dtype.kind == "U":
        return np.asarray(one == other)
    bits = one.view(np.int64) == other.view(np.int64)
    return np.asarray(bits | (np.isnan(one) & np.isnan(other)))
