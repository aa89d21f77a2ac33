"""The cases of a plan divided into parts, of which every task makes the same: it follows from the plan alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from evogt_study.study.plan import Order, Plan
from evogt_study.workers.batch_size import BATCH_SECONDS

MOST_PARTS = 4_000
"""Parts of a plan: each is two files, and folders of some thousand are listed in milliseconds by any file server.

Some hundred tasks have ten and more each, so that they end together.
"""


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a plan, in the order in which its cases are computed."""

    plan: Plan

    @cached_property
    def order(self) -> Order:
        """All points of the plan, in order."""
        return self.plan.order

    @cached_property
    def size(self) -> int:
        """Points of a part: worth a batch of Dask's where that is known beforehand, whole groups that share stages."""
        least = math.ceil(self.plan.space.size / MOST_PARTS)
        size = max(least, round(BATCH_SECONDS / self.plan.longest) if self.plan.longest else 1)
        group = self.plan.group
        return -(-size // group) * group if group <= 2 * size else size

    @property
    def count(self) -> int:
        """Number of parts."""
        return math.ceil(len(self.order) / self.size)

    def cases(self, part: int) -> Order:
        """Numbers of a part's cases."""
        return self.order[part * self.size : (part + 1) * self.size]

    @property
    def digest(self) -> str:
        """Name of this division: equal for tasks that mean the same by the number of a part."""
        text = f"{self.plan.phase} {self.size} ".encode()
        keys: npt.NDArray[np.bytes_] = self.plan.keys[self.order]
        return blake2b(text + keys.tobytes(), digest_size=8).hexdigest()

    # apart from each other, since tasks that begin together would all try to claim the same
    def turn(self, number: int, of: int) -> list[int]:
        """Parts in the order in which task `number` of `of`, counted from 1, looks at them: from its own share on."""
        begin = (number - 1) * self.count // of
        return [(begin + part) % self.count for part in range(self.count)]
