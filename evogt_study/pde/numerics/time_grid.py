"""Time steps, the steps whose states are observed, and the trajectory of observed states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics.arrays import Array

_MAX_STEPS = 1_000_000
"""Largest number of time steps.  All loads are in memory at once: 8 MB for each retained function."""


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Observed times (S,) and the coefficients alpha there, (S, r)."""

    times: Array
    coefficients: Array
    energies: Array | None = None

    def at(self, times: Array) -> Trajectory:
        return Trajectory(times, self.coefficients[np.searchsorted(self.times, times)], self.energies)


@dataclass(frozen=True)
class TimeGrid:
    """`steps` steps of size dt = final_time / steps, and the numbers of the saved steps."""

    final_time: float  # counted from `start`
    steps: int
    saved: tuple[int, ...]
    start: float = 0.0

    @property
    def dt(self) -> float:
        return self.final_time / self.steps

    @property
    def midpoints(self) -> Array:
        """Times t_{n+1/2}, (steps,)."""
        return np.asarray(self.start + (np.arange(self.steps) + 0.5) * self.dt, dtype=np.float64)

    @cached_property  # used in keys and in each march
    def observed(self) -> tuple[int, ...]:
        """The saved steps with the first and the last step."""
        return tuple(sorted({0, self.steps, *self.saved}))

    @property
    def observed_times(self) -> Array:
        return self.times_of(self.observed)

    @property
    def saved_times(self) -> Array:
        return self.times_of(self.saved)

    @property
    def saved_positions(self) -> list[int]:
        """Positions of the saved steps among the observed steps."""
        position = {step: number for number, step in enumerate(self.observed)}
        return [position[step] for step in self.saved]

    def times_of(self, steps: tuple[int, ...]) -> Array:
        # in this order the last one is final_time exactly
        return np.asarray(self.start + np.asarray(steps) / self.steps * self.final_time)

    @property
    def step_times(self) -> Array:
        """The start and the ends of all steps, (steps + 1,)."""
        return self.times_of(tuple(range(self.steps + 1)))

    def observe(self, states: Iterable[Array]) -> Array:
        """Select the observed states from the states at the start and after each step, (S, r)."""
        wanted = set(self.observed)
        return np.stack([state.copy() for step, state in enumerate(states) if step in wanted])

    def positions_of(self, times: Array) -> npt.NDArray[np.intp]:
        """Return the positions of `times` among the observed times, which they equal up to rounding."""
        return np.searchsorted(self.observed_times, times - 1e-9 * self.final_time)

    def refined(self, dt: float) -> TimeGrid:
        """Return the grid of another step size with equal observed times.  Raises ParameterError."""
        try:
            return TimeGrid.of(self.final_time, dt, tuple(self.observed_times))
        except ParameterError as error:
            wanted = f"a step that meets final_time = {self.final_time:g} and all saved times"
            raise ParameterError("reference_dt", wanted, dt, remedy=f"use e.g. dt = {self.dt:g}") from error

    # 1e-9 of rounding is admitted in times that are written in decimals, and no more: a step is never bent to fit
    @staticmethod
    def of(final_time: float, dt: float, times: int | tuple[float, ...] | None = None) -> TimeGrid:
        """Return the grid of step `dt` that saves all steps, a number of evenly spaced times, or increasing `times`."""
        steps = count_steps(final_time, dt)
        if times is None:
            return TimeGrid(final_time, steps, tuple(range(steps + 1)))
        if isinstance(times, int):
            if times < 2 or steps % (times - 1):
                raise ParameterError(
                    "times",
                    f"a count n >= 2 for which n - 1 divides the {steps} steps",
                    times,
                    remedy=f"use e.g. {_find_divisor(steps, times - 1) + 1}, or a list of times",
                )
            return TimeGrid(final_time, steps, tuple(range(0, steps + 1, steps // (times - 1))))
        saved = tuple(_find_step(t, final_time, steps) for t in times)
        if list(saved) != sorted(set(saved)):
            raise ParameterError("times", "increasing and different", list(times))
        return TimeGrid(final_time, steps, saved)


def count_steps(final_time: float, dt: float) -> int:
    """Return final_time / dt if it is an integer up to rounding.  Raises ParameterError, which names a dt that fits."""
    if not 0.0 < dt <= final_time * (1.0 + 1e-9):
        raise ParameterError("dt", f"in (0, final_time = {final_time:g}]", dt)
    if not final_time / dt <= _MAX_STEPS:
        raise ParameterError("dt", f"such that at most {_MAX_STEPS:,} steps make final_time = {final_time:g}", dt)
    steps = round(final_time / dt)
    # Decimal numbers such as 0.1 are rounded: T/dt is a whole number up to 1e-16 a step, and a run has up to a million
    # steps.
    if abs(steps * dt - final_time) > 1e-9 * final_time:
        raise ParameterError(
            "dt", f"a step that divides final_time = {final_time:g}", dt, remedy=_propose_step(final_time, steps)
        )
    return steps


# Four digits are short to write.  A person accepts up to a quarter more or fewer steps.
def _propose_step(final_time: float, near: int) -> str:
    """Return a step that divides final_time, with few digits if possible."""
    for steps in sorted(range(max(1, near - near // 4), near + near // 4 + 2), key=lambda n: abs(n - near)):
        short = f"{final_time / steps:.4g}"
        if abs(float(short) * steps - final_time) <= 1e-12 * final_time:
            return f"use e.g. {short} ({steps} steps)"
    near = max(near, 1)
    return f"use e.g. {final_time / near:.15g} ({near} steps)"


# Infinity cannot be rounded: -1 marks a time far outside, which is refused below.
def _find_step(t: float, final_time: float, steps: int) -> int:
    step = round(t / final_time * steps) if 0.0 <= t <= 2.0 * final_time else -1
    if not (0 <= step <= steps and abs(step * final_time / steps - t) <= 1e-9 * final_time):
        dt = final_time / steps
        raise ParameterError("times", f"whole numbers of steps dt = {dt:g} in [0, {final_time:g}]", t)
    return step


def _find_divisor(number: int, wanted: int) -> int:
    """Return the divisor of `number` nearest to `wanted`."""
    # Up to ten times the wanted number, so that a message does not try a million numbers.
    divisors = [d for d in range(1, min(number, 10 * max(wanted, 1)) + 1) if number % d == 0]
    return min(divisors, key=lambda d: abs(d - wanted))
