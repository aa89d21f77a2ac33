"""The Galerkin system m alpha' = R(alpha, t) of fields with nonlinear fluxes, the Jacobian of R, and time steps.

    R_a,i = sum_p ( c_a,p(s, x, t), D_p phi_i )_q + sum_faces < h_a, phi_i >_q,   c_a,0 = g_a,  c_a,l = -F_a,l
    dR_a,i / d alpha_b,j = sum_p sum_q ( dc_a,p/ds_b,q  D_q phi_j, D_p phi_i )_q

The slots are s_b,q = D_q u_b with D_0 = 1 and D_l = d/dx_l.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy  # imports scipy.sparse at its first use, so workers start sooner

from evogt_study.errors import DivergedError, ParameterError
from evogt_study.pde.galerkin.system import Basis
from evogt_study.pde.integrators.base import Integrator
from evogt_study.pde.integrators.runge_kutta import ImplicitSteps, RadauIIA2, RungeKutta, Tableau, factorise
from evogt_study.pde.integrators.semi_implicit import ImexBDF2
from evogt_study.pde.numerics import Array, Quadrature, TimeGrid, Trajectory

if TYPE_CHECKING:
    from evogt_study.pde.problems.fields import FaceTerm, FormulaTerms


@dataclass(frozen=True, eq=False)
class FieldSpace:
    """Space of functions for one field, as dense or sparse matrices on the domain and on its natural faces.

    The `mass` is a diagonal (r,) or a sparse matrix.  `project` maps nodal values to coefficients.  `evaluate` maps
    nodes (P, d) and states (S, r) to values (S, P).
    """

    interior: Basis
    faces: Mapping[str, Basis]
    mass: Any
    project: Callable[[Array], Array]
    evaluate: Callable[[Array, Array], Array]

    @cached_property
    def basis(self) -> tuple[Any, ...]:
        """Values and first derivatives of the functions at the nodes, (Q, r) each."""
        return (self.interior.values, *self.interior.gradients)


class FluxSystem:
    """Galerkin system of several fields.  A state contains the coefficients of each field, one field after another."""

    linear: ClassVar[bool] = False
    autonomous: ClassVar[bool] = False
    symmetric: ClassVar[bool] = False

    def __init__(self, terms: FormulaTerms, spaces: list[FieldSpace]) -> None:
        self.terms, self.spaces, self.rule = terms, spaces, spaces[0].interior.rule
        self.sizes = [space.basis[0].shape[1] for space in spaces]
        self.parts = [slice(*pair) for pair in pairwise(np.cumsum([0, *self.sizes]).tolist())]
        masses = [0.0 * s.mass if a else s.mass for s, a in zip(spaces, terms.algebraic, strict=True)]
        self.is_sparse = not isinstance(masses[0], np.ndarray)
        self.mass: Any = scipy.sparse.block_diag(masses, format="csr") if self.is_sparse else np.concatenate(masses)
        nodal = terms.initial(self.rule.nodes)
        self.initial = np.concatenate([space.project(v) for space, v in zip(spaces, nodal, strict=True)])
        self._constant: dict[tuple[int, int], Any] = {}
        if terms.steady_places:
            self._add(self._constant, terms.steady_places, terms.steady(self._name_values(0.0, self.initial)))

    def load(self, times: Array) -> Array:
        """Raise TypeError, because only a linear system has a load."""
        raise TypeError

    def rate(self, t: float, z: Array) -> Array:
        """Return the right-hand side R(alpha, t) of the system, (R,)."""
        sums, w = np.zeros(sum(self.sizes)), self.rule.weights
        for (a, p), c in zip(self.terms.places, self.terms.values(self._name_values(t, z)), strict=True):
            sums[self.parts[a]] += (w * c) @ self.spaces[a].basis[p]
        for term, rule, values, h, _ in self._evaluate_faces(t, z):
            sums[self.parts[term.row]] += (rule.weights * h) @ values[term.row]
        return sums

    def jacobian(self, t: float, z: Array) -> Any:
        """Return the Jacobian dR/d alpha, (R, R), as a sparse matrix if the spaces are sparse."""
        blocks = dict(self._constant)
        if self.terms.varying_places:
            self._add(blocks, self.terms.varying_places, self.terms.varying(self._name_values(t, z)))
        for term, rule, values, _, slopes in self._evaluate_faces(t, z):
            for b, slope in zip(term.by, slopes, strict=True):
                _accumulate(blocks, (term.row, b), values[term.row].T @ _scale(rule.weights * slope, values[b]))
        make_zero: Any = scipy.sparse.csr_array if self.is_sparse else np.zeros
        sizes = list(enumerate(self.sizes))
        rows = [[blocks[a, b] if (a, b) in blocks else make_zero((m, n)) for b, n in sizes] for a, m in sizes]
        return scipy.sparse.block_array(rows, format="csr") if self.is_sparse else np.block(rows)

    # Compute one r x Q x r matrix product for each pair of fields and each derivative of the test function.
    def _add(
        self, blocks: dict[tuple[int, int], Any], places: list[tuple[int, int, int, int]], coefficients: list[Any]
    ) -> None:
        trial: dict[tuple[int, int, int], Any] = {}
        w = self.rule.weights
        for (a, p, b, q), c in zip(places, coefficients, strict=True):
            if np.any(c):
                _accumulate(trial, (a, p, b), _scale(np.broadcast_to(w * c, w.shape), self.spaces[b].basis[q]))
        for (a, p, b), weighted in trial.items():
            _accumulate(blocks, (a, b), self.spaces[a].basis[p].T @ weighted)

    def _name_values(self, t: float, z: Array, face: str = "") -> dict[str, Any]:
        """Return the time, the coordinates and the slots at the nodes, or the fields on a `face`, by name."""
        bases = [space.faces[face] if face else space.interior for space in self.spaces]
        named: dict[str, Any] = {**dict(zip("xyz", bases[0].rule.nodes.T, strict=False)), "t": t}
        for names, space, basis, part in zip(self.terms.slots, self.spaces, bases, self.parts, strict=True):
            matrices = (basis.values,) if face else space.basis
            named.update((name, matrix @ z[part]) for name, matrix in zip(names, matrices, strict=False))
        return named

    def _evaluate_faces(self, t: float, z: Array) -> Iterator[tuple[FaceTerm, Quadrature, list[Any], Any, list[Any]]]:
        """Yield each term with its rule, the functions of all fields at its nodes, h, and the derivatives of h."""
        for term in self.terms.faces:
            faces = [space.faces[term.face] for space in self.spaces]
            given = term.functions(self._name_values(t, z, term.face))
            h, *slopes = (np.broadcast_to(each, len(faces[0].rule.nodes)) for each in given)
            yield term, faces[0].rule, [face.values for face in faces], h, slopes


def _scale(weights: Array, matrix: Any) -> Any:
    """Return the product diag(weights) @ matrix."""
    dense = isinstance(matrix, np.ndarray)
    return weights[:, None] * matrix if dense else scipy.sparse.diags_array(weights) @ matrix


def _accumulate(sums: dict[Any, Any], place: Any, term: Any) -> None:
    sums[place] = sums[place] + term if place in sums else term


@dataclass(frozen=True, eq=False)
class FieldSolution:
    """Solution for several fields, as coefficients at the observed times."""

    system: FluxSystem
    trajectory: Trajectory

    def evaluate(self, nodes: Array) -> Array:
        """Return the fields at the points `nodes` and the observed times, (P, d) -> (S, n, P)."""
        system, trajectory = self.system, self.trajectory
        parts = zip(system.spaces, system.parts, strict=True)
        values = [space.evaluate(nodes, trajectory.coefficients[:, part]) for space, part in parts]
        liftings = [system.terms.lifting(nodes, t) for t in trajectory.times.tolist()]
        return np.stack(values, axis=1) + np.stack(liftings)


def march_fields(
    system: FluxSystem, integrator: Integrator | Tableau, grid: TimeGrid, tolerance: float = 1e-13, keep: bool = True
) -> FieldSolution:
    """Return the solution at the observed times.  Raises DivergedError if Newton's method does not converge."""
    steps = ImplicitSteps(system, tolerance, keep)
    z, found = steps.make_consistent(system.initial, 0.0), dict[int, Array]()
    if isinstance(integrator, ImexBDF2):
        found |= zip(grid.observed, grid.observe(_march_semi_implicit(steps, z, grid)), strict=True)
    else:
        assert isinstance(integrator, (RungeKutta, Tableau))  # noqa: S101  # `check_integrator` excludes others
        whole = [(integrator, grid, grid.observed)] if isinstance(integrator, Tableau) else integrator.list_parts(grid)
        for tableau, part, numbers in whole:
            found |= zip(numbers, steps.march(tableau, z, part), strict=True)
            z = found[numbers[-1]]
    # a method that is not stiffly accurate leaves a residual in the algebraic rows
    states = [steps.make_consistent(found[n], n * grid.dt) if n else found[n] for n in grid.observed]
    return FieldSolution(system, Trajectory(grid.observed_times, np.stack(states)))


# L is the Jacobian at the start.  The order is two for any L.  If L had only the linear terms, a flux such as u^2 u_x
# would be explicit.  The first step uses the two-stage Radau IIA method.
def _march_semi_implicit(steps: ImplicitSteps, z: Array, grid: TimeGrid) -> Iterator[Array]:
    """Yield the states with (3/2 M - dt L) z^{n+1} = M (2 z^n - z^{n-1}/2) + dt (2 N^n - N^{n-1}) and N = R - L z."""
    system, dt = steps.system, grid.dt
    L, mass = system.jacobian(0.0, z), np.asarray(system.mass)
    before, rate = z, system.rate(0.0, z) - L @ z
    yield z
    z = steps.step(RadauIIA2.tableau, z, RadauIIA2.tableau.nodes * dt, dt)
    solve = factorise(np.diag(1.5 * mass) - dt * L, 0.0)
    yield z
    for n in range(1, grid.steps):
        now = system.rate(n * dt, z) - L @ z
        side = mass * (2.0 * z - before / 2.0) + dt * (2.0 * now - rate)
        before, rate, z = z, now, solve(side)
        if not np.isfinite(z).all():
            raise DivergedError(f"the solution is not finite at t = {(n + 1) * dt:.6g}")
        yield z


def check_integrator(integrator: Integrator) -> None:
    """Raise ParameterError if the integrator cannot advance fields with nonlinear fluxes."""
    if not isinstance(integrator, (RungeKutta, ImexBDF2)):
        wanted = "a Runge-Kutta method or imex_bdf_2 for nonlinear fluxes and several fields"
        raise ParameterError("time_integrator", wanted, integrator.name)
