"""Define the cases of a study or of its pilot.

The cases are the product of the axes.  An axis is a parameter, or it numbers the points of a design: each point gives
values to several parameters.  Constants, ``[[when]]`` rules, tables and formulas then set the other parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evogt_study.errors import InputError
from evogt_study.schema.values import Value, Values, text_label

Keys = npt.NDArray[np.bytes_]
"""Run keys of `KEY_DIGITS` hexadecimal digits each; empty at a point without a case."""
MAX_CASES = 10_000_000
"""Largest number of cases of a study or of its pilot.  Their keys take 200 MB, their other metadata 250 MB."""
MAX_REPRESENTATIVES = 20_000
"""Largest number of points at which the rules are checked, in 0.05 s.  More points are sampled evenly."""
BLOCK = 4096
"""Cases whose positions are computed together, and combinations of rules that are cached meanwhile.

NumPy's calls take little time for so many cases, and the cache takes a few MB.
"""


@dataclass(frozen=True)
class Axis:
    """A parameter that varies; its values are canonical and different.

    points: for an index axis, whose values are consecutive integers and not parameters of a run, the numbered points.
    """

    name: str
    values: tuple[Value, ...]
    points: Points | None = None

    @property
    def parameters(self) -> Mapping[str, Sequence[Value]]:
        """The values of each parameter along the axis."""
        if self.points is None:
            return {self.name: self.values}
        if all(len(values) == len(self.values) for values in self.points.columns.values()):
            return self.points.columns
        places = [int(number) - self.points.first for number in self.values]  # type: ignore[arg-type]  # as above
        return {name: [values[place] for place in places] for name, values in self.points.columns.items()}


@dataclass(frozen=True, eq=False)
class Points:
    """Points of an index axis: values of several parameters, beginning with the point number `first`.

    description: JSON of the design; empty for candidates, whose values are in other tables.
    """

    columns: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    first: int = 0
    description: str = ""

    def at(self, number: Value) -> dict[str, Value]:
        """The parameters at a point."""
        place = int(number) - self.first  # type: ignore[arg-type]  # an index axis has integers
        return {name: values[place] for name, values in self.columns.items()}


Match = Mapping[str, frozenset[str]]
"""Labels that parameters must have; they distinguish values that are equal under ``==`` (true and 1)."""


def matches(match: Match, values: Values) -> bool:
    """Return True if each parameter has one of the labels that `match` admits."""
    return all(text_label(values[name]) in admitted for name, admitted in match.items())


@dataclass(frozen=True)
class When:
    """A rule for dependent parameters: if `match` fits, `set` holds."""

    match: Match
    set: Mapping[str, Value]


@dataclass(frozen=True, eq=False)
class Formula:
    """A parameter computed from others, `names`, if no rule or table gives it."""

    name: str
    names: tuple[str, ...]
    value: Callable[[Values], Value]


@dataclass(frozen=True)
class ParameterTable:
    """Parameters given by a table over the labels of some axes; without an entry there is no case.

    An entry is a value for each of `names`.
    """

    names: tuple[str, ...]
    over: tuple[str, ...]
    table: Mapping[tuple[str, ...], tuple[Value, ...]]


@dataclass(frozen=True, eq=False)
class CaseSpace:
    """The cases of a study or of its pilot.  Cases are numbered in C order over the axes.

    excluded: points without a case.  formulas: each after those that it uses.
    """

    axes: tuple[Axis, ...]
    constants: Mapping[str, Value]
    rules: tuple[When, ...] = ()
    chosen: tuple[ParameterTable, ...] = ()
    excluded: tuple[Match, ...] = ()
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
        """Number of points of the product, those without a case included."""
        return math.prod(self.shape)

    def axis(self, name: str) -> Axis:
        """The axis of that name."""
        return next(axis for axis in self.axes if axis.name == name)

    @cached_property
    def indices(self) -> tuple[Axis, ...]:
        """The axes that number points."""
        return tuple(axis for axis in self.axes if axis.points is not None)

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The parameters that vary along index axes, each with its axis."""
        return {name: axis.name for axis in self.indices for name in (axis.points or Points()).columns}

    @property
    def _matches(self) -> tuple[Match, ...]:
        return (*(rule.match for rule in self.rules), *self.excluded)

    @cached_property
    def deciding(self) -> frozenset[str]:
        """The parameters and axes on whose values rules, tables, exclusions and formulas depend."""
        matched = {name for match in self._matches for name in match}
        matched |= {name for formula in self.formulas for name in formula.names}
        return frozenset(matched | {name for choice in self.chosen for name in choice.over})

    def decides(self, axis: Axis) -> bool:
        """Return True if something depends on the axis, or on a parameter along it."""
        along = () if axis.points is None else axis.points.columns
        return not self.deciding.isdisjoint((axis.name, *along))

    def values(self, index: int) -> dict[str, Value] | None:
        """All parameters of case `index`; None if no case is planned there."""
        positions = np.unravel_index(index, self.shape)
        return self.resolve({axis.name: axis.values[int(i)] for axis, i in zip(self.axes, positions, strict=True)})

    def each(self, indices: npt.NDArray[np.int64]) -> Iterator[dict[str, Value] | None]:
        """`values` of many cases in turn; rules and tables are applied once to cases that they do not distinguish."""
        deciding = [number for number, axis in enumerate(self.axes) if self.decides(axis)]
        free = [
            (number, name, values)
            for number, axis in enumerate(self.axes)
            if number not in deciding
            for name, values in axis.parameters.items()
        ]
        settled: dict[tuple[int, ...], dict[str, Value] | None] = {}
        for start in range(0, len(indices), BLOCK):
            positions = np.unravel_index(indices[start : start + BLOCK], self.shape)
            for position in zip(*(along.tolist() for along in positions), strict=True):
                key = tuple([position[number] for number in deciding])
                if key not in settled:
                    if len(settled) >= BLOCK:  # bounded, since a study may have as many combinations as cases
                        settled.clear()
                    settled[key] = self.resolve(
                        {self.axes[number].name: self.axes[number].values[position[number]] for number in deciding}
                    )
                rest = settled[key]
                yield None if rest is None else rest | {name: values[position[number]] for number, name, values in free}

    # A later rule wins over an earlier one, as in the study file.  The choice of a pilot wins over both.  Formulas come
    # last, since they use the other values.
    def resolve(self, at: Mapping[str, Value]) -> dict[str, Value] | None:
        """Constants, then the axes' values `at` a point, then rules in order, tables, and formulas."""
        values = {**self.constants, **at}
        for axis in self.indices:
            if axis.points is not None and axis.name in at:
                values.update(axis.points.at(at[axis.name]))
        if any(matches(match, values) for match in self.excluded):
            return None
        for rule in self.rules:
            if matches(rule.match, values):
                values.update(rule.set)
        for choice in self.chosen:
            entry = choice.table.get(tuple(text_label(values[name]) for name in choice.over))
            if entry is None:
                return None
            values.update(zip(choice.names, entry, strict=True))
        # only now: rules and tables may match the numbers of points, which are no parameters of a run
        for axis in self.indices:
            values.pop(axis.name, None)
        for formula in self.formulas:
            if formula.name not in values:
                values[formula.name] = formula.value(values)
        return values

    @cached_property
    def count(self) -> int:
        """Number of cases: points that are neither excluded nor without an entry in a table."""
        if not self.chosen and not self.excluded:
            return self.size
        deciding = [axis for axis in self.axes if self.decides(axis)]
        # formulas leave no case out
        some = replace(self, axes=tuple(deciding), formulas=())
        if not deciding:
            return self.size if some.resolve({}) is not None else 0
        planned = sum(values is not None for values in some.each(np.arange(some.size)))
        # axes that decide nothing only multiply the cases of the others
        return planned * (self.size // some.size)

    # a few values of each axis: there may be millions of cases
    def representatives(self, extra: Iterable[str] = ()) -> Iterator[dict[str, Value]]:
        """Points that together meet every combination of rules: few values of each axis, `extra` axes in full."""
        full = {*extra, *(name for choice in self.chosen for name in choice.over)}
        chosen = [[(axis.name, value) for value in self._few(axis, full)] for axis in self.axes]
        shape = [len(options) for options in chosen]
        size = math.prod(shape)
        for flat in np.unique(np.linspace(0, size - 1, min(size, MAX_REPRESENTATIVES)).astype(int)):
            positions = np.unravel_index(int(flat), shape)
            yield dict(options[int(i)] for options, i in zip(chosen, positions, strict=True))

    def _few(self, axis: Axis, full: Iterable[str]) -> tuple[Value, ...]:
        """Values of `axis` that show every combination of what rules and `full` distinguish along it."""
        full = frozenset(full)
        if axis.points is None or axis.name in full:
            return self.representative_values(axis, axis.name in full)
        matched = {name for match in self._matches for name in match}
        columns = [axis.parameters[name] for name in axis.parameters if name in full | matched]
        first: dict[tuple[Value, ...], Value] = {}
        for number, *combination in zip(axis.values, *columns, strict=True):
            first.setdefault(tuple(combination), number)
        return tuple(first.values())

    def representative_values(self, axis: Axis, full: bool = False) -> tuple[Value, ...]:
        """All values of `axis` where `full`, else those that rules mention and one that they do not."""
        if full:
            return axis.values
        mentioned: frozenset[str] = frozenset().union(*(match.get(axis.name, frozenset()) for match in self._matches))
        if not mentioned:
            return axis.values[:1]
        others = [value for value in axis.values if text_label(value) not in mentioned][:1]
        return (*(value for value in axis.values if text_label(value) in mentioned), *others)

    # a new space: the one of the phase stays without the choice, so that it can be planned again
    def with_chosen(self, *choices: ParameterTable) -> CaseSpace:
        """The same space with more parameters that are given by tables."""
        return replace(self, chosen=(*self.chosen, *choices))

    def dependence(self, parameter: str) -> tuple[str, ...]:
        """The axes on which the dependent `parameter` depends by rules, tables and formulas, in the order of the axes.

        A parameter along an index axis depends on that axis.
        """
        found = {self.columns[parameter]} if parameter in self.columns else set()
        names = {name for rule in self.rules if parameter in rule.set for name in rule.match}
        names |= {name for choice in self.chosen if parameter in choice.names for name in choice.over}
        names |= {name for formula in self.formulas if formula.name == parameter for name in formula.names}
        for name in names:
            found.update((name,) if name in self.names else self.dependence(name))
        return tuple(name for name in self.names if name in found)

    def carriers(self, parameters: Iterable[str]) -> tuple[str, ...]:
        """The axes along which `parameters` vary, in the order of the parameters, without dependent parameters.

        An index axis comes at the place of the first of its parameters.
        """
        return tuple(dict.fromkeys(self.columns.get(name, name) for name in parameters))

    @property
    def dependent_parameters(self) -> tuple[str, ...]:
        """Dependent parameters, set by rules, tables or formulas, in order of first mention.

        An axis, and a parameter along an index axis, is not a dependent parameter, although a table may give it.
        """
        mentioned = [name for rule in self.rules for name in rule.set]
        mentioned += [name for choice in self.chosen for name in choice.names]
        mentioned += [formula.name for formula in self.formulas]
        return tuple(name for name in dict.fromkeys(mentioned) if name not in (*self.names, *self.columns))


def join_names(values: Sequence[str], limit: int = 12) -> str:
    """Join strings by commas, those beyond `limit` counted."""
    more = f", ... ({len(values)} in all)" if len(values) > limit else ""
    return ", ".join(values[:limit]) + more


def read_point(text: str) -> dict[str, str]:
    """`seed=3,dictionary=gtransnet` as names and values; a value may have commas of its own: `hidden=240,120`.

    Raises InputError.
    """
    at: dict[str, str] = {}
    name = ""
    for part in filter(None, (part.strip() for part in text.split(","))):
        before, sign, value = (word.strip() for word in part.partition("="))
        if sign and before in at:
            raise InputError(f"`--at` must name each axis once, got {before} twice")
        if sign:
            name, at[before] = before, value
        elif name:
            at[name] += f",{part}"
        else:
            raise InputError(f"`--at` must read axis=value,axis=value, got {text!r}; use e.g. --at seed=3")
    return at
