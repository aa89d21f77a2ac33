"""Stages that the cases of a batch share: each is computed once, and its time is divided among its users."""

from __future__ import annotations

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

KEPT = {"problem": 64, "reference": 64, "diffusion check": 64}
"""Results kept of a stage, `KEPT_OTHERWISE` of others.  Batches are walked so that neighbours share what is large; the
problems of one study alternate, but are small."""
KEPT_OTHERWISE = 2


class SharedStages:
    """A `Share` that remembers the last few results of each stage, and who used what they cost.

    `calls` counts computations by stage, for tests and for `seconds`.
    """

    def __init__(self) -> None:
        self.calls: dict[str, int] = defaultdict(int)
        self._kept: dict[str, OrderedDict[Hashable, tuple[Any, int]]] = defaultdict(OrderedDict)
        self._costs: list[float] = []
        self._users: list[set[Hashable]] = []
        self._user: Hashable = None
        self._inside = 0.0

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """As `evogt_study.method.solve.Share`."""
        kept = self._kept[stage]
        if key in kept:
            result, number = kept[key]
            kept.move_to_end(key)
            self._users[number].add(self._user)
            return result  # type: ignore[no-any-return]  # the key determines the stage's type
        started = time.perf_counter()
        result = compute()
        seconds = time.perf_counter() - started
        self._inside += seconds
        self.calls[stage] += 1
        self._costs.append(seconds)
        self._users.append({self._user})
        kept[key] = (result, len(self._costs) - 1)
        if len(kept) > KEPT.get(stage, KEPT_OTHERWISE):
            kept.popitem(last=False)
        return result

    def charge(self, user: Hashable, function: Callable[[], T]) -> tuple[T, float]:
        """Call `function` on behalf of `user`; its result and its own seconds, shared stages left out."""
        self._user, self._inside = user, 0.0
        started = time.perf_counter()
        result = function()
        return result, time.perf_counter() - started - self._inside

    def shares(self) -> dict[Hashable, float]:
        """Seconds of shared stages by user, each stage's cost divided evenly among its users."""
        seconds: dict[Hashable, float] = defaultdict(float)
        for cost, users in zip(self._costs, self._users, strict=True):
            for user in users:
                seconds[user] += cost / len(users)
        return seconds
