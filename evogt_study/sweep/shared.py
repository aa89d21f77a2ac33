"""Stages that the cases of a batch share: each is computed once, and its time is divided among its users."""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")

KEPT_BYTES = 128 * 2**20
"""Results of stages that a batch keeps, by the size of their arrays.

More than that stays only while it is the latest of its stage, and until that stage is computed anew, or while it is
small.  What is forgotten is computed again: batches are walked so that neighbours share what is large.
"""
LARGE_BYTES = 8 * 2**20
"""A stage whose result is at least as large is not kept while its successor is computed, where too much is kept."""
SMALL_BYTES = 32 * 2**20
"""Of results smaller than that, so much is kept beside what is large: a matrix that took a second has a megabyte."""
IDLE_BYTES = 32 * 2**20
"""As `KEPT_BYTES`, from one batch to the next."""


class _Kept(NamedTuple):
    """A stage's result, the number of its computation in this batch (None: an earlier one), and its arrays' bytes."""

    result: Any
    number: int | None
    size: int


class SharedStages:
    """A `Share` that remembers results of stages, and who used what they cost.

    `calls` counts computations by stage.
    """

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self._kept: OrderedDict[tuple[str, Hashable], _Kept] = OrderedDict()  # least recently used first
        self._bytes = 0  # of all that is kept; summing would make a batch of small runs quadratic in their number
        self._costs: list[float] = []
        self._users: list[set[Hashable]] = []
        self._user: Hashable = None
        self._inside = 0.0
        self._started = time.perf_counter()

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """As `evogt_study.method.solve.Share`."""
        kept = self._kept.get((stage, key))
        if kept is None:
            return self._computed(stage, key, compute)
        self._kept.move_to_end((stage, key))
        if kept.number is not None:
            self._users[kept.number].add(self._user)
        return kept.result  # type: ignore[no-any-return]  # the key determines the stage's type

    def _computed(self, stage: str, key: Hashable, compute: Callable[[], T]) -> T:
        self._make_room(stage)
        started = time.perf_counter()
        result = compute()
        seconds = time.perf_counter() - started
        self._inside += seconds
        self.calls[stage] += 1
        self._costs.append(seconds)
        self._users.append({self._user})
        self._kept[stage, key] = _Kept(result, len(self._costs) - 1, size_of(result))
        self._bytes += self._kept[stage, key].size
        self._forget()
        return result

    def _make_room(self, stage: str) -> None:
        """Where too much is kept, drop the stage's latest result before the next takes as much, and what came from it.

        A result came from another if its key holds the other's.
        """
        latest = next((key for key in reversed(self._kept) if key[0] == stage), None)
        if latest is None or self._kept[latest].size < LARGE_BYTES or self._excess() <= 0:
            return
        for kept in [kept for kept in self._kept if _holds(kept[1], latest[1])]:
            self._bytes -= self._kept.pop(kept).size

    def _excess(self) -> int:
        return self._bytes - KEPT_BYTES

    def _forget(self, idle: int | None = None) -> None:
        """Drop what was used longest ago until the rest is small enough: `idle` bytes between batches."""
        if idle is not None:
            self._drop(self._bytes - idle, {}, small=True)
        elif self._excess() > 0:
            latest = dict(self._kept.keys())  # the last key of each stage
            self._drop(self._excess(), latest, small=False)
            small = sum(kept.size for kept in self._kept.values() if kept.size < LARGE_BYTES)
            self._drop(min(self._excess(), small - SMALL_BYTES), latest, small=True)

    def _drop(self, excess: int, spared: Mapping[str, Hashable], small: bool) -> None:
        """Drop results that are not `spared`, least recently used first, until they were `excess` bytes."""
        for stage, key in list(self._kept):
            if excess > 0 and spared.get(stage) != key and (small or self._kept[stage, key].size >= LARGE_BYTES):
                size = self._kept.pop((stage, key)).size
                excess, self._bytes = excess - size, self._bytes - size

    def next_batch(self) -> None:
        """Count and time afresh; what is kept stays, but for what would only fill an idle worker."""
        self.calls.clear()
        self._costs, self._users = [], []
        self._kept = OrderedDict((key, kept._replace(number=None)) for key, kept in self._kept.items())
        self._forget(IDLE_BYTES)

    def start(self, user: Hashable) -> None:
        """What is computed from now on is used by `user`."""
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
    """Whether `part` is the key, or among the keys that it is made of."""
    return key == part or (isinstance(key, tuple) and any(_holds(each, part) for each in key))


def size_of(result: Any) -> int:
    """Bytes of the arrays that a stage's result holds, in dataclasses and tuples too."""
    if isinstance(result, np.ndarray):
        return int(result.nbytes)
    if dataclasses.is_dataclass(result):
        return sum(size_of(getattr(result, field.name)) for field in dataclasses.fields(result))
    return sum(map(size_of, result)) if isinstance(result, tuple) else 0
