"""Cases and the records of their runs, which a study, its workers and its result exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evogt_study.schema.values import Value


class Datum(NamedTuple):
    """One variable of a record: its dimensions, its values, and its attributes if the method does not declare it."""

    dims: tuple[str, ...]
    values: npt.NDArray[Any]
    attributes: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Record:
    """Values of one run: variables, and coordinates of dimensions that are not axes of the study."""

    variables: Mapping[str, Datum]
    coordinates: Mapping[str, Datum]


@dataclass(frozen=True)
class Case:
    """One combination of parameter values: its number, its parameters and its run key."""

    index: int
    values: dict[str, Value]
    key: str


@dataclass(frozen=True)
class Stack:
    """One variable of several runs.  `values` has one row for each run in `rows`; shorter arrays are padded."""

    name: str
    dims: tuple[str, ...]
    rows: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    coordinate: bool = False

    def selected(self, rows: npt.NDArray[np.intp]) -> Stack:
        """Return the runs at `rows`, numbered from 0."""
        kept = np.isin(self.rows, rows)
        return replace(self, rows=np.searchsorted(rows, self.rows[kept]), values=self.values[kept])


@dataclass(frozen=True)
class RunRecords:
    """Records of several runs: one entry for each run in each list, and stacked variables of the runs that are ok."""

    keys: tuple[str, ...]
    status: npt.NDArray[np.int8]
    messages: tuple[str, ...]
    wall_seconds: npt.NDArray[np.float64]
    attempts: npt.NDArray[np.int32]
    software: tuple[str, ...]
    stacks: tuple[Stack, ...]

    def selected(self, rows: npt.NDArray[np.intp]) -> RunRecords:
        """Return the runs at `rows`, which increase."""
        return RunRecords(
            keys=tuple(self.keys[row] for row in rows),
            status=self.status[rows],
            messages=tuple(self.messages[row] for row in rows),
            wall_seconds=self.wall_seconds[rows],
            attempts=self.attempts[rows],
            software=tuple(self.software[row] for row in rows),
            stacks=tuple(stack.selected(rows) for stack in self.stacks if np.isin(stack.rows, rows).any()),
        )


def joined(several: Sequence[RunRecords]) -> RunRecords:
    """Concatenate records.  Stacks of equal name, dimensions, attributes, dtype and shape become one stack."""
    if len(several) == 1:
        return several[0]
    starts = np.cumsum([0, *(len(records.keys) for records in several)])
    alike: dict[object, list[Stack]] = {}
    for start, records in zip(starts, several, strict=False):  # `starts` has one entry more
        for stack in records.stacks:
            # as text: attributes may hold lists, which have no hash
            kind = (stack.name, stack.dims, stack.coordinate, repr(stack.attributes))
            group = alike.setdefault((*kind, stack.values.dtype, stack.values.shape[1:]), [])
            group.append(replace(stack, rows=stack.rows + start))
    return RunRecords(
        keys=tuple(key for records in several for key in records.keys),
        status=np.concatenate([records.status for records in several]),
        messages=tuple(message for records in several for message in records.messages),
        wall_seconds=np.concatenate([records.wall_seconds for records in several]),
        attempts=np.concatenate([records.attempts for records in several]),
        software=tuple(text for records in several for text in records.software),
        stacks=tuple(
            replace(
                group[0],
                rows=np.concatenate([stack.rows for stack in group]),
                values=np.concatenate([stack.values for stack in group]),
            )
            for group in alike.values()
        ),
    )
