"""Compute the run key of each case of a plan: the hash of everything that determines a run.

`BoundCase.key` is the key of one case.  Here, a million cases that differ in plain parameters, such as the seed, are
bound once: their setup is hashed once, and each key is then one short hash.  Parameters that enter a setup separately
are bound once for each of their values, and setups are put together from their texts.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.methods.protocol import BoundCase, KnownTexts, Method, hash_setup, make_entry
from evogt_study.schema.values import KEY_DIGITS, Value, Values, is_number, json_text
from evogt_study.storage.arrays import SLAB
from evogt_study.study.case_space import Axis, CaseSpace

MAX_PATTERNS = 16
"""Patterns of texts that are kept: one for each set of plain parameters with defaults, as each dictionary has."""
Keys = npt.NDArray[np.bytes_]
"""Run keys of `KEY_DIGITS` hexadecimal digits each; empty at a point without a case."""


def run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the key of every case, by its number; empty if none is planned."""
    plain = frozenset(method.plain_parameters)
    known = plain.union(*method.separate_parameters)
    free = [axis for axis in space.axes if known >= {*axis.parameters} and not space.decides(axis)]
    inner = [axis for axis in free if plain >= {*axis.parameters}]
    units = _units([axis for axis in free if axis not in inner], method)
    bound = [axis for axis in space.axes if axis not in free]
    others = [axis for unit in units for axis in unit.axes] + inner
    first = {axis.name: axis.values[0] for axis in others}
    texts = _Texts(method, units, inner)
    names, size = [axis.name for axis in bound], math.prod(len(axis.values) for axis in others)
    keys: Keys = np.zeros(space.shape, dtype=f"S{KEY_DIGITS}")
    # plain axes come last, so that all keys of one setup are one stretch
    rows = keys.transpose([space.names.index(axis.name) for axis in bound + others])  # a view
    positions: Iterable[Any] = itertools.product(*map(range, rows.shape[: len(bound)]))
    for position, point in zip(positions, itertools.product(*[axis.values for axis in bound]), strict=True):
        values = space.resolved({**first, **dict(zip(names, point, strict=True))})
        if values is None:
            continue
        made = texts.make(values)
        if size > 1:
            _fill_row(rows[(*position, ...)], made)
        else:
            rows[position] = hashlib.sha256(*made).hexdigest()[:KEY_DIGITS]
    return keys.ravel()


# 20 of SHA-256's 64 digits: two of 10 million different cases share a key with a probability of 4e-11
def _fill_row(row: Keys, texts: Iterator[bytes]) -> None:
    """Write the hashes of the texts into `row` in C order, a slab at a time."""
    start = 0
    flat: Any = row.reshape(-1) if row.flags.c_contiguous else row.flat
    while some := list(itertools.islice(texts, SLAB)):
        digests = b"".join([hashlib.sha256(text).digest()[: KEY_DIGITS // 2] for text in some])
        flat[start : start + len(some)] = np.frombuffer(digests.hex().encode(), dtype=row.dtype)
        start += len(some)


class _Unit:
    """Axes whose values decide texts of the setup together: axes with parameters of the same `groups`."""

    def __init__(self, axes: Sequence[Axis], groups: Sequence[frozenset[str]]) -> None:
        self.axes, self.groups = axes, groups
        self.setup_names = sorted(frozenset[str]().union(*groups))

    @cached_property
    def columns(self) -> Mapping[str, Sequence[Value]]:
        """The values of each parameter at the points of the axes, in C order."""
        if len(self.axes) == 1:
            return self.axes[0].parameters
        names = [name for axis in self.axes for name in axis.parameters]
        points = itertools.product(*(zip(*axis.parameters.values(), strict=True) for axis in self.axes))
        return dict(zip(names, zip(*map(itertools.chain.from_iterable, points), strict=True), strict=True))

    def make_setup_entries(self, method: Method, values: Values) -> Iterator[tuple[str, ...]]:
        """The entries of `setup_names` in the setup at each point; "" for a parameter without one."""
        known: dict[tuple[int, ...], tuple[str, ...]] = {}
        for parts in zip(*[self._make_group(method, values, group) for group in self.groups], strict=True):
            key = tuple(map(id, parts))  # equal for points with the same values
            if key not in known:
                found = {name: text for part in parts for name, text in part.items()}
                known[key] = tuple([found.get(name, "") for name in self.setup_names])
            yield known[key]

    def _make_group(self, method: Method, values: Values, group: frozenset[str]) -> Iterator[Mapping[str, str]]:
        """The entries of a group at each point.  Values are bound when they occur for the first time."""
        names = [name for axis in self.axes for name in _deciding(axis, method) if name in group]
        known: dict[tuple[str, ...], Mapping[str, str]] = {}
        for given in zip(*(self.columns[name] for name in names), strict=True):
            texts = tuple(map(json_text, given))  # not the values: 1 and 1.0 are equal
            if texts not in known:
                _, found, _ = method.bind({**values, **dict(zip(names, given, strict=True))}).split_setup()
                known[texts] = {name: f"{entry}," for name, entry in found.items() if name in group}
            yield known[texts]


def _deciding(axis: Axis, method: Method) -> list[str]:
    """The parameters that are not plain numbers.  A plain list may not fit to the setup."""
    plain = method.plain_parameters
    return [name for name, each in axis.parameters.items() if name not in plain or not all(map(is_number, each))]


def _units(axes: Sequence[Axis], method: Method) -> list[_Unit]:
    """Combine the axes that have parameters of the same groups."""
    groups = method.separate_parameters
    units = [_Unit([axis], [group for group in groups if group & {*_deciding(axis, method)}]) for axis in axes]
    for group in groups:
        same = [unit for unit in units if group in unit.groups]
        if len(same) > 1:
            every = dict.fromkeys(group for unit in same for group in unit.groups)
            units = [unit for unit in units if unit not in same]
            units.append(_Unit([axis for unit in same for axis in unit.axes], list(every)))
    return units


class _Pattern:
    """The texts of cases with the same plain parameters, `names`, and defaults."""

    def __init__(self, texts: _Texts, names: Collection[str], defaults: Values) -> None:
        self.along = [name for unit in texts.units for name in unit.columns if name in names]
        inner = [[name for name in axis.parameters if name in names] for axis in texts.inner]
        varied = {*self.along, *itertools.chain.from_iterable(inner)}
        self.fixed = [name for name in names if name not in varied]
        self.entries = KnownTexts(lambda name, value: make_entry(name, value, defaults))
        self.parts: list[Sequence[tuple[bytes, ...]]] = []
        for axis, used in zip(texts.inner, inner, strict=True):
            columns = [texts.make_column(name, axis.parameters[name], defaults) for name in used]
            self.parts.append(list(zip(*columns, strict=True)) if used else [()] * len(axis.values))
        self.is_small = math.prod(map(len, self.parts)) <= SLAB
        self.kept = list(self.combine()) if self.is_small else None
        # b"" twice, since an itemgetter of one position gives no tuple
        every = ["", *self.along, "", *self.fixed, *itertools.chain.from_iterable(inner)]
        self.in_order = itemgetter(*sorted(range(len(every)), key=every.__getitem__))

    def combine(self) -> Iterator[tuple[bytes, ...]]:
        """The entries along the inner axes, of all combinations of values."""
        return map(tuple, map(itertools.chain.from_iterable, itertools.product(*self.parts)))

    def fill(self, heads: Iterable[tuple[bytes, ...]], plain: Values) -> Iterator[bytes]:
        """The texts for hashes of setups, with the entries of `along`, of cases with these values."""
        fixed = (b"", *[self.entries(name, plain[name]) for name in self.fixed])

        def join(start: tuple[bytes, ...]) -> Iterable[bytes]:
            several = self.combine() if self.kept is None else self.kept
            return map(b"".join, map(self.in_order, map((start + fixed).__add__, several)))

        if self.along:
            return (text for head in heads for text in join(head))
        # the usual case: all setups have the same texts behind their hashes
        kept = list(join((b"",))) if self.is_small else None
        return (head + tail for (head,) in heads for tail in kept or join((b"",)))


class _Texts:
    """The texts of run keys, made from one case for all points of `units` and of `inner` axes."""

    def __init__(self, method: Method, units: Sequence[_Unit], inner: Sequence[Axis]) -> None:
        self.method, self.units, self.inner = method, units, inner
        self.known: dict[tuple[str, str], list[bytes]] = {}
        self.patterns: dict[tuple[object, ...], tuple[Values, _Pattern]] = {}

    def make(self, values: Values) -> Iterator[bytes]:
        """The texts, as in `BoundCase.key`, for all combinations of the values of these axes, in C order."""
        case = self.method.bind(values)
        plain, defaults = case.plain, case.defaults
        key = id(defaults) if defaults else 0, *plain
        known = self.patterns.get(key)
        if known is None:
            if len(self.patterns) >= MAX_PATTERNS:
                self.patterns.clear()
            # with the defaults, so that no others have their number
            known = self.patterns[key] = defaults, _Pattern(self, tuple(plain), defaults)
        heads = self._make_heads(case, values) if self.units else [(hash_setup(case.setup),)]
        return known[1].fill(heads, plain)

    def _make_heads(self, case: BoundCase, values: Values) -> Iterator[tuple[bytes, ...]]:
        """The hash of each setup, with the entries of the plain parameters along its unit."""
        opening, texts, closing = case.split_setup()
        names = [name for unit in self.units for name in unit.setup_names]
        fixed = [name for name in texts if name not in names]
        order = sorted(range(len(names) + len(fixed)), key=[*fixed, *names].__getitem__)
        entries = tuple(f"{texts[name]}," for name in fixed)
        points = [
            list(zip(unit.make_setup_entries(self.method, values), self._plain_of(unit, case), strict=True))
            for unit in self.units
        ]
        for combination in itertools.product(*points):
            of_setup = entries
            of_case: tuple[bytes, ...] = ()
            for some, others in combination:
                of_setup, of_case = of_setup + some, of_case + others
            whole = "".join([of_setup[i] for i in order])[:-1]
            yield hash_setup(f"{opening}{whole}{closing}"), *of_case

    def _plain_of(self, unit: _Unit, case: BoundCase) -> Iterable[tuple[bytes, ...]]:
        """The entries of plain parameters at each point of a unit."""
        columns = [
            self.make_column(name, values, case.defaults) for name, values in unit.columns.items() if name in case.plain
        ]
        return (
            zip(*columns, strict=True)
            if columns
            else itertools.repeat((), math.prod(len(axis.values) for axis in unit.axes))
        )

    def make_column(self, name: str, values: Sequence[Value], defaults: Values) -> list[bytes]:
        """The entries of a parameter for its values along an axis, made once for all cases."""
        key = name, json_text(defaults[name]) if name in defaults else ""
        if key not in self.known:
            self.known[key] = [make_entry(name, value, defaults) for value in values]
        return self.known[key]
