"""Compute the run key of each case of a plan: the hash of everything that determines a run.

`BoundCase.key` is the key of one case.  Here, a million cases that differ in a plain parameter, such as the seed, are
bound once: their setup is hashed once, and each key is then one short hash.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.methods.protocol import BoundCase, Method, hash_setup, make_entry
from evogt_study.schema.values import KEY_DIGITS, Values, json_text
from evogt_study.storage.arrays import SLAB
from evogt_study.study.case_space import Axis, CaseSpace

Keys = npt.NDArray[np.bytes_]
"""Run keys of `KEY_DIGITS` hexadecimal digits each; empty at a point without a case."""


def run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the key of every case, by its number; empty if none is planned."""
    plain = frozenset(method.plain_parameters)
    inner = [i for i, axis in enumerate(space.axes) if plain >= {*axis.parameters} and not space.decides(axis)]
    outer = [i for i in range(len(space.axes)) if i not in inner]
    axes, others = ([space.axes[i] for i in numbers] for numbers in (inner, outer))
    first = {axis.name: axis.values[0] for axis in axes}
    entries = _Entries(axes)
    keys: Keys = np.zeros(space.shape, dtype=f"S{KEY_DIGITS}")
    # plain axes come last, so that all keys of one setup are one stretch
    rows = keys.transpose(outer + inner)  # a view
    for position in np.ndindex(rows.shape[: len(outer)]):
        at = {axis.name: axis.values[i] for axis, i in zip(others, position, strict=True)}
        values = space.resolved(at | first)
        if values is None:
            continue
        if inner:
            _fill_row(rows[(*position, ...)], entries.make_texts(method.bind(values)))
        else:
            rows[position] = method.bind(values).key
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


class _Entries:
    """The entries of the parameters along some axes in the texts of run keys, made once for all setups."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = axes
        self.names = {name for axis in axes for name in axis.parameters}
        self.known: dict[tuple[str, str], list[bytes]] = {}

    def make_texts(self, case: BoundCase) -> Iterator[bytes]:
        """The texts, as in `BoundCase.key`, for all combinations of the values of these axes, in C order."""
        plain, defaults = case.plain, case.defaults
        fixed = [name for name in plain if name not in self.names]
        # b"", since an itemgetter of one position gives no tuple
        start = hash_setup(case.setup), b"", *(make_entry(name, plain[name], defaults) for name in fixed)
        parts: list[list[tuple[bytes, ...]]] = [[start]]
        names = ["", "", *fixed]
        for axis in self.axes:
            used = [name for name in axis.parameters if name in plain]
            columns = [self.make_column(name, axis, defaults) for name in used]
            parts.append(list(zip(*columns, strict=True)) if used else [()] * len(axis.values))
            names += used
        in_order = itemgetter(*sorted(range(len(names)), key=names.__getitem__))
        combinations = map(tuple, map(itertools.chain.from_iterable, itertools.product(*parts)))
        return map(b"".join, map(in_order, combinations))

    def make_column(self, name: str, axis: Axis, defaults: Values) -> list[bytes]:
        """The entry of a parameter at each point of an axis."""
        key = name, json_text(defaults[name]) if name in defaults else ""
        if key not in self.known:
            self.known[key] = [make_entry(name, value, defaults) for value in axis.parameters[name]]
        return self.known[key]
