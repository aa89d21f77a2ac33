"""Checks that the data of a problem agree: values on the boundary, at the start, on periodic and natural faces.

Problems in formulas and problems of a user's factory are checked by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from evogt_study.errors import AccuracyWarning, ProblemError, warn
from evogt_study.pde.galerkin.problem import Problem, SpaceTimeFunction, Tensor
from evogt_study.pde.numerics.arrays import Array

_LOOKED_AT = np.array([0.0, 0.37, 1.0])
"""Parts of the final time.  No usual modulation has a zero at 0.37."""
_TOLERANCE = 1e-9
"""Relative difference that counts as rounding.  Rounding leaves sin(40 pi) at 1e-14."""


def check_data(problem: Problem, final_time: float | None = None) -> None:
    """Check the data of a problem without formulas.  Raises ProblemError."""
    check_boundary(problem, final_time)
    check_periodic(problem)
    check_start(problem)


def check_boundary(problem: Problem, final_time: float | None = None) -> None:
    """Raise ProblemError if the exact solution is not zero, or u_b, on the boundary (remark nonhomo).

    Initial data that do not meet the boundary values give a `AccuracyWarning`: the problem is well posed.
    """
    on_boundary = problem.domain.boundary_points()
    if not len(on_boundary):
        return
    key, times = "exact", _LOOKED_AT * (final_time or problem.final_time or 1.0)
    stated: Any = problem.exact
    if problem.exact is None:  # nothing is stated of later times
        key, times, stated = "initial", times[:1], lambda nodes, times: problem.initial(nodes)[None]
    with np.errstate(all="ignore"):
        lifted = np.zeros((1, 1)) if problem.lifting is None else problem.lifting.value(on_boundary, times)
        excess = np.abs(stated(on_boundary, times) - lifted).max(axis=1)
        scale = max(float(np.abs(stated(_find_inner_nodes(problem), times)).max()), float(np.abs(lifted).max()))
    bad = [not _is_negligible(float(each), scale, problem) for each in excess]
    if not any(bad):
        return
    wanted, got = ("vanish", "a value") if problem.lifting is None else ("equal `lifting`", "a difference")
    remedy = "; `lifting` states boundary values that are not zero" if problem.lifting is None else ""
    text = f"{wanted} on the boundary, got {got} of {excess.max():.3g} there{describe_parameters(problem)}{remedy}"
    if any(bad[1:]) or not np.isfinite(excess).all():
        raise ProblemError(f"`{key}` must {text}")
    warn(
        f"`{key}` at t = 0 should {text}. Such a solution is not smooth at the start: "
        "`start = { implicit_euler_half_steps = 4 }` or an L-stable integrator damps its fast modes",
        AccuracyWarning,
    )


def check_periodic(problem: Problem, flux: Sequence[SpaceTimeFunction] = ()) -> None:
    """Raise ProblemError if the data, or the flux A grad u of the exact solution, are not periodic on the domain."""
    exact = problem.exact
    stated: dict[str, Callable[[Array], Array]] = {"`initial`": problem.initial}
    if exact is not None:
        stated = {"`exact`": lambda nodes: exact(nodes, _LOOKED_AT)}
    if problem.lifting is not None:
        lifting = problem.lifting.value
        stated["`lifting`"] = lambda nodes: lifting(nodes, _LOOKED_AT)
    with np.errstate(all="ignore"):
        for axis, ends in problem.domain.periods().items():
            through = {"the flux `diffusion` * grad(`exact`)": partial(flux[axis], times=_LOOKED_AT)} if flux else {}
            nodes = _find_inner_nodes(problem)
            faces = [np.where(np.arange(problem.dimension) == axis, side, nodes) for side in ends]
            for data, function in (stated | through).items():
                excess = float(np.abs(function(faces[0]) - function(faces[1])).max())
                if not _is_negligible(excess, float(np.abs(function(nodes)).max()), problem):
                    got = f"a difference of {excess:.3g} between its faces{describe_parameters(problem)}"
                    raise ProblemError(f"{data} must be periodic in {'xyz'[axis]}, got {got}")


def check_fluxes(problem: Problem, flux: Sequence[SpaceTimeFunction]) -> None:
    """Raise ProblemError if A grad u of the exact solution is not the flux on a face."""
    rule, times = problem.domain.quadrature(problem.domain.usual_rule), _LOOKED_AT
    with np.errstate(all="ignore"):
        for data in problem.faces:
            nodes, normals = rule.faces[data.face].nodes, rule.faces[data.face].normals
            assert normals is not None  # noqa: S101  # faces have them
            outward = np.sum([n * part(nodes, times) for n, part in zip(normals.T, flux, strict=True)], axis=0)
            wanted = data.flux(nodes, times)
            if data.transfer is not None and problem.exact is not None:
                wanted = wanted - data.transfer(nodes, times) * problem.exact(nodes, times)
            excess = float(np.abs(outward - wanted).max())
            scale = max(float(np.abs(part(rule.nodes, times)).max()) for part in flux)
            if not _is_negligible(excess, max(scale, float(np.abs(wanted).max())), problem):
                got = f"a difference of {excess:.3g}{describe_parameters(problem)}"
                raise ProblemError(f"`exact` must have the flux that `boundary.{data.face}` states, got {got}")


def check_terms(problem: Problem, method: str) -> None:
    """Raise ProblemError for a term that a `method` for scalar diffusion does not admit."""
    terms = {
        "diffusion tensor": isinstance(problem.diffusion, Tensor),
        "advection": problem.advection is not None,
        "reaction": problem.reaction is not None,
    }
    extra = [name for name, there in terms.items() if there]
    if extra:
        raise ProblemError(
            f"{method} must have a problem of scalar diffusion and source, got one with {' and '.join(extra)}"
        )


def check_start(problem: Problem) -> None:
    """Raise ProblemError with the measured difference if the exact solution does not start from u_0."""
    if problem.exact is None:
        return
    nodes = _find_inner_nodes(problem)
    with np.errstate(all="ignore"):
        exact = problem.exact(nodes, np.zeros(1))[0]
        excess, scale = (float(np.abs(found).max()) for found in (exact - problem.initial(nodes), exact))
    if not _is_negligible(excess, scale, problem):
        given = describe_parameters(problem)
        raise ProblemError(f"`exact` at t = 0 must equal `initial`, got a difference of {excess:.3g}{given}")


def describe_parameters(problem: Problem) -> str:
    """Return the parameters of the problem as the end of a message."""
    values = ", ".join(f"{name} = {value:g}" for name, value in problem.parameters.items())
    return f" for {values}" if values else ""


def _find_inner_nodes(problem: Problem) -> Array:
    return problem.domain.quadrature(problem.domain.usual_rule).nodes


def _is_negligible(excess: float, scale: float, problem: Problem) -> bool:
    tolerance = max(_TOLERANCE, problem.boundary_tolerance)
    return bool(np.isfinite(excess)) and excess <= tolerance * max(scale, 1e-300)  # so that zero agrees with zero
