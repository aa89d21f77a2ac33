"""The table of a plan's runs in memory: one row a case, filled from records in any order, and labelled at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.sweep.batch import RunRecords, Stack
from evogt_study.sweep.plan import Plan
from evogt_study.sweep.schema import Status


@dataclass(eq=False)
class Column:
    """One variable over all cases; `first` is the lowest case that has it."""

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attributes: Mapping[str, Any]
    first: int


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
        self.variables: dict[tuple[str, tuple[str, ...], bool], Column] = {}
        self.coordinates: dict[tuple[str, tuple[str, ...], bool], Column] = {}

    def add(
        self, records: RunRecords, wanted: Callable[[Status], bool] = lambda status: status != Status.not_run
    ) -> None:
        """Take over the records of this plan's cases whose status is `wanted`; of others only the attempts count.

        A case that has a record keeps it: records with equal keys are equal.
        """
        rows: list[list[int]] = []
        for number, (key, status) in enumerate(zip(records.keys, records.status, strict=True)):
            open_cases = [case for case in self.rows_of.get(key, []) if self.status[case] == Status.not_run]
            rows.append(open_cases if wanted(Status(status)) else [])
            for case in open_cases:
                self.attempts[case] += records.attempts[number]
            for case in rows[-1]:
                self.status[case] = status
                self.messages[case] = records.messages[number]
                self.wall_seconds[case] = records.wall_seconds[number]
                self.software[case] = records.software[number]
        for stack in records.stacks:
            self._add_stack(stack, rows)

    def _add_stack(self, stack: Stack, rows: list[list[int]]) -> None:
        source = [number for number, row in enumerate(stack.rows) for _ in rows[row]]
        target = [case for row in stack.rows for case in rows[row]]
        if not target:
            return
        columns = self.coordinates if stack.coordinate else self.variables
        group = (stack.name, stack.dims, stack.values.dtype.kind in "UO")
        shape = stack.values.shape[1:]
        column = columns.get(group)
        if column is None:
            column = columns[group] = Column(
                stack.dims, _empty(len(self.keys), shape, stack.values.dtype), stack.attributes, min(target)
            )
        elif column.values.shape[1:] != shape or column.values.dtype != stack.values.dtype:
            column.values = _grown(column.values, shape, stack.values.dtype)
        if min(target) < column.first:
            column.first, column.attributes = min(target), stack.attributes
        room = column.values[(slice(None), *(slice(0, n) for n in shape))]
        room[target] = stack.values[source]

    def missing(self) -> list[str]:
        """Keys that have no record yet, in the plan's walking order."""
        return [key for key, rows in self.rows_of.items() if self.status[rows[0]] == Status.not_run]

    def settle(self) -> None:
        """Where runs disagree on a variable's dimensions, the lowest case is right and the others become failed.

        A method of our own never disagrees; a user's function may, and the file can hold one shape of a variable.
        """
        for columns in (self.variables, self.coordinates):
            for name in {group[0] for group in columns}:
                rivals = sorted((group for group in columns if group[0] == name), key=lambda g: columns[g].first)
                for group in rivals[1:]:
                    self._fail(
                        columns.pop(group), f"`{name}` has dimensions {group[1]}, but {rivals[0][1]} in other runs"
                    )

    def _fail(self, column: Column, message: str) -> None:
        missing = _is_missing(column.values).reshape(len(self.keys), -1).all(axis=1)
        wrong = np.flatnonzero(~missing & (self.status == Status.ok))
        self.status[wrong], self.messages[wrong] = Status.failed, f"RunError: {message}"
        for other in (*self.variables.values(), *self.coordinates.values()):
            other.values[wrong] = "" if other.values.dtype.kind == "O" else missing_value(other.values.dtype)

    def counts(self) -> dict[Status, int]:
        """Number of planned cases by status."""
        planned = self.keys != ""
        return {status: int(np.count_nonzero(planned & (self.status == status))) for status in Status}


def _empty(count: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype.kind in "UO":
        return np.full((count, *shape), "", dtype=object)
    return np.full((count, *shape), missing_value(dtype), dtype=dtype)


def missing_value(dtype: np.dtype[Any]) -> Any:
    """What stands where a run has no value: NaN, or the least integer."""
    if dtype.kind == "f":
        return np.nan
    return -1 if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max


def _grown(values: npt.NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """`values` in an array that also has room for `shape` and `dtype`."""
    joint = values.dtype if values.dtype.kind == "O" else np.result_type(values.dtype, dtype)
    larger = tuple(max(a, b) for a, b in zip(values.shape[1:], shape, strict=True))
    if larger != values.shape[1:] and joint.kind in "iu":
        joint = np.dtype(np.float64)  # padding needs NaN
    grown = _empty(len(values), larger, joint)
    if joint.kind == "f" and values.dtype.kind in "iu":
        values = np.where(values == missing_value(values.dtype), np.nan, values)
    grown[tuple(slice(0, n) for n in values.shape)] = values
    return grown


def _is_missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    return np.asarray(values == ("" if values.dtype.kind == "O" else missing_value(values.dtype)))
