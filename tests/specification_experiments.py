"""The paper's computations beside Algorithm 1, transcribed in the same way as specification.py, with NumPy and SciPy.

The cross-grid assessment, the references of the coefficients, the Allen-Cahn step with its finite-difference reference,
P1 finite elements, and global space-time regression. What the paper leaves open follows the pinned conventions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.fft import dstn, idstn
from scipy.integrate import solve_ivp
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse.linalg import spsolve
from specification import (
    Array,
    Layers,
    Problem,
    RetainedSpace,
    Settings,
    boundary_factor,
    features,
    mass_defect,
    quadrature,
    relative_error,
    retained_space,
    sample_layers,
    stiffness,
    trial_functions,
    trial_values,
)

Pointwise = Callable[[Array], Array]


# --- app:cross_grid -------------------------------------------------------------------------------------------------


def cross_grid_defects(p: Problem, s: Settings, space: RetainedSpace, rule: tuple[str, int]) -> tuple[float, float]:
    """Mass and stiffness defects of the retained basis on another rule; the latter the largest of five times."""
    x_a, w_a = quadrature(rule, p.dimension)
    phi, g = trial_functions(s, space.layers, x_a)
    phi, g = phi @ space.transform, [gl @ space.transform for gl in g]
    defects = []
    for t in [0.0] if p.steady else np.linspace(0, s.final_time, 5):
        k_a = stiffness(p, x_a, w_a, g, t)
        k_q = stiffness(p, space.nodes, space.weights, space.gradient, t)
        defects.append(np.linalg.norm(k_a - k_q, 2) / np.linalg.norm(k_q, 2))
    return mass_defect(phi, w_a), float(max(defects))


# --- tab:temporal_convergence: alpha(T) of eq:retained_ode without source -------------------------------------------


def initial_coefficients(p: Problem, space: RetainedSpace) -> Array:
    return space.values.T @ (space.weights * p.initial(space.nodes))


def coefficients_by_eigendecomposition(p: Problem, s: Settings, space: RetainedSpace) -> Array:
    eigenvalues, basis = np.linalg.eigh(stiffness(p, space.nodes, space.weights, space.gradient, 0.0))
    return basis @ (np.exp(-s.final_time * eigenvalues) * (basis.T @ initial_coefficients(p, space)))


def coefficients_by_dop853(
    p: Problem, s: Settings, space: RetainedSpace, rtol: float, atol: float, max_step: float
) -> Array:
    def rate(t: float, alpha: Array) -> Array:
        return -stiffness(p, space.nodes, space.weights, space.gradient, t) @ alpha

    start, ends = initial_coefficients(p, space), (0.0, s.final_time)
    solution = solve_ivp(rate, ends, start, method="DOP853", rtol=rtol, atol=atol, max_step=max_step)
    return np.asarray(solution.y[:, -1])


# --- eq:ac_scheme ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradientFlow:
    """u_t = nu lap u - F'(u)."""

    nu: float
    initial: Pointwise
    potential: Pointwise
    slope: Pointwise
    stabilization: float


@dataclass(frozen=True)
class FlowResult:
    """Errors against the reference at T and against the initial value, and E_q after every step."""

    error: float
    initial_error: float
    rank: int
    energies: Array


def evolve_flow(p: GradientFlow, s: Settings, reference: Pointwise) -> FlowResult:
    """The stabilised semi-implicit step in the retained space, d = 2; `reference` has the values at T."""
    space = retained_space(s, 2)
    x, w, phi_r, g_r = space.nodes, space.weights, space.values, space.gradient
    k = sum(gl.T @ (w[:, None] * gl) for gl in g_r)
    matrix = (1 + p.stabilization * s.dt) * np.eye(len(k)) + s.dt * p.nu * k
    alpha = phi_r.T @ (w * p.initial(x))
    x_v, w_v = quadrature(s.validation, 2)
    phi_v = trial_values(s, space.layers, x_v) @ space.transform
    initial_error = relative_error(phi_v @ alpha, p.initial(x_v), w_v)

    def energy(alpha: Array, u: Array) -> float:
        return float(np.sum(w * (p.nu / 2 * sum((gl @ alpha) ** 2 for gl in g_r) + p.potential(u))))

    u = phi_r @ alpha
    energies = [energy(alpha, u)]
    for _ in range(round(s.final_time / s.dt)):
        g = -phi_r.T @ (w * p.slope(u))  # eq:ac_g_quad
        alpha = np.linalg.solve(matrix, (1 + p.stabilization * s.dt) * alpha + s.dt * g)
        u = phi_r @ alpha
        energies.append(energy(alpha, u))
    error = relative_error(phi_v @ alpha, reference(x_v), w_v)
    return FlowResult(error, initial_error, phi_r.shape[1], np.array(energies))


def finite_differences(p: GradientFlow, points: int, final_time: float, dt: float) -> Pointwise:
    """The same step on points x points interior nodes of the square, by sine transforms; bilinear between them."""
    h = 1 / (points + 1)
    along = np.linspace(0, 1, points + 2)
    x = np.stack([axis.ravel() for axis in np.meshgrid(along[1:-1], along[1:-1], indexing="ij")], axis=1)
    one = 4 / h**2 * np.sin(np.pi * h * np.arange(1, points + 1) / 2) ** 2
    eigenvalues = p.nu * (one[:, None] + one[None, :])
    shift = 1 + p.stabilization * dt
    u = p.initial(x).reshape(points, points)
    for _ in range(round(final_time / dt)):
        u = idstn(dstn(shift * u - dt * p.slope(u), type=1) / (shift + dt * eigenvalues), type=1)
    return RegularGridInterpolator((along, along), np.pad(u, 1))


# --- tab:p1_fem -----------------------------------------------------------------------------------------------------


def p1_finite_elements(
    p: Problem, unknowns: int, points: int, final_time: float, dt: float, validation: tuple[str, int]
) -> tuple[float, float]:
    """Errors at T and at 0: d = 1, uniform mesh, consistent mass, projected initial value, implicit midpoint rule."""
    h = 1 / (unknowns + 1)
    z, v = np.polynomial.legendre.leggauss(points)
    local, w = (1 + z) / 2, h * v / 2
    x = ((np.arange(unknowns + 1)[:, None] + local) * h).reshape(-1, 1)  # element by element
    hats = np.array([1 - local, local])

    def assembled(blocks: Array) -> sparse.csc_array:
        """Element matrices (elements, 2, 2) added up over the interior vertices."""
        diagonal = blocks[:-1, 1, 1] + blocks[1:, 0, 0]
        off = blocks[1:-1, 0, 1]
        return sparse.csc_array(sparse.diags([off, diagonal, off], offsets=[-1, 0, 1]))

    def load(values: Array) -> Array:
        parts = (w * values.reshape(-1, points)) @ hats.T
        return parts[:-1, 1] + parts[1:, 0]

    def stiffness_at(t: float) -> sparse.csc_array:
        integrals = (p.diffusion(x, t).reshape(-1, points) @ w) / h**2
        return assembled(integrals[:, None, None] * np.array([[1, -1], [-1, 1]]))

    mass = assembled(np.broadcast_to((hats * w) @ hats.T, (unknowns + 1, 2, 2)))
    x_v, w_v = quadrature(validation, 1)

    def error(u: Array, t: float) -> float:
        numerical = np.interp(x_v[:, 0], np.linspace(0, 1, unknowns + 2), np.pad(u, 1))
        return relative_error(numerical, p.exact(x_v, t), w_v)

    u = spsolve(mass, load(p.initial(x)))
    initial_error, k = error(u, 0.0), stiffness_at(0.0)
    for n in range(round(final_time / dt)):
        t = (n + 0.5) * dt
        if not p.steady:
            k = stiffness_at(t)
        u = spsolve(mass + dt / 2 * k, mass @ u - dt / 2 * (k @ u) + dt * load(p.source(x, t)))
    return error(u, final_time), initial_error


# --- tab:global_diagnostic ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Heat:
    """u_t = nu u_xx on (0, 1), with u_0, u_0'' and the solution."""

    nu: float
    initial: Pointwise
    initial_xx: Pointwise
    exact: Callable[[Array, float], Array]


def second_derivative(s: Settings, layers: Layers, x: Array, direction: int) -> Array:
    """The features' second derivative: eq:tanh_chain_compact."""
    slopes = s.gamma * layers.directions[:, direction]
    psi = np.tanh(s.gamma * ((x - np.array(s.centre)) @ layers.directions.T + s.radius * layers.offsets))
    d = (1 - psi**2) * slopes
    dd = -2 * psi * (1 - psi**2) * slopes**2
    for w in layers.weights:
        psi, d, dd = np.tanh(psi @ w.T), d @ w.T, dd @ w.T
        dd = (1 - psi**2) * dd - 2 * psi * (1 - psi**2) * d**2
        d = (1 - psi**2) * d
    return dd


def space_time_regression(p: Heat, s: Settings, points: int, levels: int, ridge: float) -> tuple[float, float, float]:
    """Errors at T and at 0, and the condition of the scaled augmented matrix.  s: dt, assembly and tau have no meaning.

    u_st = u_0 + t D psi(x, t/T)^T alpha, fitted to u_t - nu u_xx = 0 at points x levels.
    """
    T = s.final_time
    levels_t, inner = np.linspace(0, T, levels + 1)[1:], np.linspace(0, 1, points + 2)[1:-1]
    t, x = (axis.ravel() for axis in np.meshgrid(levels_t, inner, indexing="ij"))
    layers, inputs = sample_layers(s, 2), np.stack([x, t / T], axis=1)
    psi, (psi_x, psi_s) = features(s, layers, inputs)
    psi_xx = second_derivative(s, layers, inputs, 0)
    D, D_x = (x * (1 - x))[:, None], (1 - 2 * x)[:, None]
    phi_xx = -2 * psi + 2 * D_x * psi_x + D * psi_xx
    A = D * (psi + t[:, None] * psi_s / T) - t[:, None] * p.nu * phi_xx
    b = p.nu * p.initial_xx(x[:, None])
    rho = ridge * np.sum(A**2) / s.features
    augmented = np.concatenate([A, np.sqrt(rho) * np.eye(s.features)])
    scale = np.linalg.norm(augmented, axis=0)
    y, _, _, sigma = np.linalg.lstsq(augmented / scale, np.concatenate([b, np.zeros(s.features)]), rcond=None)
    x_v, w_v = quadrature(s.validation, 1)
    last = features(s, layers, np.column_stack([x_v, np.ones(len(x_v))]), derivatives=False)[0]
    numerical = p.initial(x_v) + T * boundary_factor(x_v)[0] * (last @ (y / scale))
    initial_error = relative_error(p.initial(x_v), p.exact(x_v, 0.0), w_v)
    return relative_error(numerical, p.exact(x_v, T), w_v), initial_error, float(sigma[0] / sigma[-1])
