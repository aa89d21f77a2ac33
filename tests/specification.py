"""The paper's Algorithm 1, transcribed line by line: one run, NumPy only, nothing shared and nothing clever.

This is the executable specification that the package is compared with. It was written from the paper and the
sampling conventions alone, knows nothing of the package, and is slow on purpose. Labels such as eq:im_retained
are the paper's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Field = Callable[[Array, float], Array]  # points of shape (Q, d) and a time -> values of shape (Q,)


@dataclass(frozen=True)
class Problem:
    """The data of eq:linear_parabolic on (0, 1)^d, with the exact solution that the errors refer to."""

    dimension: int
    diffusion: Field
    source: Field
    exact: Field
    initial: Callable[[Array], Array]


@dataclass(frozen=True)
class Settings:
    """Every number of one run; a rule is "gauss_legendre" or "composite_midpoint", and its nodes per direction."""

    dictionary: str
    seed: int
    features: int
    gamma: float | tuple[float, ...]
    final_time: float
    dt: float
    assembly: tuple[str, int]
    validation: tuple[str, int]
    radius: float
    centre: tuple[float, ...]
    tau: float
    hidden_widths: tuple[int, ...] = ()  # gtransnet: N_1, ..., N_{L-1}; the last layer has N = features neurons
    delta: float = 0.5


@dataclass(frozen=True)
class Result:
    """What one run yields; the histories hold one entry per time t_0, ..., t_{N_t}."""

    error: float
    initial_error: float
    rank: int
    retained_condition: float
    raw_resolution: float
    mass_defect: float
    errors: Array
    energies: Array
    norms: Array


def sample_layers(s: Settings, d: int) -> tuple[Array, Array, list[Array]]:
    """Directions, offsets and later weights of the dictionary, in the order of the sampling conventions."""
    rng = np.random.default_rng(s.seed)
    widths = [*s.hidden_widths, s.features] if s.dictionary == "gtransnet" else [s.features]
    n = widths[0]
    if s.dictionary == "gaussian_rf":
        directions, offsets = rng.standard_normal((n, d)), rng.standard_normal(n)
    elif s.dictionary == "uniform_elm":
        directions, offsets = rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, n)
    else:  # unit directions: eq:trans_feature and eq:gtrans_first
        if d == 1:
            directions = rng.choice([-1.0, 1.0], size=(n, 1))
        else:
            directions = rng.standard_normal((n, d))
            directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        offsets = rng.uniform(0 if s.dictionary == "transnet" else -1, 1, n)
    weights = [rng.normal(0, np.sqrt(s.delta / m), (n, m)) for m, n in pairwise(widths)]  # eq:variance_control
    return directions, offsets, weights


def boundary_factor(x: Array) -> tuple[Array, list[Array]]:
    """D(x), the product of x_i (1 - x_i), and its partial derivatives."""
    d = x.shape[1]
    one_each = x * (1 - x)
    partials = [(1 - 2 * x[:, k]) * np.prod(np.delete(one_each, k, axis=1), axis=1) for k in range(d)]
    return np.prod(one_each, axis=1), partials


def trial_functions(s: Settings, x: Array) -> tuple[Array, list[Array]]:
    """Phi and G_1, ..., G_d at the points: eq:raw_trial_space and the paper's feature-derivative appendix."""
    d = x.shape[1]
    directions, offsets, weights = sample_layers(s, d)
    gamma = np.broadcast_to(np.array(s.gamma, dtype=float), offsets.shape)
    psi = np.tanh(gamma * ((x - np.array(s.centre)) @ directions.T + s.radius * offsets))  # eq:gtrans_first
    d_psi = [(1 - psi**2) * (gamma * directions[:, k]) for k in range(d)]
    for w in weights:  # eq:gtrans_second
        psi = np.tanh(psi @ w.T)
        d_psi = [(1 - psi**2) * (g @ w.T) for g in d_psi]
    factor, d_factor = boundary_factor(x)
    phi = factor[:, None] * psi
    d_phi = [d_factor[k][:, None] * psi + factor[:, None] * d_psi[k] for k in range(d)]
    return phi, d_phi


def quadrature(rule: tuple[str, int], d: int) -> tuple[Array, Array]:
    """Nodes (Q, d) and weights (Q,) of the tensor product of a one-dimensional rule on (0, 1)."""
    name, n = rule
    if name == "gauss_legendre":
        z, v = np.polynomial.legendre.leggauss(n)
        x1, w1 = (1 + z) / 2, v / 2
    else:  # composite midpoint
        x1, w1 = (np.arange(n) + 0.5) / n, np.full(n, 1 / n)
    nodes = np.stack([axis.ravel() for axis in np.meshgrid(*[x1] * d, indexing="ij")], axis=1)
    weights = np.prod([axis.ravel() for axis in np.meshgrid(*[w1] * d, indexing="ij")], axis=0)
    return nodes, weights


def evolve(p: Problem, s: Settings) -> Result:
    """Algorithm 1 (alg:evo_gtransnet_im), in the paper's order, with the paper's diagnostics."""
    x, w = quadrature(s.assembly, p.dimension)
    # lines 1-2: the dictionary, Phi, G_l and B
    phi, g = trial_functions(s, x)
    b = np.sqrt(w)[:, None] * phi
    # line 3: thin SVD; keep sigma_i > sqrt(tau) sigma_1
    _, sigma, vt = np.linalg.svd(b, full_matrices=False)
    r = int(np.sum(sigma > np.sqrt(s.tau) * sigma[0]))
    # line 4: eq:normalized_phi, eq:normalized_derivative
    t_r = vt[:r].T / sigma[:r]
    phi_r = phi @ t_r
    g_r = [gl @ t_r for gl in g]

    def stiffness(t: float) -> Array:  # eq:raw_to_normalized
        weighted = (w * p.diffusion(x, t))[:, None]
        return np.asarray(sum(gl.T @ (weighted * gl) for gl in g_r))

    def load(t: float) -> Array:  # eq:raw_to_normalized
        return np.asarray(phi_r.T @ (w * p.source(x, t)))

    x_v, w_v = quadrature(s.validation, p.dimension)
    phi_v = trial_functions(s, x_v)[0] @ t_r

    def relative_error(alpha: Array, t: float) -> float:  # eq:validation_error
        reference = p.exact(x_v, t)
        return float(np.sqrt(np.sum(w_v * (phi_v @ alpha - reference) ** 2) / np.sum(w_v * reference**2)))

    # line 5: the projected initial datum
    alpha = phi_r.T @ (w * p.initial(x))
    errors, energies, norms = [relative_error(alpha, 0.0)], [alpha @ stiffness(0.0) @ alpha], [np.linalg.norm(alpha)]
    # lines 6-10: eq:im_retained
    identity = np.eye(r)
    for n in range(round(s.final_time / s.dt)):
        k, f = stiffness((n + 0.5) * s.dt), load((n + 0.5) * s.dt)
        alpha = np.linalg.solve(identity + s.dt / 2 * k, (identity - s.dt / 2 * k) @ alpha + s.dt * f)
        t = (n + 1) * s.dt
        errors.append(relative_error(alpha, t))
        energies.append(alpha @ stiffness(t) @ alpha)
        norms.append(np.linalg.norm(alpha))
    smallest = sigma[-1] if len(sigma) == s.features else 0.0  # M_q, N x N, is singular with fewer nodes than features
    return Result(
        error=errors[-1],
        initial_error=errors[0],
        rank=r,
        retained_condition=float((sigma[0] / sigma[r - 1]) ** 2),
        raw_resolution=float((smallest / sigma[0]) ** 2),
        mass_defect=float(np.linalg.norm(phi_r.T @ (w[:, None] * phi_r) - identity, 2)),
        errors=np.array(errors),
        energies=np.array(energies),
        norms=np.array(norms),
    )
