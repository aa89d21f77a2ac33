"""Measure errors on a validation rule, norms, energies and cross-grid defects, and compute reference coefficients.

One matrix product gives the relative L2 errors || u_{N,r} - u ||_w / || u ||_w with u_{N,r} = u_b + D psi . (T_r alpha)
at all times (eq:validation_error).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy  # it imports its parts at the first use

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.dictionaries.base import Features
from evogt_study.pde.domains import Domain
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import (
    GRADIENT_NODES_AT_ONCE,
    DenseBasis,
    GalerkinSystem,
    RetainedSpace,
    assemble_gram,
    assemble_operator,
    evaluate_on_face,
    evaluate_retained,
)
from evogt_study.pde.numerics import Array, Quadrature, Trajectory

N_CELLS = 16
"""Number of cells of a uniform rule on a line, each with its own Chebyshev points.  Half as many cells are slower."""
_MAX_LAST = 1e-14
"""Largest of the last two Chebyshev coefficients of features of size one.  Rounding of nodes adds about 3e-15."""
SPARE_POINTS = 1.0
"""Number of Chebyshev points beyond the estimate for one layer, which resolve two layers too."""
FEATURE_NODES_AT_ONCE = 4096
"""Number of nodes in a block of features without gradients.  Blocks of 512 nodes take a third more time."""
COEFFICIENT_REFERENCES = ("eigendecomposition", "dop853")


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums of features from their values psi at the nodes (Q, N), or at P Chebyshev points of each cell (K P, N)."""

    psi: Array
    to_nodes: Array | None = None  # the polynomials through P points at the nodes of a cell, (P, Q/K)

    def __call__(self, raw: Array) -> Array:
        """Return the sums sum_j raw_j psi_j at the nodes, (S, N) -> (S, Q)."""
        sums = np.asarray(raw @ self.psi.T)
        if self.to_nodes is None:
            return sums
        return np.asarray(sums.reshape(-1, len(self.to_nodes)) @ self.to_nodes).reshape(len(raw), -1)


# a function that is analytic in a strip has Chebyshev coefficients that fall like rho^-n, rho the sum of the half axes
# of the largest ellipse around the cell in the strip (Trefethen, Approximation Theory and Approximation Practice, 8.2)
def make_feature_sums(features: Features, nodes: Array, uniform: bool) -> FeatureSums:
    """Return a function for sums of features at `nodes` (Q, d), with Chebyshev interpolation if that is accurate."""
    (count, dimension), strip = nodes.shape, getattr(features, "strip", 0.0)
    if uniform and dimension == 1 and strip > 0.0 and count % N_CELLS == 0:
        spacing = (nodes[-1, 0] - nodes[0, 0]) / (count - 1)
        starts, width = nodes[:: count // N_CELLS] - spacing / 2.0, count // N_CELLS * spacing
        # enough points for double precision
        enough = -np.log(np.finfo(float).eps / 2.0) / np.arcsinh(2.0 * strip / width) + SPARE_POINTS
        points = 4 * int(np.ceil(enough / 4.0))  # a multiple of 4, so that different slopes share matrices
        while 2 * points * N_CELLS < count:  # more points save little time
            along, coefficients, to_nodes = _make_chebyshev(points, count // N_CELLS)
            psi = features.values((starts + width * along).reshape(-1, 1))
            # two coefficients, because one alone may vanish by symmetry
            if np.abs(coefficients[-2:] @ psi.reshape(N_CELLS, points, -1)).max() <= _MAX_LAST:
                return FeatureSums(psi, to_nodes)
            points *= 2
    return FeatureSums(features.values(nodes))


@lru_cache(maxsize=16)  # all runs of a study share these values
def _make_chebyshev(points: int, nodes: int) -> tuple[Array, Array, Array]:
    """Return Chebyshev points of (0, 1) (P,), and the matrices of coefficients (P, P) and uniform nodes (P, n)."""
    degrees, odd = np.arange(points), 2 * np.arange(points) + 1
    # T_j at the points is cos(j (2 k + 1) pi / (2 P)), with the angle reduced to one turn before rounding
    coefficients = np.cos(np.pi / (2 * points) * (np.outer(degrees, odd) % (4 * points))) * (2.0 / points)
    coefficients[0] /= 2.0
    uniform = (2.0 * np.arange(nodes) + 1.0) / nodes - 1.0
    to_nodes = np.polynomial.chebyshev.chebvander(uniform, points - 1) @ coefficients
    along = (np.cos(np.pi / (2 * points) * odd) + 1.0) / 2.0
    return along, coefficients, np.ascontiguousarray(to_nodes.T, dtype=float)


@dataclass(frozen=True, eq=False)
class Target:
    """Weighted exact or reference solution at S times, with its norms."""

    weighted: Array
    norms: Array
    factor: Array
    roots: Array
    largest: Array

    @staticmethod
    def from_exact(domain: Domain, exact: Array, lifted: Array | float, rule: Quadrature) -> Target:
        """Return the target for the values u (S, Q), and u_b (S, Q) or zero, at the nodes of the rule."""
        roots = np.sqrt(rule.weights)
        (D,) = domain.boundary_factor(rule.nodes)
        largest = np.abs(exact).max(axis=1)
        return Target(roots * (exact - lifted), np.sqrt((exact**2) @ rule.weights), roots * D, roots, largest)

    def errors(self, raw: Array, sums: FeatureSums) -> Array:
        """Return the relative errors (S,) of the solutions with the raw coefficients T_r alpha (S, N)."""
        difference = sums(raw)
        difference *= self.factor
        difference -= self.weighted
        return _measure_relative(np.sqrt(np.einsum("sq,sq->s", difference, difference)), self.norms)

    def final_norms(self, raw: Array, sums: FeatureSums) -> dict[str, float]:
        """Return the absolute L2 error and the relative maximum error at the last time for T_r alpha (N,)."""
        difference = sums(raw[None])[0] * self.factor - self.weighted[-1]
        # a zero solution gives NaN without a warning
        with np.errstate(all="ignore"):
            return {
                "error_absolute": float(np.linalg.norm(difference)),
                "error_max": float(np.abs(difference / self.roots).max() / self.largest[-1]),
            }


def measure_seminorm(problem: Problem, space: RetainedSpace, trajectory: Trajectory, rule: Quadrature) -> float:
    """Return || grad (u_N - u) ||_w / || grad u ||_w at the final time for a problem with an exact gradient."""
    assert problem.exact_gradient is not None  # noqa: S101  # callers check first
    T, raw = float(trajectory.times[-1]), space.transform @ trajectory.coefficients[-1]
    exact, lifted = problem.exact_gradient(rule.nodes, T), np.zeros((problem.dimension, len(rule.nodes)))
    if problem.lifting is not None:
        lifted = np.stack([slope(rule.nodes, np.array([T]))[0] for slope in problem.lifting.gradient])
    psi = space.features.first_order(rule.nodes)
    _, gradients = evaluate_retained(space.domain, psi, rule.nodes, raw[:, None])
    difference = gradients[..., 0] + lifted - exact
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.sum(difference**2 @ rule.weights) / np.sum(exact**2 @ rule.weights)))


def compute_errors(numerical: Array, exact: Array, weights: Array) -> Array:
    """Return the relative L2 errors of nodal values, (S, Q), (S, Q) and (Q,) -> (S,)."""
    return _measure_relative(np.sqrt(((numerical - exact) ** 2) @ weights), np.sqrt((exact**2) @ weights))


def _measure_relative(differences: Array, norms: Array) -> Array:
    """Divide differences by norms, and return NaN for a norm of zero."""
    return np.asarray(np.divide(differences, norms, out=np.full_like(norms, np.nan), where=norms != 0.0))


# The maximum with zero removes negative squares such as -1e-17, which arise if lifting and coefficients cancel.
def compute_norm_history(system: GalerkinSystem, trajectory: Trajectory) -> Array:
    """Return the norms || u_{N,r}(t) ||_q, roots of || alpha ||^2 (prop:mass) + 2 (u_b, v)_q + || u_b ||_q^2, (S,)."""
    squares = np.sum(trajectory.coefficients**2, axis=1)
    if system.lifting is not None:
        mixed = np.sum(system.lifting.mass(trajectory.times) * trajectory.coefficients, axis=1)
        squares = np.maximum(squares + 2.0 * mixed + system.lifting.square(trajectory.times), 0.0)
    return np.asarray(np.sqrt(squares))


def compute_energy_history(system: GalerkinSystem, trajectory: Trajectory) -> Array:
    """Return the energies sum_q w_q a |grad u|^2 at the observed times (eq:quadrature_diffusion_energy), (S,)."""
    states = trajectory.coefficients
    stiffness = system.stiffness if system.diffusion is None else system.diffusion
    if system.autonomous:
        # states times K equals K times states, because the diffusion part is symmetric
        images = states @ stiffness(0.0)
    else:
        images = np.stack([stiffness(float(t)) @ alpha for t, alpha in zip(trajectory.times, states, strict=True)])
    energies = np.sum(images * states, axis=1)
    if system.lifting is not None:
        mixed = np.sum(system.lifting.flux(trajectory.times) * states, axis=1)
        energies = energies + 2.0 * mixed + system.lifting.energy(trajectory.times)
    return np.asarray(energies)


def evaluate_basis(space: RetainedSpace, rule: Quadrature) -> tuple[DenseBasis, float]:
    """Return the basis phi~ = T_r^T phi on the assessment rule, and its mass defect."""
    (count, dimension), mass = rule.nodes.shape, np.zeros((space.rank, space.rank))
    basis = DenseBasis(rule, np.empty((count, space.rank)), np.empty((dimension, count, space.rank)))
    for start in range(0, count, GRADIENT_NODES_AT_ONCE):
        block = slice(start, start + GRADIENT_NODES_AT_ONCE)
        psi = space.features.first_order(rule.nodes[block])
        found = evaluate_retained(space.domain, psi, rule.nodes[block], space.transform)
        basis.values[block], basis.gradients[:, block] = found
        mass += assemble_gram(found[0][None], rule.weights[block])
    return basis, _measure_norm(mass - np.eye(space.rank))


def measure_mass_defect(space: RetainedSpace, rule: Quadrature) -> float:
    """Return the mass defect || Phi~_b^T W_b Phi~_b - I_r ||_2 on a rule b, which shows a coarse assembly rule."""
    mass = np.zeros((space.rank, space.rank))
    (D,) = space.domain.boundary_factor(rule.nodes)
    weights = rule.weights * D * D  # multiply the weights by D instead of arrays with N columns
    for start in range(0, len(weights), FEATURE_NODES_AT_ONCE):
        block = slice(start, start + FEATURE_NODES_AT_ONCE)
        mass += assemble_gram((space.features.values(rule.nodes[block]) @ space.transform)[None], weights[block])
    return _measure_norm(mass - np.eye(space.rank))


def measure_cross_grid(
    space: RetainedSpace, assessed: tuple[DenseBasis, float], problem: Problem, system: GalerkinSystem,
    final_time: float,
) -> dict[str, float]:  # fmt: skip
    """Compute || Phi~_a^T W_a Phi~_a - I_r ||_2 and max || K_a(t) - K_q(t) ||_2 / || K_q(t) ||_2 (app:cross_grid)."""
    basis, mass_defect = assessed
    faces = {face.face: evaluate_on_face(space, basis.rule.faces[face.face]) for face in problem.faces}
    stiffness, _ = assemble_operator(basis, problem, faces)
    times = np.linspace(0.0, final_time, 5)[: 1 if system.autonomous else None].tolist()

    # in the spectral norm, like the paper's defects (app:cross_grid)
    def measure_difference(t: float) -> float:
        matrix, reference = stiffness(t), system.stiffness(t)
        symmetric = np.array_equal(reference, reference.T)
        norm = _measure_norm if symmetric else lambda any_matrix: float(np.linalg.norm(any_matrix, 2))
        return norm(matrix - reference) / norm(reference)

    return {
        "mass_defect_cross_grid": mass_defect, "stiffness_defect_cross_grid": max(map(measure_difference, times)),
    }  # fmt: skip


def _measure_norm(symmetric: Array) -> float:
    return float(np.abs(np.linalg.eigvalsh(symmetric)).max())


@dataclass(frozen=True)
class CoefficientReference:
    """Method that computes reference coefficients.  Only "dop853" uses the tolerances and the step limit."""

    name: str
    # the paper's tolerances (tab:temporal_convergence).  The tolerances 1e-13 and 1e-15 change the coefficients by
    # 9e-14, six orders below the smallest error that runs measure with these coefficients.
    rtol: float = 1e-12
    atol: float = 1e-14
    max_step: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in COEFFICIENT_REFERENCES:
            raise ParameterError("coefficient_reference", f"one of {', '.join(COEFFICIENT_REFERENCES)}", self.name)

    def check(self, problem: Problem) -> None:
        """Raise ProblemError if an eigendecomposition cannot solve the problem."""
        steady = problem.has_steady_operator and problem.has_steady_load
        if self.name == "eigendecomposition" and not (steady and problem.is_linear and problem.advection is None):
            raise ProblemError(
                "`coefficient_reference` eigendecomposition needs a linear problem without advection whose terms do "
                "not depend on t. Use dop853"
            )

    def final_state(self, system: GalerkinSystem, final_time: float) -> Array:
        """Return the coefficients alpha(T) of the system, (r,), after `check`.  Raises ProblemError."""
        if self.name == "eigendecomposition":
            # exp(-T K) alpha(0) + T phi_1(-T K) b, with phi_1(z) = (e^z - 1)/z, for constant K and b
            # K is symmetric (eq:raw_to_normalized), so its eigenbasis is orthonormal and needs no inverse
            eigenvalues, basis = system.modes
            exponents = -final_time * eigenvalues
            # expm1 keeps the digits of phi_1 for small z.  At z = 0 phi_1 has the limit 1.
            weights = np.divide(np.expm1(exponents), exponents, out=np.ones_like(exponents), where=exponents != 0.0)
            forced = final_time * weights * (system.load(np.zeros(1))[0] @ basis)
            return np.asarray(basis @ (np.exp(exponents) * (system.initial @ basis) + forced))
        solution = scipy.integrate.solve_ivp(
            system.rate, (0.0, final_time), system.initial, method="DOP853",
            # otherwise SciPy stores all steps, which are many if K is stiff
            t_eval=[final_time],
            rtol=self.rtol, atol=self.atol, max_step=self.max_step or np.inf,
        )  # fmt: skip
        if not solution.success:
            raise ProblemError(f"dop853 stopped before t = {final_time:g}: {solution.message}")
        return np.asarray(solution.y[:, -1])
