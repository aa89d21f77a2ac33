"""Stages that the cases of a batch share: each is computed once, and its time is divided among its users."""

from __future__ import annotations

import dataclasses
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")

KEPT_BYTES = 96 * 2**20
"""Large results of stages that a batch keeps, by the size of their arrays.

More than that stays only while it is the latest of its stage, and until that stage is computed anew.  What is forgotten
is computed again: cases are in an order in which neighbours share what is large.

The retained space of 320 features on 8,000 nodes in three dimensions is 82 MB with its gradients: one fits.
"""
SMALL_BYTES = 128 * 2**20
"""As `KEPT_BYTES`, for results that are not large: a matrix that took a second has a megabyte, and a sweep over many
values of epsilon comes back to the references of all of them with the next seed."""
LARGE_BYTES = 8 * 2**20
"""Bytes from which a result counts as large: it is not kept while its successor is computed, where memory is short.

A square matrix of 1,024 features has this size; larger results have a row for each quadrature node.
"""
IDLE_BYTES = 16 * 2**20
"""As `KEPT_BYTES` and `SMALL_BYTES`, from one batch to the next.

A reference and small matrices are worth it; an idle worker would hold anything larger for nothing.
"""
LEAST_BYTES = 512
"""Bytes that a result without arrays counts as, so that it is forgotten at last."""

Name = tuple[str, Hashable]
"""A stage and a key of it."""


class _Kept(NamedTuple):
    """A stage's result, the number of its computation in this batch (None: an earlier one), and its arrays' bytes.

    ingredient: whether only other stages have asked for it so far.
    """

    result: Any
    number: int | None
    size: int
    ingredient: bool = False


class _Pool:
    """Results, least recently used first, and their bytes, counted as they come and go."""

    def __init__(self) -> None:
        self.kept: OrderedDict[Name, _Kept] = OrderedDict()
        self.bytes = 0
        self.latest: dict[str, Hashable] = {}

    def use(self, name: Name, nested: bool) -> _Kept | None:
        """Look up the result of that name, now the latest of its stage; `nested` where another stage asks for it."""
        kept = self.kept.get(name)
        if kept is not None:
            if kept.ingredient and not nested:
                self.kept[name] = kept._replace(ingredient=False)
            self.kept.move_to_end(name)
            self.latest[name[0]] = name[1]
        return kept

    def put(self, name: Name, kept: _Kept) -> None:
        """Keep a result, the latest of its stage."""
        self.kept[name] = kept
        self.latest[name[0]] = name[1]
        self.bytes += kept.size

    def drop(self, names: Iterable[Name]) -> None:
        """Forget these."""
        for name in names:
            self.bytes -= self.kept.pop(name).size

    # the latest of each stage is what the next case will most likely ask for, however long ago it was used
    def trim(self, limit: int, spare: bool = True) -> None:
        """Forget what was used longest ago until `limit` bytes are left.

        The latest of each stage is spared, unless it is an ingredient: what was made of it is there.
        """
        excess, dropped = self.bytes - limit, []
        for name, kept in self.kept.items():
            if excess <= 0:
                break
            if not spare or kept.ingredient or self.latest[name[0]] != name[1]:
                dropped.append(name)
                excess -= kept.size
        self.drop(dropped)


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
        self._large, self._small = _Pool(), _Pool()
        self._costs: list[float] = []
        self._users: list[set[Hashable]] = []
        self._parts: list[set[int]] = []
        self._open: list[_Frame] = []
        self._user: Hashable = None
        self._inside = 0.0
        self._started = time.perf_counter()

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """As `evogt_study.numerics.pipeline.Share`."""
        kept = self._small.use((stage, key), nested=bool(self._open))
        kept = kept or self._large.use((stage, key), nested=bool(self._open))
        if kept is None:
            return self._computed(stage, key, compute)
        if kept.number is not None:
            self._charge(kept.number)
        return kept.result  # type: ignore[no-any-return]  # the key determines the stage's type

    def _charge(self, number: int) -> None:
        """The current user, and the stage that is being computed, use this one and its parts."""
        for each in (number, *self._parts[number]):
            self._users[each].add(self._user)
        if self._open:
            self._open[-1].parts |= {number, *self._parts[number]}

    def _computed(self, stage: str, key: Hashable, compute: Callable[[], T]) -> T:
        self._make_room(stage)
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
        self.calls[stage] += 1
        number = len(self._costs)
        self._costs.append(seconds - frame.seconds)
        self._users.append(set())
        self._parts.append(frame.parts)
        self._charge(number)
        size = max(size_of(result), LEAST_BYTES)
        pool = self._large if size >= LARGE_BYTES else self._small
        pool.put((stage, key), _Kept(result, number, size, ingredient=bool(self._open)))
        self._large.trim(KEPT_BYTES)
        self._small.trim(SMALL_BYTES)
        return result

    def _spent(self, seconds: float) -> None:
        """Seconds of a stage, within another one or within the run."""
        if self._open:
            self._open[-1].seconds += seconds
        else:
            self._inside += seconds

    def _make_room(self, stage: str) -> None:
        """Drop a large stage's latest result before the next, and what came from it, where too much is kept.

        A result came from another if its key holds the other's.
        """
        latest = self._large.latest.get(stage)
        if self._large.bytes <= KEPT_BYTES or (stage, latest) not in self._large.kept:
            return
        for pool in (self._large, self._small):
            pool.drop([name for name in pool.kept if _holds(name[1], latest)])

    # what an earlier batch has paid for is free to later ones, so that the times of a batch add up to what it took
    def next_batch(self) -> None:
        """Count and time afresh; what is kept stays, but for what would only fill an idle worker."""
        self.calls.clear()
        self._costs, self._users, self._parts = [], [], []
        for pool in (self._large, self._small):
            pool.trim(IDLE_BYTES, spare=False)
            pool.kept = OrderedDict((name, kept._replace(number=None)) for name, kept in pool.kept.items())

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
