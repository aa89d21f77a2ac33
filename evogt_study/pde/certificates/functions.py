"""Evaluate polynomials, the data of a problem and the reconstruction of a run on Gauss grids, for certificates.

Data have coordinates of the unit cube, to which a box is mapped.  Data are divided by the volume of the box:

    (u_t, w) + (A grad u, grad w) + (b . grad u - c u, w) + <transfer u, w> = (f, w) + <flux, w>

The entries A_lm and b_l are divided by the widths of the box in directions l and m, and data on a face by the width
across the face.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
import scipy  # it imports scipy.interpolate at the first use, which takes 0.17 s
import scipy.linalg

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.dictionaries.tensor_dictionaries import evaluate_legendre
from evogt_study.pde.domains.box import DIRECTIONS, Box, tensor_points, to_box
from evogt_study.pde.galerkin.problem import NonlinearReaction, Problem, SpaceTimeFunction, Tensor
from evogt_study.pde.numerics import Array, QuadratureRule, Rule

Ends = tuple[bool, bool]
"""Two booleans that are True if functions vanish at the lower and at the upper end of a direction."""
FIXED_ENDS: Ends = (True, True)
LineFunctions = Callable[[Array], list[tuple[Array, Array]]]
"""Function of nodes of one coordinate that returns values and derivatives (Q, n) of the basis of each direction."""
END_NODES = np.array([0.0, 1.0])
SPLINE_DEGREE = 5
"""Degree of the spline.  The error of a cubic spline would be visible in references with 100 knots."""
N_GAUSS_POINTS = 6
"""Number of Gauss points between two knots.  The rule is exact for the square of a spline of degree five."""
KRONROD_NODES = np.array([
    0.991455371120812639207, 0.949107912342758524526, 0.864864423359769072790, 0.741531185599394439864,
    0.586087235467691130294, 0.405845151377397166907, 0.207784955007898467601, 0.0,
])  # fmt: skip
KRONROD_WEIGHTS = np.array([
    0.022935322010529224964, 0.063092092629978553291, 0.104790010322250183840, 0.140653259715525918745,
    0.169004726639267902827, 0.190350578064785409913, 0.204432940075298892414, 0.209482141084727828013,
])  # fmt: skip
GAUSS_WEIGHTS = np.array(
    [0.129484966168869693271, 0.279705391489276667901, 0.381830050505118944950, 0.417959183673469387755]
)
"""Weights of the 7 Gauss points of (-1, 1) in the Kronrod rule (QUADPACK), from the outermost point to the middle."""
CHECKS_PER_NODE = 4
"""Number of points per node at which `is_seen_in_space` compares data with their interpolation."""
_CHECK_TIMES, _ = QuadratureRule("composite_midpoint", 499).on_unit_interval
"""Times t / T of `is_seen_in_time`.  A prime number avoids simple periods.  A pulse of 0.4 % of T contains two."""
_MAX_MISFIT = 0.08
"""Largest accepted relative error of the interpolation of data between the nodes.  Smooth data have at most 1e-3.

With a limit of 0.15, the bound for a ridge of slope 60 on 112 nodes was 0.1 % too small."""
_ROUNDING = 1e-9
"""Largest change of the solution, relative to the initial value, for which a source counts as rounding."""


@dataclass(frozen=True)
class TensorGrid:
    """Grid with `panels` panels of `points` Gauss-Legendre points in each of `dimension` directions."""

    dimension: int
    points: int
    panels: int = 1

    @staticmethod
    @lru_cache(maxsize=8)  # the nodes of the grid take longer than the rule
    def of_rule(rule: Rule, dimension: int) -> TensorGrid:
        """Return the grid of a rule on the cube.  A composite midpoint rule has panels of one point."""
        if not isinstance(rule, QuadratureRule):
            raise ParameterError("quadrature", "a rule of points per direction", rule)
        one_panel = rule.rule == "gauss_legendre"
        return TensorGrid(dimension, *((rule.points, 1) if one_panel else (1, rule.points)))

    @cached_property
    def axis_rule(self) -> tuple[Array, Array]:
        """Nodes and weights of one direction, (Q,) each."""
        nodes, weights = QuadratureRule("gauss_legendre", self.points).on_unit_interval  # cached
        starts = np.arange(self.panels)[:, None]
        return ((starts + nodes) / self.panels).ravel(), np.tile(weights, self.panels) / self.panels

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.points * self.panels,) * self.dimension

    @cached_property
    def nodes(self) -> Array:
        """All nodes of the grid in C order, (Q^d, d)."""
        return tensor_points([self.axis_rule[0]] * self.dimension)

    @cached_property
    def weights(self) -> Array:
        """All weights of the grid, (Q, ..., Q)."""
        return np.asarray(reduce(np.multiply.outer, [self.axis_rule[1]] * self.dimension))


def evaluate_interpolants(points: int, x: Array, order: int) -> Array:
    """Return values and derivatives of the Lagrange polynomials of the Gauss nodes, (order + 1, Q, P)."""
    nodes, weights = TensorGrid(1, points).axis_rule
    # Gauss points are exact for products of two Legendre polynomials: values^T W is the inverse of values
    return np.asarray(evaluate_legendre(x, points, order) @ (evaluate_legendre(nodes, points, 0)[0].T * weights))


@dataclass(frozen=True)
class SpectralSpace:
    """Space of products of n = `modes` polynomials in each direction, which vanish on all faces by default."""

    dimension: int
    modes: int
    ends: tuple[Ends, ...] = ()

    def eigenvalues(self, scales: Array) -> Array:
        """Return the eigenvalues of - div s grad for constants s, (..., d) -> (..., n, ..., n)."""
        each = self.ends or (FIXED_ENDS,) * self.dimension
        parts = [
            scales[(..., axis) + (None,) * self.dimension] * values.reshape([-1] + [1] * (self.dimension - 1 - axis))
            for axis, values in enumerate(_find_eigenbasis(self.modes, *ends)[1] for ends in each)
        ]
        return np.asarray(reduce(np.add, parts))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.modes,) * self.dimension

    def along(self, nodes: Array) -> list[tuple[Array, Array]]:
        """Return values and derivatives of the basis of each direction, (Q,) -> (Q, n) and (Q, n)."""
        pairs = []
        for ends in self.ends or (FIXED_ENDS,) * self.dimension:
            combination, _ = _find_eigenbasis(self.modes, *ends)
            values, derivatives = _evaluate_polynomials(nodes, self.modes, *ends)
            pairs.append((values @ combination, derivatives @ combination))
        return pairs


@dataclass(frozen=True, eq=False)
class SampledBasis:
    """Basis of products of functions of one coordinate, with its values on a grid."""

    functions: LineFunctions
    grid: TensorGrid

    @staticmethod
    @lru_cache(maxsize=8)
    def sample(space: SpectralSpace, grid: TensorGrid) -> SampledBasis:
        """Return the basis of `space` on `grid`, cached for all runs of a problem."""
        return SampledBasis(space.along, grid)

    @cached_property
    def along(self) -> list[tuple[Array, Array]]:
        """Values and derivatives (Q, n) at the nodes of each direction."""
        return self.functions(self.grid.axis_rule[0])

    def _matrices(self, derivative_axis: int | None) -> list[Array]:
        return [slopes if axis == derivative_axis else values for axis, (values, slopes) in enumerate(self.along)]

    def evaluate(self, coefficients: Array) -> Array:
        """Evaluate functions on the grid, (..., n, ..., n) -> (..., Q, ..., Q)."""
        return apply_matrices(self._matrices(None), coefficients)

    def gradient(self, coefficients: Array) -> list[Array]:
        """Evaluate the derivative of functions in each direction on the grid."""
        return [apply_matrices(self._matrices(axis), coefficients) for axis in range(self.grid.dimension)]

    def moments(self, values: Array) -> Array:
        """Return the moments (v, B_k) of functions v on the grid, (..., Q, ..., Q) -> (..., n, ..., n)."""
        return apply_matrices([matrix.T for matrix in self._matrices(None)], values * self.grid.weights)

    def flux_moments(self, flux: list[Array]) -> Array:
        """Return the moments (q, grad B_k) of vector fields q on the grid."""
        parts = [part * self.grid.weights for part in flux]
        matrices = [[matrix.T for matrix in self._matrices(axis)] for axis in range(len(flux))]
        return reduce(np.add, [apply_matrices(*pair) for pair in zip(matrices, parts, strict=True)])

    def on_face(self, coefficients: Array, axis: int, side: int) -> Array:
        """Evaluate functions on the face at the lower (0) or upper (1) end of the direction `axis`."""
        matrices = self._matrices(None)
        matrices[axis] = self.functions(END_NODES)[axis][0][side][None]
        return np.squeeze(apply_matrices(matrices, coefficients), axis=coefficients.ndim - self.grid.dimension + axis)

    def face_moments(self, values: Array, axis: int, side: int) -> Array:
        """Return the moments (v, B_k) of functions v on the face of `on_face`, (T, Q, ...) -> (T, n, ..., n)."""
        matrices = [matrix.T for matrix in self._matrices(None)]
        matrices[axis] = self.functions(END_NODES)[axis][0][side][:, None]
        weights = [self.grid.axis_rule[1]] * (self.grid.dimension - 1)
        weighted = values * np.asarray(reduce(np.multiply.outer, weights, np.ones(())))
        return apply_matrices(matrices, np.expand_dims(weighted, 1 + axis))


def apply_matrices(matrices: list[Array], values: Array) -> Array:
    """Apply one matrix (m_l, n_l) to each of the last d directions: (..., n_1, ..., n_d) -> (..., m_1, ..., m_d)."""
    dimension = len(matrices)
    if dimension == 1:
        return values @ matrices[0].T
    for axis, matrix in enumerate(matrices):
        place = values.ndim - dimension + axis
        shape = values.shape
        # the last direction is contiguous, so one large product replaces a stack of small products
        if axis == dimension - 1:
            values = values.reshape(-1, shape[-1]) @ matrix.T
        else:
            values = np.matmul(matrix, values.reshape(-1, shape[place], int(np.prod(shape[place + 1 :]))))
        values = values.reshape(*shape[:place], len(matrix), *shape[place + 1 :])
    return values


def _evaluate_polynomials(nodes: Array, modes: int, below: bool, above: bool) -> tuple[Array, Array]:
    """Return integrals of Legendre polynomials after one linear function for each free end, with derivatives (Q, n)."""
    slopes = evaluate_legendre(nodes, modes + 2, 0)[0]
    scaled, degrees = slopes / np.sqrt(2.0 * np.arange(modes + 2) + 1.0), np.arange(1, modes + 1)
    values = (scaled[:, 2:] - scaled[:, :-2]) / (2.0 * np.sqrt(2.0 * degrees + 1.0))
    one, linear = np.ones_like(nodes), list[tuple[Array, Array]]()
    if not (below or above):
        linear.append((one, 0.0 * one))
    if not (below and above):
        linear.append((1.0 - nodes, -one) if above else (nodes, one))
    kept = modes - len(linear)
    return (
        np.column_stack([*(each for each, _ in linear), values[:, :kept]]),
        np.column_stack([*(each for _, each in linear), slopes[:, 1 : 1 + kept]]),
    )


@lru_cache(maxsize=16)
def _find_eigenbasis(modes: int, below: bool, above: bool) -> tuple[Array, Array]:
    """Return the eigenvectors (n, n) in `_evaluate_polynomials`, and the increasing eigenvalues lambda (n,)."""
    # n + 2 points are exact for the mass of polynomials of degree n + 1
    nodes, weights = TensorGrid(1, modes + 2).axis_rule
    values, slopes = _evaluate_polynomials(nodes, modes, below, above)
    mass, stiffness = (part.T @ (weights[:, None] * part) for part in (values, slopes))
    # the pencil of M and S + M is well-conditioned, so the smallest lambda have full precision
    parts, vectors = scipy.linalg.eigh(mass, mass + stiffness)
    # `parts` are 1/(1 + lambda), in increasing order.  They equal v . M v for vectors normalised in S + M.
    return vectors[:, ::-1] / np.sqrt(parts[::-1]), np.maximum(1.0 / parts[::-1] - 1.0, 0.0)


@dataclass(frozen=True, eq=False)
class FaceData:
    """Data on a face across `axis`: flux minus transfer u_b (T, Q, ...), and transfer (T or 1, Q, ...)."""

    axis: int
    side: int
    flux: Array
    transfer: Array | None

    def term(self, run: SampledBasis, states: Array, homogeneous: bool = False) -> Array:
        """Return flux minus transfer u on the face for the coefficients `states`, (T, Q, ...)."""
        flux = np.zeros_like(self.flux) if homogeneous else self.flux
        if self.transfer is None:
            return flux
        return np.asarray(flux - self.transfer * run.on_face(states, self.axis, self.side))


@dataclass(frozen=True, eq=False)
class ProblemData:
    """Data of a problem on a grid for u - u_b.  The source has all terms of the lifting u_b except its flux."""

    grid: TensorGrid
    times: Array
    diffusion: Array
    source: Array
    initial: Array
    flux: list[Array] | None = None
    advection: list[Array] | None = None
    reaction: Array | None = None
    law: Callable[[Array, float], Array] | None = None
    faces: tuple[FaceData, ...] = ()
    ends: tuple[Ends, ...] = ()

    @staticmethod
    def evaluate(problem: Problem, grid: TensorGrid, times: Array) -> ProblemData:
        """Evaluate the problem on the grid.  Raises ProblemError if the diffusion is not positive at a node."""
        box, lifting = to_box(problem.domain), problem.lifting
        nodes, shape = box.from_unit(grid.nodes), grid.shape
        source, initial = problem.source(nodes, times), problem.initial(nodes)
        if lifting is not None:
            # The unknown is u - u_b.  The terms of u_b go to the right-hand side.
            source = source - lifting.rate(nodes, times)
            if lifting.lower_order is not None:
                source = source - lifting.lower_order(nodes, times)
            initial = initial - problem.lift_at(nodes, 0.0)

        def sample(function: SpaceTimeFunction) -> Array:
            at = times[:1] if function.steady else times
            return np.asarray(function(nodes, at).reshape(len(at), *shape))

        b, c, g = problem.advection, problem.linear_reaction, problem.reaction
        F: Any = problem.potential

        def law(u: Array, t: float) -> Array:
            # the source has the linear terms of u_b (`Lifting.lower_order`), but a nonlinear law needs u
            whole = u.ravel() + problem.lift_at(nodes, t)
            nodal = g.value(whole, nodes, t) if isinstance(g, NonlinearReaction) else -F.slope(whole)
            return np.asarray(nodal).reshape(shape)

        faces = []
        for face in problem.faces:
            axis, side = DIRECTIONS.index(face.face[0]), int(face.face[1])
            along, width = [grid.axis_rule[0]] * grid.dimension, box.widths[axis]
            along[axis] = END_NODES[side : side + 1]
            places, size = box.from_unit(tensor_points(along)), (len(times), *grid.shape[1:])
            flux, transfer = face.flux(places, times), None
            if face.transfer is not None:
                transfer = face.transfer(places, times)
                flux = flux if lifting is None else flux - transfer * lifting.value(places, times)
                transfer = transfer.reshape(size) / width
            faces.append(FaceData(axis, side, flux.reshape(size) / width, transfer))
        return ProblemData(
            grid, times, _sample_diffusion(problem, box, nodes, times, shape), source.reshape(-1, *shape),
            initial.reshape(shape),
            None if lifting is None else [sample(q) / w for q, w in zip(lifting.flux, box.widths, strict=True)],
            None if b is None else [sample(part) / w for part, w in zip(b, box.widths, strict=True)],
            None if c is None else sample(c),
            None if problem.is_linear else law, tuple(faces), box.ends,
        )  # fmt: skip

    def part(self, block: slice) -> ProblemData:
        if block.start == 0 and block.stop >= len(self.times):
            return self

        def select(given: Any) -> Any:
            if given is None or isinstance(given, list):
                return given and [select(each) for each in given]
            # steady data have one entry for all times
            return given if len(given) == 1 and len(self.times) > 1 else given[block]

        names = ("times", "diffusion", "source", "flux", "advection", "reaction")
        faces = tuple(replace(face, flux=select(face.flux), transfer=select(face.transfer)) for face in self.faces)
        return replace(self, faces=faces, **{name: select(getattr(self, name)) for name in names})

    def remainder(self, run: SampledBasis, states: Array, gradient: list[Array], homogeneous: bool = False) -> Array:
        """Return f - b . grad v + c v for a function v with the given coefficients and gradient, (T, Q, ..., Q)."""
        result = np.zeros((1,) * self.source.ndim) if homogeneous else self.source
        for b, slope in zip(self.advection or (), gradient, strict=False):
            result = result - b * slope
        if self.reaction is None and self.law is None:
            return result
        values = run.evaluate(states)
        if self.reaction is not None:
            result = result + self.reaction * values
        if self.law is not None:
            result = result + np.stack([self.law(u, float(t)) for u, t in zip(values, self.times, strict=True)])
        return np.asarray(result)

    def flux_of(self, gradient: list[Array]) -> list[Array]:
        """Return A grad (v + u_b) for the gradient of a function v."""
        plain = self.apply_diffusion(gradient)
        return plain if self.flux is None else [a + b for a, b in zip(plain, self.flux, strict=True)]

    def apply_diffusion(self, gradient: list[Array]) -> list[Array]:
        """Return A grad v for the gradient of a function v."""
        if self.diffusion.ndim == self.source.ndim:
            return [self.diffusion * part for part in gradient]
        d = range(len(gradient))
        return [np.asarray(sum(self.diffusion[:, i, j] * gradient[j] for j in d)) for i in d]

    def moments(self, run: SampledBasis, states: Array, rates: Array | None, space: SpectralSpace) -> Array:
        """Return R(B_k) = F(B_k) - (v_t, B_k) - B(v, B_k), (T, n, ..., n).  If `rates` is None, v_t = F = 0."""
        basis, gradient, homogeneous = SampledBasis.sample(space, self.grid), run.gradient(states), rates is None
        result = -basis.flux_moments(self.apply_diffusion(gradient) if homogeneous else self.flux_of(gradient))
        if not homogeneous or self.advection is not None or self.reaction is not None or self.law is not None:
            remainder = self.remainder(run, states, gradient, homogeneous)
            result += basis.moments(remainder if rates is None else remainder - run.evaluate(rates))
        for face in self.faces:
            result += basis.face_moments(face.term(run, states, homogeneous), face.axis, face.side)
        return result


def _sample_diffusion(problem: Problem, box: Box, nodes: Array, times: Array, shape: tuple[int, ...]) -> Array:
    """Return the diffusion in the unit cube, (T or 1, Q, ...), or (T or 1, d, d, Q, ...) unless it is isotropic."""
    values, d = problem.diffusion(nodes, times[:1] if problem.diffusion.steady else times), len(box.widths)
    # for a tensor positive diagonal entries are necessary, and enough on a line (`bound_below` checks eigenvalues)
    least = float((np.einsum("tqll->tql", values) if isinstance(problem.diffusion, Tensor) else values).min())
    if not least > 0.0:  # also true for NaN
        got = f"a minimum of {least:.6g}"
        raise ProblemError(f"`diffusion` must be positive on the nodes of the certificates, got {got}")
    if not isinstance(problem.diffusion, Tensor):
        if len(set(box.widths)) == 1:
            return np.asarray(values.reshape(-1, *shape) / box.widths[0] ** 2)
        values = values[..., None, None] * np.eye(d)
    tensor = np.moveaxis(values, 1, -1) / np.multiply.outer(box.widths, box.widths)[:, :, None]
    return np.asarray(tensor.reshape(-1, d, d, *shape))


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Function of space and time that interpolates coefficients of product functions at the knots by splines."""

    knots: Array
    states: Array
    along: LineFunctions

    def at(self, times: Array) -> tuple[Array, Array]:
        """Return states and their time derivatives at `times`, (T, m, ..., m) each."""
        flat, shape = self.states.reshape(len(self.knots), -1), (len(times), *self.states.shape[1:])
        states, rates = _evaluate_splines(self.knots.tobytes(), times.tobytes())
        return (states @ flat).reshape(shape), (rates @ flat).reshape(shape)

    def derivative(self, order: int) -> Array:
        """Return the time derivatives of this `order` at the knots, (K + 1, m, ..., m)."""
        return np.tensordot(_make_spline(self.knots.tobytes())(self.knots, order), self.states, axes=1)


@lru_cache(maxsize=8)  # the runs of a study share knots and times
def _evaluate_splines(knots: bytes, times: bytes) -> tuple[Array, Array]:
    """Evaluate the splines and their derivatives at times, (T, K + 1) each."""
    spline, at = _make_spline(knots), np.frombuffer(times)
    return spline(at), spline(at, 1)


@lru_cache(maxsize=8)
def _make_spline(knots: bytes) -> scipy.interpolate.BSpline:
    """Return the splines that are one at one knot and zero at all other knots."""
    at = np.frombuffer(knots)
    most = min(SPLINE_DEGREE, len(at) - 1)
    return scipy.interpolate.make_interp_spline(at, np.eye(len(at)), k=most if most % 2 else max(most - 1, 1))


@dataclass(frozen=True, eq=False)
class TimeRule:
    """Quadrature rule on (0, T) with a coarser rule.  The last time is T with weight zero, for the representer."""

    times: Array
    weights: Array
    coarse: Array

    @staticmethod
    def between(knots: Array) -> TimeRule:
        """Return a rule with `N_GAUSS_POINTS` points between knots, and a coarser rule without the outermost points."""
        return _make_rule_between(tuple(knots.tolist()))

    @staticmethod
    @lru_cache(maxsize=8)  # all runs of a study share the rule
    def whole(final_time: float) -> TimeRule:
        """Return the Gauss-Kronrod rule on (0, T), with the Gauss rule as the coarser rule."""
        nodes = 0.5 + 0.5 * np.concatenate([-KRONROD_NODES[:-1], KRONROD_NODES[::-1]])
        coarse, weights = np.zeros(len(nodes)), np.concatenate([KRONROD_WEIGHTS[:-1], KRONROD_WEIGHTS[::-1]])
        coarse[1::2] = np.concatenate([GAUSS_WEIGHTS[:-1], GAUSS_WEIGHTS[::-1]])
        times = final_time * np.append(nodes, 1.0)
        return TimeRule(times, final_time / 2.0 * np.append(weights, 0.0), final_time / 2.0 * np.append(coarse, 0.0))


# all runs of a study share the rule, which takes a twentieth of the time of a certificate
@lru_cache(maxsize=8)
def _make_rule_between(times: tuple[float, ...]) -> TimeRule:
    knots = np.array(times)
    nodes, weights = QuadratureRule("gauss_legendre", N_GAUSS_POINTS).on_unit_interval
    lengths, inner, coarse = np.diff(knots)[:, None], nodes[1:-1], np.zeros(N_GAUSS_POINTS)
    powers = np.arange(len(inner))
    coarse[1:-1] = np.linalg.solve(inner ** powers[:, None], 1.0 / (powers + 1.0))
    points = np.append(knots[:-1, None] + lengths * nodes, knots[-1])
    return TimeRule(points, np.append(lengths * weights, 0.0), np.append(lengths * coarse, 0.0))


@lru_cache(maxsize=16)  # certificates of one problem use several grids
def is_seen_in_space(problem: Problem, grid: TensorGrid, final_time: float) -> bool:
    """Return True if the nodes of a grid with one panel resolve the data on lines through their largest values."""
    box, some, known = to_box(problem.domain), final_time * np.array([0.4, 1.0]), grid.points
    initial = problem.initial(box.from_unit(grid.nodes))
    fine, _ = QuadratureRule("composite_midpoint", CHECKS_PER_NODE * known + 1).on_unit_interval
    (through,) = evaluate_interpolants(known, fine, 0)

    def diffusion(nodes: Array) -> Array:
        # all entries of a tensor, as functions of the nodes
        return np.moveaxis(problem.diffusion(nodes, some), 1, -1).reshape(-1, len(nodes))

    functions: list[tuple[Callable[[Array], Array], float]] = [
        (lambda nodes: problem.initial(nodes)[None], 0.0), (diffusion, 0.0),
        (lambda nodes: problem.source(nodes, some), _estimate_rounding(initial, final_time)),
    ]  # fmt: skip
    for function, rounding in functions:
        largest = grid.nodes[np.argmax(np.abs(function(box.from_unit(grid.nodes))).max(axis=0))]
        for axis in range(grid.dimension):
            points = np.tile(largest, (known + len(fine), 1))
            points[:, axis] = np.concatenate([grid.axis_rule[0], fine])
            found = function(box.from_unit(points))
            if not _is_interpolated(found[:, :known] @ through.T, found[:, known:], rounding):
                return False
    return True


def is_seen_in_time(problem: Problem, grid: TensorGrid, rule: TimeRule) -> bool:
    """Return True if the times of `rule` resolve the data at the node with the largest source at half time."""
    functions = problem.source, problem.diffusion, *(problem.advection or ()), problem.linear_reaction
    changing = [function for function in functions if function is not None and not function.steady]
    if not changing:
        return True
    middle = len(rule.times) // 2
    data = ProblemData.evaluate(problem, grid, rule.times[middle : middle + 1])
    place = to_box(problem.domain).from_unit(grid.nodes)[np.argmax(np.abs(data.source))][None]
    fine, known = rule.times[-1] * _CHECK_TIMES, len(rule.times)
    times = np.concatenate([rule.times, fine[fine >= rule.times[0]]])
    for function in changing:
        values = function(place, times).reshape(len(times), -1)
        rounding = _estimate_rounding(data.initial, float(rule.times[-1])) if function is problem.source else 0.0
        spline = scipy.interpolate.make_interp_spline(rule.times, values[:known], k=SPLINE_DEGREE)
        if not _is_interpolated(spline(times[known:]), values[known:], rounding):
            return False
    return True


def _estimate_rounding(initial: Array, final_time: float) -> float:
    """Return the size below which a source counts as rounding of terms that cancel."""
    return _ROUNDING * float(np.abs(initial).max()) / final_time


def _is_interpolated(guess: Array, truth: Array, rounding: float) -> bool:
    return bool(np.linalg.norm(guess - truth) <= _MAX_MISFIT * np.linalg.norm(truth) + rounding * truth.size**0.5)
