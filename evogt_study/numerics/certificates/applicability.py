"""Certificates that a problem has."""

from __future__ import annotations

from collections.abc import Iterable

from evogt_study.errors import StudyError
from evogt_study.numerics.certificates.certify import BY_EXACT, BY_REFERENCE, CERTIFICATES, LINEAR
from evogt_study.numerics.domains import UnitCube
from evogt_study.numerics.problem import Problem

FREE = tuple(name for name in CERTIFICATES if name not in BY_REFERENCE)
"""What takes no spectral reference, where the exact solution is known: `evogt_study.solve` gives it unasked."""


def asked_for(record: Iterable[str]) -> tuple[str, ...]:
    """The certificates among the names in `record`."""
    return tuple(name for name in record if name in CERTIFICATES)


def applicable(problem: Problem) -> tuple[str, ...]:
    """Those of `FREE` that `problem` has."""
    return tuple(name for name in FREE if _reason(name, problem, referenced=problem.exact is not None) is None)


def check_certificates(record: Iterable[str], problem: Problem) -> None:
    """Raise StudyError where `record` asks for a certificate that the problem does not have."""
    for name in asked_for(record):
        reason = _reason(name, problem, referenced=True)
        if reason is not None:
            raise StudyError(f"`record` must leave out {name} for {reason} (output.record)")


def _reason(name: str, problem: Problem, referenced: bool) -> str | None:
    """Why the problem does not have a certificate; `referenced` where there is a solution to compare with."""
    if not (problem.plain and isinstance(problem.domain, UnitCube)):
        return "a problem with another domain, faces, or terms than those of scalar diffusion on the unit cube"
    if problem.potential is not None and name in LINEAR:
        return "a problem with a potential, of which only error_indicator is known"
    if problem.potential is None and name not in LINEAR:
        return "a linear problem, of which error_bound is known"
    return None if referenced or name not in BY_EXACT else "a problem without exact solution"
