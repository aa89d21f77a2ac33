"""The space of cases: the product of the axes, with every parameter resolved by constants, rules and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evogt_study.schema.values import Value, text_label
from evogt_study.schema.variables import CANDIDATE

MAX_CASES = 10_000_000
"""Cases that a study, or its pilot, may have: their keys take 200 MB, and their other bookkeeping 250 MB."""


MAX_REPRESENTATIVES = 20_000
"""Points at which combinations of rules are looked at one by one, in 0.05 s; more are sampled evenly."""


BLOCK = 4096
"""Cases whose positions are found together, and combinations of rules that are remembered meanwhile.

Enough that NumPy's calls take no time, and few enough that what is remembered is a few MB.
"""


@dataclass(frozen=True)
class Axis:
    """A parameter that varies; its values are canonical and different."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class When:
    """A rule for dependent parameters: where every axis in `match` has one of the values, `set` holds.

    Values are matched by their labels, which distinguish an axis's values where ``==`` does not (true and 1).
    """

    match: Mapping[str, frozenset[str]]
    set: Mapping[str, Value]

    def applies(self, values: Mapping[str, Value]) -> bool:
        """Return True where the rule holds at these values."""
        return all(text_label(values[name]) in admitted for name, admitted in self.match.items())


@dataclass(frozen=True)
class Chosen:
    """A parameter given by a table over the labels of some axes; where it has no entry there is no case."""

    name: str
    over: tuple[str, ...]
    table: Mapping[tuple[str, ...], Value]


@dataclass(frozen=True, eq=False)
class CaseSpace:
    """The cases of a study or of its pilot.  Cases are numbered in C order over the axes."""

    axes: tuple[Axis, ...]
    constants: Mapping[str, Value]
    rules: tuple[When, ...] = ()
    chosen: tuple[Chosen, ...] = ()

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
    def deciding(self) -> frozenset[str]:
        """The axes on whose values rules and tables depend, and the candidate's number, which is no parameter."""
        matched = {name for rule in self.rules for name in rule.match}
        return frozenset(matched | {name for choice in self.chosen for name in choice.over} | {CANDIDATE})

    def values(self, index: int) -> dict[str, Value] | None:
        """All parameters of case `index`; None where no case is planned there."""
        positions = np.unravel_index(index, self.shape)
        return self.resolved({axis.name: axis.values[int(i)] for axis, i in zip(self.axes, positions, strict=True)})

    def each(self, indices: npt.NDArray[np.int64]) -> Iterator[dict[str, Value] | None]:
        """`values` of many cases in turn; rules and tables are applied once to cases that they do not distinguish."""
        deciding = [number for number, axis in enumerate(self.axes) if axis.name in self.deciding]
        free = [(number, axis.name, axis.values) for number, axis in enumerate(self.axes) if number not in deciding]
        settled: dict[tuple[int, ...], dict[str, Value] | None] = {}
        for start in range(0, len(indices), BLOCK):
            positions = np.unravel_index(indices[start : start + BLOCK], self.shape)
            for position in zip(*(along.tolist() for along in positions), strict=True):
                key = tuple([position[number] for number in deciding])
                if key not in settled:
                    if len(settled) >= BLOCK:  # bounded, since a study may have as many combinations as cases
                        settled.clear()
                    settled[key] = self.resolved(
                        {self.axes[number].name: self.axes[number].values[position[number]] for number in deciding}
                    )
                rest = settled[key]
                yield None if rest is None else rest | {name: values[position[number]] for number, name, values in free}

    # later rules win over earlier ones, as in the study file; what a pilot chose wins over all
    def resolved(self, at: Mapping[str, Value]) -> dict[str, Value] | None:
        """Constants, then the axes' values `at` a point, then rules in order, then tables."""
        values = {**self.constants, **at}
        for rule in self.rules:
            if rule.applies(values):
                values.update(rule.set)
        for choice in self.chosen:
            value = choice.table.get(tuple(text_label(values[name]) for name in choice.over))
            if value is None:
                return None
            values[choice.name] = value
        values.pop(CANDIDATE, None)
        return values

    # the product of few values an axis: all values of all axes would be all cases, of which there may be millions
    def representatives(self, extra: Iterable[str] = ()) -> Iterator[dict[str, Value]]:
        """Points that between them meet every combination of rules: few values of each axis, `extra` axes in full."""
        full = {*extra, *(name for choice in self.chosen for name in choice.over)}
        chosen = [[(axis.name, value) for value in self.telling_values(axis, axis.name in full)] for axis in self.axes]
        shape = [len(options) for options in chosen]
        size = math.prod(shape)
        for flat in np.unique(np.linspace(0, size - 1, min(size, MAX_REPRESENTATIVES)).astype(int)):
            positions = np.unravel_index(int(flat), shape)
            yield dict(options[int(i)] for options, i in zip(chosen, positions, strict=True))

    def telling_values(self, axis: Axis, full: bool = False) -> tuple[Value, ...]:
        """All values of `axis` where `full`, else those that rules mention and one that they do not."""
        if full:
            return axis.values
        mentioned: frozenset[str] = frozenset().union(*(rule.match.get(axis.name, frozenset()) for rule in self.rules))
        others = [value for value in axis.values if text_label(value) not in mentioned][:1]
        return (*(value for value in axis.values if text_label(value) in mentioned), *others)

    # a new space: the one of the phase stays without the choice, so that it can be planned again
    def with_chosen(self, *choices: Chosen) -> CaseSpace:
        """The same space with more parameters that are given by tables."""
        return replace(self, chosen=(*self.chosen, *choices))

    def dependence(self, parameter: str) -> tuple[str, ...]:
        """The axes on which the dependent `parameter` depends by rules and tables, in the order of the axes."""
        names = {name for rule in self.rules if parameter in rule.set for name in rule.match}
        names |= {name for choice in self.chosen if choice.name == parameter for name in choice.over}
        return tuple(name for name in self.names if name in names)

    @property
    def followers(self) -> tuple[str, ...]:
        """Dependent parameters, set by rules or tables, in order of first mention; an axis that has a table is none."""
        mentioned = [name for rule in self.rules for name in rule.set] + [choice.name for choice in self.chosen]
        return tuple(name for name in dict.fromkeys(mentioned) if name not in self.names)
