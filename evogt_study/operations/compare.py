"""Compare runs bit for bit, and describe their differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import shortened
from evogt_study.schema.records import RunRecords, Stack


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
    ours, theirs = ({stack.name: stack for stack in records.stacks} for records in (stored, now))
    found = []
    for name in dict.fromkeys((*ours, *theirs)):
        difference = _difference(name, _values(ours.get(name), left), _values(theirs.get(name), right))
        if difference is not None:
            found.append(difference)
    return found


def variables(records: RunRecords) -> tuple[str, ...]:
    """Names of the variables of the runs, without recorded coordinates."""
    return tuple(stack.name for stack in records.stacks if not stack.coordinate)


def software_changes(stored: str, now: str) -> str:
    """Describe the differences of two version sets; empty if they are equal."""
    old, new = (json.loads(text) if text else {} for text in (stored, now))
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return "; ".join(f"{name} {old.get(name, 'unknown')}, here {new.get(name, 'none')}" for name in names)


def _values(stack: Stack | None, runs: npt.NDArray[np.intp]) -> npt.NDArray[Any] | None:
    """The values of these runs, NaN or "" for a run without a value; None if no run has one."""
    if stack is None:
        return None
    rows = np.full(1 + max(runs.max(initial=-1), stack.rows.max(initial=-1)), -1, dtype=np.intp)
    rows[stack.rows] = np.arange(len(stack.rows))
    picked = rows[runs]
    values = stack.values if stack.values.dtype.kind == "U" else stack.values.astype(np.float64)
    if not len(values):
        return None
    values = values[picked]
    values[picked < 0] = "" if values.dtype.kind == "U" else np.nan
    return values


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
    padded = []
    for array in arrays:
        whole = np.full(shape, "" if array.dtype.kind == "U" else np.nan, dtype=array.dtype)
        whole[tuple(slice(0, n) for n in array.shape)] = array
        padded.append(whole)
    return padded


# as integers, since 0.0 == -0.0, although these are different results; NaN with different bits are equal
def _same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if one.dtype.kind == "U":
        return np.asarray(one == other)
    bits = one.view(np.int64) == other.view(np.int64)
    return np.asarray(bits | (np.isnan(one) & np.isnan(other)))
