"""Compute the run key of each case of a plan: the hash of everything that determines a run.

`BoundCase.key` is the key of one case.  Here, a million cases that differ in a copied parameter, such as the seed, are
bound once: the values of the parameter are filled in the text of one case.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.methods.protocol import Method
from evogt_study.schema.values import KEY_DIGITS, StandIn, Value, json_text, stand_in, text_hash
from evogt_study.storage.arrays import SLAB
from evogt_study.study.case_space import Axis, CaseSpace

Keys = npt.NDArray[np.bytes_]
"""Run keys of `KEY_DIGITS` hexadecimal digits each; empty at a point without a case."""
Texts = Sequence[tuple[bytes, ...]]
"""For each point along an axis, the JSON text of each parameter that varies along it."""
_MARK = uuid.uuid4().hex  # a text that no study file contains


# one text for all values of an axis that the content copies: the parameters are bound once for a million seeds
def run_keys(method: Method, space: CaseSpace) -> Keys:
    """Compute the key of every case, by its number; empty if none is planned."""
    try:
        return _run_keys(method, space, method.hints.numbers)
    except _LostError:
        return _run_keys(method, space, frozenset())


def _run_keys(method: Method, space: CaseSpace, numbers: frozenset[str]) -> Keys:
    inner, marks = _marked(space, method.hints.copied, numbers)
    outer = [number for number in range(len(space.axes)) if number not in inner]
    texts = [_texts(space.axes[number].parameters) for number in inner]
    standing = [(name, mark) for name, mark in marks.items() if isinstance(mark, StandIn)]
    keys: Keys = np.zeros(space.shape, dtype=f"S{KEY_DIGITS}")
    # axes whose text is filled in come last, so that all keys of one text are one stretch
    rows = keys.transpose(outer + inner)  # a view
    for position in np.ndindex(rows.shape[: len(outer)]):
        values = space.resolved(_at(space.axes, outer, position) | marks)
        if values is None:
            continue
        text = method.bind(values).content
        for name, mark in standing:  # which a rule or table may have replaced
            if values.get(name) is mark and json_text(mark) not in text:
                raise _LostError
        if not inner:
            rows[position] = text_hash(text)
            continue
        start, row = 0, rows[(*position, ...)]
        flat: Any = row.reshape(-1) if row.flags.c_contiguous else row.flat
        for some in _hashes(text, texts):
            flat[start : start + len(some)] = some
            start += len(some)
    return keys.ravel()


class _LostError(Exception):
    """A number is not in the text: the case does not use it, or converts it."""


def _marked(space: CaseSpace, copied: frozenset[str], numbers: frozenset[str]) -> tuple[list[int], dict[str, Value]]:
    """The axes along which the text is filled in, and the placeholder of each parameter along them."""
    inner: list[int] = []
    marks: dict[str, Value] = {}
    for number, axis in enumerate(space.axes):
        along: dict[str, Value | None] = {}
        for name, values in axis.parameters.items():
            mark = f"{_MARK}:{len(marks) + len(along)}"
            along[name] = mark if name in copied else stand_in(values, mark) if name in numbers else None
        known = {name: mark for name, mark in along.items() if mark is not None}
        # an axis with one value needs no placeholder
        if len(axis.values) > 1 and len(known) == len(along) and not space.decides(axis):
            inner.append(number)
            marks |= known
    return inner, marks


def _texts(parameters: Mapping[str, Sequence[Value]]) -> Texts:
    return list(zip(*([json_text(value).encode() for value in values] for values in parameters.values()), strict=True))


def _at(axes: Sequence[Axis], numbers: Sequence[int], position: Sequence[int]) -> dict[str, Value]:
    return {axes[number].name: axes[number].values[i] for number, i in zip(numbers, position, strict=True)}


# 20 of SHA-256's 64 digits: two of 10 million different cases share a key with a probability of 4e-11
def _hashes(text: str, texts: Sequence[Texts]) -> Iterator[Keys]:
    """Keys of `text` with every combination of `texts` in place of its marks, in C order, a slab at a time."""
    parts = re.split(f'"{_MARK}:([0-9]+)"', text)
    places = [int(place) for place in parts[1::2]]
    contents = _filled([part.encode() for part in parts[::2]], places, texts)
    while some := list(itertools.islice(contents, SLAB)):
        digests = b"".join([hashlib.sha256(content).digest()[: KEY_DIGITS // 2] for content in some])
        yield np.frombuffer(digests.hex().encode(), dtype=f"S{KEY_DIGITS}")


# "%" in a formula's text would be taken for a place: it is doubled
def _filled(parts: Sequence[bytes], places: Sequence[int], texts: Sequence[Texts]) -> Iterator[bytes]:
    """`parts` joined by the text of the parameter at each of `places`, for every combination of the axes' texts."""
    pattern = b"%b".join(part.replace(b"%", b"%%") for part in parts)
    combinations = (tuple(itertools.chain.from_iterable(points)) for points in itertools.product(*texts))
    if list(places) == list(range(sum(len(points[0]) for points in texts))):  # as a rule: each once, in order
        return map(pattern.__mod__, combinations)
    return (pattern % tuple([combination[place] for place in places]) for combination in combinations)
