"""Where a study's problem comes from: formulas, or a user's factory.  Both make a `Problem` from parameter values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evogt_study.errors import StudyError
from evogt_study.method.problem import Problem
from evogt_study.problems import Statement
from evogt_study.sweep.parameters import Parameter, real
from evogt_study.sweep.user_code import PythonFile, signature_parameters

_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
    "psi omega"
)
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξοπρστυφχψω", strict=True))


@dataclass(frozen=True, eq=False)
class ProblemSource:
    """`make` turns values of `parameters` into the problem; `content` identifies what is made."""

    parameters: Mapping[str, Parameter]
    content: Any
    make: Callable[..., Problem]
    has_exact: bool | None
    dimension: int | None
    final_time: float | None

    @staticmethod
    def of(given: Statement | PythonFile) -> ProblemSource:
        """The source for a statement, or for the statement or factory that a user's file holds."""
        if isinstance(given, Statement):
            return _from_statement(given)
        loaded = given.load()
        if isinstance(loaded, Statement):
            return _from_statement(loaded)
        content = {"file": given.content, "factory": given.attribute}
        return ProblemSource(
            signature_parameters(loaded, given.attribute), content, _checked(loaded, given.attribute), None, None, None
        )


def _from_statement(statement: Statement) -> ProblemSource:
    content = {
        key: getattr(statement, key) for key in ("dimension", "exact", "initial", "source", "diffusion")
    }  # not its name: the same formulas are the same problem
    parameters = {
        name: Parameter(name, "a finite number", real(), GREEK.get(name, name), "parameter of the problem's formulas")
        for name in sorted(statement.parameters)
    }
    return ProblemSource(
        parameters, content, statement, statement.exact is not None, statement.dimension, statement.final_time
    )


def _checked(factory: Callable[..., Any], name: str) -> Callable[..., Problem]:
    def make(**values: Any) -> Problem:
        problem = factory(**values)
        if not isinstance(problem, Problem):
            raise StudyError(f"`{name}` must return a Problem, got {type(problem).__name__}")
        return problem

    return make
