"""The table of a plan's runs: one row a case, filled from records in any order, and labelled at the end.

Variables with dimensions of their own may be out of core.
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
from evogt_study.study.plan import Keys, Plan


@dataclass(eq=False)
class Column:
    """A variable's values: `cells` has a row for each case, of numbers or of strings.

    `present` says which cases have it, `first` is the lowest of them, `kinds` are those of the types that runs gave.  A
    large one is out of core, beside the path `beside`.
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
        """A column that none of `count` cases has."""
        cells = filled((count, *shape), dtype, missing_value(dtype), beside)
        return Column(dims, cells, {}, count, np.zeros(count, dtype=bool), beside)

    @property
    def text(self) -> bool:
        """Return True for strings."""
        return self.cells.dtype.kind == "O"

    # room for the longest row so far: runs of one variable may have different lengths, such as ranks
    def put(self, cases: npt.NDArray[np.intp], values: npt.NDArray[Any], attributes: Mapping[str, Any]) -> None:
        """Set the rows of `cases`, which are in order; a column that is too small for them grows."""
        own, shape = self.cells.shape[1:], values.shape[1:]
        dtype = self.cells.dtype if self.text else np.result_type(self.cells.dtype, values.dtype)
        if dtype != self.cells.dtype or any(there < here for there, here in zip(own, shape, strict=True)):
            self.grow(tuple(map(max, own, shape)), dtype)
        # the lowest case, not the first to come back, so that a result does not depend on the order of execution
        if cases[0] < self.first:
            self.first, self.attributes = int(cases[0]), attributes
        room = self.cells[(slice(None), *(slice(0, n) for n in shape))]  # a view, which the next line fills
        room[cases] = values
        self.present[cases] = True

    # a new file instead of a longer one: rows change their length, so that every value would move anyway
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

    # compared with the first row only, which reads each value once: columns may be larger than memory
    def common(self) -> npt.NDArray[Any] | None:
        """The row of every case that has one, if it is the same in all; NaN is equal to NaN."""
        rows = self.cells[self.present]
        if not len(rows):
            return None
        same = rows == rows[0]
        if rows.dtype.kind == "f":
            same |= np.isnan(rows) & np.isnan(rows[0])
        return np.asarray(rows[0]) if np.all(same) else None


def missing_value(dtype: np.dtype[Any]) -> Any:
    """Return the value that stands for none: an empty string, NaN, or the least integer."""
    if dtype.kind == "O":
        return ""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min


class KeyIndex:
    """The cases of `keys`, by number, that have one."""

    # an order, not the keys in order: 8 bytes a case instead of 28
    def __init__(self, keys: Keys) -> None:
        # stable, so that of cases with equal keys the lowest comes first
        self._keys, self._cases = keys, np.argsort(keys, kind="stable")

    @cached_property
    def distinct(self) -> bool:
        """True where no two cases have the same key."""
        ordered = self._keys[self._cases]
        return not np.any((ordered[1:] == ordered[:-1]) & (ordered[1:] != b""))

    def found(self, wanted: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Find the cases of the keys: numbers of the keys and of the cases, one pair for each case, in their order.

        Of equal keys the first counts.
        """
        different, first = np.unique(wanted, return_index=True)
        begin = np.searchsorted(self._keys, different, "left", self._cases)
        if self.distinct and len(self._cases):  # as most are: each search takes longer than all else here
            count = (self._keys[self._cases[np.minimum(begin, len(self._cases) - 1)]] == different).astype(np.intp)
        else:
            count = np.searchsorted(self._keys, different, "right", self._cases) - begin
        count[different == b""] = 0  # no case
        # for each key the positions begin, ..., begin + count - 1, all in one array: positions from 0 on, shifted by
        # `begin`, less those that earlier keys have taken
        ahead = np.cumsum(count) - count
        case = self._cases[np.repeat(begin - ahead, count) + np.arange(count.sum())]
        by_case = np.argsort(case)
        return np.repeat(first, count)[by_case], case[by_case]


@dataclass(eq=False)
class Table:
    """Status, bookkeeping and variables of every case of `plan`.

    Cases with equal keys are one computation: a record fills all of them.  beside: path beside which what is large is
    held out of core, None: nothing is.
    """

    plan: Plan
    beside: Path | None = None

    # arrays, not one object a run: 25 bytes a run beside its key, where an object with its fields would take hundreds
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
        """Numbers of the records and of their cases; new records are counted on and then added: they are found once."""
        if self._latest is None or self._latest[0] is not records.keys:
            self._latest = (records.keys, self._index.found(np.array(records.keys, dtype=np.bytes_)))
        return self._latest[1]

    def commonest_message(self) -> str:
        """The message of most runs that are not ok; empty where none has one."""
        counts = Counter(self.messages[self.messages != ""].tolist())
        return counts.most_common(1)[0][0] if counts else ""

    def knows(self, keys: Sequence[str] | Keys, unless: Sequence[Status] = ()) -> npt.NDArray[np.bool_]:
        """Mark those of `keys` that a case has, whose status is none of `unless`."""
        wanted = np.array(keys, dtype=np.bytes_)
        different, which = np.unique(wanted, return_inverse=True)
        known = np.zeros(len(different), dtype=bool)
        number, case = self._index.found(different)
        known[number[~np.isin(self.status[case], unless)]] = True
        return known[which]

    def lacks(self, settled: Sequence[Status]) -> bool:
        """True where some planned case has a status that is none of `settled`."""
        return bool(np.any(~np.isin(self.status, settled) & (self.keys != b"")))

    def add(
        self, records: RunRecords, wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> npt.NDArray[np.intp]:
        """Take over the records of this plan's cases whose status is `wanted`; of others only the attempts count.

        A case that has a record keeps it: records with equal keys are equal.  Returns the cases that have one now.
        """
        return self._add(records, wanted, (Status.not_run,))

    def add_all(
        self,
        found: Iterable[RunRecords],
        wanted: Callable[[Status], bool] = lambda status: status != Status.not_run,
        attempts: np.ufunc = np.maximum,
    ) -> None:
        """Take over several records, of which no older failure hides a run that is ok; each is needed for its turn.

        attempts: what becomes of two numbers of attempts.  A record's number counts those before it, so that one of
        which a copy is left elsewhere counts once; np.add is for what was computed apart.
        """
        for records in found:
            self._add(records, wanted, [status for status in Status if status != Status.ok], attempts)

    def counted_on(self, records: RunRecords) -> RunRecords:
        """The same records, new here, whose attempts count on from those of their cases."""
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
        """Add as `add`; cases whose status is among `open_` have attempts counted, and an ok run replaces theirs."""
        number, case = self._found(records)
        number, case = _where(np.isin(self.status[case], open_), number, case)
        # of records that are not taken too: a failure that is to be run again has been tried
        self.attempts[case] = attempts(self.attempts[case], records.attempts[number])
        new = records.status[number]
        # an ok run is kept whatever comes later: two ok runs of one key are equal, and a failure says less
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
        """Positions in `software_sets`, to which new ones are added."""
        numbers = {text: number for number, text in enumerate(self.software_sets)}
        found = [numbers.setdefault(text, len(numbers)) for text in software]
        self.software_sets = list(numbers)
        return np.array(found, dtype=np.int32)

    def _add_stack(self, stack: Stack, count: int, number: npt.NDArray[np.intp], case: npt.NDArray[np.intp]) -> None:
        """Put the stack's values of the records `number`, out of `count`, into the rows `case`, one to one."""
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
        """The cases that have no record yet, in the plan's order; of those with equal keys the first."""
        order = self.plan.order
        open_ = order[(self.status[order] == Status.not_run) & (self.keys[order] != b"")]
        if self._index.distinct:  # as most are; finding equal ones takes five times the memory of the keys
            return np.asarray(open_)
        _, first = np.unique(self.keys[open_], return_index=True)
        return np.asarray(open_[np.sort(first)])

    # the lowest case decides, not the first to finish: the result does not depend on the order of execution
    def settle(self) -> None:
        """Settle disagreements on what a name is: the lowest case is right, and the runs of the others become failed.

        A method of our own never disagrees; a user's function may, and the file can hold one shape of a variable.
        Then give every dimension one length.
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
        """Keep the names for coordinates' values free, whatever other runs return under them."""
        own = {group[0] + OWN_VALUES for group in self.coordinates}
        for columns in (self.variables, self.coordinates):
            for group in [group for group in columns if own & {group[0], *group[1]}]:
                name = min(own & {group[0], *group[1]})
                message = f"`{name}` is returned here, but is the name for the values of a coordinate of other runs"
                self._fail(columns.pop(group), message)

    def _free_axes(self) -> None:
        """Keep the names of the study's dimensions free, whatever runs return under them."""
        for columns in (self.variables, self.coordinates):
            for group in [group for group in columns if not {group[0], *group[1]}.isdisjoint(self.plan.space.names)]:
                name = min({group[0], *group[1]} & set(self.plan.space.names))
                self._fail(columns.pop(group), f"`{name}` is returned here, but is a dimension of the study")

    def _fail(self, column: Column, message: str) -> None:
        wrong = np.flatnonzero(column.present & (self.status == Status.ok))
        self.status[wrong], self.messages[wrong] = Status.failed, f"RunError: {message}"
        # a run has all that it returned, or has failed and has nothing
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
    """Rows of values in the one type that a result has for them, whatever other runs return and in whatever order.

    Whole numbers and truth values without dimensions are int64; every other number is float64, whose NaN can pad.
    """
    if values.dtype.kind in "UO":
        return values.astype(object)
    # the largest unsigned numbers are beyond int64
    whole = values.dtype.kind in "ib" or (values.dtype.kind == "u" and values.dtype.itemsize < 8)
    return values.astype(np.int64 if whole and values.ndim == 1 else np.float64)


def _described(columns: Mapping[Group, Column], group: Group, table: Table) -> str:
    """Describe a variable's kind and dimensions."""
    kind = "a coordinate" if columns is table.coordinates else "a variable"
    return f"{kind} of {'strings' if group[2] else 'numbers'} over ({', '.join(group[1])})"


Group = tuple[str, tuple[str, ...], bool]
"""The identity of a variable: name, dimensions, and whether its values are strings."""
