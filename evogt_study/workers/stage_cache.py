"""Stages that the cases of a batch share: each is computed once, and its time is divided among its users."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Set
from typing import Any, NamedTuple, TypeVar

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


class _Kept(NamedTuple):
    """A stage's result, the bytes of its arrays, the seconds that it took, and the number of its computation.

    rank: by which results are forgotten.  number: None of an earlier batch's.  ingredient: whether only other stages
    have asked for it so far.
    """

    result: Any
    size: int
    seconds: float
    rank: float
    number: int | None
    ingredient: bool


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
        self._latest: dict[str, Name] = {}
        self._costs: list[float] = []
        self._users: list[set[Hashable]] = []
        self._parts: list[set[int]] = []
        self._open: list[_Frame] = []
        self._user: Hashable = None
        self._inside = 0.0
        self._started = time.perf_counter()

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """As `evogt_study.numerics.pipeline.Share`."""
        name = (stage, key)
        kept = self._kept.get(name)
        if kept is None:
            return self._computed(name, compute)
        self._latest[stage] = name
        del self._kept[name]  # of two that cost alike the one that was used before goes first
        self._kept[name] = kept._replace(rank=self._rank(kept), ingredient=kept.ingredient and bool(self._open))
        if kept.number is not None:
            self._charge(kept.number)
        return kept.result  # type: ignore[no-any-return]  # the key determines the stage's type

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
        self._charge(number)
        size = max(size_of(result), LEAST_BYTES)
        kept = _Kept(result, size, seconds, 0.0, number, ingredient=bool(self._open))
        self._kept[name] = kept._replace(rank=self._rank(kept))
        self._bytes += size
        self._latest[name[0]] = name
        self._trim({each for each in self._latest.values() if each in self._kept and not self._kept[each].ingredient})
        return result

    def _spent(self, seconds: float) -> None:
        """Seconds of a stage, within another one or within the run."""
        if self._open:
            self._open[-1].seconds += seconds
        else:
            self._inside += seconds

    # GreedyDual-Size (Cao & Irani 1997): by last use alone a reference, for which each run asks before it makes its
    # features, would be forgotten first, and by cost alone what nobody asks for any more last
    def _rank(self, kept: _Kept) -> float:
        """Seconds a byte, above the rank of what was forgotten last."""
        return self._forgotten + kept.seconds / kept.size

    def _trim(self, spared: Set[Name] = frozenset()) -> None:
        """Forget what has the least rank, until `KEPT_BYTES` are left beside what is spared."""
        excess = self._bytes - KEPT_BYTES - sum(self._kept[name].size for name in spared)
        if excess <= 0:
            return
        others = [name for name in self._kept if name not in spared]
        for name in sorted(others, key=lambda each: self._kept[each].rank):
            if excess <= -ROOM * KEPT_BYTES:
                return
            self._forgotten = max(self._forgotten, self._kept[name].rank)
            excess -= self._kept[name].size
            self._drop(name)

    def _drop(self, name: Name) -> None:
        self._bytes -= self._kept.pop(name).size

    def _make_room(self, stage: str) -> None:
        """Drop a large stage's latest result before the next, and what came from it, where too much is kept.

        A result came from another if its key holds the other's.
        """
        latest = self._latest.get(stage)
        if self._bytes <= KEPT_BYTES or latest not in self._kept or self._kept[latest].size < LARGE_BYTES:
            return
        for name in [name for name in self._kept if _holds(name[1], latest[1])]:
            self._drop(name)

    # what an earlier batch has paid for is free to later ones, so that the times of a batch add up to what it took
    def next_batch(self) -> None:
        """Count and time afresh; what is kept stays, but for what would only fill an idle worker."""
        self.calls.clear()
        self._costs, self._users, self._parts = [], [], []
        self._trim()
        self._kept = {name: kept._replace(number=None) for name, kept in self._kept.items()}

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
    if dataclasses.is_dataclass(result):
        return sum(size_of(getattr(result, field.name)) for field in dataclasses.fields(result))
    return sum(map(size_of, result)) if isinstance(result, tuple) else 0
