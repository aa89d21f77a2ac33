"""Finite differences on a uniform grid, with every linear solve diagonalised by the discrete sine transform.

    u_t = nu Delta_h u - F'(u) + f,    u = 0 on the boundary,    n interior points per direction, h = 1/(n + 1)

Delta_h is the (2d + 1)-point Laplacian, whose eigenvectors are products of sines: -Delta_h has the eigenvalues
sum_l 4/h^2 sin^2(pi k_l h/2).  The time step is the one of the method that it is a reference for: the stabilised
semi-implicit one (eq:ac_scheme), or the implicit midpoint rule for a linear problem (eq:im_retained).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import numpy as np
import scipy  # which imports its parts when they are first used: workers start sooner

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains.box import check_domain, tensor_points
from evogt_study.pde.galerkin.problem import Problem, check_terms
from evogt_study.pde.galerkin.system import split_times
from evogt_study.pde.integrators import ImplicitMidpoint, Integrator, StabilizedSemiImplicit
from evogt_study.pde.numerics import Array, TimeGrid
from evogt_study.pde.pipeline import Reference

_MAX_POINTS = 4_000_000
"""Largest number of unknowns of a grid.  A field of this size takes 32 MB."""
SCATTERED = 1000
"""Number of points at which a diffusion is checked to be constant."""
ADVANCED = (ImplicitMidpoint, StabilizedSemiImplicit)
"""Integrators whose steps are divisions in the sine modes."""
MAX_FOLDED = 640
"""Largest number of points per direction for which a transform is a matrix product, see `apply_sine_transform`."""


@dataclass(frozen=True, eq=False)
class GridSolution:
    """Fields on the interior points at the observed times, and the energy after every step."""

    times: Array
    fields: Array
    energies: Array

    def evaluate(self, nodes: Array) -> Array:
        """Interpolate the fields multilinearly, (P, d) -> (S, P)."""
        dimension = self.fields.ndim - 1
        # zero on the boundary and linear in between, as the paper evaluates its reference (tab:allen_cahn)
        padded = np.pad(self.fields, [(0, 0)] + [(1, 1)] * dimension)
        along = np.linspace(0.0, 1.0, self.fields.shape[1] + 2)
        interpolator = scipy.interpolate.RegularGridInterpolator([along] * dimension, np.moveaxis(padded, 0, -1))
        return np.asarray(interpolator(nodes)).T


def make_difference_reference(
    problem: Problem, points: int, grid: TimeGrid, integrator: Integrator, extrapolated: bool = False
) -> Reference:
    """Return the finite-difference solution as a reference for errors.

    extrapolated: combine the steps of `grid` and half of them (Richardson), so the reference has another rule than the
    run.  Its coarser version has half the points and half the steps.  Without, it is the paper's reference, whose own
    refinement is a study.
    """

    def make(points: int, grid: TimeGrid, coarser: Reference | None) -> Reference:
        def solve(steps: TimeGrid, nodes: Array, times: Array) -> Array:
            return finite_differences(problem, points, steps, integrator).evaluate(nodes)[steps.positions_of(times)]

        def extrapolate(nodes: Array, times: Array) -> Array:
            values = solve(grid, nodes, times)
            halved = TimeGrid(grid.final_time, 2 * grid.steps, tuple(2 * step for step in grid.saved))
            return values + (solve(halved, nodes, times) - values) / (1.0 - 0.5**integrator.ORDER)

        key = "finite_difference", points, grid, integrator, extrapolated
        return Reference(key, extrapolate if extrapolated else partial(solve, grid), coarser)

    half = TimeGrid(grid.final_time, (grid.steps + 1) // 2, ())
    return make(points, grid, make(max(1, points // 2), half, None) if extrapolated else None)


def finite_differences(problem: Problem, points: int, grid: TimeGrid, integrator: Integrator) -> GridSolution:
    """Solve `problem` on `points` interior points per direction.  Raises the errors of `check_differences`."""
    check_differences(problem, points, integrator)
    h, interior, shape = 1.0 / (points + 1), np.arange(1, points + 1) / (points + 1), (points,) * problem.dimension
    nodes = tensor_points([interior] * problem.dimension)
    laplacian = 4.0 / h**2 * np.sin(0.5 * np.pi * h * np.arange(1, points + 1)) ** 2
    eigenvalues = find_constant_diffusion(problem) * np.asarray(reduce(np.add.outer, [laplacian] * problem.dimension))
    # a step in the sine modes is state <- (kept state + dt (forcing - reaction)) / divisor, with sources at `times`
    kept: Array | float
    if isinstance(integrator, StabilizedSemiImplicit):
        kept = 1.0 + integrator.stabilization * grid.dt
        divisor, times = kept + grid.dt * eigenvalues, grid.step_times[1:]
    else:
        half = 0.5 * grid.dt * eigenvalues
        kept, divisor, times = 1.0 - half, 1.0 + half, grid.midpoints
    cell, potential, energies = float((1.0 / (points + 1)) ** problem.dimension), problem.potential, list[float]()

    def measure_energy(u: Array, state: Array) -> Array | None:
        """Return F'(u) of a potential.  Append the energy, nu/2 |grad_h u|^2 (Parseval) plus F(u), to `energies`."""
        energy = 0.5 * cell * float(np.vdot(eigenvalues, state**2))
        if potential is None:
            energies.append(energy)
            return None
        value, slope = potential.both(u)
        # the boundary's share of the trapezoidal rule has u = 0
        at_zero = (1.0 - cell * u.size) * float(potential.value(np.zeros(1))[0])
        energies.append(energy + (cell * float(value.sum()) + at_zero))
        return slope

    u = problem.initial(nodes).reshape(shape)
    state, observed, fields = apply_sine_transform(u), set(grid.observed), {0: u}
    slope = measure_energy(u, state)  # u is never written to: a new array at each step
    for step, forcing in enumerate(_transform_sources(problem, nodes, shape, times), start=1):
        state *= kept
        if forcing is not None:
            state += np.multiply(forcing, grid.dt, out=forcing)
        if slope is not None:
            reaction = apply_sine_transform(slope)
            state -= np.multiply(reaction, grid.dt, out=reaction)
        state /= divisor
        if potential is not None or step in observed:
            u = apply_sine_transform(state)  # a linear problem is advanced in the sine modes alone
        if step in observed:
            fields[step] = u
        slope = measure_energy(u, state)
    return GridSolution(grid.observed_times, np.stack([fields[s] for s in grid.observed]), np.array(energies))


def check_differences(problem: Problem, points: int, integrator: Integrator, name: str = "points") -> None:
    """Raise the errors of `finite_differences`.  `name` is the parameter of the points."""
    find_constant_diffusion(problem)
    if type(integrator) not in ADVANCED:
        known = " or ".join(str(kind.name) for kind in ADVANCED)
        raise ParameterError("time_integrator", f"{known} for finite differences", integrator.name)
    # there is one divisor for all steps, and half steps would need another
    if isinstance(integrator, ImplicitMidpoint) and integrator.start is not None:
        raise ParameterError("start", "left out for finite differences", str(integrator.start))
    integrator.check(problem)
    if points < 1 or points**problem.dimension > _MAX_POINTS:
        wanted = f"such that the grid has at least one and at most {_MAX_POINTS:,} points"
        raise ParameterError(name, wanted, f"{points}^{problem.dimension}")


# 20 operations an unknown and step for work mode by mode: products, sums and the energy
def estimate_difference_flops(problem: Problem, points: int, steps: int) -> float:
    """Estimate the operations of a solution: two transforms for each step with a reaction or a source."""
    unknowns, transform = points**problem.dimension, problem.dimension * points
    return float(unknowns * steps * (20 + (2 * transform if problem.potential is not None else 0)))


# ten arrays of the grid's size: state, eigenvalues, divisor, forcing, slope, and temporaries of the transforms
def estimate_difference_memory(dimension: int, points: int, observed: int) -> float:
    """Estimate the bytes of a solution: its steps, and three copies of the observed fields for interpolation."""
    return 8.0 * float(points**dimension) * (10.0 + 3.0 * observed)


def apply_sine_transform(values: Array) -> Array:
    """Apply the orthonormal DST-I in all directions, up to `MAX_FOLDED` as a matrix product.  It is its own inverse."""
    if len(values) > MAX_FOLDED:
        return np.asarray(scipy.fft.dstn(values, type=1, norm="ortho"))
    even, odd = _fold_sines(len(values))
    half = even.shape[1]
    for _ in range(values.ndim):  # transform the first direction and move it to the end: all have had their turn
        columns = values.reshape(len(values), -1)
        top, bottom = columns[:half], columns[::-1][:half]
        result = np.empty_like(columns)
        result[0::2] = even @ (top + bottom)
        result[1::2] = odd @ (top - bottom)
        values = result.T.reshape(*values.shape[1:], len(values))
    return values


@lru_cache(maxsize=8)
def _fold_sines(points: int) -> tuple[Array, Array]:
    """Return rows sqrt(2 h) sin(pi k j h) for k = 1, 3, ... (even about the middle) and k = 2, 4, ..., j up to the
    middle."""
    h = 1.0 / (points + 1)
    sines = np.sqrt(2.0 * h) * np.sin(
        np.pi * h * np.outer(np.arange(1, points + 1), np.arange(1, (points + 1) // 2 + 1))
    )
    if points % 2:
        sines[:, -1] *= 0.5  # the middle point is on both sides of the fold
    return np.ascontiguousarray(sines[0::2]), np.ascontiguousarray(sines[1::2])


# one transform diagonalises every step only where nu is the same everywhere
def find_constant_diffusion(problem: Problem) -> float:
    """Return nu.  Raises ProblemError unless it is one positive constant, and for a lifting or another domain."""
    check_domain(problem.domain, "finite differences")
    if problem.lifting is not None:
        raise ProblemError("finite differences must have zero boundary values, got a problem with a lifting")
    check_terms(problem, "finite differences")
    if not problem.diffusion.steady:
        raise ProblemError("finite differences must have a constant `diffusion`, got one that depends on t")
    # multiples of irrational numbers modulo one, which no small integers relate, fill the cube evenly (Weyl)
    steps = np.sqrt(np.array([2.0, 3.0, 5.0][: problem.dimension]))
    values = problem.diffusion(np.arange(1, SCATTERED + 1)[:, None] * steps % 1.0, np.zeros(1))
    smallest, largest = float(values.min()), float(values.max())
    if not (smallest == largest and 0.0 < smallest < np.inf):
        got = f"values from {smallest:.6g} to {largest:.6g}"
        raise ProblemError(f"finite differences must have a constant positive `diffusion`, got {got}")
    return smallest


# a steady source that is zero at all nodes is left out of every step; one in time may vanish at the first only
def _transform_sources(problem: Problem, nodes: Array, shape: tuple[int, ...], times: Array) -> Iterator[Array | None]:
    """Return the sine modes of the source at each of `times`, or None if the source is zero."""
    if problem.source.steady and not problem.source(nodes, times[:1]).any():
        yield from [None] * len(times)
        return
    for part in split_times(times):
        for values in problem.source(nodes, part):
            yield apply_sine_transform(values.reshape(shape))
