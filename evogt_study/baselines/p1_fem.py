"""Continuous piecewise-linear Galerkin finite elements on a uniform mesh of a box (tab:p1_fem).

    M u' + K(t) u = F(t),    M_ij = (phi_i, phi_j),  K_ij = (a(t) grad phi_i, grad phi_j),  F_i = (f(t), phi_i)

for the hat functions phi_i of the n^d interior vertices of a mesh with h = 1/(n + 1): consistent mass, L2-projected
initial value, zero Dirichlet values, and the implicit midpoint rule in time,

    (M + s K) u^{n+1} = (M - s K) u^n + dt F,    s = dt/2,  K and F at t_{n+1/2} = (n + 1/2) dt.

The other terms, domains and boundary conditions of a problem are those of `finite_elements`.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from evogt_study.baselines.element_space import element_space
from evogt_study.baselines.finite_elements import MIDPOINT, ElementSolution, finite_elements
from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.domains.box import check_box
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import check_diffusion
from evogt_study.pde.numerics.time_grid import TimeGrid

# high, so that coefficients that oscillate within an element are integrated as exactly as by the paper's 16 points
DEGREES = {1: 31, 2: 9, 3: 5}
"""Polynomial degree of the default element integration: 16 points in 1-D (the paper's), 5^2 in 2-D, 3^3 in 3-D."""
# 64 Gauss-Jacobi points a direction, far beyond what the elements' own error leaves visible
MAX_DEGREE = 127
# at 600 bytes a node, in 3-D, this is 1.8 GB
MAX_QUADRATURE_NODES = 3_000_000


def p1_fem(problem: Problem, unknowns: int, grid: TimeGrid, degree: int | None = None) -> ElementSolution:
    """Solve `problem` by P1 elements with `unknowns` interior vertices a direction, and the implicit midpoint rule.

    The elements are intervals, triangles (two a rectangle) or tetrahedra (six a box).  `grid` says which steps are kept
    (its observed ones: the saved ones, the first and the last).  `degree` is the polynomial degree of the element
    integration, by default `DEGREES`; the paper's 16-point Gauss rule is degree 31.

    Raises ParameterError for a count or a degree that is too small, or so large that the quadrature nodes would not fit
    in memory; ProblemError where the diffusion is not positive at a quadrature node, for a potential, and for another
    domain than a box.
    """
    check_admitted(problem)
    check_size(problem.dimension, unknowns, degree)
    degree = DEGREES[problem.dimension] if degree is None else degree
    space = element_space(problem.domain, 1, int(unknowns) + 1, int(degree), "unknowns")
    times = grid.midpoints[:1] if problem.diffusion.steady else grid.midpoints
    at_once = max(1, MAX_QUADRATURE_NODES // len(space.interior.rule.weights))
    for part in np.array_split(times, -(-len(times) // at_once)):
        check_diffusion(problem, space.interior.rule, part)
    return finite_elements(problem, space, grid, MIDPOINT)


def check_admitted(problem: Problem) -> None:
    """Raise ProblemError for a potential, and for another domain than a box."""
    check_box(problem.domain, "p1_fem")
    if problem.potential is not None:
        raise ProblemError("p1_fem must have a problem without `potential`; state -F'(u) as `reaction`")


def check_size(dimension: int, unknowns: int, degree: int | None = None) -> None:
    """Raise the ParameterError of `p1_fem` for the size of its space, without building it."""
    degree = DEGREES[dimension] if degree is None else degree
    if not isinstance(unknowns, (int, np.integer)) or isinstance(unknowns, bool) or unknowns < 1:
        raise ParameterError("unknowns", "an integer of at least 1", unknowns)
    if not isinstance(degree, (int, np.integer)) or isinstance(degree, bool) or not 2 <= degree <= MAX_DEGREE:
        raise ParameterError("degree", f"an integer from 2, for an exact mass matrix, to {MAX_DEGREE}", degree)
    count = quadrature_nodes(dimension, unknowns, degree)
    if count > MAX_QUADRATURE_NODES:
        raise ParameterError(
            "unknowns",
            f"so few that the elements have at most {MAX_QUADRATURE_NODES:,} quadrature nodes",
            unknowns,
            where=f"{count:,} nodes in {dimension}-D with degree {degree}",
            remedy="use fewer unknowns or a lower degree",
        )


def quadrature_nodes(dimension: int, unknowns: int, degree: int | None = None) -> int:
    """Number of quadrature nodes of all elements, on which memory depends."""
    degree = DEGREES[dimension] if degree is None else degree
    return int(factorial(dimension) * ((unknowns + 1) * (degree // 2 + 1)) ** dimension)
