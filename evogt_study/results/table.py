"""Collect the runs of a plan in a table with one row for each case.  Arrays stay in the files of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evogt_study.results.index import pack_records
from evogt_study.schema.records import ATTRIBUTE, COORDINATE, MAX_EXACT_INT, NUMBERS, RunRecords, Stack, classify_dtype
from evogt_study.schema.variables import Status
from evogt_study.storage.arrays import Packed, choose_padding, to_memory_dtype
from evogt_study.study.case_space import Keys
from evogt_study.study.plan import Order, Plan

NOT_OK = tuple(status for status in Status if status != Status.ok)
FINISHED = tuple(status for status in Status if status != Status.not_run)


@dataclass(frozen=True)
class Shape:
    """Properties of a variable.  Role, dimensions, kind and units must be equal in all runs."""

    role: str
    dims: tuple[str, ...]
    kind: str  # as in `classify_dtype`
    units: str
    types: frozenset[np.dtype[Any]] = field(default=frozenset(), compare=False)  # of numbers
    is_large: bool = field(default=False, compare=False)  # True for integers beyond float64

    @staticmethod
    def from_stack(stack: Stack) -> Shape:
        """Return the shape of a stack.  Numbers without units have the units "1"."""
        dtype, kind, is_large = stack.values.dtype, classify_dtype(stack.values.dtype), False
        units = str(stack.attributes.get("units", "1" if kind == NUMBERS else ""))
        if dtype.kind in "iu" and dtype.itemsize == 8:
            limits = stack.values.limits if isinstance(stack.values, Packed) else stack.values
            is_large = bool(limits.size) and (int(limits.max()) > MAX_EXACT_INT or int(limits.min()) < -MAX_EXACT_INT)
        return Shape(stack.role, stack.dims, kind, units, frozenset([dtype] if kind == NUMBERS else []), is_large)

    def __str__(self) -> str:
        return f"a{'n' * (self.role == ATTRIBUTE)} {self.role} of {self.kind} over ({', '.join(self.dims)})"


Shapes = dict[tuple[str, bool], Shape]  # by name, and True for an attribute, which may have a variable's name


def add_shapes(shapes: Shapes, axes: tuple[str, ...], stacks: Iterable[Stack]) -> str | None:
    """Add the shapes of stacks to `shapes`, or return a message on a stack that does not fit other runs or `axes`."""
    dims = {dim for each in shapes.values() if each.role != ATTRIBUTE for dim in each.dims}
    for stack in stacks:
        key, shape, name = (stack.name, stack.role == ATTRIBUTE), Shape.from_stack(stack), stack.name
        known = shapes.get(key, shape)
        if known != shape:
            if replace(known, units=shape.units) == shape:
                return f"`{name}` has units {shape.units!r}, but {known.units!r} in other runs"
            return f"`{name}` is {shape}, but {known} in other runs"
        for dim in (name, *shape.dims) if shape.role != ATTRIBUTE else ():
            if dim in axes:
                return f"the run returned `{dim}`, which is a dimension of the study"
            if dim == name and dim in dims and (shape.role, shape.dims) != (COORDINATE, (name,)):
                return f"`{name}` is {shape} in this run, but a dimension in other runs"
            other = shapes.get((dim, False)) if dim in shape.dims else None
            if other is not None and (other.role, other.dims) != (COORDINATE, (dim,)):
                return f"`{dim}` is a dimension in this run, but {other} in other runs"
        if (known.types, known.is_large) != (shape.types, shape.is_large):
            shape = replace(known, types=known.types | shape.types, is_large=known.is_large or shape.is_large)
        if shape.is_large and find_common_type(shape.types).kind == "f":
            return f"`{name}` has integers above 2^53 in some runs and other numbers in other runs"
        shapes[key] = shape
        dims.update(shape.dims if shape.role != ATTRIBUTE else ())
    return None


def find_common_type(types: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the common NumPy dtype of `types`, which does not depend on their order."""
    return np.result_type(*sorted(types, key=str))


@dataclass(eq=False)
class RunTable:
    """Status, run metadata and variables of every case of `plan`.  Cases with equal keys share a run."""

    plan: Plan

    # arrays: 25 bytes for each run beside its key, where an object would take hundreds
    def __post_init__(self) -> None:
        self.size = self.plan.space.size
        self.keys = self.plan.keys
        self.status = np.full(self.size, Status.not_run, dtype=np.int8)
        self.messages = np.full(self.size, "", dtype=object)
        self.outputs: npt.NDArray[Any] | None = None  # None: no run has printed anything
        self.wall_seconds = np.full(self.size, np.nan)
        self.attempts = np.zeros(self.size, dtype=np.int32)
        self.software = np.full(self.size, -1, dtype=np.int32)
        self.software_sets: list[str] = []
        self.columns: dict[str, RunColumn] = {}
        self.attributes: dict[str, RunColumn] = {}
        self.shapes: Shapes = {}
        self.left_out: set[str] = set()

    # not the ordered keys: 8 bytes for each case instead of 28. Stable, so that the lowest case with a key comes first
    @cached_property
    def _by_key(self) -> npt.NDArray[np.intp]:
        """Cases in the order of their run keys."""
        return np.argsort(self.keys, kind="stable")

    def _find(self, wanted: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return the positions of wanted keys and their cases as two arrays, in the order of the cases."""
        different, first = np.unique(wanted, return_index=True)
        begin = np.searchsorted(self.keys, different, "left", self._by_key)
        count = np.searchsorted(self.keys, different, "right", self._by_key) - begin
        count[different == b""] = 0  # no case
        # the positions begin, ..., begin + count - 1 of each key in one array: 0, 1, 2, ... shifted by `begin`, less
        # the number of positions of earlier keys
        ahead = np.cumsum(count) - count
        case = self._by_key[np.repeat(begin - ahead, count) + np.arange(count.sum())]
        by_case = np.argsort(case)
        return np.repeat(first, count)[by_case], case[by_case]

    @property
    def is_run(self) -> npt.NDArray[np.bool_]:
        """Mask of the planned cases with a record."""
        return np.asarray((self.status != Status.not_run) & (self.keys != b""))

    def commonest_message(self) -> str:
        """Return the most frequent message of runs that are not ok, or "" if no run has a message."""
        counts = Counter(self.messages[self.messages != ""].tolist())
        return counts.most_common(1)[0][0] if counts else ""

    def contains(self, keys: Sequence[str] | Keys, unless: Sequence[Status] = ()) -> npt.NDArray[np.bool_]:
        """Return which of `keys` belong to a case whose status is not in `unless`."""
        wanted = np.array(keys, dtype=np.bytes_)
        _, case = self._find(wanted)
        return np.isin(wanted, self.keys[case[~np.isin(self.status[case], unless)]])

    def has_missing(self, settled: Sequence[Status]) -> bool:
        """Return True if a planned case has a status that is not in `settled`."""
        return bool(np.any(~np.isin(self.status, settled) & (self.keys != b"")))

    def add(
        self, records: RunRecords, wanted: Sequence[Status] = FINISHED,
        replaced: Sequence[Status] = (Status.not_run,), attempts: np.ufunc = np.maximum, *, is_checked: bool = False,
    ) -> npt.NDArray[np.intp]:  # fmt: skip
        """Add the records of this plan whose status is `wanted`, and return their cases.  The rest count as attempts.

        A run that is ok replaces a status in `replaced`, which is `NOT_OK` if several records may have one run key.
        `attempts` combines two numbers of attempts, as `np.add` for new runs.  `is_checked` marks records from `check`.
        """
        records = pack_records(records)
        number, case = self._find(np.array(records.keys, dtype=np.bytes_))
        is_open = np.isin(self.status[case], replaced)
        number, case = number[is_open], case[is_open]
        records = records if is_checked else self._check(records, number)
        self.left_out |= set(records.left_out)
        # also for records that are not added: a failure that runs again has been tried
        self.attempts[case] = attempts(self.attempts[case], records.attempts[number])
        # a run that is ok stays: another one with its key is equal, and a failure says less
        new = records.status[number]
        is_better = (self.status[case] == Status.not_run) | (new == Status.ok)
        chosen: npt.NDArray[np.bool_] = is_better & np.isin(new, list(wanted))
        number, case = number[chosen], case[chosen]
        self.status[case], self.wall_seconds[case] = records.status[number], records.wall_seconds[number]
        self.messages[case] = np.array(records.messages, dtype=object)[number]
        if any(records.outputs):
            self.outputs = np.full(self.size, "", dtype=object) if self.outputs is None else self.outputs
            self.outputs[case] = np.array(records.outputs, dtype=object)[number]
        sets = {text: position for position, text in enumerate(self.software_sets)}
        software = np.array([sets.setdefault(text, len(sets)) for text in records.software], dtype=np.int32)
        self.software_sets, self.software[case] = list(sets), software[number]
        for stack in records.stacks:
            place_of = np.full(len(records.keys), -1)  # -1: the record has no value of this variable
            place_of[stack.rows] = np.arange(len(stack.rows))
            place = place_of[number]
            own, place = case[place >= 0], place[place >= 0]  # in the order of the plan
            if not len(own):
                continue
            columns = self.attributes if stack.role == ATTRIBUTE else self.columns
            column = columns.get(stack.name) or columns.setdefault(stack.name, RunColumn.empty(self.size, stack))
            if own[0] < column.first:
                column.first, column.attributes = int(own[0]), stack.attributes
            values = stack.values[place]
            if isinstance(column.data, Packed):
                column.data.replace_rows(own, values)
            else:
                column.data.put(own, values, self.shapes[stack.name, stack.role == ATTRIBUTE].types)
        return case

    def check(self, records: RunRecords) -> RunRecords:
        """Return records with earlier attempts added.  Runs become failed if a variable has another `Shape`."""
        number, case = self._find(np.array(records.keys, dtype=np.bytes_))
        before = np.zeros_like(records.attempts)
        before[number] = self.attempts[case]
        return self._check(replace(records, attempts=records.attempts + before), number)

    def _check(self, records: RunRecords, number: npt.NDArray[np.intp]) -> RunRecords:
        """Return the records.  Runs in `number` become failed if a variable has another `Shape`."""
        counts = np.isin(np.arange(len(records.keys)), number)
        stacks = [stack if counts.all() else stack.select(counts[stack.rows]) for stack in records.stacks]
        stacks = [stack for stack in stacks if len(stack.rows)]
        shapes, axes = dict(self.shapes), self.plan.space.names
        if add_shapes(shapes, axes, stacks) is None:  # the usual case
            self.shapes = shapes
            return records
        wrong, own = dict[int, str](), dict[int, list[Stack]]()
        for stack in stacks:
            for place, row in enumerate(stack.rows.tolist()):
                own.setdefault(row, []).append(stack.select(np.array([place])))
        for row in sorted(own):
            shapes = dict(self.shapes)
            if message := add_shapes(shapes, axes, own[row]):
                wrong[row] = f"RunError: {message}"
            else:
                self.shapes = shapes
        return records.mark_failed(wrong)

    def records(self, columns: Mapping[str, RunColumn] | None = None) -> tuple[RunRecords, Order]:
        """Return the records of all finished runs and the first case of each run.  `columns` limits the columns."""
        cases = self._distinct(np.flatnonzero(self.is_run))
        row_of = np.full(self.size, -1)
        row_of[cases] = np.arange(len(cases))
        stacks = []
        for name, column in (*(self.columns if columns is None else columns).items(), *self.attributes.items()):
            own = np.flatnonzero(column.present & (row_of >= 0))
            types = column.data.dtypes_of(own)
            for dtype in sorted(set(types.tolist()), key=str):
                some = own[types == dtype]
                values = column.data[slice(None) if len(some) == self.size else some]  # a slice copies nothing
                if not isinstance(values, Packed):
                    values = values.astype(str if dtype.kind == "O" else dtype)
                stacks.append(Stack(name, column.dims, row_of[some], values, column.attributes, column.role))
        keys: Any = self.keys[cases]  # as bytes for a file: strings take four times the memory
        return RunRecords(
            keys=tuple(map(bytes.decode, keys.tolist())) if columns is None else keys,
            status=self.status[cases], wall_seconds=self.wall_seconds[cases], attempts=self.attempts[cases],
            software=tuple(self.software_sets[number] for number in self.software[cases].tolist()),
            messages=tuple(self.messages[cases].tolist()), stacks=tuple(stacks),
            outputs=() if self.outputs is None else tuple(self.outputs[cases].tolist()),
        ), cases  # fmt: skip

    @property
    def n_finished(self) -> int:
        """Number of planned cases with a record."""
        return int(np.count_nonzero(self.is_run))

    def missing(self) -> npt.NDArray[np.int64]:
        """Return the first case of each run without a record, in the order of the plan."""
        order = self.plan.order
        return self._distinct(order[(self.status[order] == Status.not_run) & (self.keys[order] != b"")])

    def _distinct(self, cases: Order) -> Order:
        """Return only the first case of each run key."""
        ordered = self.keys[self._by_key]
        if np.any((ordered[1:] == ordered[:-1]) & (ordered[1:] != b"")):
            return np.asarray(cases[np.sort(np.unique(self.keys[cases], return_index=True)[1])])
        return cases  # the usual case: finding equal keys takes five times their memory

    def counts(self) -> dict[Status, int]:
        """Return the number of planned cases by status."""
        counts = np.bincount(self.status[self.keys != b""], minlength=len(Status))
        return {status: int(counts[status]) for status in Status}


class Cells(NamedTuple):
    """Values of all cases in memory, and a mask of missing values."""

    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_]


@dataclass(eq=False)
class Scalars:
    """One number, string or date for each case.  Strings have the dtype object."""

    cells: npt.NDArray[Any]
    present: npt.NDArray[np.bool_]  # True for cases with a value
    returned: npt.NDArray[np.int8]  # dtype that each run returned, as an index into `dtypes`
    dtypes: list[np.dtype[Any]] = field(default_factory=list)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Common dtype of the values of all runs."""
        return self.cells.dtype

    def __getitem__(self, cases: Any) -> npt.NDArray[Any]:
        return np.asarray(self.cells[cases])

    def put(self, cases: npt.NDArray[np.intp], values: npt.NDArray[Any], types: Iterable[np.dtype[Any]]) -> None:
        """Set the values of `cases`.  `types` has the dtypes of the numbers in all runs."""
        dtype, own = find_common_type(types) if types else self.dtype, to_memory_dtype(values.dtype)
        if dtype != self.dtype:
            cells = np.full(len(self.cells), choose_padding(dtype), dtype)
            cells[self.present] = self.cells[self.present]
            self.cells = cells
        if own not in self.dtypes:
            self.dtypes.append(own)
        self.cells[cases], self.present[cases], self.returned[cases] = values, True, self.dtypes.index(own)

    def dtypes_of(self, cases: Order) -> npt.NDArray[Any]:
        """Return the dtypes that the runs of `cases` returned."""
        return np.array(self.dtypes, object)[self.returned[cases]]


@dataclass(eq=False)
class RunColumn:
    """Values of one variable for all cases: `Scalars`, or `Packed` arrays, which are read on access."""

    role: str
    dims: tuple[str, ...]
    data: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    first: int = 2**62  # lowest case with a value.  Its run gives the attributes, in whatever order runs finish

    @staticmethod
    def empty(count: int, stack: Stack) -> RunColumn:
        """Return a column for `count` cases without any value."""
        if stack.dims:
            return RunColumn(stack.role, stack.dims, Packed.empty(count, len(stack.dims)))
        dtype = to_memory_dtype(stack.values.dtype)
        cells = np.full(count, choose_padding(dtype), dtype)
        return RunColumn(stack.role, (), Scalars(cells, np.zeros(count, dtype=bool), np.zeros(count, np.int8)))

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Mask of the cases with a value."""
        return np.asarray(self.data.present)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Common dtype in memory of the values of all runs."""
        return np.dtype(to_memory_dtype(self.data.dtype))

    @property
    def is_number(self) -> bool:
        """True for a variable of one number for each run."""
        return not self.dims and self.role != COORDINATE and classify_dtype(self.dtype) == NUMBERS

    def common_value(self) -> npt.NDArray[Any] | None:
        """Return the value if all runs with a value have an equal value, or None.  NaN is equal to NaN."""
        data, dtype = self.data[self.present], self.dtype
        if not len(data) or (isinstance(data, Packed) and (data.shapes != data.shapes[0]).any()):
            return None
        first: npt.NDArray[Any] = np.asarray(data[:1], dtype)[0, ...]
        if isinstance(data, Packed) and len({data.forms[form][::2] for form in set(data.form.tolist())}) == 1:
            marks = data.pieces[["row", "size", "checksum"]]
            return first if (marks == marks[:1]).all() else None
        return first if are_equal(np.asarray(data, dtype), first).all() else None

    def load(self, lengths: tuple[int, ...] | None = None) -> Cells:
        """Return the values in memory.  Arrays are padded to `lengths`."""
        if isinstance(self.data, Scalars):
            return Cells(self.data.cells, ~self.present)
        lengths, dtype = self.data.shape[1:] if lengths is None else lengths, self.dtype
        values = self.data.read_padded(np.arange(len(self.data)), lengths, dtype, choose_padding(dtype))
        return Cells(values, self.data.has_missing(lengths))


def are_equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values are equal.  NaN is equal to NaN, and NaT to NaT."""
    same = np.asarray(one == other)
    return same | ((one != one) & (other != other)) if one.dtype.kind in "fMm" else same
