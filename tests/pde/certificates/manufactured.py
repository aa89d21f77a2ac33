"""Manufactured runs of all kinds, good and bad, with their true errors: what the certificates are judged by.

The true energy-norm error is that of the same reconstruction in time that the bound is for, by the formulas' own
gradients, on a finer grid and a finer rule in time than the bound's.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evogt_study.errors import RunError
from evogt_study.pde.certificates.bound import RunFunctions, bound_run, find_knots
from evogt_study.pde.certificates.certify import certify, find_reference
from evogt_study.pde.certificates.functions import ProblemData, SampledBasis, TensorGrid
from evogt_study.pde.dictionaries import Dictionary
from evogt_study.pde.domains.box import to_box
from evogt_study.pde.numerics import QuadratureRule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, compute_stage, solve_arrays
from evogt_study.pde.problems import FormulaProblem

FINE = {1: TensorGrid(1, 16, 64), 2: TensorGrid(2, 72), 3: TensorGrid(3, 32)}
VALIDATION = {
    1: QuadratureRule("composite_midpoint", 2048),
    2: QuadratureRule("gauss_legendre", 64),
    3: QuadratureRule("gauss_legendre", 32),
}
TIMES = 8
"""Gauss points of an interval between knots, of the true error."""
STATES_AT_ONCE = 12


@dataclass(frozen=True)
class Manufactured:
    """A problem by formulas."""

    dimension: int
    exact: str
    diffusion: str
    final_time: float

    @cached_property
    def problem(self):
        return FormulaProblem(dimension=self.dimension, exact=self.exact, diffusion=self.diffusion)()

    @cached_property
    def reference(self):
        return find_reference(self.problem, self.final_time)


@dataclass(frozen=True)
class Judged:
    """Certificates of a run and the truth: in the energy norm, absolute; as recorded, relative to || u(T) ||."""

    bound: float
    energy_error: float
    relative_bound: float
    error: float
    lower: float
    upper: float
    estimate: float


def judged(stated: Manufactured, run: Discretisation, known: dict) -> Judged:
    """The run's certificates and true errors; `known` shares stages between runs."""

    def share(stage, key, compute):
        place = (stage, key)
        if place not in known:
            known[place] = compute()
        return known[place]

    def data_only(stage, key, compute):
        return share(stage, key, compute) if stage == "certificate data" else compute()

    solution = solve_arrays(stated.problem, run)
    wanted = ("error_bound", "error_estimate", "error_lower", "error_upper")
    found = certify(solution, wanted, data_only, stated, stated.reference)
    absolute = bound_run(solution, find_knots(solution), data_only, stated)[0].value
    return Judged(
        absolute, energy_error(stated.problem, solution, share), found["error_bound"], float(solution.errors[-1]),
        found["error_lower"], found["error_upper"], found["error_estimate"],
    )  # fmt: skip


def energy_error(problem, solution, share=compute_stage):
    """The root of || e(T) ||^2 + int (A grad e, grad e) of the reconstruction, over the volume of the box."""
    knots, grid, box = find_knots(solution), FINE[problem.dimension], to_box(problem.domain)
    run = RunFunctions.from_solution(solution, grid, compute_stage).reconstruct(knots.coefficients, knots.times)
    basis, places = SampledBasis(run.along, grid), box.from_unit(grid.nodes)
    nodes, weights = np.polynomial.legendre.leggauss(TIMES)
    lengths = np.diff(knots.times)[:, None]
    times, weights = (knots.times[:-1, None] + lengths * (nodes + 1) / 2).ravel(), (lengths * weights / 2).ravel()

    def truth(times):
        slopes = np.stack([problem.exact_gradient(places, float(t)) for t in times], axis=1)
        if problem.lifting is not None:
            slopes = slopes - np.stack([part(places, times) for part in problem.lifting.gradient])
        return ProblemData.evaluate(problem, grid, times), slopes.reshape(*slopes.shape[:2], *grid.shape)

    total = 0.0
    for start in range(0, len(times), STATES_AT_ONCE):
        block = slice(start, start + STATES_AT_ONCE)
        data, slopes = share("problem's gradient", times[block].tobytes(), lambda at=times[block]: truth(at))
        ours = basis.gradient(run.at(times[block])[0])
        gradient = [width * true - own for width, true, own in zip(box.widths, slopes, ours, strict=True)]
        density = sum(a * b for a, b in zip(gradient, data.apply_diffusion(gradient), strict=True))
        total += float(weights[block] @ (density * grid.weights).reshape(len(density), -1).sum(axis=1))
    exact = problem.exact(places, knots.times[-1:])[0]
    if problem.lifting is not None:
        exact = exact - problem.lifting.value(places, knots.times[-1:])[0]
    final = exact.reshape(grid.shape) - basis.evaluate(run.states[-1:])[0]
    return float(np.sqrt(total + np.sum(final**2 * grid.weights)))


def drawn_problem(rng, dimension) -> Manufactured:
    """A sum of decaying products of sines, and a positive diffusion that may oscillate and change in time."""
    final_time = {1: 0.25, 2: 0.1, 3: 0.06}[dimension]
    most = {1: 16, 2: 7, 3: 3}[dimension]
    terms = []
    for _ in range(rng.integers(1, 4)):
        waves = [f"sin({rng.integers(1, most + 1)}*pi*{name})" for name in "xyz"[:dimension]]
        decay = rng.choice(["exp(-t)", f"exp(-{rng.integers(1, 8)}*t)", f"cos({rng.integers(1, 9)}*t)"])
        terms.append(f"{rng.uniform(0.3, 1.0):.3f}*{decay}*" + "*".join(waves))
    epsilon = rng.choice({1: [0.05, 0.1, 0.2, 0.5], 2: [0.15, 0.25, 0.5], 3: [0.3, 0.5]}[dimension])
    wave = "*".join(f"cos(2*pi*{name}/{epsilon})" for name in "xyz"[:dimension])
    size = f"{rng.uniform(0.1, 0.6):.3f}"
    if rng.random() < 0.5:
        size += f"*(1 + sin({rng.integers(1, 30)}*t)/2)"
    return Manufactured(dimension, " + ".join(terms), f"1 + {size}*{wave}", final_time)


def drawn_run(rng, stated: Manufactured) -> Discretisation:
    """Any dictionary; one in three runs has too few features, too coarse a rule, or steps that are too long."""
    d = stated.dimension
    family = str(rng.choice(["transnet", "gtransnet", "gaussian_rf", "uniform_elm", "legendre", "sine"]))
    N = int(rng.choice({1: [30, 60, 90], 2: [80, 150], 3: [80, 160]}[d]))
    points, steps = {1: (160, 320), 2: (30, 40), 3: (14, 18)}[d], {1: 100, 2: 60, 3: 20}[d]
    quadrature, spoiled = int(rng.choice(points)), rng.integers(0, 9)
    if spoiled == 0:
        N = {1: 10, 2: 25, 3: 25}[d]
    elif spoiled == 1:
        quadrature = {1: 30, 2: 12, 3: 7}[d]
    elif spoiled == 2:
        steps = int(rng.choice([2, 5, 10]))
    more = {}
    if family in ("transnet", "gtransnet", "gaussian_rf", "uniform_elm"):
        more["gamma"] = float(rng.uniform(*{1: (4.0, 20.0), 2: (2.0, 6.0), 3: (1.5, 3.5)}[d]))
    if family == "gtransnet":
        more["N1"] = 2 * N
    return Discretisation(
        Dictionary(family, N=N, **more), int(rng.integers(0, 1000)), float(rng.choice([1e-12, 1e-10, 1e-8])),
        QuadratureRule("gauss_legendre", quadrature), VALIDATION[d],
        TimeGrid.from_step(stated.final_time, stated.final_time / steps, 2),
    )  # fmt: skip


def judged_runs(dimension: int, problems: int, runs: int, seed: int) -> tuple[list[Judged], int]:
    """`runs` runs of each of `problems` problems, and how many failed by an error of their own."""
    found, failed = [], 0
    for number in range(problems):
        rng = np.random.default_rng([seed, dimension, number])
        stated, known = drawn_problem(rng, dimension), {}
        for _ in range(runs):
            run = drawn_run(rng, stated)
            try:
                found.append(judged(stated, run, known))
            except RunError:
                failed += 1
    return found, failed
