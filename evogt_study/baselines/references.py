"""References that errors are measured against, by the names that a study file has for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from evogt_study.baselines.finite_difference import FiniteDifferenceReference, check_differences
from evogt_study.baselines.refined import RefinedReference
from evogt_study.errors import ParameterError, ProblemError
from evogt_study.numerics.pipeline import Discretisation, Reference
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.numerics.arrays import Array
from evogt_study.storage.arrays import once

EXACT, DIFFERENCES, ELEMENTS, REFINED = "exact", "finite_difference", "finite_elements", "refined"
NAMES = (EXACT, DIFFERENCES, ELEMENTS, REFINED)
SIZED = (DIFFERENCES, ELEMENTS)
"""Those that need reference_points."""


@dataclass(frozen=True, eq=False)
class FunctionReference:
    """A user's function of nodes (Q, d) and a time, which gives u (Q,); `content` identifies it."""

    function: Callable[[Array, float], Any]
    content: Hashable
    coarser: None = None

    @property
    def key(self) -> Hashable:
        """Identity of the values, besides the problem's."""
        return "function", self.content

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values, (Q, d) and (T,) -> (T, Q).  Raises ProblemError for another shape, or what are not numbers."""
        values = [np.asarray(self.function(nodes, float(t)), dtype=float) for t in times]
        for found in values:
            if found.shape != (len(nodes),) or not np.isfinite(found).all():
                raise ProblemError(f"`reference` must give ({len(nodes)},) finite numbers, got shape {found.shape}")
        return np.stack(values)


# checked before anything runs: what a reference cannot do is known from the problem and the parameters
def reference_of(
    name: str | None, problem: Problem, run: Discretisation, points: int | None, dt: float | None
) -> Reference | None:
    """The reference that a name means for a run; None for the exact solution.

    points and dt: its resolution, where it has one.  Raises ParameterError or ProblemError where it cannot be had.
    """
    if name is None or name == EXACT:
        if name is not None and problem.exact is None:
            raise ProblemError("`exact` must be known where `reference` asks for it, got a problem without it")
        return None
    if name == REFINED:
        return RefinedReference.of(problem, run, dt)
    if name not in SIZED:
        raise ParameterError("reference", f"one of {', '.join(NAMES)}", name)
    if points is None:
        raise ParameterError("reference_points", f"given for {name}", None)
    grid = run.grid.refined(dt or run.grid.dt)
    if name == DIFFERENCES:
        check_differences(problem, points, run.integrator, "reference_points")
        return FiniteDifferenceReference(problem, points, grid, run.integrator)
    from evogt_study.baselines.finite_elements import FiniteElementReference  # 0.2 s, with scikit-fem, for each worker

    reference = FiniteElementReference(problem, points, grid)
    reference.check()
    return reference


@dataclass(frozen=True, eq=False)
class ReferenceAmongWorkers:
    """A `Reference` whose values another worker may have computed; `content` identifies the problem."""

    reference: Reference
    content: str

    @property
    def key(self) -> Hashable:
        """That of the reference."""
        return self.reference.key

    @property
    def coarser(self) -> Reference | None:
        """Its coarser version, shared likewise."""
        coarser = self.reference.coarser
        return None if coarser is None else ReferenceAmongWorkers(coarser, self.content)

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values of the reference, (Q, d) and (T,) -> (T, Q)."""
        told = repr((self.content, self.key, nodes.shape, times.shape)).encode()
        name = blake2b(told + nodes.tobytes() + times.tobytes(), digest_size=20).hexdigest()
        return once(name, lambda: self.reference(nodes, times))
