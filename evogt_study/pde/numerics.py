"""Arrays, quadrature rules by name and integers, which are part of run keys, and time steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError

Array = npt.NDArray[np.float64]
RULES = ("gauss_legendre", "composite_midpoint")
TRIANGLES = "triangles"
MAX_NODES = 10_000_000
"""Largest number of nodes of a rule.  An array with one number per node then has 80 MB."""
MAX_GAUSS_POINTS = 2048
"""Largest number of Gauss-Legendre points per direction.  The time to compute n points grows like n^3."""
MAX_REFINEMENTS = 10
"""Largest number of refinements of triangles.  A refinement divides each triangle into four."""
_MAX_DEGREE = 60
"""Largest degree of a rule on triangles.  The rule then has 961 nodes in each triangle."""
COARSEST = 4
"""Number of triangles before refinement that estimates assume for an unknown domain."""
_MAX_STEPS = 1_000_000
"""Largest number of time steps.  The loads of all steps then take 8 MB of memory for each retained function."""


class Labelled:
    """Parameter value with fields that identify it and a text that is its coordinate value in a result."""

    def content(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type]

    @property
    def label(self) -> int | str:
        return str(self)

    @classmethod
    def read(cls, raw: Any) -> Self:
        """Return the parameter value from a table of a study file.  Raises TypeError if the table has other keys."""
        return raw if isinstance(raw, cls) else cls(**raw)


@dataclass(frozen=True)
class QuadratureRule(Labelled):
    """Quadrature rule for each direction of a box.

    Parameters
    ----------
    rule : str
        "gauss_legendre" or "composite_midpoint".
    points : int
        Number of nodes per direction.

    Examples
    --------
    >>> nodes, weights = QuadratureRule("gauss_legendre", 3).on_unit_interval
    >>> round(float(weights @ nodes**4), 12)
    0.2
    """

    rule: str
    points: int

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ParameterError("rule", f"one of {', '.join(RULES)}", self.rule)
        if not isinstance(self.points, int) or self.points < 1:
            raise ParameterError("points", "an integer >= 1", self.points)
        if self.rule == "gauss_legendre" and self.points > MAX_GAUSS_POINTS:
            raise ParameterError("points", f"at most {MAX_GAUSS_POINTS} for gauss_legendre", self.points)

    @property
    def label(self) -> int | str:
        """Number of points if the rule is Gauss-Legendre, else the name of the rule with the number of points."""
        return self.points if self.rule == "gauss_legendre" else str(self)

    def __str__(self) -> str:
        return f"{self.rule}({self.points})"

    @property
    def uniform(self) -> bool:
        """True if the nodes in each direction are equally spaced."""
        return self.rule == "composite_midpoint"

    # More points rather than fewer, because a finer rule shows that this rule is too coarse.
    def make_check_rule(self, dimension: int) -> QuadratureRule:
        """Return a Gauss-Legendre rule with one more point per direction, or one less at the limit, for checks."""
        more = self.points + 1
        allowed = more <= MAX_GAUSS_POINTS and more**dimension <= MAX_NODES
        return QuadratureRule("gauss_legendre", more if allowed else min(self.points, MAX_GAUSS_POINTS) - 1)

    def count(self, dimension: int) -> int:
        return int(self.points**dimension)

    @property
    @lru_cache(maxsize=16)  # noqa: B019  # Gauss-Legendre nodes cost as much as the SVD of a 1-D run
    def on_unit_interval(self) -> tuple[Array, Array]:
        """Nodes and weights on the interval (0, 1), (points,) each."""
        if self.rule == "composite_midpoint":
            return (np.arange(self.points) + 0.5) / self.points, np.full(self.points, 1.0 / self.points)
        nodes, weights = np.polynomial.legendre.leggauss(self.points)
        return (nodes + 1.0) / 2.0, weights / 2.0


@dataclass(frozen=True)
class TriangleRule(Labelled):
    """Rule on the triangles of a domain after `refinements`, exact for polynomials up to `degree`."""

    refinements: int
    degree: int
    uniform: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, most in (("refinements", MAX_REFINEMENTS), ("degree", _MAX_DEGREE)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
                raise ParameterError(name, f"an integer from 0 to {most}", value)

    def content(self) -> dict[str, Any]:
        return {"rule": TRIANGLES, **super().content()}

    def __str__(self) -> str:
        return f"{TRIANGLES}({self.refinements},{self.degree})"

    def count(self, dimension: int) -> int:
        """Return the number of nodes on a domain of `COARSEST` triangles before refinement."""
        return int(COARSEST * 4**self.refinements * (self.degree // 2 + 1) ** 2)

    def make_check_rule(self, dimension: int) -> TriangleRule:
        """Return the rule with a degree higher by two, which checks the results of this rule."""
        return TriangleRule(self.refinements, min(self.degree + 2, _MAX_DEGREE))


Rule = QuadratureRule | TriangleRule
"""Quadrature rule for the directions of a box or for triangles."""


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Nodes and positive weights of a rule on a domain, or on a face with its outward `normals` (Q, d)."""

    nodes: Array
    weights: Array
    faces: Mapping[str, Quadrature] = field(default_factory=dict)
    normals: Array | None = None


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Observed times (S,), and the coefficients alpha at these times, (S, r)."""

    times: Array
    coefficients: Array
    energies: Array | None = None

    def at(self, times: Array) -> Trajectory:
        return Trajectory(times, self.coefficients[np.searchsorted(self.times, times)], self.energies)


@dataclass(frozen=True)
class TimeGrid:
    """Grid of `steps` time steps of size dt = final_time / steps, with the numbers of the saved steps."""

    final_time: float  # counted from `start`
    steps: int
    saved: tuple[int, ...]
    start: float = 0.0

    @property
    def dt(self) -> float:
        return self.final_time / self.steps

    @property
    def midpoints(self) -> Array:
        """Times t_{n+1/2} in the middle of the steps, (steps,)."""
        return np.asarray(self.start + (np.arange(self.steps) + 0.5) * self.dt, dtype=np.float64)

    @cached_property  # stage keys and each march use it
    def observed(self) -> tuple[int, ...]:
        """Numbers of the saved steps and of the first and the last step."""
        return tuple(sorted({0, self.steps, *self.saved}))

    @property
    def observed_times(self) -> Array:
        return self.times_of(self.observed)

    @property
    def saved_times(self) -> Array:
        return self.times_of(self.saved)

    @property
    def saved_positions(self) -> list[int]:
        """Positions of the saved steps in `observed`."""
        return [int(place) for place in np.searchsorted(self.observed, self.saved)]

    def times_of(self, steps: tuple[int, ...]) -> Array:
        # in this order of operations, the last time is exactly final_time
        return np.asarray(self.start + np.asarray(steps) / self.steps * self.final_time)

    @property
    def step_times(self) -> Array:
        """Times at the start and at the end of each step, (steps + 1,)."""
        return self.times_of(tuple(range(self.steps + 1)))

    def observe(self, states: Iterable[Array]) -> Array:
        """Select the observed states, (S, r), from the initial state and the states after each step."""
        wanted = set(self.observed)
        return np.stack([state.copy() for step, state in enumerate(states) if step in wanted])

    def refine(self, dt: float) -> TimeGrid:
        """Return the grid with step `dt` and equal observed times, which must be multiples of `dt`."""
        try:
            return TimeGrid.from_step(self.final_time, dt, tuple(self.observed_times))
        except ParameterError as error:
            wanted = f"a step that divides final_time = {self.final_time:g} and all saved times"
            raise ParameterError("reference_dt", wanted, dt, remedy=f"use e.g. {self.dt:g}") from error

    # Times are decimal numbers, so a relative rounding error of 1e-9 is allowed.  The grid never changes `dt`.
    @staticmethod
    def from_step(final_time: float, dt: float, times: int | tuple[float, ...] | None = None) -> TimeGrid:
        """Return the grid with step `dt` that saves all steps, a number of evenly spaced times, or the listed times."""
        steps = _count_steps(final_time, dt)
        if times is None or isinstance(times, int):
            gaps = steps if times is None else times - 1
            if gaps < 1 or steps % gaps:
                wanted, near = f"a count n >= 2 for which n - 1 divides the {steps} steps", max(gaps, 1)
                # the nearest divisor, searched only up to ten times the number to save time
                divisors = (d for d in range(1, min(steps, 10 * near) + 1) if steps % d == 0)
                remedy = f"use e.g. {min(divisors, key=lambda d: abs(d - gaps)) + 1}, or a list of times"
                raise ParameterError("times", wanted, times, remedy=remedy)
            return TimeGrid(final_time, steps, tuple(range(0, steps + 1, steps // gaps)))
        # -1 marks times far outside of the interval, because round() fails for infinity
        saved = tuple(round(t / final_time * steps) if 0.0 <= t <= 2.0 * final_time else -1 for t in times)
        for step, t in zip(saved, times, strict=True):
            if not (0 <= step <= steps and abs(step * final_time / steps - t) <= 1e-9 * final_time):
                raise ParameterError("times", f"multiples of dt = {final_time / steps:g} in [0, {final_time:g}]", t)
        if list(saved) != sorted(set(saved)):
            raise ParameterError("times", "increasing and different", list(times))
        return TimeGrid(final_time, steps, saved)


def _count_steps(final_time: float, dt: float) -> int:
    """Return final_time / dt.  Raises ParameterError with a valid step if the quotient is not an integer."""
    if not 0.0 < dt <= final_time * (1.0 + 1e-9):
        raise ParameterError("dt", f"in (0, final_time = {final_time:g}]", dt)
    if not final_time / dt <= _MAX_STEPS:
        raise ParameterError("dt", f"at least final_time / {_MAX_STEPS:,} for final_time = {final_time:g}", dt)
    steps = round(final_time / dt)
    # Decimal numbers such as 0.1 have rounding errors of about 1e-16 per step, and a run has up to a million steps.
    if abs(steps * dt - final_time) <= 1e-9 * final_time:
        return steps
    # Propose a step of four digits, with up to a quarter more or fewer steps.
    for near in sorted(range(max(1, steps - steps // 4), steps + steps // 4 + 2), key=lambda n: abs(n - steps)):
        proposal = f"{final_time / near:.4g}"
        if abs(float(proposal) * near - final_time) <= 1e-12 * final_time:
            break
    else:
        near = max(steps, 1)
        proposal = f"{final_time / near:.15g}"
    wanted = f"a step that divides final_time = {final_time:g}"
    raise ParameterError("dt", wanted, dt, remedy=f"use e.g. {proposal} ({near} steps)")
