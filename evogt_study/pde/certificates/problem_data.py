"""Functions of a problem on a grid at several times, which the certificates of all its runs share.

All is in coordinates of the unit cube, into which a box is mapped, and is divided by the volume of the box:

    (u_t, w) + (A grad u, grad w) + (b . grad u - c u, w) + <transfer u, w> = (f, w) + <flux, w>

with A_lm and b_l over the widths of l and m, and faces over the width of the direction that they are across.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.pde.certificates.spectral_space import Ends, SampledBasis, SpectralSpace, TensorGrid
from evogt_study.pde.domains import Domain
from evogt_study.pde.domains.box import DIRECTIONS, as_box, tensor_points
from evogt_study.pde.galerkin.problem import Lifting, NaturalFace, NonlinearReaction, Problem, Tensor
from evogt_study.pde.numerics.arrays import Array

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
