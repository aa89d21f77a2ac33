"""Stages that the cases of a batch share: each is computed once, and its time is divided among its users."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

KEPT_BYTES = 48 * 2**20
"""Results of stages that a worker keeps, by the size of their arrays; a batch has the latest of each stage beside them.

A reference and matrices that took a second have a few MB.  The latest is what the next case will most likely ask for,
since neighbours share what is large: the retained space of 320 features on 8,000 nodes in three dimensions is 82 MB
with its gradients.  An idle worker would hold that for nothing.
"""
LARGE_BYTES = 8 * 2**20
"""Bytes from which a result is not kept while its successor is computed, where memory is short.

A square matrix of 1,024 features has this size; larger results have a row for each quadrature node.
"""
LEAST_BYTES = 32 * 2**10
"""Bytes that a small result counts as, so that no more than 1,500 are there to be looked through."""
ROOM = 0.25
"""Part of `KEPT_BYTES` that is made free at once, so that results are looked through every few runs."""

Name = tuple[str, Hashable]
"""A stage and a key of it."""


# by identity: to hash a key takes as long as some of the smaller stages
@dataclasses.dataclass(eq=False, slots=True)
class _Kept:
    """A stage's result, the bytes of its arrays, the seconds that it took, and the number of its computation.

    number: None of an earlier batch's.  ingredient: whether only other stages have asked for it so far.  rank and used:
    by which results are forgotten, its worth and when it was last asked for.
    """

    name: Name
    result: Any
    size: int
    seconds: float
    number: int | None
    ingredient: bool
    rank: float = 0.0
    used: int = 0


class _Frame:
    """A stage that is being computed: the numbers of those that it asked for, and the seconds they took within it."""

    def __init__(self) -> None:
        self.parts: set[int] = set()
        self.seconds = 0.0


class StageCache:
    """A `Share` that remembers results of stages, and who used what they cost.

    A stage may ask for others; who uses it uses them too.  `calls` counts computations by stage.
    """

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self._kept: dict[Name, _Kept] = {}
        self._bytes, self._forgotten = 0, 0.0
        self._latest: dict[str, _Kept] = {}
        self._large: dict[str, Hashable] = {}
        self._uses = itertools.count()
        self._costs: list[float] = []
        self._users: list[set[Hashable]] = []
        self._parts: list[set[int]] = []
        self._open: list[_Frame] = []
        self._user: Hashable = None
        self._inside = 0.0
        self._started = time.perf_counter()

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """As `evogt_study.pde.pipeline.Share`."""
        kept = self._kept.get((stage, key))
        if kept is None:
            return self._computed((stage, key), compute)
        kept.ingredient = kept.ingredient and bool(self._open)
        self._use(kept)
        return kept.result  # type: ignore[no-any-return]  # the key determines the stage's type

    # GreedyDual-Size (Cao & Irani 1997): by last use alone a reference, for which each run asks before it makes its
    # features, would be forgotten first, and by cost alone what nobody asks for any more last
    def _use(self, kept: _Kept) -> None:
        """Rank it by its seconds a byte, above what was forgotten last; of two that cost alike the later one."""
        self._latest[kept.name[0]] = kept
        kept.rank, kept.used = self._forgotten + kept.seconds / kept.size, next(self._uses)
        if kept.number is not None:
            self._charge(kept.number)

    def _charge(self, number: int) -> None:
        """The current user, and the stage that is being computed, use this one and its parts."""
        for each in (number, *self._parts[number]):
            self._users[each].add(self._user)
        if self._open:
            self._open[-1].parts |= {number, *self._parts[number]}

    def _computed(self, name: Name, compute: Callable[[], T]) -> T:
        self._make_room(name[0])
        frame = _Frame()
        self._open.append(frame)
        started = time.perf_counter()
        try:
            result = compute()
        except BaseException:
            self._open.pop()
            self._spent(frame.seconds)  # the failed stage's own time counts as the run's
            raise
        self._open.pop()
        seconds = time.perf_counter() - started
        self._spent(seconds)
        self.calls[name[0]] += 1
        number = len(self._costs)
        self._costs.append(seconds - frame.seconds)
        self._users.append(set())
        self._parts.append(frame.parts)
        kept = _Kept(name, result, max(size_of(result), LEAST_BYTES), seconds, number, ingredient=bool(self._open))
        self._kept[name] = kept
        self._bytes += kept.size
        if kept.size >= LARGE_BYTES:
            self._large[name[0]] = name[1]
        self._use(kept)
        self._trim([latest for latest in self._latest.values() if not latest.ingredient])
        return result

    def _spent(self, seconds: float) -> None:
        """Seconds of a stage, within another one or within the run."""
        if self._open:
            self._open[-1].seconds += seconds
        else:
            self._inside += seconds

    def _trim(self, spared: Sequence[_Kept] = ()) -> None:
        """Forget what has the least rank, until `KEPT_BYTES` are left beside what is spared."""
        excess = self._bytes - KEPT_BYTES - sum(kept.size for kept in spared)
        if excess <= 0:
            return
        others = set(self._kept.values()).difference(spared)
        for kept in sorted(others, key=lambda each: (each.rank, each.used)):
            if excess <= -ROOM * KEPT_BYTES:
                return
            self._forgotten = max(self._forgotten, kept.rank)
            excess -= kept.size
            self._drop(kept)

    def _drop(self, kept: _Kept) -> None:
        del self._kept[kept.name]
        self._bytes -= kept.size
        if self._latest.get(kept.name[0]) is kept:
            del self._latest[kept.name[0]]

    def _make_room(self, stage: str) -> None:
        """Drop a stage's latest large result before the next, and what came from it, where too much is kept.

        A result came from another if its key holds the other's, which may have been forgotten since.
        """
        if self._bytes <= KEPT_BYTES or stage not in self._large:
            return
        key = self._large.pop(stage)
        for kept in [kept for kept in self._kept.values() if _holds(kept.name[1], key)]:
            self._drop(kept)

    # what an earlier batch has paid for is free to later ones, so that the times of a batch add up to what it took
    def next_batch(self) -> None:
        """Count and time afresh; what is kept stays, but for what would only fill an idle worker."""
        self.calls.clear()
        self._costs, self._users, self._parts = [], [], []
        self._trim()
        for kept in self._kept.values():
            kept.number = None

    def start(self, user: Hashable) -> None:
        """Charge what is computed from now on to `user`."""
        self._user, self._inside, self._started = user, 0.0, time.perf_counter()

    def own_seconds(self) -> float:
        """Seconds since `start`, those of finished stages left out."""
        return time.perf_counter() - self._started - self._inside

    def shares(self) -> dict[Hashable, float]:
        """Seconds of shared stages by user, each stage's cost divided evenly among its users."""
        seconds: dict[Hashable, float] = defaultdict(float)
        for cost, users in zip(self._costs, self._users, strict=True):
            for user in users:
                seconds[user] += cost / len(users)
        return seconds


def _holds(key: Hashable, part: Hashable) -> bool:
    """Return True where `part` is the key, or among the keys that it is made of."""
    return key == part or (isinstance(key, tuple) and any(_holds(each, part) for each in key))


def size_of(result: Any) -> int:
    """Bytes of the arrays that a stage's result holds, in dataclasses and tuples too."""
    if isinstance(result, np.ndarray):
        return int(result.nbytes)
    if isinstance(result, tuple):
        return sum(map(size_of, result))
    return sum(size_of(getattr(result, name)) for name in _fields(result.__class__))


@cache  # a look at them takes longer than at the arrays
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
