"""Cache the stages that cases share, and divide the time of each stage among its cases."""

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
"""Size of the results of stages that a worker keeps, by their arrays.  A batch also keeps the latest of each stage.

A reference, and matrices that took a second, have a few MB.  The next case most likely needs the latest result, since
neighbours share large ones: the retained space of 320 features on 8,000 nodes in three dimensions has 82 MB with its
gradients.  An idle worker does not keep it.
"""
LARGE_BYTES = 8 * 2**20
"""Size of a result that is not kept while its successor is computed, if memory is short.

A square matrix of 1,024 features has this size; larger results have a row for each quadrature node.
"""
LEAST_BYTES = 32 * 2**10
"""Size that a small result counts as, so that at most 1,500 results are searched."""
ROOM = 0.25
"""Part of `KEPT_BYTES` that is freed at once, so that results are searched only every few runs."""
Name = tuple[str, Hashable]
"""A stage and a key of it."""


class StageCache:
    """A cache of the results of stages, which divides their cost among their users.

    A stage may need other stages; its users use them too.  `calls` counts computations by stage.
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
        """Return the result of a stage, computed once for each key."""
        kept = self._kept.get((stage, key))
        if kept is None:
            return self._computed((stage, key), compute)
        kept.ingredient = kept.ingredient and bool(self._open)
        self._use(kept)
        return kept.result  # type: ignore[no-any-return]  # the key determines the stage's type

    # GreedyDual-Size (Cao & Irani 1997): by last use alone, a reference that each run needs before its features
    # would be dropped first; by cost alone, results that no run needs would be dropped last
    def _use(self, kept: _Kept) -> None:
        """Rank a result by its seconds for each byte, above the latest dropped result; a later use wins a tie."""
        self._latest[kept.name[0]] = kept
        kept.rank, kept.used = self._forgotten + kept.seconds / kept.size, next(self._uses)
        if kept.number is not None:
            self._charge(kept.number)

    def _charge(self, number: int) -> None:
        """Charge this computation and its parts to the current user, and to the stage that is being computed."""
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
            self._spent(frame.seconds)  # the time of the failed stage counts for the run
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
        """Add the seconds of a stage to the outer stage, or to the run."""
        if self._open:
            self._open[-1].seconds += seconds
        else:
            self._inside += seconds

    def _trim(self, spared: Sequence[_Kept] = ()) -> None:
        """Drop results with the lowest rank until `KEPT_BYTES` are left beside the spared results."""
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
        """Drop the latest large result of a stage, with the results made from it, if too much is kept.

        A result was made from another if its key contains the key of the other.
        """
        if self._bytes <= KEPT_BYTES or stage not in self._large:
            return
        key = self._large.pop(stage)
        for kept in [kept for kept in self._kept.values() if _holds(kept.name[1], key)]:
            self._drop(kept)

    # stages of earlier batches are free for later ones, so that the times of a batch add up to its duration
    def next_batch(self) -> None:
        """Restart the counts and times for the next batch, and drop results beyond `KEPT_BYTES`."""
        self.calls.clear()
        self._costs, self._users, self._parts = [], [], []
        self._trim()
        for kept in self._kept.values():
            kept.number = None

    def start(self, user: Hashable) -> None:
        """Charge later computations to `user`."""
        self._user, self._inside, self._started = user, 0.0, time.perf_counter()

    def own_seconds(self) -> float:
        """Seconds since `start`, without finished stages."""
        return time.perf_counter() - self._started - self._inside

    def shares(self) -> dict[Hashable, float]:
        """Seconds of shared stages by user, each stage's cost divided evenly among its users."""
        seconds: dict[Hashable, float] = defaultdict(float)
        for cost, users in zip(self._costs, self._users, strict=True):
            for user in users:
                seconds[user] += cost / len(users)
        return seconds


# eq by identity: hashing a key takes as long as a small stage
@dataclasses.dataclass(eq=False, slots=True)
class _Kept:
    """The result of a stage, the size of its arrays, its seconds, and the number of its computation.

    number: None for an earlier batch.  ingredient: only other stages have used it so far.  rank, used: its worth and
    its last use, which decide which result is dropped first.
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
    """A stage that is being computed: the numbers and seconds of the stages that it needed."""

    def __init__(self) -> None:
        self.parts: set[int] = set()
        self.seconds = 0.0


def _holds(key: Hashable, part: Hashable) -> bool:
    """Return True if `part` is the key or one of its parts."""
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
