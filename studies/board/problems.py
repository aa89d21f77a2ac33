"""The problems of the board, and reference solutions that share no code with the judged methods.

A problem is stated in the formulas of a study file.  A reference is a function of points (P, d) that returns all fields
(n, P) at the final time.  It has two levels of resolution, and their difference measures its error.
"""

from functools import lru_cache

import numpy as np
import scipy.sparse as sparse
import sympy
from scipy.integrate import solve_ivp

from evogt_study import pde

PERIODIC = {"x": "periodic"}
PROBLEMS = {
    "burgers": {
        "dimension": 1, "domain": {"lower": [-1], "upper": [1]}, "final_time": 1.0,
        "fields": {"u": {"flux": ["u_x/(100*pi) - u**2/2"], "initial": "-sin(pi*x)"}},
    },
    "allen_cahn_1d": {
        "dimension": 1, "domain": {"lower": [-1], "upper": [1]}, "boundary": PERIODIC, "final_time": 1.0,
        "fields": {"u": {"flux": ["u_x/10000"], "reaction": "5*u - 5*u**3", "initial": "x**2*cos(pi*x)"}},
    },
    "kuramoto_sivashinsky": {  # u_t + 100/16 u u_x + 100/16^2 u_xx + 100/16^4 u_xxxx = 0 with v = u_xx
        "dimension": 1, "domain": {"lower": [0], "upper": [2 * np.pi]}, "boundary": PERIODIC, "final_time": 1.0,
        "fields": {
            "u": {"flux": ["-25*u**2/8 - 25*u_x/64 - 25*v_x/16384"], "initial": "cos(x)*(1 + sin(x))"},
            "v": {"flux": ["u_x"], "reaction": "-v", "algebraic": True},
        },
    },
    "gray_scott": {
        "dimension": 2, "domain": {"lower": [-1, -1], "upper": [1, 1]}, "boundary": {"x": "periodic", "y": "periodic"},
        "final_time": 200.0,
        "fields": {
            "u": {
                "flux": ["u_x/100000", "u_y/100000"], "reaction": "(1 - u)/25 - u*v**2",
                "initial": "1 - exp(-80*((x + 1/20)**2 + (y + 1/50)**2))",
            },
            "v": {
                "flux": ["v_x/200000", "v_y/200000"], "reaction": "u*v**2 - v/10",
                "initial": "exp(-80*((x - 1/20)**2 + (y - 1/50)**2))",
            },
        },
    },
    "heat_multiscale": {
        "dimension": 2, "final_time": 5.0,
        "fields": {"u": {"flux": ["u_x/(500*pi)**2", "u_y/pi**2"], "initial": "sin(20*pi*x)*sin(pi*y)"}},
    },
    "brusselator": {
        "dimension": 1, "final_time": 10.0,
        "fields": {
            "u": {
                "flux": ["u_x/50"], "reaction": "1 + u**2*v - 4*u", "initial": "1 + sin(2*pi*x)", "lifting": "1",
            },
            "v": {"flux": ["v_x/50"], "reaction": "3*u - u**2*v", "initial": "3", "lifting": "3"},
        },
    },
    "fitzhugh_nagumo": {
        "dimension": 1, "final_time": 8.0, "boundary": {"x0": {"flux": "0"}, "x1": {"flux": "0"}},
        "fields": {
            "v": {
                "flux": ["3*v_x/200"], "reaction": "(v*(v - 1/10)*(1 - v) - w + 1/20)*200/3", "initial": "0",
                "boundary": {"x0": {"flux": "750*t**3*exp(-15*t)"}, "x1": {"flux": "0"}},
            },
            "w": {"flux": ["0"], "reaction": "v/2 - 2*w + 1/20", "initial": "0"},
        },
    },
}  # fmt: skip
POINTS = {1: 2000, 2: 160}
"""Validation points for each direction: midpoints of equal cells."""


@lru_cache
def problem_of(row):
    """Return the data of a problem with its derivatives in formulas."""
    data = pde.FormulaProblem(**PROBLEMS[row])()
    data.terms.initial(validation_points(row)[:1])  # all functions are made now, so that no method is charged for it
    return data


@lru_cache
def validation_points(row):
    """Return the points (P, d) at which errors are measured."""
    d = PROBLEMS[row]["dimension"]
    box = PROBLEMS[row].get("domain", {"lower": [0] * d, "upper": [1] * d})
    middles = (np.arange(POINTS[d]) + 0.5) / POINTS[d]
    axes = [a + (b - a) * middles for a, b in zip(box["lower"], box["upper"], strict=True)]
    return np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)


@lru_cache
def reference_values(row):
    """Return the reference (n, P) at the validation points and its own error."""
    fine, coarse = (REFERENCES[row](validation_points(row), level) for level in (1, 0))
    return fine, relative_error(coarse, fine)


def relative_error(found, known):
    """Return the largest relative L2 error of the fields, (n, P)."""
    return float((np.linalg.norm(found - known, axis=1) / np.linalg.norm(known, axis=1)).max())


def cole_hopf(points, level):
    """Burgers' equation by the formula of Cole and Hopf, with the trapezoidal rule."""
    x, nu, found = points[:, 0], 0.01 / np.pi, []
    eta = np.linspace(-1.2, 1.2, (3001, 6001)[level])
    for part in np.array_split(x, 20):
        y = part[:, None] - eta
        exponent = -np.cos(np.pi * y) / (2 * np.pi * nu) - eta**2 / (4 * nu)
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        found.append(-(np.sin(np.pi * y) * weight).sum(axis=1) / weight.sum(axis=1))
    return np.concatenate(found)[None]


def spectral_elements(cells, degree):
    """Return nodes, masses and stiffness of Gauss-Lobatto elements on (0, 1), and their evaluation."""
    inner = np.polynomial.legendre.Legendre.basis(degree).deriv().roots()
    s = np.concatenate([[-1.0], inner, [1.0]])
    weights = 2 / (degree * (degree + 1) * np.polynomial.legendre.Legendre.basis(degree)(s) ** 2)
    gaps = s[:, None] - s + np.eye(degree + 1)
    b = 1 / gaps.prod(axis=1)
    D = (b / b[:, None]) / gaps
    np.fill_diagonal(D, 0.0)
    np.fill_diagonal(D, -D.sum(axis=1))
    h, size = 1 / cells, cells * degree + 1
    x, mass, stiffness = np.empty(size), np.zeros(size), sparse.lil_array((size, size))
    for c in range(cells):
        part = slice(c * degree, (c + 1) * degree + 1)
        x[part] = h * (c + (s + 1) / 2)
        mass[part] += weights * h / 2
        stiffness[part, part] += D.T @ (weights[:, None] * D) * 2 / h

    def evaluate(u, points):
        cell = np.minimum((points * cells).astype(int), cells - 1)
        local = 2 * (points * cells - cell) - 1
        gaps = local[:, None] - s
        gaps[gaps == 0] = 1e-300
        terms = b / gaps
        return (terms * u[cell[:, None] * degree + np.arange(degree + 1)]).sum(axis=1) / terms.sum(axis=1)

    return x, mass, stiffness.tocsr(), evaluate


def reaction_diffusion(cells, fields, diffusions, rate, initial, T, flux=None, fixed=False, tolerance=1e-11):
    """Solve u_t = d u_xx + rate(u) on (0, 1) by spectral elements and SciPy's Radau; return the fields as functions."""
    x, mass, stiffness, evaluate = spectral_elements(cells, 10)
    size = len(x)
    K = sparse.block_diag([d * sparse.diags_array(1 / mass) @ stiffness for d in diffusions]).tocsr()
    held = [a * size + end for a in range(fields) for end in (0, size - 1)] if fixed else []

    def slope(t, y):
        found = rate(y.reshape(fields, size)).ravel() - K @ y
        if flux is not None:
            found[0] += flux(t) / mass[0]
        found[held] = 0.0
        return found

    pattern = (abs(K) + sparse.kron(np.ones((fields, fields)), sparse.eye_array(size)) != 0).astype(float)
    start = np.stack(initial(x)).ravel()
    solution = solve_ivp(
        slope, (0, T), start, "Radau", rtol=tolerance, atol=tolerance, jac_sparsity=pattern, first_step=1e-5
    )
    made = solution.y[:, -1].reshape(fields, size)
    return lambda points: np.stack([evaluate(u, points) for u in made])


def allen_cahn(points, level):
    """The half cell (0, 1) with zero flux at both ends: the solution is even about both."""
    found = reaction_diffusion(
        (80, 120)[level], 1, [1e-4], lambda u: 5 * u - 5 * u**3, lambda x: [x**2 * np.cos(np.pi * x)], 1.0,
        tolerance=(1e-10, 1e-11)[level],
    )  # fmt: skip
    return found(np.abs(points[:, 0]))


def brusselator(points, level):
    """Both fields with fixed ends."""

    def rate(y):
        u, v = y
        return np.stack([1 + u**2 * v - 4 * u, 3 * u - u**2 * v])

    def initial(x):
        return [1 + np.sin(2 * np.pi * x), np.full_like(x, 3.0)]

    T, tolerance = 10.0, (1e-12, 1e-13)[level]
    return reaction_diffusion((6, 8)[level], 2, [0.02] * 2, rate, initial, T, fixed=True, tolerance=tolerance)(
        points[:, 0]
    )


def fitzhugh_nagumo(points, level):
    """The flux at the left end, and no diffusion of w."""

    def rate(y):
        v, w = y
        return np.stack([(v * (v - 0.1) * (1 - v) - w + 0.05) / 0.015, v / 2 - 2 * w + 0.05])

    return reaction_diffusion(
        (12, 16)[level], 2, [0.015, 0.0], rate, lambda x: [0 * x, 0 * x], 8.0,
        flux=lambda t: 750 * t**3 * np.exp(-15 * t), tolerance=(1e-11, 1e-12)[level],
    )(points[:, 0])  # fmt: skip


def difference(n, h, order, derivative):
    """Return the matrix of a central difference on a periodic grid."""
    k = list(range(-(order // 2), order // 2 + 1))
    weights = sympy.finite_diff_weights(derivative, k, 0)[derivative][-1]
    shifts = (float(w) * sparse.csr_array(np.roll(np.eye(n), j, axis=1)) for j, w in zip(k, weights, strict=True) if w)
    return sum(shifts) / h**derivative


def kuramoto_sivashinsky(points, level):
    """Differences of order sixteen on a uniform grid, and SciPy's Radau; evaluated by a trigonometric interpolant."""
    n, tolerance = (320, 400)[level], (1e-11, 1e-12)[level]
    h = 2 * np.pi / n
    D = difference(n, h, 16, 1)
    L = -100 / 256 * difference(n, h, 16, 2) - 100 / 65536 * difference(n, h, 18, 4)
    x = h * np.arange(n)
    solution = solve_ivp(
        lambda t, u: L @ u - 100 / 32 * (D @ u**2), (0, 1), np.cos(x) * (1 + np.sin(x)), "Radau",
        jac=lambda t, u: (L - 100 / 16 * D @ sparse.diags_array(u)).tocsc(), rtol=tolerance, atol=tolerance,
    )  # fmt: skip
    coefficients = np.fft.fft(solution.y[:, -1]) / n
    k = np.fft.fftfreq(n, 1 / n)
    u, v = ((np.exp(1j * np.outer(points[:, 0], k)) @ (factor * coefficients)).real for factor in (1, -(k**2)))
    return np.stack([u, v])


def gray_scott(points, level):
    """Differences of order eight on (-1/2, 1/2)^2, with u = 1 and v = 0 outside, and the classical RK4 method."""
    n, steps = (240, 320)[level], (600, 1100)[level]
    h, dt = 1 / n, 200 / steps
    x = -0.5 + h * np.arange(n)
    X, Y = np.meshgrid(x, x, indexing="ij")
    state = np.stack([
        1 - np.exp(-80 * ((X + 0.05) ** 2 + (Y + 0.02) ** 2)), np.exp(-80 * ((X - 0.05) ** 2 + (Y - 0.02) ** 2)),
    ])  # fmt: skip
    L = difference(n, h, 8, 2)

    def rate(y):
        reacted = y[0] * y[1] ** 2
        diffused = [d * (L @ each + (L @ each.T).T) for d, each in zip((1e-5, 5e-6), y, strict=True)]
        return np.stack([diffused[0] + 0.04 * (1 - y[0]) - reacted, diffused[1] - 0.1 * y[1] + reacted])

    for _ in range(steps):
        a = rate(state)
        b = rate(state + dt / 2 * a)
        c = rate(state + dt / 2 * b)
        state = state + dt / 6 * (a + 2 * b + 2 * c + rate(state + dt * c))
    inside = (np.abs(points) < 0.5).all(axis=1)
    along = np.unique(points[inside, 0])
    E = np.exp(2j * np.pi * np.outer(along + 0.5, np.fft.fftfreq(n, h)))
    found = np.repeat([[1.0], [0.0]], len(points), axis=1)
    for each, grid in zip(found, state, strict=True):
        each[inside] = (E @ (np.fft.fft2(grid) / n**2) @ E.T).real.ravel()
    return found


def heat_multiscale(points, level):
    """The exact solution, one mode."""
    x, y = points.T
    return (np.exp(-5.0 * (1 + (20 / 500) ** 2)) * np.sin(20 * np.pi * x) * np.sin(np.pi * y))[None]


REFERENCES = {
    "burgers": cole_hopf, "allen_cahn_1d": allen_cahn, "kuramoto_sivashinsky": kuramoto_sivashinsky,
    "gray_scott": gray_scott, "heat_multiscale": heat_multiscale, "brusselator": brusselator,
    "fitzhugh_nagumo": fitzhugh_nagumo,
}  # fmt: skip
