"""A start by half steps of the implicit Euler rule, which damps what incompatible data excite (Rannacher)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.numerics.galerkin import GalerkinSystem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory

March = Callable[[GalerkinSystem, TimeGrid], Trajectory]


@dataclass(frozen=True)
class Start:
    """The first steps in `implicit_euler_half_steps` half steps of the implicit Euler rule, two of which are one step.

    Raises ParameterError for an odd number, or none.
    """

    implicit_euler_half_steps: int

    def __post_init__(self) -> None:
        count = self.implicit_euler_half_steps
        # even, since two halves make a step of the grid, on which the times to save are
        if not isinstance(count, int) or isinstance(count, bool) or count < 2 or count % 2:
            raise ParameterError("start", "an even number >= 2 of implicit_euler_half_steps", count)

    def content(self) -> dict[str, int]:
        """Its parts, by which it is identified."""
        return {"implicit_euler_half_steps": self.implicit_euler_half_steps}

    @property
    def label(self) -> str:
        """Its short word."""
        return str(self)

    def __str__(self) -> str:
        return f"implicit_euler({self.implicit_euler_half_steps})"

    @staticmethod
    def read(raw: Any) -> Start:
        """The start that a table of a study file means.  Raises ValueError for another shape."""
        if isinstance(raw, Start):
            return raw
        if not isinstance(raw, dict) or set(raw) != {"implicit_euler_half_steps"}:
            raise ValueError
        return Start(**raw)

    def split(self, grid: TimeGrid) -> tuple[TimeGrid, TimeGrid | None]:
        """The grid of the half steps, and that of the steps that are left, whose times begin at zero again.

        Raises ParameterError where there are more half steps than the grid has room for.
        """
        whole = self.implicit_euler_half_steps // 2
        if whole > grid.steps:
            wanted = f"at most {2 * grid.steps} half steps, for {grid.steps} steps"
            raise ParameterError("start", wanted, self.implicit_euler_half_steps)
        head = TimeGrid(whole * grid.dt, 2 * whole, tuple(2 * step for step in grid.observed if step <= whole))
        if whole == grid.steps:
            return head, None
        later = tuple(step - whole for step in grid.observed if step >= whole)
        return head, TimeGrid((grid.steps - whole) * grid.dt, grid.steps - whole, later)

    def march(self, system: GalerkinSystem, grid: TimeGrid, euler: March, after: March) -> Trajectory:
        """The half steps by `euler`, and the steps after them by `after`."""
        head, tail = self.split(grid)
        first = euler(system, head)
        states = dict(zip([step // 2 for step in head.observed], first.coefficients, strict=True))
        if tail is not None:
            whole = grid.steps - tail.steps
            following = after(system.later(head.final_time, first.coefficients[-1]), tail)
            states |= dict(zip([step + whole for step in tail.observed], following.coefficients, strict=True))
        return Trajectory(grid.observed_times, np.stack([states[step] for step in grid.observed]))

    def times(self, grid: TimeGrid, euler: Callable[[TimeGrid], Array], after: Callable[[TimeGrid], Array]) -> Array:
        """The times of both parts."""
        head, tail = self.split(grid)
        return np.concatenate([euler(head), *([] if tail is None else [head.final_time + after(tail)])])
