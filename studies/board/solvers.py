"""The methods of the board: feature dictionaries, quadratic finite elements, and spectral codes of fifty lines.

Each method takes lists `sizes` and `steps` and solves the problem `row` with the entry `level` of both.  It returns the
largest relative L2 error of the evolved fields at the final time, its CPU seconds, and its number of unknowns.
"""

import time
from itertools import pairwise

import numpy as np
import scipy.sparse as sparse
from problems import PROBLEMS, problem_of, reference_values, relative_error, validation_points
from scipy.integrate import solve_ivp
from scipy.sparse.linalg import splu

from evogt_study import pde
from evogt_study.pde.baselines.finite_elements import SDIRK_4, make_element_space
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.methods.evolution import solve_fields
from evogt_study.pde.numerics import TimeGrid
from evogt_study.pde.pipeline import Discretisation


def judge(row, solve):
    """Time `solve`, which returns unknowns and a function of points, and measure its error."""
    data, points = problem_of(row), validation_points(row)
    start = time.process_time()
    unknowns, evaluate = solve(data)
    seconds = time.process_time() - start
    known, own = reference_values(row)
    fields = ~np.array(data.terms.algebraic)
    found, known = evaluate(points)[fields], known[fields]
    joint = [each.reshape(1, -1) for each in (found, known)]
    return {
        "error": relative_error(found, known),
        "error_joint": relative_error(*joint),
        "seconds": seconds,
        "unknowns": unknowns,
        "reference_error": own,
    }


def solve_by_features(row, dictionary, size, steps, integrator, points, tau, seed, **parameters):
    """Solve by the retained Galerkin space of a dictionary of the package."""
    d = PROBLEMS[row]["dimension"]
    periodic = "periodic" in str(PROBLEMS[row].get("boundary"))
    count = round(points * size ** (1 / d))
    rule = pde.QuadratureRule("composite_midpoint" if periodic else "gauss_legendre", count)

    def solve(data):
        run = Discretisation(
            pde.Dictionary(dictionary, N=size, **parameters), seed, tau, rule, rule,
            TimeGrid(PROBLEMS[row]["final_time"], steps, (steps,)), INTEGRATORS[integrator](),
        )  # fmt: skip
        solution = solve_fields(data, run)
        return sum(solution.system.sizes), lambda nodes: solution.evaluate(nodes)[-1]

    return judge(row, solve)


def random_features(row, dictionary, sizes, steps, level, seed, gamma, integrator="radau_iia_3", points=3.0, tau=1e-13):
    """Random tanh features; gtransnet has a first layer of four times as many, at most 1,500."""
    wide = {"N1": min(4 * sizes[level], 1500)} if dictionary == "gtransnet" else {}
    return solve_by_features(
        row, dictionary, sizes[level], steps[level], integrator, points, tau, seed, gamma=gamma[level], **wide
    )


def fixed_features(row, dictionary, sizes, steps, level, integrator="radau_iia_3", points=3.0, tau=1e-13):
    """Legendre polynomials, sines or Fourier modes."""
    return solve_by_features(row, dictionary, sizes[level], steps[level], integrator, points, tau, 0)


class QuadraticElements:
    """Quadratic elements for the weak form of the package, with sparse matrices and SDIRK of order four."""

    def __init__(self, data, cells):
        self.terms = data.terms
        self.boxes = [data.problem.box(each) for _, each in data.problem.fields]
        self.spaces = [make_element_space(box, 2, cells, 6) for box in self.boxes]
        self.bases = [[space.interior.values, *space.interior.gradients] for space in self.spaces]
        ends = np.cumsum([0, *(space.reduction.shape[1] for space in self.spaces)])
        self.parts = [slice(*pair) for pair in pairwise(ends)]
        self.size, self.rule = int(ends[-1]), self.spaces[0].interior.rule
        self.nodes = dict(zip("xyz", self.rule.nodes.T, strict=False))
        w, pairs = self.rule.weights, list(zip(self.bases, self.terms.algebraic, strict=True))
        self.mass = sparse.block_diag(
            [(0 if gone else 1) * (B[0].T @ (w[:, None] * B[0])) for B, gone in pairs]
        ).tocsc()
        whole = [B[0].T @ (w[:, None] * B[0]) for B in self.bases]
        first = self.terms.initial(self.rule.nodes)
        self.initial = np.concatenate(
            [splu(M.tocsc()).solve(B[0].T @ (w * v)) for M, B, v in zip(whole, self.bases, first, strict=True)]
        )
        self.constant = self.matrix(self.terms.steady_places, self.terms.steady({**self.nodes, "t": 0.0}))

    def matrix(self, places, coefficients):
        """Sum of D_p^T diag(w c) D_q in the blocks (a, b)."""
        blocks = [[sparse.csr_array((B[0].shape[1], C[0].shape[1])) for C in self.bases] for B in self.bases]
        for (a, p, b, q), c in zip(places, coefficients, strict=True):
            weights = np.broadcast_to(self.rule.weights * c, self.rule.weights.shape)
            blocks[a][b] = blocks[a][b] + self.bases[a][p].T @ (weights[:, None] * self.bases[b][q])
        return sparse.block_array(blocks).tocsc()

    def known(self, z, t):
        """Fields and derivatives at the nodes."""
        values = {**self.nodes, "t": t}
        for names, basis, part in zip(self.terms.slots, self.bases, self.parts, strict=True):
            values.update(zip(names, (B @ z[part] for B in basis), strict=True))
        return values

    def residual(self, z, t):
        """The weak form; fluxes on faces must not depend on the fields."""
        found = np.zeros(self.size)
        for (a, p), c in zip(self.terms.places, self.terms.values(self.known(z, t)), strict=True):
            found[self.parts[a]] += self.bases[a][p].T @ (self.rule.weights * c)
        for term in self.terms.faces:
            face = self.spaces[term.row].faces[term.face]
            flux = np.broadcast_to(term.functions({"t": t})[0], face.rule.weights.shape)
            found[self.parts[term.row]] += face.values.T @ (face.rule.weights * flux)
        return found

    def jacobian(self, z, t):
        """The derivative of the residual."""
        return self.constant + self.matrix(self.terms.varying_places, self.terms.varying(self.known(z, t)))

    def march_semi_implicitly(self, final_time, steps):
        """Return the final state by the formula of imex_bdf_2: one factorisation, explicit in what is not linear."""
        dt, z, before, rate = final_time / steps, self.initial, None, None
        for n in range(steps):
            now = self.residual(z, n * dt) - self.constant @ z
            if before is None:
                z, before = splu((self.mass - dt * self.constant).tocsc()).solve(self.mass @ z + dt * now), z
                factors = splu((1.5 * self.mass - dt * self.constant).tocsc())
            else:
                side = self.mass @ (2.0 * z - before / 2.0) + dt * (2.0 * now - rate)
                z, before = factors.solve(side), z
            rate = now
        return z

    def march(self, final_time, steps):
        """Return the final state; the factors of Newton's matrix are kept while it converges."""
        A, dt, z, factors = SDIRK_4.matrix, final_time / steps, self.initial, None
        gamma, rows = A[0, 0], np.repeat(self.terms.algebraic, [space.reduction.shape[1] for space in self.spaces])
        if rows.any():  # algebraic fields that fit the initial values
            J = self.constant.tocsr()[rows][:, rows]
            z[rows] -= splu(J.tocsc()).solve(self.residual(z, 0.0)[rows])
        for n in range(steps):
            slopes, base, U = [], self.mass @ z, z
            for a, c in zip(A, A.sum(axis=1), strict=True):
                t = (n + c) * dt
                known = base + dt * sum((a[j] * slope for j, slope in enumerate(slopes)), np.zeros(self.size))
                before = np.inf
                for _ in range(30):
                    slope = self.residual(U, t)
                    if factors is None:
                        factors = splu(self.mass - dt * gamma * self.jacobian(U, t))
                    change = factors.solve(self.mass @ U - known - dt * gamma * slope)
                    U, size = U - change, np.linalg.norm(change)
                    if size <= 1e-10 * np.linalg.norm(U):
                        break
                    if size > 0.2 * before:
                        factors, before = None, np.inf
                    else:
                        before = size
                else:
                    raise ArithmeticError("Newton's method did not converge")
                slopes.append(self.residual(U, t))
            z = U
        return z

    def evaluate(self, z, nodes, t):
        """The fields at any points."""
        parts = [space.evaluate(nodes, z[part][None])[0] for space, part in zip(self.spaces, self.parts, strict=True)]
        return np.stack(parts) + self.terms.lifting(nodes, t)


def elements(row, sizes, steps, level, integrator="sdirk_4"):
    """Quadratic finite elements; `sizes` are cells for each direction."""
    T = PROBLEMS[row]["final_time"]

    def solve(data):
        system = QuadraticElements(data, sizes[level])
        march = system.march if integrator == "sdirk_4" else system.march_semi_implicitly
        z = march(T, steps[level])
        return system.size, lambda nodes: system.evaluate(z, nodes, T)

    return judge(row, solve)


FOURIER = {  # length of a period, diffusion of each field, and the nonlinear rest
    "burgers": (2.0, [0.01 / np.pi], lambda u: -(u**2) / 2, 1),
    "allen_cahn_1d": (2.0, [1e-4], lambda u: 5 * u - 5 * u**3, 0),
    "kuramoto_sivashinsky": (2 * np.pi, None, lambda u: -100 / 32 * u**2, 1),
    "gray_scott": (2.0, [1e-5, 5e-6], lambda y: np.stack([0.04 - y[0] * y[1] ** 2, y[0] * y[1] ** 2]), 0),
}


def fourier_code(row, sizes, steps, level):
    """ETDRK4 of Cox and Matthews on Fourier coefficients, with the two-thirds rule; `sizes` for each direction."""
    length, diffusion, rate, order = FOURIER[row]
    d, n = PROBLEMS[row]["dimension"], sizes[level]
    lower = PROBLEMS[row]["domain"]["lower"][0]
    h = PROBLEMS[row]["final_time"] / steps[level]

    def solve(data):
        x = lower + length / n * np.arange(n)
        nodes = np.stack([each.ravel() for each in np.meshgrid(*[x] * d, indexing="ij")], axis=1)
        axes = tuple(range(1, d + 1))
        k = 2 * np.pi / length * np.fft.fftfreq(n, 1 / n)
        squares = sum(np.meshgrid(*[k**2] * d, indexing="ij"))
        kept = np.prod(np.meshgrid(*[np.abs(k) < 2 / 3 * np.abs(k).max()] * d, indexing="ij"), axis=0)
        L = (
            np.stack([-each * squares for each in diffusion])
            if diffusion
            else (100 / 256 * k**2 - 100 / 65536 * k**4)[None]
        )
        if row == "gray_scott":
            L -= np.array([0.04, 0.1])[:, None, None]
        factor = kept * (1j * k) ** order if order else kept

        def rest(v):
            return factor * np.fft.fftn(rate(np.fft.ifftn(v, axes=axes).real), axes=axes)

        roots = np.exp(1j * np.pi * (np.arange(16) + 0.5) / 16)
        E, E2, Q, f = np.exp(h * L), np.exp(h * L / 2), np.zeros(L.shape), np.zeros((3, *L.shape))
        for root in roots:
            z = h * L + root
            Q += h * ((np.exp(z / 2) - 1) / z).real / 16
            f[0] += h * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).real / 16
            f[1] += h * ((2 + z + np.exp(z) * (z - 2)) / z**3).real / 16
            f[2] += h * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).real / 16
        count = len(L)
        v = np.fft.fftn(data.terms.initial(nodes)[:count].reshape(count, *[n] * d), axes=axes)
        for _ in range(steps[level]):
            Nv = rest(v)
            a = E2 * v + Q * Nv
            Na = rest(a)
            b = E2 * v + Q * Na
            Nb = rest(b)
            c = E2 * a + Q * (2 * Nb - Nv)
            v = E * v + f[0] * Nv + 2 * f[1] * (Na + Nb) + f[2] * rest(c)

        def evaluate(points):
            waves = [np.exp(1j * np.outer(np.unique(part) - lower, k)) / n for part in points.T]
            fields = v if diffusion else np.concatenate([v, -(k**2) * v])
            if d == 1:
                return (fields @ waves[0].T).real
            return (waves[0] @ fields @ waves[1].T).real.reshape(count, -1)

        return count * n**d, evaluate

    return judge(row, solve)


def chebyshev_code(row, sizes, steps, level):
    """Chebyshev collocation on (0, 1) and SciPy's Radau; `steps` are the digits of its tolerance."""
    n, fixed, terms = sizes[level], row == "brusselator", problem_of(row).terms
    flux = None if fixed else next(each for each in terms.faces if (each.row, each.face) == (0, "x0"))

    def solve(data):
        x = (1 - np.cos(np.pi * np.arange(n + 1) / n)) / 2
        c = np.r_[2.0, np.ones(n - 1), 2.0] * (-1.0) ** np.arange(n + 1)
        D = np.outer(c, 1 / c) / (x[:, None] - x + np.eye(n + 1))
        D = D - np.diag(D.sum(axis=1))
        nodes, diffusions = {"x": x}, (0.02, 0.02) if fixed else (0.015, 0.0)
        lifting = data.terms.lifting(x[:, None], 0.0)

        def rate(t, y):
            fields = y.reshape(2, n + 1)
            g = data.terms.values({
                **nodes, "t": t, **{names[0]: u for names, u in zip(data.terms.slots, fields, strict=True)},
                **{names[1]: 0 * x for names in data.terms.slots},
            })  # fmt: skip
            found = np.zeros_like(fields)
            for (a, p), each in zip(data.terms.places, g, strict=True):
                found[a] += each if p == 0 else 0.0
            for a, diffusion in enumerate(diffusions):
                slope = diffusion * (D @ fields[a])
                if not fixed and a == 0:
                    slope[[0, -1]] = -flux.functions({"t": t})[0], 0.0
                found[a] += D @ slope if diffusion else 0.0
            if fixed:
                found[:, [0, -1]] = 0.0
            return found.ravel()

        start = (data.terms.initial(x[:, None])).ravel()
        tolerance = 10.0 ** -steps[level]
        y = solve_ivp(
            rate, (0, PROBLEMS[row]["final_time"]), start, "Radau", rtol=tolerance, atol=tolerance, first_step=1e-6
        ).y[:, -1]
        fields = y.reshape(2, n + 1) + lifting

        def evaluate(points):
            gaps = points - x
            gaps[gaps == 0] = 1e-300
            weights = c * np.r_[0.25, np.ones(n - 1), 0.25] / gaps
            return (weights @ fields.T / weights.sum(axis=1, keepdims=True)).T

        return 2 * (n - 1 if fixed else n + 1), evaluate

    return judge(row, solve)
