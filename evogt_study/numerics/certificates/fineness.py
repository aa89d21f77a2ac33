"""Whether a problem's functions have structure that a grid or a rule in time does not see.

What is finer than the nodes looks there as if it were coarse and decayed, so that they cannot tell by themselves: the
polynomials through the nodes, and splines through the times, are compared with the functions between them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy  # which imports its parts when they are first used

from evogt_study.numerics.certificates.problem_data import ProblemData, UnitBox
from evogt_study.numerics.certificates.reconstruction import DEGREE, TimeRule
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.pde.dictionaries.legendre import polynomials
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem
from evogt_study.pde.numerics.arrays import Array

BETWEEN = 4
"""Points on a line for each node."""
TIMES = 499
"""Times, a prime number of them, which no simple period meets; a pulse of 0.4 % of the final time has two."""
FAR = 0.08
"""Part of a function by which what the nodes say of it may be wrong.  In 200 manufactured problems it is at most 1e-3;
a jump from zero makes 0.07 on 64 nodes, tanh(30 x - 30 y) 0.2 on 48.  With 0.15 the bound of a ridge of 60 on 112
nodes was 0.1 % too small; with this those of ridges of 20 to 52 are at least 0.4 % above the error."""
ROUNDING = 1e-9
"""Source that changes the solution by less than this part of the initial value, in the whole time, is looked at no
further."""


@lru_cache(maxsize=16)  # certificates of one problem ask for several grids
def seen_in_space(problem: Problem, grid: TensorGrid, final_time: float) -> bool:
    """True where the nodes, of one panel, see the initial value, and source and diffusion at two times.

    On the lines through each one's largest value: on what no node meets at all they tell nothing.
    """
    box, some = UnitBox.of(problem.domain), final_time * np.array([0.4, 1.0])

    def diffusion(nodes: Array) -> Array:
        # of a tensor all entries, which stand at each node
        return np.moveaxis(problem.diffusion(nodes, some), 1, -1).reshape(-1, len(nodes))

    functions: tuple[Callable[[Array], Array], ...] = (lambda nodes: problem.initial(nodes)[None], diffusion)
    return all(_seen_on_lines(function, grid, box) for function in functions) and _seen_on_lines(
        lambda nodes: problem.source(nodes, some), grid, box, _rounding(problem.initial(box.nodes(grid)), final_time)
    )


def _seen_on_lines(function: Callable[[Array], Array], grid: TensorGrid, box: UnitBox, rounding: float = 0.0) -> bool:
    """The same of functions, nodes to (K, Q), on lines through the largest value of all."""
    places, through = _between_nodes(grid)
    known = len(places) - len(through)
    largest = grid.nodes[np.argmax(np.abs(function(box.nodes(grid))).max(axis=0))]
    for axis in range(grid.dimension):
        points = np.tile(largest, (len(places), 1))
        points[:, axis] = places
        found = function(box.mapped(points))
        if not _near(found[:, :known] @ through.T, found[:, known:], rounding):
            return False
    return True


@lru_cache(maxsize=8)  # the grids of a study
def _between_nodes(grid: TensorGrid) -> tuple[Array, Array]:
    """The nodes of one direction and M between them, (Q + M,), and the polynomial through values at the Q, (M, Q)."""
    nodes, weights = grid.along
    fine = _middles(BETWEEN * grid.points + 1)
    # Gauss points are exact for products of two of the polynomials: values^T W is the inverse of values
    through = polynomials(fine, grid.points, 0)[0] @ (polynomials(nodes, grid.points, 0)[0].T * weights)
    return np.concatenate([nodes, fine]), through


def _rounding(initial: Array, final_time: float) -> float:
    """What a source of nothing but rounding may be, as where the equation's terms cancel."""
    return ROUNDING * float(np.abs(initial).max()) / final_time


def seen_in_time(problem: Problem, data: ProblemData, rule: TimeRule) -> bool:
    """True where all that changes in time is seen by the times of `rule`, at the place of the largest source.

    data: the problem on its grid, of whose times the middle one tells the place.
    """
    reaction = None if isinstance(problem.reaction, NonlinearReaction) else problem.reaction
    functions = (
        problem.source,
        problem.diffusion,
        *(problem.advection or ()),
        *(() if reaction is None else (reaction,)),
    )
    changing = [function for function in functions if not function.steady]
    if not changing:
        return True
    largest = np.argmax(np.abs(data.source[len(data.times) // 2]))
    place, (times, through) = UnitBox.of(problem.domain).nodes(data.grid)[largest][None], _between_times(rule)
    for function in changing:
        # at once, since a formula at one place takes as long as its operations are many
        values, known = function(place, times).reshape(len(times), -1), len(rule.times)
        rounding = _rounding(data.initial, float(rule.times[-1])) if function is problem.source else 0.0
        if not _near(through @ values[:known], values[known:], rounding):
            return False
    return True


@lru_cache(maxsize=8)  # the rules of a study's problems
def _between_times(rule: TimeRule) -> tuple[Array, Array]:
    """The times of a rule and M between them, (T + M,), and the spline through values at the T, (M, T).

    To make the spline took longest.
    """
    fine = rule.times[-1] * _middles(TIMES)
    fine = fine[fine >= rule.times[0]]
    spline = scipy.interpolate.make_interp_spline(rule.times, np.eye(len(rule.times)), k=DEGREE)
    return np.concatenate([rule.times, fine]), spline(fine)


def _middles(count: int) -> Array:
    return np.asarray((np.arange(count) + 0.5) / count)


def _near(guess: Array, truth: Array, rounding: float) -> bool:
    return bool(np.linalg.norm(guess - truth) <= FAR * np.linalg.norm(truth) + rounding * truth.size**0.5)
