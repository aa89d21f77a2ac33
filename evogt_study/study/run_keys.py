"""Compute the run key of each case of a plan: the hash of everything that determines a run.

`BoundCase.key` is the key of one case.  Here, cases that differ in plain parameters, such as the seed, are bound once:
their setup is hashed once, and each key is then one short hash.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.methods.protocol import BoundCase, KnownTexts, Method, make_entry
from evogt_study.schema.values import KEY_DIGITS, Value, Values, json_text, text_hash
from evogt_study.storage.arrays import SLAB
from evogt_study.study.case_space import BLOCK, Axis, CaseSpace

MAX_PATTERNS = 16
"""Patterns of texts that are kept: one for each set of plain parameters with defaults, as each dictionary has."""
Keys = npt.NDArray[np.bytes_]
"""Run keys of `KEY_DIGITS` hexadecimal digits each; empty at a point without a case."""


# 20 of SHA-256's 64 digits: two of 10 million different cases share a key with a probability of 4e-11
def run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the key of every case, by its number; empty if none is planned."""
    every = [_KeyAxis(axis, method, space) for axis in space.axes]
    inner = [each for each in every if each.is_plain]
    bound = [each for each in every if not each.is_plain]
    # plain axes come last, so that all keys of one setup follow each other
    places = [space.names.index(each.name) for each in bound + inner]
    texts = itertools.chain.from_iterable(_make_texts(method, space, bound, inner))
    keys: Keys = np.zeros(space.size, dtype=f"S{KEY_DIGITS}")
    for start in range(0, space.size, SLAB):
        digests = b"".join([hashlib.sha256(text).digest() for text in itertools.islice(texts, SLAB)])
        found = np.frombuffer(digests, dtype="u1").reshape(-1, 32)[:, : KEY_DIGITS // 2].tobytes()
        keys[start : start + SLAB] = np.frombuffer(found.hex().encode(), dtype=keys.dtype)
    keys[keys == hashlib.sha256(b"").hexdigest()[:KEY_DIGITS].encode()] = b""
    return keys.reshape([space.shape[place] for place in places]).transpose(np.argsort(places)).ravel()


class _KeyAxis:
    """An axis: its plain parameters, and which of its points have the same setup.

    plain: the values of the parameters that enter keys unchanged.  alike: a number for each point, which points have in
    common if they differ in plain parameters only.
    """

    def __init__(self, axis: Axis, method: Method, space: CaseSpace) -> None:
        self.name, self.values = axis.name, axis.values
        self.decides, plain = space.decides(axis), method.plain_parameters
        self.columns = list(axis.parameters.items())
        # a list of a plain parameter may not fit to the setup
        self.plain: Mapping[str, Sequence[Value]] = {
            name: values
            for name, values in self.columns
            if not self.decides and name in plain and not any(isinstance(value, tuple) for value in values)
        }
        others = [list(map(json_text, values)) for name, values in self.columns if name not in self.plain]
        self.is_plain = not self.decides and not others
        known: dict[object, int] = {}
        points = zip(*others, strict=True) if others and not self.decides else range(len(axis.values))
        self.alike = [known.setdefault(point, len(known)) for point in points]

    def make_entries(self, plain: Values, defaults: Values) -> list[tuple[bytes, ...]]:
        """The entries of its parameters among `plain` at each point."""
        columns = [
            [make_entry(name, value, defaults) for value in values]
            for name, values in self.plain.items()
            if name in plain
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.values)


def _make_texts(
    method: Method, space: CaseSpace, bound: Sequence[_KeyAxis], inner: Sequence[_KeyAxis]
) -> Iterator[Iterable[bytes]]:
    """The texts, as in `BoundCase.key`, at each point of the `bound` axes for all points of the `inner` axes."""
    missing = [b""] * math.prod(len(each.values) for each in inner)
    outlines: dict[tuple[int, ...], tuple[_Pattern, bytes] | None] = {}
    patterns: dict[tuple[object, ...], _Pattern] = {}
    # values that rules give are the same along axes on which nothing depends
    free = [(i, name, values) for i, each in enumerate(bound) if not each.decides for name, values in each.columns]
    deciding = [(i, each.name, each.values) for i, each in enumerate(bound) if each.decides]
    first = {each.name: each.values[0] for each in (*bound, *inner) if not each.decides}
    known: tuple[list[int], Values | None] = [], space.resolve(first) if not deciding else None
    numbers = [each.alike for each in bound]
    are_different = all(len(set(alike)) == len(alike) for alike in numbers)  # no outline comes again
    for places in itertools.product(*[range(len(each.values)) for each in bound]):
        alike = places if are_different else tuple(map(operator.getitem, numbers, places))
        if are_different or alike not in outlines:
            if len(outlines) >= BLOCK or are_different:  # bounded, since a study may have as many setups as cases
                outlines.clear()
            if deciding and known[0] != (at := [places[i] for i, _, _ in deciding]):
                known = at, space.resolve(first | {name: values[places[i]] for i, name, values in deciding})
            rest = known[1]
            outlines[alike] = None
            if rest is not None:
                values = {**rest, **{name: column[places[i]] for i, name, column in free}}
                outlines[alike] = _outline(method.bind(values), patterns, bound, inner)
        found = outlines[alike]
        yield missing if found is None else found[0].fill(found[1], places)


def _outline(
    case: BoundCase, patterns: dict[tuple[object, ...], _Pattern], bound: Sequence[_KeyAxis], inner: Sequence[_KeyAxis]
) -> tuple[_Pattern, bytes]:
    """The pattern of a case, and its text without the entries of parameters along the axes."""
    plain, defaults = case.plain, case.defaults
    key = id(defaults) if defaults else 0, *plain
    if key not in patterns:
        if len(patterns) >= MAX_PATTERNS:
            patterns.clear()
        patterns[key] = _Pattern(plain, defaults, bound, inner)
    pattern = patterns[key]
    return pattern, text_hash(case.setup).encode() + pattern.outline % tuple(pattern.entries(plain))


class _Pattern:
    """The texts of cases with the same plain parameters and defaults.

    An outline is filled in three times: with the entries of a case, of a point of the bound axes, and of a point of the
    inner axes.  Each time doubles the signs of what comes later.
    """

    def __init__(self, plain: Values, defaults: Values, bound: Sequence[_KeyAxis], inner: Sequence[_KeyAxis]) -> None:
        self.defaults = defaults  # kept, so that no others have their number
        outer, last = ([name for each in axes for name in each.plain if name in plain] for axes in (bound, inner))
        signs = dict.fromkeys(outer, b"%%b") | dict.fromkeys(last, b"%%%%b")
        self.outline = b"".join([signs.get(name, b"%b") for name in sorted(plain)])
        self.entries = KnownTexts(
            sorted(plain.keys() - signs.keys()),
            lambda name, value: make_entry(name, value, defaults).replace(b"%", b"%%%%"),
        )
        self.has_outer = bool(outer)
        self.sort_outer, self.sort_last = _sorter(outer), _sorter(last)
        self.outer = [
            [tuple([entry.replace(b"%", b"%%") for entry in point]) for point in each.make_entries(plain, defaults)]
            for each in bound
        ]
        self.last = [each.make_entries(plain, defaults) for each in inner]
        self.kept = list(self._combine()) if math.prod(map(len, self.last)) <= SLAB else None

    def _combine(self) -> Iterator[tuple[bytes, ...]]:
        """The entries along the inner axes at each point, in C order."""
        return map(self.sort_last, map(itertools.chain.from_iterable, itertools.product(*self.last)))

    def fill(self, outline: bytes, places: Sequence[int]) -> Iterator[bytes]:
        """The texts of a point of the bound axes, from its outline."""
        found: tuple[bytes, ...] = ()
        if self.has_outer:
            found = self.sort_outer(itertools.chain.from_iterable(map(operator.getitem, self.outer, places)))
        return map((outline % found).__mod__, self.kept or self._combine())


def _sorter(names: Sequence[str]) -> Callable[[Iterable[bytes]], tuple[bytes, ...]]:
    """A function that sorts entries, one for each name, by these names."""
    places = sorted(range(len(names)), key=names.__getitem__)
    get: Any = operator.itemgetter(*places) if len(places) > 1 else tuple
    return tuple if places == list(range(len(names))) else lambda entries: get(tuple(entries))
