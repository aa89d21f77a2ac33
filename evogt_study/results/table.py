"""Collect the runs of a plan in a table with one row for each case.

Records arrive in any order.  Arrays stay in the files of the runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.results.index import is_array, pack_records
from evogt_study.schema.records import ATTRIBUTE, COORDINATE, EXACT, NUMBERS, VARIABLE, RunRecords, Stack, kind_of
from evogt_study.schema.variables import Status
from evogt_study.storage.arrays import Packed
from evogt_study.study.plan import Order, Plan
from evogt_study.study.run_keys import Keys


def is_finished(status: Status) -> bool:
    """Return True for a run with any status."""
    return status != Status.not_run


@dataclass(frozen=True)
class Shape:
    """What all runs that have a variable agree in.  kind: see `kind_of`."""

    role: str
    dims: tuple[str, ...]
    kind: str
    units: str

    @staticmethod
    def of(stack: Stack) -> Shape:
        """Return the shape of a stack.  Numbers without units have the units "1"."""
        kind = kind_of(stack.values.dtype)
        units = str(stack.attributes.get("units", "1" if kind == NUMBERS else ""))
        return Shape(stack.role, stack.dims, kind, units)

    def __str__(self) -> str:
        return f"a{'n' * (self.role == ATTRIBUTE)} {self.role} of {self.kind} over ({', '.join(self.dims)})"


@dataclass
class Shapes:
    """The shapes of variables by name, which the first run fixes that has a variable.

    types: the dtypes of numbers.  large: names of integers that float64 cannot hold.  axes: dimensions of the study.
    dims: other dimensions.
    """

    axes: tuple[str, ...]
    known: dict[tuple[str, bool], Shape] = field(default_factory=dict)
    types: dict[tuple[str, bool], set[np.dtype[Any]]] = field(default_factory=dict)
    large: set[tuple[str, bool]] = field(default_factory=set)
    dims: set[str] = field(default_factory=set)

    def copy(self) -> Shapes:
        """Return a copy that can be changed."""
        types = {key: set(types) for key, types in self.types.items()}
        return Shapes(self.axes, dict(self.known), types, set(self.large), set(self.dims))

    def add(self, stack: Stack) -> str | None:
        """Add a stack, or return how it differs from other runs."""
        key, shape, name = key_of(stack), Shape.of(stack), stack.name
        known = self.known.get(key, shape)
        if known != shape:
            if replace(known, units=shape.units) == shape:
                return f"`{name}` has units {shape.units!r}, but {known.units!r} in other runs"
            return f"`{name}` is {shape}, but {known} in other runs"
        if shape.role != ATTRIBUTE and (message := self._conflict(name, shape)):
            return message
        if shape.kind == NUMBERS:
            types = self.types.get(key, set()) | {stack.values.dtype}
            large = self.large | ({key} if _is_large(stack.values) else set())
            if key in large and common_type(types).kind == "f":
                return f"`{name}` has integers above 2^53 in some runs and other numbers in others"
            self.types[key], self.large = types, large
        self.known[key] = shape
        if shape.role != ATTRIBUTE:
            self.dims |= set(shape.dims)
        return None

    def _conflict(self, name: str, shape: Shape) -> str | None:
        """Return why the name of a variable or coordinate, or of its dimensions, means something else elsewhere."""
        for each in (name, *shape.dims):
            if each in self.axes:
                return f"`{each}` is returned here, but is a dimension of the study"
        if name in self.dims and (shape.role, shape.dims) != (COORDINATE, (name,)):
            return f"`{name}` is {shape} here, but a dimension in other runs"
        for dim in shape.dims:
            other = self.known.get((dim, False))
            if other is not None and (other.role, other.dims) != (COORDINATE, (dim,)):
                return f"`{dim}` is a dimension here, but {other} in other runs"
        return None


def key_of(stack: Stack) -> tuple[str, bool]:
    """Return the name of a stack, and whether it is an attribute, which may have the name of a variable."""
    return stack.name, stack.role == ATTRIBUTE


def common_type(types: Iterable[np.dtype[Any]]) -> np.dtype[Any]:
    """Return NumPy's common type, whatever the order."""
    return np.result_type(*sorted(types, key=str))


def _is_large(values: Any) -> bool:
    """Return True for integers that float64 may not hold."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return False
    limits = values.limits if isinstance(values, Packed) else values
    return bool(limits.size) and (int(limits.max()) > EXACT or int(limits.min()) < -EXACT)


@dataclass(eq=False)
class Table:
    """Status, run metadata and variables of every case of `plan`.

    Cases with equal keys share a run: its record fills all of them.  Arrays of numbers stay in the files of the runs.
    """

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
        self.columns: dict[str, Column | ArrayColumn] = {}
        self.attributes: dict[str, Column | ArrayColumn] = {}
        self.shapes = Shapes(self.plan.space.names)
        self.left_out: set[str] = set()
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
        self,
        records: RunRecords,
        wanted: Callable[[Status], bool] = is_finished,
        replaced: Sequence[Status] = (Status.not_run,),
        attempts: np.ufunc = np.maximum,
    ) -> npt.NDArray[np.intp]:
        """Add the records of this plan whose status is `wanted`; for other records only the attempts count.

        A case with a record keeps it, since records with equal keys are equal.  A run that is ok replaces the statuses
        in `replaced`.  attempts: combines two numbers of attempts.  Returns the cases that are new.
        """
        records = pack_records(records)
        number, case = self._found(records)
        is_open = np.isin(self.status[case], replaced)
        number, case = number[is_open], case[is_open]
        records = self._checked(records, number)
        self.left_out |= set(records.left_out)
        # also for records that are not added: a failure that runs again has been tried
        self.attempts[case] = attempts(self.attempts[case], records.attempts[number])
        new = records.status[number]
        # a run that is ok stays: another one with its key is equal, and a failure says less
        is_better = (self.status[case] == Status.not_run) | (new == Status.ok)
        takes: npt.NDArray[np.bool_] = is_better & np.isin(new, list(filter(wanted, Status)))
        number, case = number[takes], case[takes]
        self.status[case] = records.status[number]
        self.messages[case] = np.array(records.messages, dtype=object)[number]
        self.wall_seconds[case] = records.wall_seconds[number]
        if any(records.outputs):
            self.outputs = np.full(self.size, "", dtype=object) if self.outputs is None else self.outputs
            self.outputs[case] = np.array(records.outputs, dtype=object)[number]
        sets = {text: position for position, text in enumerate(self.software_sets)}
        software = np.array([sets.setdefault(text, len(sets)) for text in records.software], dtype=np.int32)
        self.software_sets, self.software[case] = list(sets), software[number]
        for stack in records.stacks:
            self._add_stack(stack, len(records.keys), number, case)
        return case

    def add_all(
        self,
        found: Iterable[RunRecords],
        wanted: Callable[[Status], bool] = is_finished,
        attempts: np.ufunc = np.maximum,
    ) -> None:
        """Add several records.  A run that is ok replaces a failure.

        attempts: the number of a record includes earlier attempts, so the maximum counts copies of a record once;
        np.add is for records that were computed independently.
        """
        for records in found:
            self.add(records, wanted, [status for status in Status if status != Status.ok], attempts)

    def checked(self, records: RunRecords) -> RunRecords:
        """Return `records` with earlier attempts added, in which a run with values of another shape is failed.

        The first run that has a variable fixes its shape: the trial run, or a run of the result that is resumed.
        """
        number, case = self._found(records)
        before = np.zeros_like(records.attempts)
        before[number] = self.attempts[case]
        return self._checked(replace(records, attempts=records.attempts + before), number)

    def _checked(self, records: RunRecords, number: npt.NDArray[np.intp]) -> RunRecords:
        counts = np.isin(np.arange(len(records.keys)), number)
        stacks = [stack if counts.all() else stack.taken(counts[stack.rows]) for stack in records.stacks]
        stacks = [stack for stack in stacks if len(stack.rows)]
        shapes = self.shapes.copy()
        if all(shapes.add(stack) is None for stack in stacks):  # the usual case
            self.shapes = shapes
            return records
        wrong: dict[int, str] = {}
        own: dict[int, list[Stack]] = {}
        for stack in stacks:
            for place, row in enumerate(stack.rows.tolist()):
                own.setdefault(row, []).append(stack.taken(np.array([place])))
        for row in sorted(own):
            shapes = self.shapes.copy()
            message = next(filter(None, map(shapes.add, own[row])), None)
            if message is None:
                self.shapes = shapes
            else:
                wrong[row] = f"RunError: {message}"
        return records.failed(wrong)

    def _add_stack(self, stack: Stack, count: int, number: npt.NDArray[np.intp], case: npt.NDArray[np.intp]) -> None:
        """Put the values of the records `number`, out of `count`, into the rows `case`."""
        row_of = np.full(count, -1)  # -1: the record has no value of this variable
        row_of[stack.rows] = np.arange(len(stack.rows))
        has_value = row_of[number] >= 0
        source, target = row_of[number[has_value]], case[has_value]
        if not len(target):
            return
        columns = self.attributes if stack.role == ATTRIBUTE else self.columns
        taken = stack.taken(source)
        if stack.name not in columns:
            dtype = np.dtype(object) if stack.values.dtype.kind == "U" else stack.values.dtype
            shape = stack.values.shape[1:]
            columns[stack.name] = (
                ArrayColumn(stack.role, stack.dims, Packed.empty(self.size, len(stack.dims)))
                if is_array(stack)
                else Column.empty(self.size, stack.role, stack.dims, shape, dtype)
            )
        columns[stack.name].put(target, taken, self.shapes.types.get(key_of(stack)))

    def records(self, columns: Mapping[str, Column | ArrayColumn] | None = None) -> tuple[RunRecords, Order]:
        """Return the records of all finished runs, and their cases: of equal keys the first.

        columns: the variables and coordinates; None: all of the table.
        """
        cases = np.flatnonzero((self.status != Status.not_run) & (self.keys != b""))
        if not self._index.distinct:
            _, first = np.unique(self.keys[cases], return_index=True)
            cases = cases[np.sort(first)]
        row_of = np.full(self.size, -1)
        row_of[cases] = np.arange(len(cases))
        found = [*(self.columns if columns is None else columns).items(), *self.attributes.items()]
        records = RunRecords(
            keys=tuple(self.keys[cases].astype(str).tolist()),
            status=self.status[cases],
            messages=tuple(self.messages[cases].tolist()),
            outputs=() if self.outputs is None else tuple(self.outputs[cases].tolist()),
            wall_seconds=self.wall_seconds[cases],
            attempts=self.attempts[cases],
            software=tuple(self.software_sets[number] for number in self.software[cases].tolist()),
            stacks=tuple(stack for name, column in found for stack in column.stacks(name, row_of)),
        )
        return records, cases

    def missing(self) -> npt.NDArray[np.int64]:
        """The cases without a record, in the order of the plan; only the first case with each key."""
        order = self.plan.order
        open_ = order[(self.status[order] == Status.not_run) & (self.keys[order] != b"")]
        if self._index.distinct:  # the usual case: finding equal keys takes five times their memory
            return np.asarray(open_)
        _, first = np.unique(self.keys[open_], return_index=True)
        return np.asarray(open_[np.sort(first)])

    def counts(self) -> dict[Status, int]:
        """Number of planned cases by status."""
        counts = np.bincount(self.status[self.keys != b""], minlength=len(Status))
        return {status: int(counts[status]) for status in Status}


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


class _Described:
    """What both kinds of columns say of themselves."""

    role: str
    dims: tuple[str, ...]
    attributes: Mapping[str, Any]
    first: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The common type of the values of all runs."""
        raise NotImplementedError

    @property
    def is_number(self) -> bool:
        """Return True for a variable with one number for each run."""
        return self.role == VARIABLE and not self.dims and kind_of(self.dtype) == NUMBERS

    @property
    def described(self) -> str:
        """What the column is, for messages."""
        return str(Shape(self.role, self.dims, kind_of(self.dtype), ""))

    def describe(self, cases: npt.NDArray[np.intp], stack: Stack) -> None:
        """Take the attributes of the lowest case: a result must not depend on the order in which runs arrive."""
        if cases[0] < self.first:
            self.first, self.attributes = int(cases[0]), stack.attributes


@dataclass(eq=False)
class Column(_Described):
    """Values of a variable: `cells` has a row for each case; strings are objects.

    present: the cases that have the variable.  absent: the cells that are missing in these cases, because other runs
    have longer arrays or other labels; None: none is.  first: the lowest of these cases, which decides the attributes.
    returned: the dtype that each run returned, as an index into `dtypes`.
    """

    role: str
    dims: tuple[str, ...]
    cells: npt.NDArray[Any]
    attributes: Mapping[str, Any]
    first: int
    present: npt.NDArray[np.bool_]
    absent: npt.NDArray[np.bool_] | None = None
    dtypes: list[np.dtype[Any]] = field(default_factory=list)
    returned: npt.NDArray[np.int8] | None = None

    @staticmethod
    def empty(count: int, role: str, dims: tuple[str, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
        """Return a column for `count` cases without any value."""
        cells = np.full((count, *shape), missing_value(dtype), dtype)
        return Column(role, dims, cells, {}, count, np.zeros(count, dtype=bool), None, [], np.zeros(count, np.int8))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the cells."""
        return self.cells.dtype

    @property
    def lengths(self) -> tuple[int, ...]:
        """The longest array along each dimension."""
        return self.cells.shape[1:]

    # rows of different runs may have different lengths, such as ranks
    def put(self, cases: npt.NDArray[np.intp], stack: Stack, types: Iterable[np.dtype[Any]] | None) -> None:
        """Set the rows of `cases`, which are in order.  The column grows to the longest row.

        types: the dtypes of numbers in all runs, whose common type the column has.
        """
        values = np.asarray(stack.values)
        shape = values.shape[1:]
        dtype = self.cells.dtype if types is None else common_type(types)
        longest = tuple(map(max, self.cells.shape[1:], shape))
        self.resize(longest, dtype)
        self.describe(cases, stack)
        if self.returned is not None and types is not None:
            if values.dtype not in self.dtypes:
                self.dtypes.append(values.dtype)
            self.returned[cases] = self.dtypes.index(values.dtype)
        room = (slice(None), *(slice(0, n) for n in shape))
        if stack.absent is not None:
            values = values.astype(dtype)
            values[stack.absent] = missing_value(dtype)
        self.cells[room][cases] = values  # a view
        self.present[cases] = True
        if self.absent is not None or shape != longest or stack.absent is not None:
            if self.absent is None:
                self.absent = np.zeros(self.cells.shape, dtype=bool)
            self.absent[cases] = True
            self.absent[room][cases] = False if stack.absent is None else stack.absent

    def resize(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Make room for rows of this shape and type."""
        if (shape, dtype) == (self.cells.shape[1:], self.cells.dtype):
            return
        old, absent = self.cells, self.absent
        room = (slice(None), *(slice(0, n) for n in old.shape[1:]))
        self.cells = np.full((len(old), *shape), missing_value(dtype), dtype)
        self.cells[room] = old
        if dtype != old.dtype:
            self.cells[room][~self.present] = missing_value(dtype)
            if absent is not None:
                self.cells[room][absent] = missing_value(dtype)
        if shape != old.shape[1:] or absent is not None:
            self.absent = np.ones(self.cells.shape, dtype=bool)
            self.absent[room] = False if absent is None else absent

    def missing(self) -> npt.NDArray[np.bool_]:
        """Return the cells without a value."""
        lacks = np.broadcast_to((~self.present).reshape(-1, *[1] * (self.cells.ndim - 1)), self.cells.shape)
        return lacks if self.absent is None else lacks | self.absent

    def common(self) -> npt.NDArray[Any] | None:
        """The common row, if it is equal and complete in all cases that have one; NaN is equal to NaN."""
        rows = self.cells[self.present]
        if not len(rows) or (self.absent is not None and self.absent[self.present].any()):
            return None
        return np.asarray(rows[0]) if np.all(equal(rows, rows[0])) else None

    def loaded(self) -> Column:
        """Return the column with its values in memory."""
        return self

    def own_lengths(self) -> npt.NDArray[np.int64]:
        """Return the lengths of the values of each case."""
        there, found = ~self.missing(), np.zeros((len(self.cells), len(self.dims)), np.int64)
        for axis in range(1, there.ndim):
            others = tuple(other for other in range(1, there.ndim) if other != axis)
            places = np.asarray(there.any(axis=others)) * np.arange(1, there.shape[axis] + 1)
            found[:, axis - 1] = places.max(axis=1, initial=0)
        return found

    def stacks(self, name: str, row_of: npt.NDArray[np.intp]) -> Iterator[Stack]:
        """Yield the values of the cases with a row in `row_of`, with the types that runs returned."""
        cases = np.flatnonzero(self.present & (row_of >= 0))
        numbers = np.zeros(len(cases), np.int8) if self.returned is None or not self.dtypes else self.returned[cases]
        for number in np.unique(numbers).tolist():
            own = cases[numbers == number]
            cells, absent = self.cells[own], None if self.absent is None else self.absent[own]
            cells = cells.astype(
                self.dtypes[number] if self.dtypes else str if cells.dtype.kind == "O" else cells.dtype
            )
            yield Stack(name, self.dims, row_of[own], cells, self.attributes, self.role, absent)


@dataclass(eq=False)
class ArrayColumn(_Described):
    """Arrays of numbers as pieces of files, which are read when they are used; see `Column`."""

    role: str
    dims: tuple[str, ...]
    data: Packed
    attributes: Mapping[str, Any] = field(default_factory=dict)
    first: int = 2**62

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """The cases that have the variable."""
        return self.data.present

    @property
    def dtype(self) -> np.dtype[Any]:
        """The common type of the arrays of all runs."""
        return self.data.dtype

    @property
    def lengths(self) -> tuple[int, ...]:
        """The longest array along each dimension."""
        return self.data.shape[1:]

    def put(self, cases: npt.NDArray[np.intp], stack: Stack, types: Iterable[np.dtype[Any]] | None) -> None:
        """Set the arrays of `cases`, which are in order."""
        self.describe(cases, stack)
        self.data.put(cases, stack.values)

    def own_lengths(self) -> npt.NDArray[np.int64]:
        """Return the lengths of the array of each case."""
        return self.data.shapes

    def common(self) -> npt.NDArray[Any] | None:
        """The array that all runs with one share, by their checksums; see `Column.common`."""
        cases = np.flatnonzero(self.present)
        if not len(cases) or (self.data.shapes[cases] != self.data.shapes[cases[0]]).any():
            return None
        if len({self.data.forms[form].dtype for form in set(self.data.form[cases].tolist())}) > 1:
            return self.loaded().common()
        marks = self.data.pieces[cases][["row", "size", "checksum"]]
        return np.array(np.asarray(self.data[cases[:1]])[0]) if (marks == marks[:1]).all() else None

    def loaded(self) -> Column:
        """Return the column with its values in memory."""
        dtype, count = self.dtype, len(self.data)
        made = Column.empty(count, self.role, self.dims, self.lengths, dtype)
        made.attributes, made.first, made.present = self.attributes, self.first, self.present
        absent = np.ones(made.cells.shape, dtype=bool)
        for cases, values in self.data.arrays(np.flatnonzero(self.present)):
            place: Any = (cases, *map(slice, values.shape[1:]))
            made.cells[place], absent[place] = values, False
        made.absent = absent if absent[self.present].any() else None
        made.dtypes = [dtype]
        return made

    def stacks(self, name: str, row_of: npt.NDArray[np.intp]) -> Iterator[Stack]:
        """Yield the arrays of the cases with a row in `row_of`, with the types that runs returned."""
        cases = np.flatnonzero(self.present & (row_of >= 0))
        kinds = np.array([str(form.dtype) for form in self.data.forms])[self.data.form[cases]]
        for kind in np.unique(kinds).tolist():
            own = cases[kinds == kind]
            yield Stack(name, self.dims, row_of[own], self.data[own], self.attributes, self.role)


def equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values are equal; NaN is equal to NaN, and NaT to NaT."""
    same = np.asarray(one == other)
    return same | ((one != one) & (other != other)) if one.dtype.kind in "fMm" else same


def missing_value(dtype: np.dtype[Any]) -> Any:
    """Return what a cell without a value has: an empty string, NaN, NaT, or 0, which `Column.missing` marks."""
    if dtype.kind in "Mm":
        return np.array("NaT", dtype=dtype)
    return {"O": "", "f": np.nan}.get(dtype.kind, 0)
