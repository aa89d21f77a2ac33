"""The work of a run, counted from its parameters before it runs (app:scaling).

Nothing is computed here: Q, V, N, r and the number of steps say how many products, factorisations and function values
each stage of `solve` takes.  The rank r is known only when a run has been computed; min(N, Q), which bounds it, stands
for it.  What a unit of each kind takes in seconds is a property of a machine, and no part of this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from math import gcd
from operator import attrgetter

from evogt_study.numerics.coefficient_reference import CoefficientReference
from evogt_study.numerics.cross_grid import QUARTERS
from evogt_study.numerics.dictionaries.base import BLOCK_ENTRIES, Dictionary
from evogt_study.numerics.galerkin import NODES_AT_ONCE
from evogt_study.numerics.integrators import ImplicitMidpoint, StabilizedSemiImplicit
from evogt_study.numerics.pipeline import Discretisation
from evogt_study.numerics.problem_facts import FunctionFacts, ProblemFacts

QR_HALF, SVD_HALF, EIGH_HALF = 80, 400, 1000
"""Order of a matrix at which LAPACK reaches half the rate that it has for a very large one."""
OPERATION_CALLS = 4
"""An operation of a formula, found in its tree and applied, in calls of NumPy."""
COUNTED = (ImplicitMidpoint, StabilizedSemiImplicit)
"""Integrators whose steps are counted; what another takes only running tells."""
DOP853_STEPS, DOP853_STAGES = 50, 12
"""Steps of the adaptive reference where no largest step is given: a guess, the solution decides."""


@dataclass(frozen=True)
class Work:
    """Counts of what takes time, by kind.

    products: flops of dense products; streamed: entries of matrices that are multiplied with one vector; qr, svd, eigh,
    cholesky: flops of these factorisations, raised for small matrices (`QR_HALF`); activations: values of tanh;
    formulas: values of sine, exponential and the like; entries: entries of arrays that are read or written otherwise;
    sparse: the same in assembly and factorisation of sparse matrices; calls: calls of NumPy, whatever their size.
    """

    products: float = 0.0
    streamed: float = 0.0
    qr: float = 0.0
    svd: float = 0.0
    eigh: float = 0.0
    cholesky: float = 0.0
    activations: float = 0.0
    formulas: float = 0.0
    entries: float = 0.0
    sparse: float = 0.0
    calls: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*[a + b for a, b in zip(counts(self), counts(other), strict=True)])

    def __mul__(self, count: float) -> Work:
        return Work(*[count * a for a in counts(self)])


counts = attrgetter(*[field.name for field in fields(Work)])
"""The counts of a `Work` in order; `dataclasses.astuple` would take longer than all the rest."""
NOTHING = Work()


def product(m: int, k: int, n: int) -> Work:
    """(m, k) times (k, n): 2 m k n flops, every entry of the three matrices once."""
    return Work(products=2.0 * m * k * n, entries=float(m * k + k * n + m * n), calls=1.0)


def qr(m: int, n: int) -> Work:
    """Triangular factor of (m, n): 2 m n^2 flops."""
    return Work(qr=2.0 * m * n**2 * (1.0 + QR_HALF / n), calls=10.0)


def svd(n: int) -> Work:
    """SVD of (n, n) with singular vectors, in units of n^3 flops."""
    return Work(svd=float(n**2 * (n + SVD_HALF)), calls=10.0)


def eigh(n: int, vectors: bool = True) -> Work:
    """Eigenvalues of a symmetric (n, n), in units of n^3 flops; without vectors 0.45 of that."""
    return Work(eigh=n**2 * (n + EIGH_HALF) * (1.0 if vectors else 0.45), calls=10.0)


def evaluated(function: FunctionFacts, nodes: int, times: int = 1) -> Work:
    """Values at all nodes and times: one evaluation for each profile, or for each time where they do not split."""
    once = Work(
        formulas=float(function.functions * nodes),
        entries=float((function.operations + function.terms) * nodes),
        calls=20.0 + OPERATION_CALLS * (function.functions + function.operations),
    )
    if not function.separable:
        return once * times
    return once + product(times, function.terms, nodes) + Work(calls=10.0 * function.terms)


def repeated(function: FunctionFacts, nodes: int) -> Work:
    """One evaluation of many at the same number of nodes, whose list of operations and memory are at hand."""
    operations = function.functions + function.operations
    return Work(
        formulas=float(function.functions * nodes), entries=float(function.operations * nodes), calls=2.0 * operations
    )


def features(dictionary: Dictionary, dimension: int, nodes: int, *, derivatives: bool) -> Work:
    """psi, or psi and its gradient: O(Q N_1 + Q N_1 N) and d times as much for the gradient (app:scaling)."""
    widths = dictionary.widths
    work = product(nodes, dimension, widths[0]) + Work(activations=float(nodes * widths[0]))
    for before, after in pairwise(widths):
        work += product(nodes, before, after) + Work(activations=float(nodes * after))
        if derivatives:
            work += product(nodes, before, dimension * after) + Work(entries=3.0 * dimension * nodes * after)
    if derivatives:
        work += Work(entries=2.0 * nodes * sum(widths))
    blocks = -(-nodes // max(32, BLOCK_ENTRIES // max(widths)))
    return work + Work(entries=2.0 * nodes * widths[-1], calls=10.0 + 15.0 * blocks)


def sampled(dictionary: Dictionary, dimension: int) -> Work:
    """The random draws of a dictionary, each like a value of a formula."""
    widths = (dimension + 1, *dictionary.widths)
    return Work(formulas=float(sum(before * after for before, after in pairwise(widths))), calls=60.0)


def gram(nodes: int, dimension: int, r: int) -> Work:
    """sum_l G~_l^T W D_a G~_l, d Q r^2 flops in the symmetric form (app:scaling)."""
    blocks = dimension * -(-nodes // NODES_AT_ONCE)
    return Work(
        products=float(dimension * nodes * r**2),
        entries=float(dimension * nodes * 3 * r + blocks * 2 * r**2),
        calls=10.0 + 8.0 * blocks,
    )


def retained(dictionary: Dictionary, dimension: int, nodes: int, r: int) -> Work:
    """phi~ = T_r^T phi and its gradient on the nodes: (1 + d) products of (Q, N) with (N, r)."""
    N = dictionary.N
    work = product(nodes, N, (1 + dimension) * r) if len(dictionary.widths) == 1 else product(nodes, N, r)
    if len(dictionary.widths) > 1:
        work += product(dimension * nodes, N, r)
    return work + Work(entries=4.0 * (1 + dimension) * nodes * r, calls=50.0 + 12.0 * -(-nodes // 512))


@dataclass(frozen=True)
class RunSize:
    """What the counts are made of: the run's scalars, the problem's facts, and what else is to be recorded.

    field: points of the recorded field, for `saved` times.  reference: the work of the finite-difference reference,
    where errors are measured against one.
    """

    run: Discretisation
    problem: ProblemFacts
    field: int = 0
    saved: int = 0
    reference: Work | None = None

    @property
    def nodes(self) -> int:
        """Q."""
        return int(self.run.quadrature.points**self.problem.dimension)

    @property
    def validation(self) -> int:
        """V, validation nodes."""
        return int(self.run.validation.points**self.problem.dimension)

    @property
    def assessment(self) -> int:
        """Nodes of the assessment rule; none without one."""
        rule = self.run.assessment
        return 0 if rule is None else int(rule.points**self.problem.dimension)

    @property
    def rank(self) -> int:
        """min(N, Q), in place of r."""
        return min(self.run.dictionary.N, self.nodes)

    @property
    def observed(self) -> int:
        """S, observed times."""
        return len(self.run.grid.observed)


def stage_work(size: RunSize) -> dict[str, Work] | None:
    """Work of each stage of `stage_keys`, and of "run", what a run has for itself; None where it cannot be counted.

    What it takes to make the problem's functions is part of its "diffusion check".
    """
    if not isinstance(size.run.integrator, COUNTED):
        return None
    dictionary, d, Q, N, r = size.run.dictionary, size.problem.dimension, size.nodes, size.run.dictionary.N, size.rank
    works = {
        "trial functions": sampled(dictionary, d) + features(dictionary, d, Q, derivatives=True) + Work(calls=40.0),
        "weighted SVD": Work(entries=4.0 * Q * N, calls=20.0) + qr(Q, N) + svd(r),
        "retained space": retained(dictionary, d, Q, r),
        "quadrature defect": _looked_at(dictionary, d, size.run.quadrature.another(d).points ** d, r),
        "diffusion check": _made(size.problem) + _checked(size),
        "nodal data": _nodal(size),
        "Galerkin system": _assembled(size),
        "trajectory": _marched(size),
        "validation features": features(dictionary, d, size.validation, derivatives=False)
        + Work(entries=2.0 * size.validation * N),
        "reference": _reference(size),
        "run": _measured(size),
    }
    if size.run.coefficient_reference is not None:
        works["coefficient reference"] = _coefficients(size, size.run.coefficient_reference)
    if size.run.assessment is not None:
        works["assessed basis"] = (
            features(dictionary, d, size.assessment, derivatives=True)
            + retained(dictionary, d, size.assessment, r)
            + gram(size.assessment, 1, r)
            + eigh(r, vectors=False)
        )
        works["assessment"] = _assessed(size)
    return works


def _looked_at(dictionary: Dictionary, dimension: int, nodes: int, r: int) -> Work:
    """Mass of the retained basis on another rule, and its distance from the identity."""
    made = features(dictionary, dimension, nodes, derivatives=False) + product(nodes, dictionary.N, r)
    return made + gram(nodes, 1, r) + eigh(r, vectors=False)


def _made(problem: ProblemFacts) -> Work:
    """The problem's functions, and the look at its boundary."""
    boundary = problem.initial if problem.exact is None else problem.exact
    return Work(calls=200.0) + evaluated(boundary, 16**problem.dimension, 3)


def _checked(size: RunSize) -> Work:
    times = 1 if size.problem.diffusion.steady else size.run.grid.steps
    return evaluated(size.problem.diffusion, size.nodes, times) + Work(entries=2.0 * times * size.nodes, calls=50.0)


def _nodal(size: RunSize) -> Work:
    """Initial value, diffusion and source at the assembly nodes, where they do not depend on time."""
    problem, Q = size.problem, size.nodes
    work = evaluated(problem.initial, Q) + Work(calls=20.0)
    for part in (problem.diffusion, problem.source):
        if part.separable:
            work += evaluated(part, Q)
    return work


def _assembled(size: RunSize) -> Work:
    """d Q r^2 for each profile of the diffusion, and the moments of source and initial value."""
    problem, Q, r = size.problem, size.nodes, size.rank
    work = Work(streamed=float(Q * r), calls=40.0)
    if problem.diffusion.separable:
        work += gram(Q, problem.dimension, r) * problem.diffusion.terms
    if problem.source.separable:
        work += product(problem.source.terms, Q, r)
    for part in problem.lifting:
        if part.separable:
            work += evaluated(part, Q) + product(part.terms, Q, r)
    return work


def _stiffness(size: RunSize) -> Work:
    """K(t) at one time: a sum over profiles, or d Q r^2 where time and space do not split."""
    diffusion, r = size.problem.diffusion, size.rank
    if diffusion.separable:
        return Work(entries=float((diffusion.terms + 1) * r**2), calls=8.0 + OPERATION_CALLS * diffusion.terms)
    return evaluated(diffusion, size.nodes) + gram(size.nodes, size.problem.dimension, r)


def _marched(size: RunSize) -> Work:
    """All steps: O(r) each in the eigenbasis of K, or a new K and O(r^3) each; with a potential O(Q r) more."""
    problem, r, steps = size.problem, size.rank, size.run.grid.steps
    work = _loads(size) + Work(calls=60.0)
    if problem.diffusion.steady:
        strides = steps / gcd(*size.run.grid.observed)
        work += eigh(r) + product(steps, r, r) + product(size.observed, r, r)
        work += Work(calls=3.0 * strides, entries=4.0 * r * steps)
    else:
        solved = Work(cholesky=r**3 / 3.0, entries=4.0 * r**2, calls=25.0)
        work += (_stiffness(size) + solved) * steps
    if problem.potential is not None:
        Q = size.nodes
        if problem.diffusion.steady:
            work += product(Q, r, r)
        reaction = Work(streamed=2.0 * Q * r, entries=2.0 * Q, calls=20.0) + repeated(problem.potential, Q)
        work += reaction * (steps + 1)
    return work


def _loads(size: RunSize) -> Work:
    """b at all steps: from its profiles, or from the nodes at each time."""
    work, steps = NOTHING, size.run.grid.steps
    for part in (size.problem.source, *size.problem.lifting):
        if part.separable:
            work += product(steps, part.terms, size.rank) + Work(calls=5.0 * part.terms)
        else:
            work += evaluated(part, size.nodes, steps) + product(steps, size.nodes, size.rank)
    return work


def _reference(size: RunSize) -> Work:
    """What errors are measured against, at the validation nodes and observed times."""
    known = evaluated(size.problem.initial, size.validation)
    if size.reference is not None:
        return known + size.reference
    if size.problem.exact is None:
        return known
    return known + evaluated(size.problem.exact, size.validation, size.observed)


def _coefficients(size: RunSize, wanted: CoefficientReference) -> Work:
    """One eigendecomposition, or the right-hand side at every stage of the adaptive steps."""
    r = size.rank
    if wanted.name == "eigendecomposition":
        return eigh(r) + Work(calls=40.0, streamed=3.0 * r**2)
    steps = max(DOP853_STEPS, size.run.grid.final_time / wanted.max_step if wanted.max_step else 0.0)
    rate = _stiffness(size) + Work(streamed=float(r**2), calls=8.0)
    return rate * (DOP853_STAGES * steps)


def _assessed(size: RunSize) -> Work:
    """Stiffness on the assessment rule, and two spectral norms at each time that is looked at."""
    problem, A, r = size.problem, size.assessment, size.rank
    times = 1 if problem.diffusion.steady else QUARTERS + 1
    profiles = problem.diffusion.terms if problem.diffusion.separable else times
    stiffness = evaluated(problem.diffusion, A, 1 if problem.diffusion.separable else times)
    stiffness += gram(A, problem.dimension, r) * profiles
    return stiffness + (_stiffness(size) + eigh(r, vectors=False) * 2) * times


def _measured(size: RunSize) -> Work:
    """Errors on the validation rule, the mass defect, and the recorded field."""
    problem, V, S, N, r = size.problem, size.validation, size.observed, size.run.dictionary.N, size.rank
    work = product(S, N, V) + Work(entries=6.0 * S * V, calls=300.0)
    work += product(r, size.nodes, r) + Work(entries=2.0 * size.nodes * r) + eigh(r, vectors=False)
    for part in problem.lifting[:1]:
        work += evaluated(part, V, S)
    if size.field:
        shown = features(size.run.dictionary, problem.dimension, size.field, derivatives=False)
        work += shown + product(S, N, size.field) + Work(entries=4.0 * size.saved * size.field, calls=40.0)
        if problem.exact is not None:
            work += evaluated(problem.exact, size.field, size.saved)
    return work


def total(works: Iterable[Work]) -> Work:
    """The sum."""
    columns = zip(*map(counts, works), strict=True)
    return Work(*map(sum, columns))
