"""The table of a plan's runs in memory: one row a case, filled from records in any order, and labelled at the end."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.sweep.batch import RunRecords, Stack
from evogt_study.sweep.identity import Keys
from evogt_study.sweep.plan import Plan
from evogt_study.sweep.schema import Status


@dataclass(eq=False)
class Column:
    """One variable over all cases; `present` says which cases have it, `first` is the lowest of them."""

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attributes: Mapping[str, Any]
    first: int
    present: npt.NDArray[np.bool_]


@dataclass(eq=False)
class Table:
    """Status, bookkeeping and variables of every case of `plan`.

    Cases with equal keys are one computation: a record fills all of them.
    """

    plan: Plan

    def __post_init__(self) -> None:
        size = self.plan.space.size
        self.keys = self.plan.keys
        self.status = np.full(size, Status.not_run, dtype=np.int8)
        self.messages = np.full(size, "", dtype=object)
        self.wall_seconds = np.full(size, np.nan)
        self.attempts = np.zeros(size, dtype=np.int32)
        self.software = np.full(size, -1, dtype=np.int32)
        self.software_sets: list[str] = []
        self.variables: dict[Group, Column] = {}
        self.coordinates: dict[Group, Column] = {}

    @cached_property
    def _by_key(self) -> npt.NDArray[np.intp]:
        """The cases in the order of their keys."""
        return np.argsort(self.keys, kind="stable")

    @cached_property
    def _sorted_keys(self) -> Keys:
        return self.keys[self._by_key]

    def knows(self, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which of `keys` are those of a case."""
        wanted = np.array(keys, dtype=np.bytes_)
        found = np.zeros(len(keys), dtype=bool)
        found[self._found(wanted)[0]] = True
        return found

    def _found(self, wanted: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Numbers of the keys that cases have, and of the cases, one pair for each case.

        Of equal keys the first counts.
        """
        order = np.argsort(wanted, kind="stable")  # in order they are found several times faster
        order = order[wanted[order] != b""]
        first = np.searchsorted(self._sorted_keys, wanted[order], "left")
        count = np.searchsorted(self._sorted_keys, wanted[order], "right") - first
        number = np.repeat(order, count)
        ahead = np.repeat(np.cumsum(count) - count, count)
        case = self._by_key[np.repeat(first, count) + np.arange(len(number)) - ahead]
        case, kept = np.unique(case, return_index=True)
        return number[kept], case

    def add(
        self, records: RunRecords, wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> npt.NDArray[np.intp]:
        """Take over the records of this plan's cases whose status is `wanted`; of others only the attempts count.

        A case that has a record keeps it: records with equal keys are equal.  Returns the cases that have one now.
        """
        number, case = self._found(np.array(records.keys, dtype=np.bytes_))
        number, case = _where(self.status[case] == Status.not_run, number, case)
        self.attempts[case] += records.attempts[number]
        number, case = _where(np.isin(records.status[number], list(filter(wanted, Status))), number, case)
        self.status[case] = records.status[number]
        self.messages[case] = np.array(records.messages, dtype=object)[number]
        self.wall_seconds[case] = records.wall_seconds[number]
        self.software[case] = self._software_numbers(records.software)[number]
        for stack in records.stacks:
            self._add_stack(stack, len(records.keys), number, case)
        return case

    def add_all(
        self, found: Iterable[RunRecords], wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> None:
        """Take over several records, runs that are ok first, so that no older failure hides one.

        Of each, only the runs that are not ok stay in memory until all have had their turn.
        """
        others = []
        for records in found:
            self.add(records, lambda status: status == Status.ok)
            others.append(not_ok(records))
        for records in others:
            self.add(records, wanted)

    def _software_numbers(self, software: Sequence[str]) -> npt.NDArray[np.int32]:
        """Positions in `software_sets`, to which new ones are added."""
        numbers = {text: number for number, text in enumerate(self.software_sets)}
        found = [numbers.setdefault(text, len(numbers)) for text in software]
        self.software_sets = list(numbers)
        return np.array(found, dtype=np.int32)

    def _add_stack(self, stack: Stack, count: int, number: npt.NDArray[np.intp], case: npt.NDArray[np.intp]) -> None:
        """Of the stack's values, which are of `count` records, those of records `number` go to `case`, one to one."""
        row_of = np.full(count, -1)
        row_of[stack.rows] = np.arange(len(stack.rows))
        source, target = _where(row_of[number] >= 0, row_of[number], case)
        if not len(target):
            return
        values = _normal(stack.values)
        columns = self.coordinates if stack.coordinate else self.variables
        group = (stack.name, stack.dims, values.dtype.kind in "UO")
        shape = values.shape[1:]
        column = columns.get(group)
        if column is None:
            column = columns[group] = Column(
                stack.dims,
                _empty(len(self.keys), shape, values.dtype),
                stack.attributes,
                int(target.min()),
                np.zeros(len(self.keys), dtype=bool),
            )
        elif any(map(operator.lt, column.values.shape[1:], shape)) or column.values.dtype != values.dtype:
            column.values = _grown(column.values, shape, values.dtype)
        if target.min() < column.first:
            column.first, column.attributes = int(target.min()), stack.attributes
        room = column.values[(slice(None), *(slice(0, n) for n in shape))]
        room[target] = values[source]
        column.present[target] = True

    def missing(self) -> npt.NDArray[np.int64]:
        """The cases that have no record yet, in the plan's walking order; of those with equal keys the first."""
        walk = self.plan.walk
        walk = walk[self.status[walk] == Status.not_run]
        _, first = np.unique(self.keys[walk], return_index=True)
        missing: npt.NDArray[np.int64] = walk[np.sort(first)]
        return missing

    def settle(self) -> None:
        """Where runs disagree on what a name is, the lowest case is right and the others become failed.

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
        self._equalise()

    def _fail(self, column: Column, message: str) -> None:
        wrong = np.flatnonzero(column.present & (self.status == Status.ok))
        self.status[wrong], self.messages[wrong] = Status.failed, f"RunError: {message}"
        for other in (*self.variables.values(), *self.coordinates.values()):
            other.values[wrong] = "" if other.values.dtype.kind == "O" else missing_value(other.values.dtype)
            other.present[wrong] = False

    def _equalise(self) -> None:
        """Pad every column to its dimensions' greatest lengths."""
        columns = (*self.variables.values(), *self.coordinates.values())
        lengths: dict[str, int] = {}
        for column in columns:
            for dim, length in zip(column.dims, column.values.shape[1:], strict=True):
                lengths[dim] = max(length, lengths.get(dim, 0))
        for column in columns:
            shape = tuple(lengths[dim] for dim in column.dims)
            if shape != column.values.shape[1:]:
                column.values = _grown(column.values, shape, column.values.dtype)

    def counts(self) -> dict[Status, int]:
        """Number of planned cases by status."""
        planned = self.keys != b""
        return {status: int(np.count_nonzero(planned & (self.status == status))) for status in Status}


def _where(
    holds: npt.NDArray[np.bool_], number: npt.NDArray[np.intp], case: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return number[holds], case[holds]


def _empty(count: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype.kind in "UO":
        return np.full((count, *shape), "", dtype=object)
    return np.full((count, *shape), missing_value(dtype), dtype=dtype)


def _normal(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows of values in the one type that a result has for them, whatever other runs return and in whatever order.

    Whole numbers and truth values without dimensions are int64; every other number is float64, whose NaN can pad.
    """
    if values.dtype.kind in "UO":
        return values
    whole = values.dtype.kind in "ib" or (values.dtype.kind == "u" and values.dtype.itemsize < 8)
    return values.astype(np.int64 if whole and values.ndim == 1 else np.float64)


def missing_value(dtype: np.dtype[Any]) -> Any:
    """What stands where a run has no value: NaN, or the least integer."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).min


def _grown(values: npt.NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`values` in an array that also has room for `shape` and `dtype`."""
    joint = values.dtype if values.dtype.kind == "O" else np.result_type(values.dtype, dtype)
    larger = tuple(max(a, b) for a, b in zip(values.shape[1:], shape, strict=True))
    grown = _empty(len(values), larger, joint)
    if joint != values.dtype:  # whole numbers that meet others
        values = np.where(values == missing_value(values.dtype), np.nan, values)
    grown[tuple(slice(0, n) for n in values.shape)] = values
    return grown


def _described(columns: Mapping[Group, Column], group: Group, table: Table) -> str:
    """A variable's kind and dimensions in words."""
    kind = "a coordinate" if columns is table.coordinates else "a variable"
    return f"{kind} of {'words' if group[2] else 'numbers'} over ({', '.join(group[1])})"


Group = tuple[str, tuple[str, ...], bool]
"""What tells variables apart: name, dimensions, and whether they are words."""


def not_ok(records: RunRecords) -> RunRecords:
    """The runs among these that are not ok, which have no values; their attempts are taken as counted."""
    others = records.selected(np.flatnonzero(records.status != Status.ok))
    return replace(others, attempts=np.zeros_like(others.attempts))
