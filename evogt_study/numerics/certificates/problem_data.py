"""A problem's functions on a grid at several times, which the certificates of all its runs have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evogt_study.numerics.arrays import Array
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.numerics.problem import Problem


@dataclass(frozen=True, eq=False)
class ProblemData:
    """Diffusion a, (T or 1, Q, ..., Q); source f less the rate of a lifting, (T, Q, ..., Q); initial value less it.

    lifting: u_b (T, ...) and flux: a d u_b/dx_l for each direction; None where there is no lifting.  slope: F' of a
    potential.
    """

    grid: TensorGrid
    times: Array
    diffusion: Array
    source: Array
    initial: Array
    lifting: Array | None = None
    flux: list[Array] | None = None
    slope: Callable[[Array], Array] | None = None

    @staticmethod
    def of(problem: Problem, grid: TensorGrid, times: Array) -> ProblemData:
        """Evaluate the problem on the grid."""
        nodes, shape, first = grid.nodes, grid.shape, np.zeros(1)
        diffusion = problem.diffusion(nodes, times[:1] if problem.diffusion.steady else times)
        source, initial, lifting, flux = problem.source(nodes, times), problem.initial(nodes), None, None
        if problem.lifting is not None:
            source = source - problem.lifting.rate(nodes, times)
            initial = initial - problem.lifting.value(nodes, first)[0]
            lifting = problem.lifting.value(nodes, times).reshape(-1, *shape)
            flux = [part(nodes, times).reshape(-1, *shape) for part in problem.lifting.flux]
        return ProblemData(
            grid, times, diffusion.reshape(-1, *shape), source.reshape(-1, *shape), initial.reshape(shape),
            lifting, flux, None if problem.potential is None else problem.potential.slope,
        )  # fmt: skip

    def part(self, block: slice) -> ProblemData:
        """The times of `block` only."""
        a = self.diffusion if len(self.diffusion) == 1 else self.diffusion[block]
        lifting = None if self.lifting is None else self.lifting[block]
        flux = None if self.flux is None else [part[block] for part in self.flux]
        return replace(
            self, times=self.times[block], diffusion=a, source=self.source[block], lifting=lifting, flux=flux
        )

    def remainder(self, values: Array, rates: Array) -> Array:
        """f - u_t - F'(u) for u = v + u_b by v and v_t, (T, Q, ..., Q) each; F is absent from linear problems."""
        if self.slope is None:
            return np.asarray(self.source - rates)
        return np.asarray(self.source - rates - self.slope(values if self.lifting is None else values + self.lifting))

    def flux_of(self, gradient: list[Array]) -> list[Array]:
        """a grad (v + u_b) for a function v by its gradient."""
        plain = [self.diffusion * part for part in gradient]
        return plain if self.flux is None else [a + b for a, b in zip(plain, self.flux, strict=True)]
