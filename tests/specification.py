"""The paper's Algorithm 1, transcribed line by line: one run, NumPy only, nothing shared and nothing clever.

This is the executable specification that the package is compared with. It was written from the paper and the sampling
conventions alone and knows nothing of the package. Labels such as eq:im_retained are the paper's own.
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
    steady: bool = False  # the diffusion does not depend on time: its stiffness is assembled once


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
    recorded: tuple[int, ...] | None = None  # the steps after which the run is measured; None: t_0, ..., t_{N_t}


@dataclass(frozen=True)
class Layers:
    """The sampled dictionary."""

    directions: Array
    offsets: Array
    weights: list[Array]


@dataclass(frozen=True)
class RetainedSpace:
    """Lines 1 to 4 of the algorithm: the nodes and weights of assembly, sigma, T_r, Phi~ and G~_1, ..., G~_d."""

    layers: Layers
    nodes: Array
    weights: Array
    sigma: Array
    transform: Array
    values: Array
    gradient: list[Array]


@dataclass(frozen=True)
class Result:
    """What one run yields; the histories hold one entry per recorded step."""

    error: float
    initial_error: float
    rank: int
    retained_condition: float
    raw_resolution: float
    mass_defect: float
    errors: Array
    energies: Array
    norms: Array
    coefficients: Array
    space: RetainedSpace


def sample_layers(s: Settings, d: int) -> Layers:
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
    return Layers(directions, offsets, weights)


def boundary_factor(x: Array) -> tuple[Array, list[Array]]:
    """D(x), the product of x_i (1 - x_i), and its partial derivatives."""
    d = x.shape[1]
    one_each = x * (1 - x)
    partials = [(1 - 2 * x[:, k]) * np.prod(np.delete(one_each, k, axis=1), axis=1) for k in range(d)]
    return np.prod(one_each, axis=1), partials


def features(s: Settings, layers: Layers, x: Array, derivatives: bool = True) -> tuple[Array, list[Array]]:
    """psi at the points, and its partial derivatives where they are wanted: the paper's feature-derivative appendix."""
    gamma = np.broadcast_to(np.array(s.gamma, dtype=float), layers.offsets.shape)
    from_centre = x - np.array(s.centre)
    psi = np.tanh(gamma * (from_centre @ layers.directions.T + s.radius * layers.offsets))  # eq:gtrans_first
    d_psi = []
    if derivatives:
        slope = 1 - psi**2
        d_psi = [slope * (gamma * along) for along in layers.directions.T]
    for w in layers.weights:  # eq:gtrans_second
        psi = np.tanh(psi @ w.T)
        if derivatives:
            slope = 1 - psi**2
            d_psi = [slope * (g @ w.T) for g in d_psi]
    return psi, d_psi


def evaluate_trial(s: Settings, layers: Layers, x: Array) -> Array:
    """Phi at the points: eq:raw_trial_space."""
    return boundary_factor(x)[0][:, None] * features(s, layers, x, derivatives=False)[0]


def make_trial(s: Settings, layers: Layers, x: Array) -> tuple[Array, list[Array]]:
    """Phi and G_1, ..., G_d at the points."""
    psi, d_psi = features(s, layers, x)
    factor, d_factor = boundary_factor(x)
    d_phi = [dD[:, None] * psi + factor[:, None] * g for dD, g in zip(d_factor, d_psi, strict=True)]
    return factor[:, None] * psi, d_phi


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


def retained_space(s: Settings, d: int) -> RetainedSpace:
    """Lines 1 to 4 of Algorithm 1."""
    x, w = quadrature(s.assembly, d)
    # lines 1-2: the dictionary, Phi, G_l and B
    layers = sample_layers(s, d)
    phi, g = make_trial(s, layers, x)
    b = np.sqrt(w)[:, None] * phi
    # line 3: thin SVD; keep sigma_i > sqrt(tau) sigma_1
    _, sigma, vt = np.linalg.svd(b, full_matrices=False)
    r = int(np.sum(sigma > np.sqrt(s.tau) * sigma[0]))
    # line 4: eq:normalized_phi, eq:normalized_derivative
    t_r = vt[:r].T / sigma[:r]
    return RetainedSpace(layers, x, w, sigma, t_r, phi @ t_r, [gl @ t_r for gl in g])


def stiffness(p: Problem, x: Array, w: Array, gradient: list[Array], t: float) -> Array:
    """K~(t): eq:raw_to_normalized."""
    weighted = (w * p.diffusion(x, t))[:, None]
    return np.asarray(sum(gl.T @ (weighted * gl) for gl in gradient))


def relative_error(numerical: Array, reference: Array, weights: Array) -> float:
    """eq:validation_error."""
    return float(np.sqrt(np.sum(weights * (numerical - reference) ** 2) / np.sum(weights * reference**2)))


def evolve(p: Problem, s: Settings) -> Result:
    """Algorithm 1 (alg:evo_gtransnet_im), in the paper's order, with the paper's diagnostics."""
    space = retained_space(s, p.dimension)
    x, w, phi_r, g_r, r = space.nodes, space.weights, space.values, space.gradient, space.transform.shape[1]
    x_v, w_v = quadrature(s.validation, p.dimension)
    phi_v = evaluate_trial(s, space.layers, x_v) @ space.transform
    # line 5: the projected initial datum
    alpha = phi_r.T @ (w * p.initial(x))
    steps = round(s.final_time / s.dt)
    recorded = range(steps + 1) if s.recorded is None else s.recorded
    errors, energies, norms = [], [], []

    def measure(n: int) -> None:
        t = n * s.dt
        errors.append(relative_error(phi_v @ alpha, p.exact(x_v, t), w_v))
        # alpha . K~ alpha, by eq:quadrature_diffusion_energy
        energies.append(np.sum(w * p.diffusion(x, t) * sum((gl @ alpha) ** 2 for gl in g_r)))
        norms.append(np.linalg.norm(alpha))

    if 0 in recorded:
        measure(0)
    # lines 6-10: eq:im_retained
    identity = np.eye(r)
    k = stiffness(p, x, w, g_r, 0.0)
    for n in range(steps):
        t = (n + 0.5) * s.dt
        if not p.steady:
            k = stiffness(p, x, w, g_r, t)
        f = phi_r.T @ (w * p.source(x, t))  # eq:raw_to_normalized
        alpha = np.linalg.solve(identity + s.dt / 2 * k, (identity - s.dt / 2 * k) @ alpha + s.dt * f)
        if n + 1 in recorded:
            measure(n + 1)
    return Result(
        error=errors[-1], initial_error=errors[0], rank=r,
        retained_condition=float((space.sigma[0] / space.sigma[r - 1]) ** 2),
        raw_resolution=raw_resolution(space, s.features), mass_defect=mass_defect(phi_r, w), errors=np.array(errors),
        energies=np.array(energies), norms=np.array(norms), coefficients=alpha, space=space,
    )  # fmt: skip


def raw_resolution(space: RetainedSpace, features: int) -> float:
    """sigma_min(M_q) / sigma_max(M_q); M_q, N x N, is singular with fewer nodes than features."""
    smallest = space.sigma[-1] if len(space.sigma) == features else 0.0
    return float((smallest / space.sigma[0]) ** 2)


def mass_defect(values: Array, weights: Array) -> float:
    """|| Phi~^T W Phi~ - I ||_2."""
    return float(np.linalg.norm(values.T @ (weights[:, None] * values) - np.eye(values.shape[1]), 2))
