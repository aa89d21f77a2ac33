"""Gauss grids on the unit cube, polynomials that diagonalise the Laplacian, and the data of a problem on them.

The functions of one direction are integrals of Legendre polynomials, which vanish at Dirichlet ends.  They are combined
so that their mass is the identity and their stiffness is diagonal.

Data are in coordinates of the unit cube, into which a box is mapped, and are divided by the volume of the box:

    (u_t, w) + (A grad u, grad w) + (b . grad u - c u, w) + <transfer u, w> = (f, w) + <flux, w>

with A_lm and b_l over the widths of l and m, and faces over the width of the direction that they are across.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
import scipy.linalg

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.dictionaries.legendre import polynomials
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.box import DIRECTIONS, as_box, tensor_points
from evogt_study.pde.galerkin.problem import Lifting, NaturalFace, NonlinearReaction, Problem, Tensor
from evogt_study.pde.numerics import Array, QuadratureRule, Rule

Ends = tuple[bool, bool]
"""Two booleans: whether functions vanish at the lower and at the upper end of a direction."""
FIXED: Ends = (True, True)
"""Functions vanish at both ends."""


@dataclass(frozen=True)
class TensorGrid:
    """Grid of `panels` panels with `points` Gauss-Legendre points each, in each of `dimension` directions."""

    dimension: int
    points: int
    panels: int = 1

    @staticmethod
    @lru_cache(maxsize=8)  # with its nodes, which take longer than the rule
    def of_rule(rule: Rule, dimension: int) -> TensorGrid:
        """Return the grid of a rule on the cube.  A composite midpoint rule has panels of one point."""
        if not isinstance(rule, QuadratureRule):
            raise ParameterError("quadrature", "a rule of points per direction", rule)
        one_panel = rule.rule == "gauss_legendre"
        return TensorGrid(dimension, *((rule.points, 1) if one_panel else (1, rule.points)))

    @cached_property
    def axis_rule(self) -> tuple[Array, Array]:
        """Nodes and weights of one direction, (Q,) each."""
        nodes, weights = QuadratureRule("gauss_legendre", self.points).on_unit_interval  # which remembers them
        starts = np.arange(self.panels)[:, None]
        return ((starts + nodes) / self.panels).ravel(), np.tile(weights, self.panels) / self.panels

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.points * self.panels,) * self.dimension

    @cached_property
    def nodes(self) -> Array:
        """All nodes in C order, (Q^d, d)."""
        return tensor_points([self.axis_rule[0]] * self.dimension)

    @cached_property
    def weights(self) -> Array:
        """All weights, (Q, ..., Q)."""
        return np.asarray(reduce(np.multiply.outer, [self.axis_rule[1]] * self.dimension))


def evaluate_interpolants(points: int, x: Array, order: int) -> Array:
    """Return the Lagrange polynomials of the Gauss nodes with derivatives, (order + 1, Q, P)."""
    nodes, weights = TensorGrid(1, points).axis_rule
    # Gauss points are exact for products of two Legendre polynomials: values^T W is the inverse of values
    return np.asarray(polynomials(x, points, order) @ (polynomials(nodes, points, 0)[0].T * weights))


@dataclass(frozen=True)
class SpectralSpace:
    """Products of n = `modes` polynomials in each of `dimension` directions, zero on all faces by default."""

    dimension: int
    modes: int
    ends: tuple[Ends, ...] = ()

    def eigenvalues(self, scales: Array) -> Array:
        """Return the eigenvalues of - div s grad for constants s, (..., d) -> (..., n, ..., n)."""
        each = self.ends or (FIXED,) * self.dimension
        parts = [
            scales[(..., axis) + (None,) * self.dimension] * values.reshape([-1] + [1] * (self.dimension - 1 - axis))
            for axis, values in enumerate(_eigenbasis(self.modes, *ends)[1] for ends in each)
        ]
        return np.asarray(reduce(np.add, parts))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.modes,) * self.dimension

    def high_mode_mask(self, part: float) -> Array:
        """Return 1 for modes with an index of at least `part` times `modes` in some direction, else 0, (n, ..., n)."""
        high = (np.arange(self.modes) >= int(part * self.modes)).astype(np.float64)
        return 1.0 - np.asarray(reduce(np.multiply.outer, [1.0 - high] * self.dimension))

    def along(self, nodes: Array) -> list[tuple[Array, Array]]:
        """Return values and derivatives of the basis of each direction, (Q,) -> (Q, n) and (Q, n)."""
        slopes = polynomials(nodes, self.modes + 2, 0)[0]
        whole = (_integrate(slopes), slopes[:, 1:-1])
        pairs = []
        for ends in self.ends or (FIXED,) * self.dimension:
            combination, _ = _eigenbasis(self.modes, *ends)
            values, derivatives = _with_free_ends(nodes, *whole, *ends)
            pairs.append((values @ combination, derivatives @ combination))
        return pairs


@dataclass(frozen=True, eq=False)
class SampledBasis:
    """Products of functions of one coordinate on a grid: their values and derivatives (Q, n) in each direction."""

    along: list[tuple[Array, Array]]
    grid: TensorGrid

    @staticmethod
    @lru_cache(maxsize=8)
    def of(space: SpectralSpace, grid: TensorGrid) -> SampledBasis:
        """Return the basis of `space` on `grid`.  All runs of a problem share it."""
        return SampledBasis(space.along(grid.axis_rule[0]), grid)

    def _matrices(self, derivative_axis: int | None) -> list[Array]:
        return [slopes if axis == derivative_axis else values for axis, (values, slopes) in enumerate(self.along)]

    def evaluate(self, coefficients: Array) -> Array:
        """Evaluate functions on the grid, (..., n, ..., n) -> (..., Q, ..., Q)."""
        return apply_matrices(self._matrices(None), coefficients)

    def gradient(self, coefficients: Array) -> list[Array]:
        """Return the derivative in each direction on the grid."""
        return [apply_matrices(self._matrices(axis), coefficients) for axis in range(self.grid.dimension)]

    def moments(self, values: Array) -> Array:
        """Return (v, B_k) of functions on the grid, (..., Q, ..., Q) -> (..., n, ..., n)."""
        return apply_matrices([matrix.T for matrix in self._matrices(None)], values * self.grid.weights)

    def flux_moments(self, flux: list[Array]) -> Array:
        """Return (q, grad B_k) of vector fields on the grid."""
        parts = [part * self.grid.weights for part in flux]
        matrices = [[matrix.T for matrix in self._matrices(axis)] for axis in range(len(flux))]
        return reduce(np.add, [apply_matrices(*pair) for pair in zip(matrices, parts, strict=True)])

    def on_face(self, coefficients: Array, axis: int, ends: Array) -> Array:
        """Evaluate functions on a face normal to `axis`.  `ends`: basis of this direction at the face, (n,)."""
        matrices = self._matrices(None)
        matrices[axis] = ends[None]
        return np.squeeze(apply_matrices(matrices, coefficients), axis=coefficients.ndim - self.grid.dimension + axis)

    def face_moments(self, values: Array, axis: int, ends: Array) -> Array:
        """Return (v, B_k) on the face of `on_face`, for functions v on this face, (T, Q, ...) -> (T, n, ..., n)."""
        matrices = [matrix.T for matrix in self._matrices(None)]
        matrices[axis] = ends[:, None]
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
        # the last direction is contiguous: one large product instead of a stack of small ones
        if axis == dimension - 1:
            values = values.reshape(-1, shape[-1]) @ matrix.T
        else:
            values = np.matmul(matrix, values.reshape(-1, shape[place], int(np.prod(shape[place + 1 :]))))
        values = values.reshape(*shape[:place], len(matrix), *shape[place + 1 :])
    return values


def _integrate(legendre: Array) -> Array:
    """Integrate the normalised polynomials of degrees 1 to n from 0, given the polynomials of degrees 0 to n + 1."""
    scaled = legendre / np.sqrt(2.0 * np.arange(legendre.shape[1]) + 1.0)
    degrees = np.arange(1, legendre.shape[1] - 1)
    return np.asarray((scaled[:, 2:] - scaled[:, :-2]) / (2.0 * np.sqrt(2.0 * degrees + 1.0)))


def _with_free_ends(nodes: Array, values: Array, slopes: Array, below: bool, above: bool) -> tuple[Array, Array]:
    """Replace the first functions by linear ones if they need not vanish at an end."""
    one, linear = np.ones_like(nodes), list[tuple[Array, Array]]()
    if not (below or above):
        linear.append((one, 0.0 * one))
    if not (below and above):
        linear.append((1.0 - nodes, -one) if above else (nodes, one))
    kept = values.shape[1] - len(linear)
    return (
        np.column_stack([*(each for each, _ in linear), values[:, :kept]]),
        np.column_stack([*(each for _, each in linear), slopes[:, :kept]]),
    )


@lru_cache(maxsize=16)
def _eigenbasis(modes: int, below: bool, above: bool) -> tuple[Array, Array]:
    """Return coefficients of b_1, ..., b_n in the functions of `_with_free_ends` (n, n), and increasing lambda (n,)."""
    # n + 2 points are exact for the mass of polynomials of degree n + 1
    nodes, weights = TensorGrid(1, modes + 2).axis_rule
    legendre = polynomials(nodes, modes + 2, 0)[0]
    values, slopes = _with_free_ends(nodes, _integrate(legendre), legendre[:, 1:-1], below, above)
    mass, stiffness = (part.T @ (weights[:, None] * part) for part in (values, slopes))
    # of M and S + M, which is well-conditioned: the smallest lambda come out to full precision
    parts, vectors = scipy.linalg.eigh(mass, mass + stiffness)
    # parts are 1/(1 + lambda), increasing where lambda falls, and v . M v of vectors normalised in S + M
    return vectors[:, ::-1] / np.sqrt(parts[::-1]), np.maximum(1.0 / parts[::-1] - 1.0, 0.0)


Ended = Callable[[Array], list[tuple[Array, Array]]]
"""Function from nodes of one coordinate to values and derivatives of the functions of each direction."""
BOTH = np.array([0.0, 1.0])


@dataclass(frozen=True)
class UnitBox:
    """Map from the unit cube to a box, and the ends of each direction on which functions vanish."""

    lower: tuple[float, ...]
    widths: tuple[float, ...]
    ends: tuple[Ends, ...]

    @staticmethod
    @lru_cache(maxsize=16)  # a run's certificates ask nine times
    def of(domain: Domain) -> UnitBox:
        """Return the map to a box or to the unit cube.  Raises ParameterError for another domain."""
        box = as_box(domain)
        ends = tuple((box.is_dirichlet(axis, 0), box.is_dirichlet(axis, 1)) for axis in range(box.dimension))
        return UnitBox(tuple(map(float, box.lower)), tuple(map(float, box.widths)), ends)

    def nodes(self, grid: TensorGrid) -> Array:
        return self.mapped(grid.nodes)

    def mapped(self, nodes: Array) -> Array:
        """Map points of the unit cube to the box, (Q, d)."""
        return np.asarray(np.asarray(self.lower) + np.asarray(self.widths) * nodes)

    def on_face(self, grid: TensorGrid, axis: int, side: int) -> Array:
        """Return the nodes on a face, (Q^(d - 1), d)."""
        along = [grid.axis_rule[0]] * grid.dimension
        along[axis] = BOTH[side : side + 1]
        return self.mapped(tensor_points(along))


@dataclass(frozen=True, eq=False)
class FaceData:
    """Flux minus transfer u_b on a face, (T, Q, ...), and transfer, (T or 1, Q, ...), across `axis`."""

    axis: int
    side: int
    flux: Array
    transfer: Array | None

    def term(self, functions: Ended, run: SampledBasis, states: Array) -> Array:
        """Return flux minus transfer u on the face for a function by its coefficients, (T, Q, ...)."""
        if self.transfer is None:
            return self.flux
        return np.asarray(self.flux - self.transfer * run.on_face(states, self.axis, self.end(functions)))

    def end(self, functions: Ended) -> Array:
        """Return the values on the face of the functions of its direction, (n,)."""
        values, _ = functions(BOTH)[self.axis]
        return np.asarray(values[self.side])


@dataclass(frozen=True, eq=False)
class ProblemData:
    """A problem on a grid; source and initial value lack the parts of a lifting u_b, except its flux."""

    grid: TensorGrid
    times: Array
    diffusion: Array
    source: Array
    initial: Array
    lifting: Array | None = None
    flux: list[Array] | None = None
    advection: list[Array] | None = None
    reaction: Array | None = None
    law: Callable[[Array, float], Array] | None = None
    faces: tuple[FaceData, ...] = ()

    @staticmethod
    def of(problem: Problem, grid: TensorGrid, times: Array) -> ProblemData:
        """Evaluate the problem on the grid.  Raises ProblemError if its diffusion is not positive there."""
        box, lifting = UnitBox.of(problem.domain), problem.lifting
        nodes, shape = box.nodes(grid), grid.shape
        source, initial = problem.source(nodes, times), problem.initial(nodes)
        if lifting is not None:
            # The unknown is u - u_b: the terms of u_b go to the right-hand side.
            source = source - lifting.rate(nodes, times)
            if lifting.lower_order is not None:
                source = source - lifting.lower_order(nodes, times)
            initial = initial - problem.lift_at(nodes, 0.0)

        def on_grid(function: Callable[[Array, Array], Array], at: Array) -> Array:
            return np.asarray(function(nodes, at).reshape(len(at), *shape))

        def sample(function: Callable[[Array, Array], Array], steady: bool) -> Array:
            return on_grid(function, times[:1] if steady else times)

        b, c, F, g = problem.advection, problem.linear_reaction, problem.potential, problem.reaction
        law: Callable[[Array, float], Array] | None = None
        if F is not None:
            law = lambda u, t: -F.slope(u)  # noqa: E731
        elif isinstance(g, NonlinearReaction):
            law = lambda u, t: np.asarray(g.value(u.ravel(), nodes, t)).reshape(shape)  # noqa: E731
        return ProblemData(
            grid, times, _diffusion(problem, box, nodes, times, shape), source.reshape(-1, *shape),
            initial.reshape(shape),
            None if lifting is None else on_grid(lifting.value, times),
            None if lifting is None else [on_grid(q, times) / w for q, w in zip(lifting.flux, box.widths, strict=True)],
            None if b is None else [sample(part, part.steady) / w for part, w in zip(b, box.widths, strict=True)],
            None if c is None else sample(c, c.steady),
            law,
            tuple(_face(face, box, grid, times, lifting) for face in problem.faces),
        )  # fmt: skip

    def part(self, block: slice) -> ProblemData:
        if block.start == 0 and block.stop >= len(self.times):
            return self

        def some(given: Any) -> Any:
            if given is None or isinstance(given, list):
                return given and [some(each) for each in given]
            # steady data have one time for all of them
            return given if len(given) == 1 and len(self.times) > 1 else given[block]

        names = ("times", "diffusion", "source", "lifting", "flux", "advection", "reaction")
        faces = tuple(replace(face, flux=some(face.flux), transfer=some(face.transfer)) for face in self.faces)
        return replace(self, faces=faces, **{name: some(getattr(self, name)) for name in names})

    @property
    def homogeneous(self) -> ProblemData:
        """The same data without source, lifting and given fluxes."""
        faces = tuple(replace(face, flux=np.zeros_like(face.flux)) for face in self.faces)
        return replace(self, source=np.zeros((1,) * self.source.ndim), lifting=None, flux=None, faces=faces)

    @property
    def lower_order(self) -> bool:
        """True if the equation has terms in u or grad u besides its diffusion."""
        return not (self.advection is None and self.reaction is None and self.law is None)

    def remainder(self, run: SampledBasis, states: Array, gradient: list[Array]) -> Array:
        """Return F - b . grad v + c v for v by its coefficients and gradient, (T, Q, ..., Q), without - v_t."""
        result = self.source
        for b, slope in zip(self.advection or (), gradient, strict=False):
            result = result - b * slope
        if self.reaction is None and self.law is None:
            return result
        values = run.evaluate(states)
        if self.reaction is not None:
            result = result + self.reaction * values
        if self.law is not None:
            # u_b's part of linear terms is in the source (`lower_order`), a nonlinear law needs u itself
            whole = values if self.lifting is None else values + self.lifting
            result = result + np.stack([self.law(u, float(t)) for u, t in zip(whole, self.times, strict=True)])
        return np.asarray(result)

    def flux_of(self, gradient: list[Array]) -> list[Array]:
        """Return A grad (v + u_b) for a function v by its gradient."""
        plain = self.apply_diffusion(gradient)
        return plain if self.flux is None else [a + b for a, b in zip(plain, self.flux, strict=True)]

    def apply_diffusion(self, gradient: list[Array]) -> list[Array]:
        """Return A grad v."""
        if self.diffusion.ndim == self.source.ndim:
            return [self.diffusion * part for part in gradient]
        d = range(len(gradient))
        return [np.asarray(sum(self.diffusion[:, i, j] * gradient[j] for j in d)) for i in d]

    def moments(self, functions: Ended | None, states: Array, rates: Array | None, space: SpectralSpace) -> Array:
        """Return R(B_k) = F(B_k) - (v_t, B_k) - B(v, B_k), (T, n, ..., n).  Without `rates`, v_t = F = 0."""
        basis = SampledBasis.of(space, self.grid)
        run = basis if functions is None else SampledBasis(functions(self.grid.axis_rule[0]), self.grid)
        gradient = run.gradient(states)
        result = -basis.flux_moments(self.flux_of(gradient))
        if rates is not None or self.lower_order:
            remainder = self.remainder(run, states, gradient)
            result += basis.moments(remainder if rates is None else remainder - run.evaluate(rates))
        for face in self.faces:
            term = face.term(functions or space.along, run, states)
            result += basis.face_moments(term, face.axis, face.end(space.along))
        return result


def _diffusion(problem: Problem, box: UnitBox, nodes: Array, times: Array, shape: tuple[int, ...]) -> Array:
    at = times[:1] if problem.diffusion.steady else times
    values = problem.diffusion(nodes, at)
    # of a tensor this is necessary, and enough on a line; its eigenvalues are looked at where they are needed (`below`)
    least = float((np.einsum("tqll->tql", values) if isinstance(problem.diffusion, Tensor) else values).min())
    if not least > 0.0:  # so that NaN is refused too
        raise ProblemError(
            f"`diffusion` must be positive on the nodes of the certificates, got a minimum of {least:.6g}"
        )
    if isinstance(problem.diffusion, Tensor):
        tensor = np.moveaxis(values, 1, -1) / np.multiply.outer(box.widths, box.widths)[:, :, None]
        return np.asarray(tensor.reshape(len(at), len(box.widths), len(box.widths), *shape))
    if len(set(box.widths)) == 1:
        return np.asarray(values.reshape(-1, *shape) / box.widths[0] ** 2)
    # over different widths a scalar becomes a diagonal tensor in coordinates of the unit cube
    widths = np.asarray(box.widths)
    diagonal = np.eye(len(widths))[None, :, :, None] / (widths**2)[:, None] * values[:, None, None, :]
    return np.asarray(diagonal.reshape(len(at), len(widths), len(widths), *shape))


def _face(face: NaturalFace, box: UnitBox, grid: TensorGrid, times: Array, lifting: Lifting | None) -> FaceData:
    axis, side = DIRECTIONS.index(face.face[0]), int(face.face[1])
    nodes, width, shape = box.on_face(grid, axis, side), box.widths[axis], grid.shape[1:]
    flux, transfer = face.flux(nodes, times), face.transfer
    if transfer is None:
        return FaceData(axis, side, flux.reshape(len(times), *shape) / width, None)
    known = transfer(nodes, times)
    if lifting is not None:
        flux = flux - known * lifting.value(nodes, times)
    return FaceData(axis, side, flux.reshape(len(times), *shape) / width, known.reshape(len(times), *shape) / width)
