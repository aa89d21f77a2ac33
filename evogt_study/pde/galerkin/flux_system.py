"""The Galerkin system of fields with nonlinear fluxes: m alpha' = R(alpha, t), and the Jacobian of R.

Every term of the weak form is a coefficient times a test function or one of its derivatives,

    R_a,i = sum_p ( c_a,p(s, x, t), D_p phi_i )_q + sum_faces < h_a, phi_i >_q,   c_a,0 = g_a,  c_a,l = -F_a,l

with the slots s_b,q = D_q u_b, D_0 = 1 and D_l = d/dx_l.  So the Jacobian is one kind of matrix,

    dR_a,i / d alpha_b,j = sum_p sum_q ( dc_a,p/ds_b,q  D_q phi_j, D_p phi_i )_q.

Entries whose coefficients depend on neither the fields nor time are assembled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from evogt_study.pde.galerkin.retained_space import RetainedSpace, trial_values
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Quadrature

Values = Callable[[Mapping[str, Any]], list[Any]]
"""Values of slots, coordinates and time by name -> values of several functions."""


@dataclass(frozen=True, eq=False)
class FaceTerm:
    """h_a on a natural face, and its derivatives by the fields `by`."""

    row: int
    face: str
    by: tuple[int, ...]
    functions: Values


class FieldTerms(Protocol):
    """Fluxes and sources of all fields as functions of nodal values.

    slots: names of each field and of its derivatives.  values: c_a,p at `places` (a, p).  steady, varying:
    dc_a,p/ds_b,q at `steady_places` and `varying_places` (a, p, b, q).  algebraic: fields without a derivative in time.
    """

    slots: tuple[tuple[str, ...], ...]
    algebraic: tuple[bool, ...]
    places: list[tuple[int, int]]
    values: Values
    steady_places: list[tuple[int, int, int, int]]
    steady: Values
    varying_places: list[tuple[int, int, int, int]]
    varying: Values
    faces: list[FaceTerm]

    def initial(self, nodes: Array) -> Array:
        """Initial values without the lifting, (Q, d) -> (n, Q)."""

    def lifting(self, nodes: Array, t: float) -> Array:
        """Liftings, (Q, d) -> (n, Q)."""


class FluxSystem:
    """The coefficients of all fields, one after the other, in one retained space for each."""

    def __init__(self, terms: FieldTerms, spaces: list[RetainedSpace], face_rules: Mapping[str, Quadrature]) -> None:
        self.terms, self.spaces = terms, spaces
        ends = np.cumsum([0, *(space.rank for space in spaces)]).tolist()
        self.parts = [slice(*pair) for pair in pairwise(ends)]
        self.size, self.rule = int(ends[-1]), spaces[0].quadrature
        self.bases = [np.concatenate([s.values[None], s.gradients]) for s in spaces]  # (1 + d, Q, r)
        self.mass = np.concatenate(
            [np.full(space.rank, 0.0 if each else 1.0) for space, each in zip(spaces, terms.algebraic, strict=True)]
        )
        nodal = terms.initial(self.rule.nodes)
        self.initial = np.concatenate([space.project(v) for space, v in zip(spaces, nodal, strict=True)])
        self._on_faces = {
            name: (rule, [trial_values(s.domain, s.features, rule.nodes) @ s.transform for s in spaces])
            for name, rule in face_rules.items()
        }
        self._coordinates = dict(zip("xyz", self.rule.nodes.T, strict=False))

    def residual(self, z: Array, t: float) -> Array:
        """R(alpha, t), (R,)."""
        found, w = np.zeros(self.size), self.rule.weights
        for (a, p), c in zip(self.terms.places, self.terms.values(self._known(z, t)), strict=True):
            found[self.parts[a]] += (w * c) @ self.bases[a][p]
        for term, rule, values, h, _ in self._faces(z, t):
            found[self.parts[term.row]] += (rule.weights * h) @ values[term.row]
        return found

    def jacobian(self, z: Array, t: float) -> Array:
        """dR/d alpha, (R, R)."""
        J = self._constant.copy()
        if self.terms.varying_places:
            self._add(J, self.terms.varying_places, self.terms.varying(self._known(z, t)))
        for term, rule, values, _, slopes in self._faces(z, t):
            test = values[term.row].T * rule.weights
            for b, slope in zip(term.by, slopes, strict=True):
                J[self.parts[term.row], self.parts[b]] += test @ (np.reshape(slope, (-1, 1)) * values[b])
        return J

    def evaluate(self, z: Array, nodes: Array, t: float) -> Array:
        """The fields anywhere, (P, d) -> (n, P)."""
        values = [space.evaluate(nodes, z[part]) for space, part in zip(self.spaces, self.parts, strict=True)]
        return np.stack(values) + self.terms.lifting(nodes, t)

    @cached_property
    def _constant(self) -> Array:
        J = np.zeros((self.size, self.size))
        if self.terms.steady_places:
            self._add(J, self.terms.steady_places, self.terms.steady({**self._coordinates, "t": 0.0}))
        return J

    # one product of r by Q by r for each pair of fields and each derivative of the test function
    def _add(self, J: Array, places: list[tuple[int, int, int, int]], coefficients: list[Any]) -> None:
        trial: dict[tuple[int, int, int], Array] = {}
        w = self.rule.weights
        for (a, p, b, q), c in zip(places, coefficients, strict=True):
            weighted = np.broadcast_to(w * c, w.shape)[:, None] * self.bases[b][q]
            trial[a, p, b] = trial[a, p, b] + weighted if (a, p, b) in trial else weighted
        for (a, p, b), weighted in trial.items():
            J[self.parts[a], self.parts[b]] += self.bases[a][p].T @ weighted

    def _known(self, z: Array, t: float) -> dict[str, Any]:
        """Values of all slots, coordinates and time at the assembly nodes."""
        known: dict[str, Any] = {**self._coordinates, "t": t}
        for names, basis, part in zip(self.terms.slots, self.bases, self.parts, strict=True):
            known.update(zip(names, basis @ z[part], strict=True))
        return known

    def _faces(self, z: Array, t: float) -> Iterator[tuple[FaceTerm, Quadrature, list[Array], Any, list[Any]]]:
        for term in self.terms.faces:
            rule, values = self._on_faces[term.face]
            known: dict[str, Any] = {**dict(zip("xyz", rule.nodes.T, strict=False)), "t": t}
            for names, value, part in zip(self.terms.slots, values, self.parts, strict=True):
                known[names[0]] = value @ z[part]
            h, *slopes = (np.broadcast_to(each, len(rule.nodes)) for each in term.functions(known))
            yield term, rule, values, h, slopes
