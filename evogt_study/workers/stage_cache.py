"""Cache the stages that cases share, and divide the time of each stage among its cases."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
KEPT_BYTES = 48 * 2**20
"""Largest size in bytes of the results that a worker keeps.  A batch also keeps the latest result of each stage.

The next case often needs the latest result, because consecutive cases share large results.  The retained space of 320
features on 8,000 nodes in three dimensions has 82 MB with its gradients.
"""
LEAST_BYTES = 32 * 2**10
"""Smallest size in bytes with which a result counts."""


# eq by identity: hashing a key takes as long as a small stage
@dataclasses.dataclass(eq=False, slots=True)
class _Result:
    """Result of a stage.  `inner` is the time in seconds of its `parts`, the stages that it needed."""

    stage: str
    key: Hashable
    is_ingredient: bool
    """True if only other stages have used the result."""
    result: Any = None
    size: int = 0
    seconds: float = 0.0
    inner: float = 0.0
    rank: float = 0.0
    parts: set[_Result] = dataclasses.field(default_factory=set)
    users: set[Hashable] = dataclasses.field(default_factory=set)


class BoundedStageCache:
    """Cache for the results of stages, which divides the time of a stage among the cases that use the stage.

    A case that uses a stage also uses the stages that this stage needs.  `calls` counts the computations of
    each stage.
    """

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self._kept: dict[tuple[str, Hashable], _Result] = {}
        self._latest: dict[str, _Result] = {}
        self._computed: list[_Result] = []
        self._open: list[_Result] = []
        self._bytes, self._dropped_rank = 0, 0.0
        self.start(None)

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of a stage from the cache, or compute the result."""
        found = self._kept.get((stage, key))
        is_new = found is None
        if found is None:
            found = self._compute(stage, key, compute)
        self._kept[stage, key] = self._latest[stage] = found
        found.is_ingredient = found.is_ingredient and bool(self._open)
        # GreedyDual-Size (Cao & Irani 1997): by last use alone, a large result would drop all others, also those that
        # each run needs; by cost alone, results that no run needs would be dropped last
        found.rank = self._dropped_rank + found.seconds / found.size
        for each in (found, *found.parts):
            each.users.add(self._user)
        if self._open:
            self._open[-1].parts |= {found, *found.parts}
        result = found.result
        if is_new:
            self._trim({each for each in self._latest.values() if not each.is_ingredient})
        return result  # type: ignore[no-any-return]  # the key determines the stage's type

    def _compute(self, stage: str, key: Hashable, compute: Callable[[], Any]) -> _Result:
        made = _Result(stage, key, is_ingredient=bool(self._open))
        self._open.append(made)
        started = time.perf_counter()
        try:
            made.result = compute()
            made.seconds = time.perf_counter() - started
        finally:
            self._open.pop()
            seconds = made.seconds or made.inner  # the own time of a stage that failed counts for the run
            if self._open:
                self._open[-1].inner += seconds
            else:
                self._inside += seconds
        self.calls[stage] += 1
        self._computed.append(made)
        made.size = max(size_of(made.result), LEAST_BYTES)
        self._bytes += made.size
        return made

    def _trim(self, spared: set[_Result]) -> None:
        """Drop results with the lowest rank, except `spared`, until their size is at most `KEPT_BYTES`."""
        excess = self._bytes - KEPT_BYTES - sum(each.size for each in spared)
        for each in sorted(set(self._kept.values()) - spared, key=attrgetter("rank")) if excess > 0 else ():
            if excess <= 0:
                return
            self._dropped_rank = max(self._dropped_rank, each.rank)
            del self._kept[each.stage, each.key]
            self._bytes -= each.size
            excess -= each.size
            each.result = None  # its users are still counted
            if self._latest.get(each.stage) is each:
                del self._latest[each.stage]

    # stages of earlier batches are free for later ones, so that the times of a batch add up to its duration
    def next_batch(self) -> None:
        """Restart the counts and times for the next batch, and drop results beyond `KEPT_BYTES`."""
        self.calls.clear()
        for each in self._computed:
            each.parts, each.users = set(), set()
        self._computed = []
        self._trim(set())

    def start(self, user: Hashable) -> None:
        """Count the time of later computations for the case `user`."""
        self._user, self._inside, self._started = user, 0.0, time.perf_counter()

    def own_seconds(self) -> float:
        """Return the seconds since `start`, without the time of stages."""
        return time.perf_counter() - self._started - self._inside

    def seconds_of_stages(self) -> dict[str, float]:
        """Return the seconds of each stage, without the time of the stages that it needed."""
        seconds: dict[str, float] = defaultdict(float)
        for each in self._computed:
            seconds[each.stage] += each.seconds - each.inner
        return seconds

    def shares(self) -> dict[Hashable, float]:
        """Return the seconds of stages by user.  The time of a stage is divided equally among its users."""
        seconds: dict[Hashable, float] = defaultdict(float)
        for each in self._computed:
            for user in each.users:
                seconds[user] += (each.seconds - each.inner) / len(each.users)
        return seconds


def size_of(result: Any) -> int:
    """Return the size in bytes of the arrays in a result, also in dataclasses and tuples."""
    if isinstance(result, np.ndarray):
        return int(result.nbytes)
    if isinstance(result, tuple):
        return sum(map(size_of, result))
    return sum(size_of(getattr(result, name)) for name in _fields(result.__class__))


@cache  # a look at them takes longer than at the arrays
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
