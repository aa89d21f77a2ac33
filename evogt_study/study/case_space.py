"""Define the cases of a phase as the product of its axes.

An axis is a parameter, or it numbers the points of a design.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evogt_study.schema.values import Value, Values, to_string

Keys = npt.NDArray[np.bytes_]  # run keys of `KEY_DIGITS` hexadecimal digits each, empty at a point without a case
MAX_CASES = 10_000_000  # largest number of cases of a phase, whose keys take 200 MB and other metadata 250 MB
MAX_REPRESENTATIVES = 20_000  # largest number of points at which rules are checked, in 0.05 s, sampled evenly from more
BLOCK = 4096  # number of cases in a block, and largest number of cached combinations of rules, which take a few MB


@dataclass(frozen=True)
class Axis:
    """A parameter that varies, or the point numbers of a design, with canonical and different values.

    `columns` holds the values of the parameters from point number `first` on, or None if the axis is a parameter.
    """

    name: str
    values: tuple[Value, ...]
    columns: Mapping[str, tuple[Value, ...]] | None = None
    first: int = 0
    description: str = ""

    @property
    def parameters(self) -> Mapping[str, Sequence[Value]]:
        """The values of each parameter along the axis."""
        if self.columns is None:
            return {self.name: self.values}
        if all(len(values) == len(self.values) for values in self.columns.values()):
            return self.columns
        points = [self.point(number) for number in self.values]
        return {name: [point[name] for point in points] for name in self.columns}

    def point(self, number: Value) -> dict[str, Value]:
        """Return the parameters of the point `number`."""
        place = int(number) - self.first  # type: ignore[arg-type]  # points have integers
        return {name: values[place] for name, values in (self.columns or {}).items()}


Match = Mapping[str, frozenset[str]]  # admitted values of parameters as strings, which distinguish True and 1


def is_match(match: Match, values: Values) -> bool:
    """Return True if each parameter has one of the values that `match` admits."""
    return all(to_string(values[name]) in admitted for name, admitted in match.items())


@dataclass(frozen=True)
class When:
    """A rule that sets the parameters in `set` if `match` fits, or excludes the point if `set` is None."""

    match: Match
    set: Mapping[str, Value] | None


@dataclass(frozen=True, eq=False)
class Formula:
    """A parameter that is computed from the parameters `names` unless a rule or table sets it."""

    name: str
    names: tuple[str, ...]
    compute: Callable[[Values], Value]


@dataclass(frozen=True)
class ParameterTable:
    """Values of the parameters `names` at points of the axes `over`.  A point without an entry has no case."""

    names: tuple[str, ...]
    over: tuple[str, ...]
    table: Mapping[tuple[str, ...], tuple[Value, ...]]


@dataclass(frozen=True, eq=False)
class CaseSpace:
    """The cases of a phase, numbered in C order over the axes.

    Rules that exclude points come first in `rules`.  Each formula follows the formulas that it uses.
    """

    axes: tuple[Axis, ...]
    constants: Mapping[str, Value]
    rules: tuple[When, ...] = ()
    chosen: tuple[ParameterTable, ...] = ()
    formulas: tuple[Formula, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of points of the product of the axes, with or without a case."""
        return math.prod(self.shape)

    def axis(self, name: str) -> Axis:
        """Return the axis `name`."""
        return next(axis for axis in self.axes if axis.name == name)

    @cached_property
    def indices(self) -> tuple[Axis, ...]:
        """Axes that number the points of designs."""
        return tuple(axis for axis in self.axes if axis.columns is not None)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The axis of each parameter that varies in a design."""
        return {name: axis.name for axis in self.indices for name in axis.columns or ()}

    @cached_property
    def _mentioned(self) -> Mapping[str, set[str]]:
        """Values that rules mention, as strings, by parameter."""
        found: dict[str, set[str]] = {}
        for rule in self.rules:
            for name, admitted in rule.match.items():
                found.setdefault(name, set()).update(admitted)
        return found

    @cached_property
    def _deciding(self) -> frozenset[str]:
        """The parameters and axes on whose values rules, tables and formulas depend."""
        return frozenset(name for _, uses in self._sources for name in uses)

    def decides(self, axis: Axis) -> bool:
        """Return True if a rule, table or formula depends on the axis or on a parameter along it."""
        return not self._deciding.isdisjoint((axis.name, *(axis.columns or ())))

    def point(self, index: int) -> dict[str, Value]:
        """Return the axis values of point `index`."""
        positions = np.unravel_index(index, self.shape)
        return {axis.name: axis.values[int(i)] for axis, i in zip(self.axes, positions, strict=True)}

    def values(self, index: int) -> dict[str, Value] | None:
        """Return all parameters of case `index`, or None if the point has no case."""
        return self.resolve(self.point(index))

    def iterate_values(self, indices: npt.NDArray[np.int64]) -> Iterator[dict[str, Value] | None]:
        """Yield the parameters of each case, and apply rules and tables once for equal values of their axes."""
        numbers = [number for number, axis in enumerate(self.axes) if self.decides(axis)]
        others = [(number, axis) for number, axis in enumerate(self.axes) if number not in numbers]
        free = [(number, name, values) for number, axis in others for name, values in axis.parameters.items()]
        known: dict[tuple[int, ...], dict[str, Value] | None] = {}
        for start in range(0, len(indices), BLOCK):
            positions = np.unravel_index(indices[start : start + BLOCK], self.shape)
            for position in zip(*(along.tolist() for along in positions), strict=True):
                key = tuple([position[number] for number in numbers])
                if key not in known:
                    if len(known) >= BLOCK:  # bounded, since a study may have as many combinations as cases
                        known.clear()
                    axes = [(self.axes[number], position[number]) for number in numbers]
                    known[key] = self.resolve({axis.name: axis.values[place] for axis, place in axes})
                rest = known[key]
                yield None if rest is None else rest | {name: values[position[number]] for number, name, values in free}

    # A later rule wins over an earlier one, as in the study file.  The choice of a pilot wins over both.  Formulas come
    # last, since they use the other values.
    def resolve(self, at: Mapping[str, Value]) -> dict[str, Value] | None:
        """Return all parameters of the point `at`, or None if the point has no case."""
        values = {**self.constants, **at}
        for axis in self.indices:
            if axis.name in at:
                values.update(axis.point(at[axis.name]))
        for rule in self.rules:
            if is_match(rule.match, values):
                if rule.set is None:
                    return None
                values.update(rule.set)
        for choice in self.chosen:
            entry = choice.table.get(tuple(to_string(values[name]) for name in choice.over))
            if entry is None:
                return None
            values.update(zip(choice.names, entry, strict=True))
        # only now: rules and tables may match the numbers of points, which are no parameters of a run
        for axis in self.indices:
            values.pop(axis.name, None)
        for formula in self.formulas:
            if formula.name not in values:
                values[formula.name] = formula.compute(values)
        return values

    @cached_property
    def count(self) -> int:
        """Number of cases, which are the points that no rule or table excludes."""
        if not self.chosen and all(rule.set is not None for rule in self.rules):
            return self.size
        # formulas leave no case out, and axes that decide nothing only multiply the cases of the others
        some = replace(self, axes=tuple(axis for axis in self.axes if self.decides(axis)), formulas=())
        if not some.axes:
            return self.size if some.resolve({}) is not None else 0
        count = sum(values is not None for values in some.iterate_values(np.arange(some.size)))
        return count * (self.size // some.size)

    def representatives(self, extra: Iterable[str] = (), limit: int = MAX_REPRESENTATIVES) -> Iterator[Values]:
        """Yield at most `limit` points that cover the combinations of rules and all values of the `extra` axes."""
        full = {*extra, *(name for choice in self.chosen for name in choice.over)}
        some = replace(self, axes=tuple(replace(axis, values=self._select_few(axis, full)) for axis in self.axes))
        yield from map(some.point, np.unique(np.linspace(0, some.size - 1, min(some.size, limit)).astype(int)))

    def _select_few(self, axis: Axis, full: Collection[str]) -> tuple[Value, ...]:
        """Return all values of an axis in `full`, or the first value for each combination that rules distinguish."""
        if axis.name in full:
            return axis.values
        along = {axis.name: axis.values, **axis.parameters}
        names = [name for name in along if name in full or name in self._mentioned]
        first: dict[tuple[str, ...], Value] = {}
        for value, *entries in zip(axis.values if names else axis.values[:1], *(along[name] for name in names)):  # noqa: B905
            labels = zip(names, map(to_string, entries), strict=True)
            kind = tuple([label if name in full or label in self._mentioned[name] else "" for name, label in labels])
            first.setdefault(kind, value)
        return tuple(first.values())

    def with_chosen(self, *choices: ParameterTable) -> CaseSpace:
        """Return a copy of the space with additional tables of chosen parameters."""
        return replace(self, chosen=(*self.chosen, *choices))

    @property
    def _sources(self) -> Iterator[tuple[Collection[str], Collection[str]]]:
        """Parameters that each rule, table or formula sets, and the parameters that it uses."""
        yield from ((rule.set or (), rule.match) for rule in self.rules)
        yield from ((choice.names, choice.over) for choice in self.chosen)
        yield from (((formula.name,), formula.names) for formula in self.formulas)

    def find_dependence(self, parameter: str) -> tuple[str, ...]:
        """Return the axes on which a parameter depends by rules, tables, formulas and designs."""
        found = {self.columns[parameter]} if parameter in self.columns else set()
        for name in {name for sets, uses in self._sources if parameter in sets for name in uses}:
            found.update((name,) if name in self.names else self.find_dependence(name))
        return tuple(name for name in self.names if name in found)

    def list_axes_of(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """Return the axis of each of the `parameters`, without duplicates."""
        return tuple(dict.fromkeys(self.columns.get(name, name) for name in parameters))

    @property
    def dependent_parameters(self) -> tuple[str, ...]:
        """Parameters that rules, tables or formulas set, except axes, in order of first mention."""
        names = dict.fromkeys(name for sets, _ in self._sources for name in sets)
        return tuple(name for name in names if name not in (*self.names, *self.columns))


def join_names(values: Sequence[str], limit: int = 12) -> str:
    """Join the first `limit` strings by commas, and add the number of all strings if there are more."""
    return ", ".join(values[:limit]) + (f", ... ({len(values)} in all)" if len(values) > limit else "")
