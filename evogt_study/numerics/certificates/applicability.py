"""Certificates that a problem has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from evogt_study.errors import StudyError
from evogt_study.numerics.certificates.certify import BY_EXACT, BY_REFERENCE, CERTIFICATES, CONSTANTS, LINEAR, linear
from evogt_study.numerics.certificates.problem_data import UnitBox
from evogt_study.numerics.certificates.tensor_grid import TensorGrid
from evogt_study.pde.domains import Box, UnitCube
from evogt_study.pde.domains.box import DIRECTIONS
from evogt_study.pde.galerkin.problem import Problem

FREE = tuple(name for name in CERTIFICATES if name not in BY_REFERENCE)
"""What takes no spectral reference, where the exact solution is known: `evogt_study.solve` gives it unasked."""

FACE_POINTS, FACE_TIMES = 16, 100
"""Gauss points per direction of a face, and times, at which the flow through it is looked at."""
GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""Its multiples modulo one spread over (0, 1), and no period has many of them in common."""
ROUNDING = 1e-12
"""Inflow that is none."""


def asked_for(record: Iterable[str]) -> tuple[str, ...]:
    """The certificates among the names in `record`."""
    return tuple(name for name in record if name in CERTIFICATES)


def applicable(problem: Problem, final_time: float) -> tuple[str, ...]:
    """Those of `FREE` that `problem` has."""
    referenced = problem.exact is not None
    return tuple(name for name in FREE if _reason(name, problem, final_time, referenced=referenced) is None)


def check_certificates(record: Iterable[str], problem: Problem, final_time: float) -> None:
    """Raise StudyError where `record` asks for a certificate that the problem does not have."""
    for name in asked_for(record):
        reason = _reason(name, problem, final_time, referenced=True)
        if reason is not None:
            raise StudyError(f"`record` must leave out {name} for {reason} (output.record)")


def _reason(name: str, problem: Problem, final_time: float, referenced: bool) -> str | None:
    """Why the problem does not have a certificate; `referenced` where there is a solution to compare with."""
    domain = problem.domain
    if not isinstance(domain, (Box, UnitCube)) or domain.periods():
        return "a problem on another domain than a box, or with a periodic direction"
    if name in CONSTANTS and not (problem.plain and isinstance(domain, UnitCube)):
        return "a problem with another domain, faces, or terms than those of scalar diffusion on the unit cube"
    if not linear(problem) and name in LINEAR:
        return "a problem that is not linear, of which only error_indicator is known"
    if linear(problem) and name not in LINEAR:
        return "a linear problem, of which error_bound is known"
    if name not in CONSTANTS and _flows_in(problem, final_time):
        return (
            "a problem with a negative transfer or advection into the domain through a face without Dirichlet data, "
            "transfer + b . n / 2 < 0"
        )
    return None if referenced or name not in BY_EXACT else "a problem without exact solution"


@lru_cache(maxsize=8)  # each certificate of a problem asks
def _flows_in(problem: Problem, final_time: float) -> bool:
    """True where transfer + b . n / 2 is negative on a natural face, so that errors may grow there."""
    if not problem.faces:
        return False
    box, grid = UnitBox.of(problem.domain), TensorGrid(problem.dimension, FACE_POINTS)
    times = final_time * np.append(GOLDEN * np.arange(FACE_TIMES) % 1.0, 1.0)
    for face in problem.faces:
        axis, side = DIRECTIONS.index(face.face[0]), int(face.face[1])
        nodes, terms = box.on_face(grid, axis, side), [np.zeros(1)]
        if problem.advection is not None:
            terms.append((2 * side - 1) * problem.advection[axis](nodes, times) / 2.0)
        if face.transfer is not None:
            terms.append(face.transfer(nodes, times))
        # of the terms, which may cancel: in other units all of them are as small as rounding
        largest = sum(float(np.abs(term).max()) for term in terms)
        if float(sum(terms[1:], start=terms[0]).min()) < -ROUNDING * largest:
            return True
    return False
