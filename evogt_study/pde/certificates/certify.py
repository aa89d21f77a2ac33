"""Compute certificates of a run by name, and the spectral reference (docs/background/error_bounds.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy  # it imports scipy.sparse at the first use, which takes 0.06 s
import scipy.linalg

from evogt_study.errors import IndefiniteStiffnessError, StudyError
from evogt_study.pde.certificates.bound import MIN_SIZE, RunFunctions, bound_energy, bound_growth, bound_run, find_knots
from evogt_study.pde.certificates.functions import (
    ProblemData,
    Reconstruction,
    SampledBasis,
    SpectralSpace,
    TensorGrid,
    TimeRule,
    is_seen_in_space,
    is_seen_in_time,
)
from evogt_study.pde.domains import Box, Domain, UnitCube
from evogt_study.pde.domains.box import DIRECTIONS, to_box
from evogt_study.pde.galerkin.problem import Problem, Tensor
from evogt_study.pde.galerkin.system import (
    GalerkinSystem,
    RetainedSpace,
    assemble_gram,
    compute_weighted_svd,
    make_trial,
    retain,
)
from evogt_study.pde.integrators.runge_kutta import RadauIIA3
from evogt_study.pde.numerics import Array, QuadratureRule, TimeGrid, Trajectory
from evogt_study.pde.pipeline import Discretisation, Share, Solution

INTERVAL = ("error_lower", "error_upper")
BUDGET = ("error_full_space", "error_retained", "error_evolution", "error_time")
"""Names of the variables in the error budget."""
CONSTANTS = (
    "coercivity", "mass_constant", "quadrature_residual", "midpoint_constant", "diffusion_min", "diffusion_max",
    "semidiscrete_constant",
)  # fmt: skip
"""Names of the constants in the paper's error estimate."""
CERTIFICATES = ("error_bound", *INTERVAL, "error_estimate", "error_indicator", *BUDGET, *CONSTANTS)
"""All certificates that `record` of a study may name.  The name error_bound also records its parts."""
BY_REFERENCE = frozenset({*INTERVAL, "quadrature_residual"})
"""Certificates that need the spectral reference, even if the exact solution is known."""
BY_EXACT = frozenset(BUDGET)
"""Certificates that need the exact solution or the spectral reference."""
LINEAR_ONLY = frozenset(CERTIFICATES) - {"error_indicator"}
"""Certificates of linear problems only."""
BY_NOTHING = tuple(name for name in CERTIFICATES if name not in BY_REFERENCE)
"""Certificates that need no spectral reference if the exact solution is known.  `solve` computes them by default."""
_QUARTERS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Times t / T at which the constants use the data."""
_MAX_ROUNDING = 1e-12
"""Largest inflow, relative to its largest term, that counts as rounding."""
_MODES = {1: (96, 160, 256), 2: (32, 48, 64), 3: (20, 28, 36)}
"""Numbers of modes per direction, by dimension, in the order of the attempts."""
_REFERENCE_STEPS = {1: (40, 1280), 2: (30, 120), 3: (20, 80)}
"""First and largest number of steps.  The number grows while more steps halve the bound."""
MAX_BOUND = 2e-8
"""Relative bound of a reference that is accurate enough.  The interval of an error of 8e-7 is then 5 % wide."""
STAGES: Array = RadauIIA3.tableau.matrix
"""Matrix of the Radau IIA method.  The last row contains the weights."""
# c_3 = 1 exactly, but the sum of the row is 1 only up to rounding
_STAGE_NODES = np.append(RadauIIA3.tableau.nodes[:-1], 1.0)
_STEPS, _MAX_STEPS = 12, 3072
"""First and largest number of steps of `march_semidiscrete`."""
MAX_STATE_CHANGE = 1e-11
"""Relative change of the state below which its time-step error is negligible, compared with usual errors of runs."""


def certify(
    solution: Solution, wanted: Collection[str], share: Share, key: Hashable, reference: SpectralReference | None
) -> dict[str, float]:
    """Compute the `wanted` certificates.  Errors are relative to || u(T) || or its estimate."""
    problem, system, T = solution.problem, solution.system, solution.discretisation.grid.final_time
    knots, final = find_knots(solution), solution.trajectory.coefficients[-1]
    semidiscrete, end = final, None
    if problem.is_linear:
        # alpha(T) without the time-step error: `missing` adds this error, which the residual does not contain
        known = solution.reference_state
        semidiscrete = march_semidiscrete(system, T) if known is None else known
        end = np.array([semidiscrete, system.load(np.array([T]))[0] - system.stiffness(T) @ semidiscrete])
    bound, functions = bound_run(solution, knots, share, key, end)
    weights = functions.grid.weights.ravel()
    lifted = problem.lift_at(functions.box.from_unit(functions.grid.nodes), T)

    def measure(values: Array) -> float:
        """Return the norm || v + u_b(T) || on the grid that resolves the residual."""
        return math.sqrt((values + lifted) ** 2 @ weights)

    # u_N(T) - u_b(T), this function without the time-step error, and an estimate of u(T) - u_N(T)
    ours, without_steps = functions.evaluate_states(np.array([final, semidiscrete]))
    missing = bound.representer.ravel() + (without_steps - ours)
    norm, found = measure(ours + missing), dict[str, float]()
    if norm > 0.0 and "error_bound" in wanted:
        most = min(norm, measure(ours) + bound.value)
        parts = {"initial": bound.initial, "residual": bound.residual, "estimated": bound.time_rule + bound.unresolved}
        found["error_bound"], found["error_bound_absolute"] = bound.value / most, bound.value
        found |= {f"error_bound_{name}": part**0.5 / most for name, part in parts.items()}
    if norm > 0.0:
        found |= {"error_indicator": bound.value / norm, "error_estimate": math.sqrt(missing**2 @ weights) / norm}
    if norm > 0.0 and not {*INTERVAL}.isdisjoint(wanted):
        found |= enclose_error(solution, reference)
    if norm > 0.0 and not {*BUDGET}.isdisjoint(wanted):
        rule = TensorGrid.of_rule(solution.discretisation.quadrature, problem.dimension)
        compute = partial(evaluate_final, problem, T, reference, functions.grid, rule)
        exact, nodal = share("certificate solution", (key, T, functions.grid, rule), compute)
        # on the grid that resolves the residual, not on the assembly rule
        states, roots = functions.evaluate_states(solution.space.project(nodal)), np.sqrt(weights)
        full, truncation, evolution, time = split_error(
            exact, functions.apply_weights(roots), roots, (states, without_steps, ours)
        )
        # error_retained is the norm of u - P u, so it decreases with tau
        differences = roots * np.array([full, full + truncation, evolution, time])
        norms = np.sqrt(np.vecdot(differences, differences)) / measure(exact)
        found |= dict(zip(BUDGET, norms.tolist(), strict=True))
    if not {*CONSTANTS}.isdisjoint(wanted):
        found |= compute_constants(solution, wanted, functions, knots, reference)
    return {name: float(value) for name, value in found.items() if name in wanted or name.startswith("error_bound_")}


def evaluate_final(
    problem: Problem, final_time: float, reference: SpectralReference | None, *grids: TensorGrid
) -> tuple[Array, ...]:
    """Return u(T) - u_b(T) at the nodes of each grid, (Q,), from the exact solution or the reference."""
    if problem.exact is None:
        assert reference is not None  # noqa: S101  # `compute_certificates` has it then
        return tuple(reference.final(grid).ravel() for grid in grids)
    exact, T = problem.exact, np.array([final_time])
    each = (to_box(problem.domain).from_unit(grid.nodes) for grid in grids)
    return tuple(exact(nodes, T)[0] - problem.lift_at(nodes, final_time) for nodes in each)


def enclose_error(solution: Solution, reference: SpectralReference | None) -> dict[str, float]:
    """Return error_lower and error_upper, (|| u_ref - u_N || -+ d) / (|| u_ref || +- d) on the validation rule."""
    assert reference is not None  # noqa: S101  # `compute_certificates` has it then
    problem, run, delta = solution.problem, solution.discretisation, reference.delta
    if not np.isfinite(delta):  # the reference is usually not finite
        return dict(zip(INTERVAL, (0.0, np.inf), strict=True))
    grid = TensorGrid.of_rule(run.validation, problem.dimension)
    target, weights = reference.final(grid).ravel(), grid.weights.ravel()
    places = to_box(problem.domain).from_unit(grid.nodes)
    lifted = problem.lift_at(places, run.grid.final_time)
    ours = solution.space.evaluate(places, solution.trajectory.coefficients[-1])
    difference, norm = (float(np.sqrt(v**2 @ weights)) for v in (target - ours, target + lifted))
    # otherwise || u || >= || u_ref || - delta is no restriction
    upper = (difference + delta) / (norm - delta) if norm > delta else np.inf
    return dict(zip(INTERVAL, (max(difference - delta, 0.0) / (norm + delta), upper), strict=True))


def split_error(exact: Array, weighted: Array, roots: Array, states: tuple[Array, Array, Array]) -> Array:
    """Split u - u_N into the parts of the full space, truncation, evolution and time steps, (4, Q).

    The arrays are u - u_b (Q,), all features times the `roots` of the weights (Q, N), and (P u, u_semi, u_N).
    """
    # R of [A b] gives the least-squares solution from N + 1 rows instead of Q
    augmented, count = np.column_stack([weighted, roots * exact]), weighted.shape[1]
    (triangle,) = scipy.linalg.qr(augmented, mode="r", overwrite_a=True, check_finite=False)
    coefficients = scipy.linalg.lstsq(triangle[:count, :count], triangle[:count, count], cond=MIN_SIZE)[0]
    best, (projected, semidiscrete, final) = weighted @ coefficients / roots, states
    return np.array([exact - best, best - projected, projected - semidiscrete, semidiscrete - final])


def compute_constants(
    solution: Solution, wanted: Collection[str], functions: RunFunctions, knots: Trajectory,
    reference: SpectralReference | None,
) -> dict[str, float]:  # fmt: skip
    """Compute the constants of the paper's error estimate from the stiffness at the times of the cross-grid defects."""
    space, problem, system = solution.space, solution.problem, solution.system
    T, norm = solution.discretisation.grid.final_time, make_norm_matrix(solution.space)
    matrices = [system.stiffness(t) for t in T * (_QUARTERS[:1] if system.autonomous else _QUARTERS)]
    diffusion = problem.diffusion(space.rule.nodes, _QUARTERS * T)
    # c_A of eq:discrete_coercivity: the least A_q(t; z, z) / || z ||_{1,q}^2
    coercivity = min(_find_eigenvalue(matrix, 0, norm) for matrix in matrices)
    # c_{0,q} of eq:mass_lower_bound: 1 / lambda_max of the mass of the retained functions on the grid
    values = functions.trial @ space.transform
    mass = 1.0 / _find_eigenvalue(values.T @ (functions.grid.weights.ravel()[:, None] * values), -1)
    # C_sd of lem:semidiscrete_error: Young's inequality with c_A / 2 gives
    # || e_r ||_q <= eta_0 + (3 / c_A)^{1/2} (E_t + a_1 T^{1/2} E_sp + eta_q), and eta_0 <= E_sp
    scale, root = np.sqrt(3.0 / coercivity), np.sqrt(mass)
    semidiscrete = max(1.0 + (1.0 + float(diffusion.max()) * np.sqrt(T) * scale) / root, scale / root)
    # Theta_IM of eq:im_residual_explicit: max |alpha'''| / 24 + max || K || max |alpha''| / 8
    along = Reconstruction(knots.times, knots.coefficients, lambda nodes: [(nodes, nodes)])
    second, third = (np.linalg.norm(along.derivative(order), axis=1).max() for order in (2, 3))
    midpoint = third / 24.0 + max(_find_eigenvalue(matrix, -1) for matrix in matrices) * second / 8.0
    found = {
        "diffusion_min": float(diffusion.min()), "diffusion_max": float(diffusion.max()), "coercivity": coercivity,
        "mass_constant": mass, "midpoint_constant": float(midpoint), "semidiscrete_constant": float(semidiscrete),
    }  # fmt: skip
    if "quadrature_residual" in wanted:
        # eta_q of eq:quadrature_residual, of the spectral reference u: at each time the supremum over the retained
        # space of [ (u_t, z)_q + A_q(t; u, z) - (f, z)_q ] / || z ||_{1,q}
        assert reference is not None  # noqa: S101  # `compute_certificates` has it then
        rule = TimeRule.between(np.linspace(0.0, T, 9))
        grid = TensorGrid.of_rule(solution.discretisation.quadrature, problem.dimension)
        data, (states, rates) = ProblemData.evaluate(problem, grid, rule.times), reference.solution.at(rule.times)
        basis, count = SampledBasis(reference.solution.along, grid), len(rule.times)
        defect = space.project((basis.evaluate(rates) - data.source).reshape(count, -1))
        for axis, flux in enumerate(data.flux_of(basis.gradient(states))):
            defect += (flux.reshape(count, -1) * space.rule.weights) @ space.gradients[axis]
        found["quadrature_residual"] = float(np.sqrt(rule.weights @ measure_dual_norm(norm, defect) ** 2))
    return found


def compute_retained_error(problem: Problem, run: Discretisation, solved: Callable[..., tuple[Array, ...]]) -> float:
    """Return || u - P u || / || u || for the space of `run` on its validation rule, given u on any grids."""
    features = problem.domain.features(run.dictionary, run.seed)
    trial = make_trial(problem.domain, features, problem.domain.quadrature(run.quadrature))
    space = retain(trial, compute_weighted_svd(trial), run.tau)
    grid = TensorGrid.of_rule(run.validation, problem.dimension)
    nodal, exact = solved(TensorGrid.of_rule(run.quadrature, problem.dimension), grid)
    projected = space.project(nodal)
    nodes = to_box(problem.domain).from_unit(grid.nodes)
    difference, weights = space.evaluate(nodes, projected) - exact, grid.weights.ravel()
    return float(np.sqrt(difference**2 @ weights / (exact**2 @ weights)))


def make_norm_matrix(space: RetainedSpace) -> Array:
    """Return the matrix I + sum_l G_l^T W G_l (r, r) of the norm || z ||_{1,q}^2."""
    return np.eye(space.rank) + assemble_gram(space.gradients, space.rule.weights)


def measure_dual_norm(norm: Array, functional: Array) -> Array:
    """Return sup_z f . z / || z ||_{1,q} (eq:discrete_dual_norm) for the matrix of the norm and f (..., r)."""
    solved = np.linalg.solve(norm, functional[..., None])[..., 0]
    return np.asarray(np.sqrt(np.sum(functional * solved, axis=-1)))


# one eigenvalue takes less time than all eigenvalues
def _find_eigenvalue(matrix: Array, place: int, norm: Array | None = None) -> float:
    """Return the eigenvalue with index `place` in increasing order, where -1 is the largest."""
    places = [place % len(matrix)] * 2
    return float(scipy.linalg.eigh(matrix, norm, eigvals_only=True, subset_by_index=places)[0])


def select_certificates(record: Iterable[str]) -> tuple[str, ...]:
    """Return the names in `record` that are certificates."""
    return tuple(name for name in record if name in CERTIFICATES)


def find_certificates(problem: Problem, final_time: float) -> tuple[str, ...]:
    """Return the certificates in `BY_NOTHING` that `problem` admits."""
    referenced = problem.exact is not None
    return tuple(name for name in BY_NOTHING if _find_reason(name, problem, final_time, referenced=referenced) is None)


def check_certificates(record: Iterable[str], problem: Problem, final_time: float) -> None:
    """Raise StudyError if `record` names a certificate that `problem` does not admit."""
    for name in select_certificates(record):
        reason = _find_reason(name, problem, final_time, referenced=True)
        if reason is not None:
            raise StudyError(f"`record` cannot contain {name} for {reason} (output.record)")


def _find_reason(name: str, problem: Problem, final_time: float, referenced: bool) -> str | None:
    """Return the reason why a problem has no certificate `name`, or None if the problem admits it."""
    domain = problem.domain
    if not isinstance(domain, (Box, UnitCube)) or domain.periods():
        return "a problem whose domain is not a box or has a periodic direction"
    is_scalar = isinstance(domain, UnitCube) and not isinstance(problem.diffusion, Tensor)
    if name in CONSTANTS and not (is_scalar and problem.advection is None and problem.reaction is None):
        return "a problem other than scalar diffusion on the unit cube with Dirichlet faces"
    if not problem.is_linear and name in LINEAR_ONLY:
        return "a nonlinear problem, which has error_indicator only"
    if problem.is_linear and name not in LINEAR_ONLY:
        return "a linear problem, which has error_bound"
    if name not in CONSTANTS and _has_inflow(problem, final_time):
        return (
            "a problem with a negative transfer or an inflow on a face without Dirichlet data "
            "(transfer + b . n / 2 < 0)"
        )
    return None if referenced or name not in BY_EXACT else "a problem without an exact solution"


@lru_cache(maxsize=8)  # all certificates of a problem use it
def _has_inflow(problem: Problem, final_time: float) -> bool:
    """Return True if transfer + b . n / 2 is negative on a natural face, so that errors may grow there."""
    if not problem.faces:
        return False
    rules = problem.domain.quadrature(QuadratureRule("gauss_legendre", 16)).faces
    # multiples of the golden ratio modulo one spread evenly
    times = final_time * np.append((5.0**0.5 - 1.0) / 2.0 * np.arange(100) % 1.0, 1.0)
    for face in problem.faces:
        axis, side = DIRECTIONS.index(face.face[0]), int(face.face[1])
        nodes, terms = rules[face.face].nodes, [np.zeros(1)]
        if problem.advection is not None:
            terms.append((2 * side - 1) * problem.advection[axis](nodes, times) / 2.0)
        if face.transfer is not None:
            terms.append(face.transfer(nodes, times))
        # relative to the terms, because they may cancel and because units must not matter
        largest = sum(float(np.abs(term).max()) for term in terms)
        if float(sum(terms[1:], start=terms[0]).min()) < -_MAX_ROUNDING * largest:
            return True
    return False


@dataclass(frozen=True, eq=False)
class SpectralReference:
    """Galerkin solution u_ref - u_b in `SpectralSpace`, and the bound delta of || u - u_ref || at the final time.

    | || u - u_N || - || u_ref - u_N || | <= delta, so one reference encloses the error of every run of the problem.
    """

    solution: Reconstruction
    delta: float

    def final(self, grid: TensorGrid) -> Array:
        """Return the values of u_ref - u_b on a grid at the final time, (Q, ..., Q)."""
        return SampledBasis(self.solution.along, grid).evaluate(self.solution.states[-1])

    def pack(self) -> Array:
        """Return the reference as one array (K + 2, n^d + 1), which workers can share."""
        states = self.solution.states.reshape(len(self.solution.knots), -1)
        return np.vstack([np.full(states.shape[1] + 1, self.delta), np.column_stack([self.solution.knots, states])])

    @staticmethod
    def unpack(array: Array, domain: Domain) -> SpectralReference:
        """Return the reference from its packed array, for a problem on `domain`."""
        d = domain.dimension
        space = SpectralSpace(d, round((array.shape[1] - 1) ** (1.0 / d)), to_box(domain).ends)
        states = array[1:, 1:].reshape(-1, *space.shape)
        return SpectralReference(Reconstruction(array[1:, 0], states, space.along), float(array[0, 0]))


def find_reference(problem: Problem, final_time: float) -> SpectralReference:
    """Compute references until a bound is at most `MAX_BOUND` || u_ref(T) ||, and return the best reference."""
    d, attempts = problem.dimension, list[SpectralReference]()
    (steps, most), grid = _REFERENCE_STEPS[d], _choose_grid(d, _MODES[d][0])
    while steps <= most and not is_seen_in_time(problem, grid, TimeRule.between(_grade_knots(final_time, steps))):
        steps *= 2
    if steps > most:  # the bound will be infinite
        steps = most = _REFERENCE_STEPS[d][0]
    for modes in _MODES[d]:
        space, before = SpectralSpace(d, modes, to_box(problem.domain).ends), np.inf
        least = min((each.delta for each in attempts), default=np.inf)
        while True:
            attempts.append(found := solve_reference(problem, final_time, space, steps))
            wanted = MAX_BOUND * float(np.linalg.norm(found.solution.states[-1]))
            if found.delta <= wanted:
                return found
            if 2 * steps > most or not found.delta < 0.5 * before:
                break
            # the method has order five, so twice the steps are not enough
            before, steps = found.delta, (4 if found.delta > 32.0 * wanted and 4 * steps <= most else 2) * steps
        best = min(attempts, key=lambda each: each.delta)
        # for data with jumps or layers, more modes change the bound little
        if np.isfinite(least) and best.delta > 0.5 * least:
            break
    return best


def solve_reference(problem: Problem, final_time: float, space: SpectralSpace, steps: int) -> SpectralReference:
    """Compute the spectral solution in `space` with `steps` time steps, and its bound on a finer grid."""
    knots, grid = _grade_knots(final_time, steps), _choose_grid(space.dimension, space.modes)
    solution, rule = Reconstruction(knots, _march(problem, knots, space), space.along), TimeRule.between(knots)
    # data that grid or steps do not resolve have no bound
    in_space = grid.dimension == 1 or is_seen_in_space(problem, grid, final_time)
    if not (in_space and is_seen_in_time(problem, grid, rule)):
        return SpectralReference(solution, np.inf)

    def evaluate(block: slice) -> ProblemData:
        return ProblemData.evaluate(problem, grid, rule.times[block])

    # the bound is only for the final time, so errors may decay
    growth = bound_growth(evaluate(slice(None)), decay=True)
    return SpectralReference(solution, bound_energy(solution, rule, grid, evaluate, growth).value)


# With incompatible initial data, equal steps give a bound that is 20 to 30 times as large.
def _grade_knots(final_time: float, steps: int) -> Array:
    return np.asarray(final_time * np.linspace(0.0, 1.0, steps + 1) ** 2)


def _choose_grid(dimension: int, modes: int) -> TensorGrid:
    points = int(1.5 * modes)
    # panels on a line, because `measure_on_line` needs their last modes
    return TensorGrid(1, 16, -(-points // 8)) if dimension == 1 else TensorGrid(dimension, points)


def _march(problem: Problem, knots: Array, space: SpectralSpace) -> Array:
    """Compute the states of the reference at the knots, (K + 1, n, ..., n)."""
    basis = SampledBasis.sample(space, TensorGrid(space.dimension, int(1.25 * space.modes) + 2))
    state = basis.moments(ProblemData.evaluate(problem, basis.grid, knots[:1]).initial)
    states, rates = [state], np.zeros((len(_STAGE_NODES), *space.shape))
    for start, step in zip(knots[:-1].tolist(), np.diff(knots).tolist(), strict=True):
        data = ProblemData.evaluate(problem, basis.grid, start + _STAGE_NODES * step)
        # rates of zero, because `moments` omits the source if the rates are None
        load = data.moments(basis, np.broadcast_to(state, rates.shape), np.zeros_like(rates), space)
        # constants near the diagonal of A, for the preconditioner
        if data.diffusion.ndim == space.dimension + 1:
            constants = np.full(space.dimension, np.sqrt(data.diffusion.min() * data.diffusion.max()))
        else:
            diagonal = np.einsum("tll...->l...", data.diffusion).reshape(space.dimension, -1)
            constants = diagonal.mean(axis=1) / len(data.diffusion)

        def apply_linear(v: Array, data: ProblemData = data) -> Array:
            return -data.moments(basis, v, None, space)

        guess = np.broadcast_to(rates[-1:], load.shape)
        rates = _solve_stages(step, space.eigenvalues(constants), load, apply_linear, guess)
        state = state + step * np.tensordot(STAGES[-1], rates, axes=1)
        states.append(state)
    return np.stack(states)


def _solve_stages(
    step: float, eigenvalues: Array, load: Array, apply_linear: Callable[[Array], Array], guess: Array
) -> Array:
    """Solve k_i = b_i - K_i (y + h sum_j a_ij k_j) for the stages, given the load b_i - K_i y and v_i -> K_i v_i."""
    # the inverse for a diagonal K with these eigenvalues, which approximates K
    inverse = np.linalg.inv(np.eye(len(STAGES)) + step * eigenvalues.reshape(-1, 1, 1) * STAGES)

    def operator(flat: Array) -> Array:
        mixed = np.tensordot(STAGES, flat.reshape(load.shape), axes=1)
        return np.asarray(flat + step * apply_linear(mixed).ravel())

    def precondition(flat: Array) -> Array:
        return np.asarray(np.einsum("kij,jk->ik", inverse, flat.reshape(3, -1)).ravel())

    # with `dtype`, SciPy does not apply the operator to find the type
    linear: Any = partial(scipy.sparse.linalg.LinearOperator, (load.size,) * 2, dtype=np.float64)
    solved, _ = scipy.sparse.linalg.gmres(
        linear(operator), load.ravel(), guess.ravel(), M=linear(precondition),
        # maxiter counts cycles.  One cycle has at most `restart` iterations.
        rtol=1e-12, restart=100, maxiter=1,
    )  # fmt: skip
    return np.asarray(solved).reshape(load.shape)


def march_semidiscrete(system: GalerkinSystem, final_time: float) -> Array:
    """Return alpha(T) of a linear system, (r,), or NaN if modes grow too fast for the implicit steps."""
    steps, known = _STEPS, np.full(system.initial.shape, np.nan)
    while steps <= _MAX_STEPS:
        try:
            state = RadauIIA3().march(system, TimeGrid(final_time, steps, ())).coefficients[-1]
        except IndefiniteStiffnessError:
            return np.full(system.initial.shape, np.nan)
        if np.linalg.norm(state - known) <= MAX_STATE_CHANGE * np.linalg.norm(state):
            return np.asarray(state)
        steps, known = 2 * steps, state
    return np.asarray(known)
