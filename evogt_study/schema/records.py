"""Define cases and records of runs, which the study, the workers and the result exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evogt_study.schema.values import Value
from evogt_study.schema.variables import Status

VARIABLE, COORDINATE, ATTRIBUTE = "variable", "coordinate", "attribute"
"""Roles of a `Stack`: variable, coordinate, or attribute of a returned Dataset."""
NUMBERS, STRINGS = "numbers", "strings"
MAX_EXACT_INT = 2**53
"""Largest integer up to which float64 represents all integers exactly."""
_KINDS = {"U": STRINGS, "O": STRINGS, "M": "dates", "m": "durations"}


def classify_dtype(dtype: np.dtype[Any]) -> str:
    """Return the kind of values of a dtype: "numbers" (also for booleans), "strings", "dates" or "durations"."""
    return _KINDS.get(dtype.kind, NUMBERS)


class Datum(NamedTuple):
    """Variable of a record.  It holds attributes only if the method does not declare the variable."""

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attributes: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Record:
    """Values of one run.  `left_out` describes the parts of the returned object that a result cannot store."""

    variables: Mapping[str, Datum]
    coordinates: Mapping[str, Datum]
    attributes: Mapping[str, Datum] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of bytes of the values of all variables and coordinates."""
        return sum([datum.values.nbytes for datum in (*self.variables.values(), *self.coordinates.values())])


class Needs(NamedTuple):
    """Resources of a run: memory in MB, cores, minutes and queue.  0 or "" means no requirement."""

    memory: int = 0
    cores: int = 0
    minutes: int = 0
    queue: str = ""

    @property
    def worker_resources(self) -> dict[str, float]:
        """Amounts of the Dask resources "cores" and "memory" that a worker must have for the run."""
        amounts = {"cores": self.cores, "memory": self.memory * 1e6}
        return {name: amount for name, amount in amounts.items() if amount}


NO_NEEDS = Needs()


@dataclass(frozen=True)
class Case:
    """One combination of parameter values, with its number, its run key and the resources of its run."""

    index: int
    values: dict[str, Value]
    key: str
    needs: Needs = NO_NEEDS


@dataclass(frozen=True)
class Stack:
    """One variable of several runs.  Each run has one row of `values`, an array or `storage.arrays.Packed`."""

    name: str
    dims: tuple[str, ...]
    rows: npt.NDArray[np.int64]
    values: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    role: str = VARIABLE

    def select(self, kept: npt.NDArray[Any]) -> Stack:
        """Select the runs of a stack by `kept`, a mask or indices."""
        return replace(self, rows=self.rows[kept], values=self.values[kept])


RUN_FIELDS = ("keys", "status", "messages", "wall_seconds", "attempts", "software", "outputs")
"""Names of the fields of `RunRecords` with one entry for each run."""


@dataclass(frozen=True)
class RunRecords:
    """Records of several runs, with one entry for each run in each list.

    `stacks` holds the variables of the runs with status ok.  `outputs` is empty if no run printed text.
    """

    keys: tuple[str, ...]
    status: npt.NDArray[np.int8]
    messages: tuple[str, ...]
    wall_seconds: npt.NDArray[np.float64]
    attempts: npt.NDArray[np.int32]
    software: tuple[str, ...]
    stacks: tuple[Stack, ...]
    outputs: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def select_rows(self, rows: npt.NDArray[np.intp]) -> RunRecords:
        """Select records of runs by `rows`, which must be in increasing order."""
        if len(rows) == len(self.keys):
            return self
        parts = (stack.select(np.isin(stack.rows, rows)) for stack in self.stacks)
        entries = {name: getattr(self, name) for name in RUN_FIELDS}
        some: dict[str, Any] = {
            name: each[rows] if isinstance(each, np.ndarray) else tuple(each[row] for row in rows)
            for name, each in entries.items()
            if len(each)
        }
        stacks = tuple(replace(each, rows=np.searchsorted(rows, each.rows)) for each in parts if len(each.rows))
        return replace(self, **some, stacks=stacks)

    def mark_failed(self, messages: Mapping[int, str]) -> RunRecords:
        """Return the records with status failed and without values at the rows in `messages`."""
        status, rows = self.status.copy(), list(messages)
        status[rows] = Status.failed
        kept = (stack.select(~np.isin(stack.rows, rows)) for stack in self.stacks)
        return replace(
            self,
            status=status,
            messages=tuple(messages.get(row, message) for row, message in enumerate(self.messages)),
            stacks=tuple(stack for stack in kept if len(stack.rows)),
        )


def stack_records(records: Sequence[Record | None]) -> tuple[Stack, ...]:
    """Combine the values of records into stacks by name, dtype, shape and attributes."""
    groups: dict[tuple[Any, ...], list[tuple[int, Datum]]] = {}
    for row, record in enumerate(records):
        if record is None:
            continue
        roles = (VARIABLE, record.variables), (COORDINATE, record.coordinates), (ATTRIBUTE, record.attributes)
        for role, data in roles:
            for name, datum in data.items():
                kind = (name, role, datum.dims, *_describe_array(datum.values, datum.values.shape, datum.attributes))
                groups.setdefault(kind, []).append((row, datum))
    shared = dict[tuple[int, ...], npt.NDArray[np.int64]]()  # most variables have the same rows
    stacks = list[Stack]()
    for (name, role, dims, *_), group in groups.items():
        numbers, values = tuple(row for row, _ in group), np.stack([datum.values for _, datum in group])
        rows = shared.setdefault(numbers, np.array(numbers))
        stacks.append(Stack(name, dims, rows, values, dict(group[0][1].attributes), role))
    return tuple(stacks)


def _describe_array(values: Any, shape: tuple[int, ...], attributes: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the dtype, shape and attributes that are equal for all values of a stack.  Strings may vary in width."""
    if not isinstance(values, np.ndarray):
        return "packed", repr(attributes)
    # as text, because lists in attributes have no hash
    dtype = values.dtype if values.dtype.kind != "U" else STRINGS
    return dtype, shape, repr(attributes) if attributes else ""


def concatenate_records(several: Sequence[RunRecords]) -> RunRecords:
    """Concatenate records of runs, and join their stacks by name, dimensions, attributes, dtype and shape."""
    if len(several) == 1:
        return several[0]
    starts = np.cumsum([0, *(len(records.keys) for records in several)])
    alike: dict[object, list[Stack]] = {}
    for start, records in zip(starts, several, strict=False):  # `starts` has one more entry
        for each in records.stacks:
            kind = _describe_array(each.values, each.values.shape[1:], each.attributes)
            group = alike.setdefault((each.name, each.role, each.dims, *kind), [])
            group.append(replace(each, rows=each.rows + start))
    if any(records.outputs for records in several):
        several = [replace(each, outputs=each.outputs or ("",) * len(each.keys)) for each in several]
    stacks = [(group[0], [each.rows for each in group], [each.values for each in group]) for group in alike.values()]
    return RunRecords(
        **{name: _concat([getattr(records, name) for records in several]) for name in RUN_FIELDS},
        stacks=tuple(replace(first, rows=_concat(rows), values=_concat(values)) for first, rows, values in stacks),
        left_out=tuple(sorted({part for records in several for part in records.left_out})),
    )


def _concat(values: Sequence[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(chain.from_iterable(values))
    return (np.concatenate if isinstance(values[0], np.ndarray) else type(values[0]).join)(values)
