"""The table of a plan's runs in memory: one row a case, filled from records in any order, and labelled at the end."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.sweep.batch import RunRecords, Stack
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
    rows_of: dict[str, list[int]] = field(init=False)
    keys: npt.NDArray[np.str_] = field(init=False)

    def __post_init__(self) -> None:
        size = self.plan.space.size
        self.keys = np.full(size, "", dtype="U20")
        self.rows_of = {}
        for case in self.plan.cases():
            self.keys[case.index] = case.key
            self.rows_of.setdefault(case.key, []).append(case.index)
        self.status = np.full(size, Status.not_run, dtype=np.int8)
        self.messages = np.full(size, "", dtype=object)
        self.wall_seconds = np.full(size, np.nan)
        self.attempts = np.zeros(size, dtype=np.int32)
        self.software = np.full(size, "", dtype=object)
        self.variables: dict[Group, Column] = {}
        self.coordinates: dict[Group, Column] = {}

    def add(
        self, records: RunRecords, wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> None:
        """Take over the records of this plan's cases whose status is `wanted`; of others only the attempts count.

        A case that has a record keeps it: records with equal keys are equal.
        """
        rows: list[list[int]] = []
        counted: set[str] = set()  # a result repeats a run for each of its cases
        for number, (key, status) in enumerate(zip(records.keys, records.status, strict=True)):
            open_cases = [case for case in self.rows_of.get(key, []) if self.status[case] == Status.not_run]
            rows.append(open_cases if wanted(Status(status)) else [])
            for case in open_cases if key not in counted else ():
                self.attempts[case] += records.attempts[number]
            counted.add(key)
            for case in rows[-1]:
                self.status[case] = status
                self.messages[case] = records.messages[number]
                self.wall_seconds[case] = records.wall_seconds[number]
                self.software[case] = records.software[number]
        for stack in records.stacks:
            self._add_stack(stack, rows)

    def add_all(
        self, found: Sequence[RunRecords], wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> None:
        """Take over several records, runs that are ok first, so that no older failure hides one."""
        for records in found:
            self.add(records, lambda status: status == Status.ok)
        for records in found:
            self.add(replace(records, attempts=np.zeros_like(records.attempts)), wanted)

    def _add_stack(self, stack: Stack, rows: list[list[int]]) -> None:
        source = [number for number, row in enumerate(stack.rows) for _ in rows[row]]
        target = [case for row in stack.rows for case in rows[row]]
        if not target:
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
                min(target),
                np.zeros(len(self.keys), dtype=bool),
            )
        elif any(map(operator.lt, column.values.shape[1:], shape)) or column.values.dtype != values.dtype:
            column.values = _grown(column.values, shape, values.dtype)
        if min(target) < column.first:
            column.first, column.attributes = min(target), stack.attributes
        room = column.values[(slice(None), *(slice(0, n) for n in shape))]
        room[target] = values[source]
        column.present[target] = True

    def missing(self) -> list[str]:
        """Keys that have no record yet, in the plan's walking order."""
        return [key for key, rows in self.rows_of.items() if self.status[rows[0]] == Status.not_run]

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
        planned = self.keys != ""
        return {status: int(np.count_nonzero(planned & (self.status == status))) for status in Status}


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
