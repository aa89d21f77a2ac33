"""Finite differences on a uniform grid.  The discrete sine transform diagonalises every linear system.

u_t = nu Delta_h u - F'(u) + f,    u = 0 on the boundary,    n interior points per direction, h = 1/(n + 1)
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import numpy as np
import scipy  # imports its subpackages at their first use, so workers start sooner

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains.box import check_domain, tensor_points
from evogt_study.pde.galerkin.problem import Problem, check_terms
from evogt_study.pde.galerkin.system import split_times
from evogt_study.pde.integrators import ImplicitMidpoint, Integrator, StabilizedSemiImplicit
from evogt_study.pde.numerics import Array, TimeGrid

_MAX_POINTS = 4_000_000
"""Largest number of unknowns of a grid.  A field then takes 32 MB of memory."""
SINE_INTEGRATORS = (ImplicitMidpoint, StabilizedSemiImplicit)
"""Integrators with steps that are divisions in the sine modes."""
MAX_FOLDED_POINTS = 640
"""Largest number of points per direction for which `apply_sine_transform` uses a matrix product."""


@dataclass(frozen=True, eq=False)
class GridSolution:
    """Solution as fields on the interior points at the observed times, with the energy at every step."""

    times: Array
    fields: Array
    energies: Array

    def evaluate(self, nodes: Array) -> Array:
        """Return the multilinear interpolation of the fields at points, (P, d) -> (S, P)."""
        dimension = self.fields.ndim - 1
        # The paper also uses zero boundary values and linear interpolation for its reference (tab:allen_cahn).
        padded = np.pad(self.fields, [(0, 0)] + [(1, 1)] * dimension)
        along = np.linspace(0.0, 1.0, self.fields.shape[1] + 2)
        interpolator = scipy.interpolate.RegularGridInterpolator([along] * dimension, np.moveaxis(padded, 0, -1))
        return np.asarray(interpolator(nodes)).T


def extrapolate_differences(problem: Problem, points: int, grid: TimeGrid, integrator: Integrator) -> GridSolution:
    """Return the Richardson extrapolation of the solutions with the step of `grid` and with half of this step."""
    halved = TimeGrid(grid.final_time, 2 * grid.steps, tuple(2 * step for step in grid.saved))
    whole, half = (solve_differences(problem, points, steps, integrator) for steps in (grid, halved))
    return replace(whole, fields=whole.fields + (half.fields - whole.fields) / (1.0 - 0.5**integrator.ORDER))


def solve_differences(problem: Problem, points: int, grid: TimeGrid, integrator: Integrator) -> GridSolution:
    """Solve `problem` with `points` interior grid points per direction, after `check_differences`."""
    check_differences(problem, points, integrator)
    h, interior, shape = 1.0 / (points + 1), np.arange(1, points + 1) / (points + 1), (points,) * problem.dimension
    nodes = tensor_points([interior] * problem.dimension)
    laplacian = 4.0 / h**2 * np.sin(0.5 * np.pi * h * np.arange(1, points + 1)) ** 2
    eigenvalues = find_constant_diffusion(problem) * np.asarray(reduce(np.add.outer, [laplacian] * problem.dimension))
    # A step in the sine modes is state <- (kept state + dt (forcing - reaction)) / divisor, with the source at `times`.
    kept: Array | float
    if isinstance(integrator, StabilizedSemiImplicit):
        kept = 1.0 + integrator.stabilization * grid.dt
        divisor, times = kept + grid.dt * eigenvalues, grid.step_times[1:]
    else:
        half = 0.5 * grid.dt * eigenvalues
        kept, divisor, times = 1.0 - half, 1.0 + half, grid.midpoints
    cell, potential, energies = float((1.0 / (points + 1)) ** problem.dimension), problem.potential, list[float]()

    def measure_energy(u: Array, state: Array) -> Array | None:
        """Append the energy of u to `energies`.  Return F'(u), or None without a potential."""
        energy = 0.5 * cell * float(np.vdot(eigenvalues, state**2))
        if potential is None:
            energies.append(energy)
            return None
        value, slope = potential.value(u), potential.slope(u)
        # u = 0 at the boundary nodes of the trapezoidal rule
        at_zero = (1.0 - cell * u.size) * float(potential.value(np.zeros(1))[0])
        energies.append(energy + (cell * float(value.sum()) + at_zero))
        return slope

    u = problem.initial(nodes).reshape(shape)
    state, observed, fields = apply_sine_transform(u), set(grid.observed), {0: u}
    slope = measure_energy(u, state)  # each step makes a new array u, so `fields` can keep the old array
    for step, forcing in enumerate(_transform_sources(problem, nodes, shape, times), start=1):
        state *= kept
        if forcing is not None:
            state += np.multiply(forcing, grid.dt, out=forcing)
        if slope is not None:
            reaction = apply_sine_transform(slope)
            state -= np.multiply(reaction, grid.dt, out=reaction)
        state /= divisor
        if potential is not None or step in observed:
            u = apply_sine_transform(state)  # a linear problem needs only the sine modes between observed steps
        if step in observed:
            fields[step] = u
        slope = measure_energy(u, state)
    return GridSolution(grid.observed_times, np.stack([fields[s] for s in grid.observed]), np.array(energies))


def check_differences(problem: Problem, points: int, integrator: Integrator, name: str = "points") -> None:
    """Raise ParameterError or ProblemError if finite differences cannot solve `problem` with these `points`."""
    find_constant_diffusion(problem)
    if type(integrator) not in SINE_INTEGRATORS:
        known = " or ".join(str(kind.name) for kind in SINE_INTEGRATORS)
        raise ParameterError("time_integrator", f"{known} for finite differences", integrator.name)
    # all steps use one divisor, and half steps would need another divisor
    if isinstance(integrator, ImplicitMidpoint) and integrator.start is not None:
        raise ParameterError("start", "left out for finite differences", str(integrator.start))
    integrator.check(problem)
    if points < 1 or points**problem.dimension > _MAX_POINTS:
        wanted = f"such that the grid has at least one and at most {_MAX_POINTS:,} points"
        raise ParameterError(name, wanted, f"{points}^{problem.dimension}")


# Ten arrays have the size of the grid: state, eigenvalues, divisor, forcing, slope, and temporaries of the transforms.
def estimate_difference_memory(dimension: int, points: int, observed: int) -> float:
    """Estimate the bytes for the steps and for three copies of the observed fields in the interpolation."""
    return 8.0 * float(points**dimension) * (10.0 + 3.0 * observed)


def apply_sine_transform(values: Array) -> Array:
    """Return the orthonormal DST-I in all directions, which is its own inverse."""
    if len(values) > MAX_FOLDED_POINTS:
        return np.asarray(scipy.fft.dstn(values, type=1, norm="ortho"))
    even, odd = _fold_sines(len(values))
    half = even.shape[1]
    for _ in range(values.ndim):  # transform the first direction and move it to the end
        columns = values.reshape(len(values), -1)
        top, bottom = columns[:half], columns[::-1][:half]
        result = np.empty_like(columns)
        result[0::2] = even @ (top + bottom)
        result[1::2] = odd @ (top - bottom)
        values = result.T.reshape(*values.shape[1:], len(values))
    return values


@lru_cache(maxsize=8)
def _fold_sines(points: int) -> tuple[Array, Array]:
    """Return the rows sqrt(2 h) sin(pi k j h) for odd k and for even k, with j up to the middle."""
    h = 1.0 / (points + 1)
    sines = np.sqrt(2.0 * h) * np.sin(
        np.pi * h * np.outer(np.arange(1, points + 1), np.arange(1, (points + 1) // 2 + 1))
    )
    if points % 2:
        sines[:, -1] *= 0.5  # the middle point is on both sides of the fold
    return np.ascontiguousarray(sines[0::2]), np.ascontiguousarray(sines[1::2])


# One transform diagonalises every step only if nu is constant.
def find_constant_diffusion(problem: Problem) -> float:
    """Return the constant diffusion of a problem that finite differences can solve.  Raises ProblemError."""
    check_domain(problem.domain, "finite differences")
    if problem.lifting is not None:
        raise ProblemError("finite differences must have zero boundary values, got a problem with a lifting")
    check_terms(problem, "finite differences")
    if not problem.diffusion.steady:
        raise ProblemError("finite differences must have a constant `diffusion`, got one that depends on t")
    # multiples of independent irrational numbers modulo one fill the cube evenly (Weyl)
    steps = np.sqrt(np.array([2.0, 3.0, 5.0][: problem.dimension]))
    values = problem.diffusion(np.arange(1, 1001)[:, None] * steps % 1.0, np.zeros(1))
    smallest, largest = float(values.min()), float(values.max())
    if not (smallest == largest and 0.0 < smallest < np.inf):
        got = f"values from {smallest:.6g} to {largest:.6g}"
        raise ProblemError(f"finite differences must have a constant positive `diffusion`, got {got}")
    return smallest


# A steady source that is zero at all nodes needs no transform.  A source that depends on time may vanish only at first.
def _transform_sources(problem: Problem, nodes: Array, shape: tuple[int, ...], times: Array) -> Iterator[Array | None]:
    """Return the sine modes of the source at each of `times`, or None if the source is zero."""
    if problem.source.steady and not problem.source(nodes, times[:1]).any():
        yield from [None] * len(times)
        return
    for part in split_times(times):
        for values in problem.source(nodes, part):
            yield apply_sine_transform(values.reshape(shape))
