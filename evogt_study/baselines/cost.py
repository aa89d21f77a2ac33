"""The work of the baselines, counted from their parameters as that of the method is, but coarser."""

from __future__ import annotations

from itertools import pairwise
from math import log2

from evogt_study.baselines.finite_difference import MAX_FOLDED
from evogt_study.numerics.cost import NOTHING, Work, evaluated, features, product, qr, repeated, sampled, svd
from evogt_study.numerics.dictionaries.base import Dictionary
from evogt_study.numerics.problem_facts import ProblemFacts

ASSEMBLED = 250
"""Entries that element assembly reads or writes for a quadrature node, for one matrix."""
FACTORISED = {1: 500.0, 2: 4_000.0, 3: 18_000.0}
"""Entries that sparse LU reads or writes for an unknown, of as many as a run of minutes has."""
INTERPOLATED = 12
"""Entries that interpolation on a grid reads or writes for each corner around a point."""


def sine_transform(points: int, dimension: int) -> Work:
    """One transform over all directions: d n^(d+1) flops as folded products, or fast where the grid is large."""
    unknowns = points**dimension
    if points > MAX_FOLDED:
        return Work(entries=dimension * 10.0 * unknowns * log2(points), calls=10.0)
    folded = Work(products=float(points * unknowns), entries=6.0 * unknowns, calls=8.0)
    return folded * dimension


def finite_differences(problem: ProblemFacts, points: int, steps: int, observed: int) -> Work:
    """The steps of `evogt_study.baselines.finite_difference`: one transform back and one of the reaction or source.

    A linear problem is transformed back at observed times only.
    """
    d, unknowns = problem.dimension, points**problem.dimension
    transform = sine_transform(points, d)
    work = evaluated(problem.initial, unknowns) + transform + Work(entries=10.0 * observed * unknowns, calls=100.0)
    work += Work(entries=8.0 * unknowns, calls=12.0) * steps
    if problem.potential is None:
        work += transform * observed
    else:
        work += (transform * 2 + repeated(problem.potential, unknowns)) * steps
    if problem.source.functions + problem.source.operations:
        work += evaluated(problem.source, unknowns, steps) + transform * steps
    return work


def finite_difference_memory(dimension: int, points: int, observed: int) -> float:
    """Bytes of a finite-difference solution: its steps, and three copies of the observed fields for interpolation."""
    return 8.0 * float(points**dimension) * (10.0 + 3.0 * observed)


def interpolated(problem: ProblemFacts, nodes: int, times: int) -> Work:
    """Multilinear interpolation of fields at `nodes`, for all `times`."""
    corners = 2**problem.dimension
    return Work(entries=float(INTERPOLATED * corners * nodes + 3 * corners * nodes * times), calls=500.0)


def p1_fem(problem: ProblemFacts, unknowns: int, nodes: int, steps: int) -> Work:
    """The steps of `evogt_study.baselines.p1_fem` with `nodes` quadrature nodes in all elements.

    A matrix is assembled for each profile of the diffusion, or in each step, and factorised once or in each step.
    """
    d, M = problem.dimension, unknowns**problem.dimension
    assembled = Work(sparse=float(ASSEMBLED * nodes), calls=300.0)
    factorised = Work(sparse=FACTORISED[d] * M, calls=100.0)
    solved = Work(sparse=0.05 * factorised.sparse, calls=15.0)
    work = assembled * 2 + factorised + evaluated(problem.initial, nodes) + Work(calls=1500.0)
    for part, count in ((problem.diffusion, 1.0), (problem.source, 0.5)):
        if part.separable:
            work += evaluated(part, nodes) + assembled * (count * part.terms)
        else:
            work += (evaluated(part, nodes) + assembled * count) * steps
    step = solved if problem.diffusion.steady else solved + factorised
    return work + step * steps


def space_time_regression(problem: ProblemFacts, dictionary: Dictionary, points: int, levels: int) -> Work:
    """Features with all second derivatives in d + 1 directions at R residual points, and one least-squares problem."""
    D, R, N = problem.dimension + 1, points**problem.dimension * levels, dictionary.N
    widths, jets = dictionary.widths, 1 + D + D**2
    work = sampled(dictionary, D) + product(R, D, widths[0])
    for before, after in pairwise(widths):
        work += product(jets * R, before, after)
    work += Work(activations=float(R * sum(widths)), entries=9.0 * jets * R * sum(widths))
    work += evaluated(problem.diffusion, R) + evaluated(problem.source, R) + Work(calls=200.0) * levels
    return work + qr(R + N, N) + svd(N) + Work(entries=10.0 * R * N)


def looked_at(problem: ProblemFacts, nodes: int, times: int) -> Work:
    """The errors on `nodes` validation nodes at the observed times."""
    work = evaluated(problem.initial, nodes) + Work(entries=6.0 * nodes * times, calls=100.0)
    return work if problem.exact is None else work + evaluated(problem.exact, nodes, times)


def regression_evaluated(dictionary: Dictionary, dimension: int, nodes: int, times: int) -> Work:
    """The fitted solution at `nodes` and `times`."""
    return features(dictionary, dimension + 1, nodes, derivatives=False) * times if times else NOTHING
