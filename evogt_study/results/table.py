"""Collect the runs of a plan in a table with one row for each case.

Records arrive in any order.  A large variable is held out of core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.schema.records import RunRecords, Stack
from evogt_study.schema.variables import OWN_VALUES, Status
from evogt_study.storage.arrays import filled
from evogt_study.study.plan import Plan
from evogt_study.study.run_keys import Keys

Group = tuple[str, tuple[str, ...], bool]
"""The identity of a variable: name, dimensions, and whether its values are strings."""


@dataclass(eq=False)
class Table:
    """Status, run metadata and variables of every case of `plan`.

    Cases with equal keys share a run: its record fills all of them.  beside: path beside which large variables are
    held out of core; None: all in memory.
    """

    plan: Plan
    beside: Path | None = None

    # arrays: 25 bytes for each run beside its key, where an object would take hundreds
    def __post_init__(self) -> None:
        self.size = self.plan.space.size
        self.keys = self.plan.keys
        self.status = np.full(self.size, Status.not_run, dtype=np.int8)
        self.messages = np.full(self.size, "", dtype=object)
        self.wall_seconds = np.full(self.size, np.nan)
        self.attempts = np.zeros(self.size, dtype=np.int32)
        self.software = np.full(self.size, -1, dtype=np.int32)
        self.software_sets: list[str] = []
        self.variables: dict[Group, Column] = {}
        self.coordinates: dict[Group, Column] = {}
        self._latest: tuple[Sequence[str], tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]] | None = None

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self.keys)

    def _found(self, records: RunRecords) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Numbers of the records and of their cases, cached since new records are looked up twice."""
        if self._latest is None or self._latest[0] is not records.keys:
            self._latest = (records.keys, self._index.found(np.array(records.keys, dtype=np.bytes_)))
        return self._latest[1]

    def commonest_message(self) -> str:
        """The most frequent message of runs that are not ok; empty if there is none."""
        counts = Counter(self.messages[self.messages != ""].tolist())
        return counts.most_common(1)[0][0] if counts else ""

    def knows(self, keys: Sequence[str] | Keys, unless: Sequence[Status] = ()) -> npt.NDArray[np.bool_]:
        """Return which of `keys` belong to a case whose status is not in `unless`."""
        wanted = np.array(keys, dtype=np.bytes_)
        different, which = np.unique(wanted, return_inverse=True)
        known = np.zeros(len(different), dtype=bool)
        number, case = self._index.found(different)
        known[number[~np.isin(self.status[case], unless)]] = True
        return known[which]

    def lacks(self, settled: Sequence[Status]) -> bool:
        """Return True if a planned case has a status that is not in `settled`."""
        return bool(np.any(~np.isin(self.status, settled) & (self.keys != b"")))

    def add(
        self, records: RunRecords, wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> npt.NDArray[np.intp]:
        """Add the records of this plan whose status is `wanted`; for other records only the attempts count.

        A case with a record keeps it, since records with equal keys are equal.  Returns the cases that are new.
        """
        return self._add(records, wanted, (Status.not_run,))

    def add_all(
        self,
        found: Iterable[RunRecords],
        wanted: Callable[[Status], bool] = lambda status: status != Status.not_run,
        attempts: np.ufunc = np.maximum,
    ) -> None:
        """Add several records.  A run that is ok replaces a failure.

        attempts: combines two numbers of attempts.  The number of a record includes earlier attempts, so the maximum
        counts copies of a record once; np.add is for records that were computed independently.
        """
        for records in found:
            self._add(records, wanted, [status for status in Status if status != Status.ok], attempts)

    def counted_on(self, records: RunRecords) -> RunRecords:
        """Return `records` with the earlier attempts of their cases added."""
        number, case = self._found(records)
        before = np.zeros_like(records.attempts)
        before[number] = self.attempts[case]
        return replace(records, attempts=records.attempts + before)

    def _add(
        self,
        records: RunRecords,
        wanted: Callable[[Status], bool],
        open_: Sequence[Status],
        attempts: np.ufunc = np.maximum,
    ) -> npt.NDArray[np.intp]:
        """Add as `add`.  Attempts of cases with a status in `open_` count, and a run that is ok replaces theirs."""
        number, case = self._found(records)
        number, case = _where(np.isin(self.status[case], open_), number, case)
        # also for records that are not added: a failure that runs again has been tried
        self.attempts[case] = attempts(self.attempts[case], records.attempts[number])
        new = records.status[number]
        # a run that is ok stays: another one with its key is equal, and a failure says less
        takes = np.isin(new, list(filter(wanted, Status)))
        number, case = _where(takes & ((self.status[case] == Status.not_run) | (new == Status.ok)), number, case)
        self.status[case] = records.status[number]
        self.messages[case] = np.array(records.messages, dtype=object)[number]
        self.wall_seconds[case] = records.wall_seconds[number]
        self.software[case] = self._software_numbers(records.software)[number]
        for stack in records.stacks:
            self._add_stack(stack, len(records.keys), number, case)
        return case

    def _software_numbers(self, software: Sequence[str]) -> npt.NDArray[np.int32]:
        """Positions in `software_sets`; new sets are added."""
        numbers = {text: number for number, text in enumerate(self.software_sets)}
        found = [numbers.setdefault(text, len(numbers)) for text in software]
        self.software_sets = list(numbers)
        return np.array(found, dtype=np.int32)

    def _add_stack(self, stack: Stack, count: int, number: npt.NDArray[np.intp], case: npt.NDArray[np.intp]) -> None:
        """Put the values of the records `number`, out of `count`, into the rows `case`."""
        row_of = np.full(count, -1)  # -1: the record has no value of this variable
        row_of[stack.rows] = np.arange(len(stack.rows))
        source, target = _where(row_of[number] >= 0, row_of[number], case)
        if not len(target):
            return
        values = _normal(stack.values)
        columns = self.coordinates if stack.coordinate else self.variables
        group = (stack.name, stack.dims, values.dtype.kind == "O")
        if group not in columns:
            columns[group] = Column.empty(self.size, stack.dims, values.shape[1:], values.dtype, self.beside)
        columns[group].kinds.add(stack.values.dtype.kind)
        columns[group].put(target, values[source], stack.attributes)

    def missing(self) -> npt.NDArray[np.int64]:
        """The cases without a record, in the order of the plan; only the first case with each key."""
        order = self.plan.order
        open_ = order[(self.status[order] == Status.not_run) & (self.keys[order] != b"")]
        if self._index.distinct:  # the usual case: finding equal keys takes five times their memory
            return np.asarray(open_)
        _, first = np.unique(self.keys[open_], return_index=True)
        return np.asarray(open_[np.sort(first)])

    # the lowest case decides, not the first one to finish: a result must not depend on the order of execution
    def settle(self) -> None:
        """Give each name one shape: the shape of the lowest case.  Runs with another shape become failed.

        A built-in method always returns the same shape, but a user function may not, and the file has one shape for
        each variable.  At the end every dimension gets one length.
        """
        every = [(columns, group) for columns in (self.variables, self.coordinates) for group in columns]
        for name in sorted({group[0] for _, group in every}):
            rivals = [pair for pair in every if pair[1][0] == name and pair[0][pair[1]].present.any()]
            rivals.sort(key=lambda pair: int(pair[0][pair[1]].present.argmax()))  # by the lowest case that has it
            for columns, group in rivals[1:]:
                message = (
                    f"`{name}` is {_described(columns, group, self)}, but {_described(*rivals[0], self)} in other runs"
                )
                self._fail(columns.pop(group), message)
        dims = {dim for _, group in every for dim in group[1]}
        for group in [group for group in self.variables if group[0] in dims]:
            self._fail(self.variables.pop(group), f"`{group[0]}` is a variable here, but a dimension in other runs")
        self._free_own_values()
        self._free_axes()
        self._equalise()

    def _free_own_values(self) -> None:
        """Fail runs that return a variable under a name that the values of a coordinate need."""
        own = {group[0] + OWN_VALUES for group in self.coordinates}
        for columns in (self.variables, self.coordinates):
            for group in [group for group in columns if own & {group[0], *group[1]}]:
                name = min(own & {group[0], *group[1]})
                message = f"`{name}` is returned here, but is the name for the values of a coordinate of other runs"
                self._fail(columns.pop(group), message)

    def _free_axes(self) -> None:
        """Fail runs that return a variable under the name of a dimension of the study."""
        for columns in (self.variables, self.coordinates):
            for group in [group for group in columns if not {group[0], *group[1]}.isdisjoint(self.plan.space.names)]:
                name = min({group[0], *group[1]} & set(self.plan.space.names))
                self._fail(columns.pop(group), f"`{name}` is returned here, but is a dimension of the study")

    def _fail(self, column: Column, message: str) -> None:
        wrong = np.flatnonzero(column.present & (self.status == Status.ok))
        self.status[wrong], self.messages[wrong] = Status.failed, f"RunError: {message}"
        # a failed run has no values
        for other in (*self.variables.values(), *self.coordinates.values()):
            other.clear(wrong)

    def _equalise(self) -> None:
        """Pad every column to its dimensions' greatest lengths."""
        columns = (*self.variables.values(), *self.coordinates.values())
        lengths: dict[str, int] = {}
        for column in columns:
            for dim, length in zip(column.dims, column.cells.shape[1:], strict=True):
                lengths[dim] = max(length, lengths.get(dim, 0))
        for column in columns:
            shape = tuple(lengths[dim] for dim in column.dims)
            if shape != column.cells.shape[1:]:
                column.grow(shape, column.cells.dtype)

    def counts(self) -> dict[Status, int]:
        """Number of planned cases by status."""
        counts = np.bincount(self.status[self.keys != b""], minlength=len(Status))
        return {status: int(counts[status]) for status in Status}


def _where(
    holds: npt.NDArray[np.bool_], number: npt.NDArray[np.intp], case: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return number[holds], case[holds]


def _normal(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert values to the type that a result has for them, whatever other runs return.

    Integers and booleans without dimensions are int64.  Every other number is float64, which NaN can pad.
    """
    if values.dtype.kind in "UO":
        return values.astype(object)
    # int64 cannot represent the largest uint64
    whole = values.dtype.kind in "ib" or (values.dtype.kind == "u" and values.dtype.itemsize < 8)
    return values.astype(np.int64 if whole and values.ndim == 1 else np.float64)


def _described(columns: Mapping[Group, Column], group: Group, table: Table) -> str:
    """Describe a variable's kind and dimensions."""
    kind = "a coordinate" if columns is table.coordinates else "a variable"
    return f"{kind} of {'strings' if group[2] else 'numbers'} over ({', '.join(group[1])})"


class KeyIndex:
    """Index from run keys to the numbers of their cases."""

    # the order of the keys, not the ordered keys: 8 bytes for each case instead of 28
    def __init__(self, keys: Keys) -> None:
        # stable, so that the lowest case with a key comes first
        self._keys, self._cases = keys, np.argsort(keys, kind="stable")

    @cached_property
    def distinct(self) -> bool:
        """True if no two cases have the same key."""
        ordered = self._keys[self._cases]
        return not np.any((ordered[1:] == ordered[:-1]) & (ordered[1:] != b""))

    def found(self, wanted: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Find the cases of the keys: numbers of the keys and of the cases, one pair for each case, in their order.

        The first of equal keys counts.
        """
        different, first = np.unique(wanted, return_index=True)
        begin = np.searchsorted(self._keys, different, "left", self._cases)
        if self.distinct and len(self._cases):  # the usual case: a search takes longer than the rest
            count = (self._keys[self._cases[np.minimum(begin, len(self._cases) - 1)]] == different).astype(np.intp)
        else:
            count = np.searchsorted(self._keys, different, "right", self._cases) - begin
        count[different == b""] = 0  # no case
        # the positions begin, ..., begin + count - 1 of each key in one array: 0, 1, 2, ... shifted by `begin`, less
        # the number of positions of earlier keys
        ahead = np.cumsum(count) - count
        case = self._cases[np.repeat(begin - ahead, count) + np.arange(count.sum())]
        by_case = np.argsort(case)
        return np.repeat(first, count)[by_case], case[by_case]


@dataclass(eq=False)
class Column:
    """Values of a variable: `cells` has a row of numbers or strings for each case.

    present: which cases have the variable.  first: the lowest of these cases.  kinds: kinds of the dtypes that runs
    returned.  beside: path beside which a large variable is held out of core.
    """

    dims: tuple[str, ...]
    cells: npt.NDArray[Any]
    attributes: Mapping[str, Any]
    first: int
    present: npt.NDArray[np.bool_]
    beside: Path | None
    kinds: set[str] = field(default_factory=set)

    @staticmethod
    def empty(
        count: int, dims: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any], beside: Path | None
    ) -> Column:
        """Return a column for `count` cases without any value."""
        cells = filled((count, *shape), dtype, missing_value(dtype), beside)
        return Column(dims, cells, {}, count, np.zeros(count, dtype=bool), beside)

    @property
    def text(self) -> bool:
        """Return True for strings."""
        return self.cells.dtype.kind == "O"

    # rows of different runs may have different lengths, such as ranks
    def put(self, cases: npt.NDArray[np.intp], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> None:
        """Set the rows of `cases`, which are in order.  The column grows to the longest row."""
        own, shape = self.cells.shape[1:], values.shape[1:]
        dtype = self.cells.dtype if self.text else np.result_type(self.cells.dtype, values.dtype)
        if dtype != self.cells.dtype or any(there < here for there, here in zip(own, shape, strict=True)):
            self.grow(tuple(map(max, own, shape)), dtype)
        # the lowest case, not the first one to arrive: a result must not depend on the order of execution
        if cases[0] < self.first:
            self.first, self.attributes = int(cases[0]), attributes
        room = self.cells[(slice(None), *(slice(0, n) for n in shape))]  # a view, which the next line fills
        room[cases] = values
        self.present[cases] = True

    # a new file instead of a longer one, since every value moves when the rows change their length
    def grow(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Make room for rows of this shape and type."""
        old, missing = self.cells, missing_value(self.cells.dtype)
        self.cells = filled((len(old), *shape), dtype, missing_value(dtype), self.beside)
        room = (slice(None), *(slice(0, n) for n in old.shape[1:]))
        self.cells[room] = np.where(old == missing, np.nan, old) if dtype != old.dtype else old

    def clear(self, cases: npt.NDArray[np.intp]) -> None:
        """Leave these cases without a value."""
        self.cells[cases] = missing_value(self.cells.dtype)
        self.present[cases] = False

    # compared with the first row only, which reads each value once: a column may be larger than memory
    def common(self) -> npt.NDArray[Any] | None:
        """The common row, if it is equal in all cases that have one; NaN is equal to NaN."""
        rows = self.cells[self.present]
        if not len(rows):
            return None
        same = rows == rows[0]
        if rows.dtype.kind == "f":
            same |= np.isnan(rows) & np.isnan(rows[0])
        return np.asarray(rows[0]) if np.all(same) else None


def missing_value(dtype: np.dtype[Any]) -> Any:
    """Return the value that means missing: an empty string, NaN, or the smallest integer."""
    if dtype.kind == "O":
        return ""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min
