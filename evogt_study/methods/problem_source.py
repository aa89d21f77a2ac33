"""Sources of a study's problem: formulas, or a user's factory.  Both make a `Problem` from parameter values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evogt_study.errors import InputError, ProblemError, StudyError
from evogt_study.methods.code import UserCode, signature_parameters
from evogt_study.pde.domains import UnitCube, content_of
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.problems import Statement
from evogt_study.schema.parameters import GREEK, OF_FORMULAS, Parameter, real


@dataclass(frozen=True, eq=False)
class ProblemSource:
    """`make` turns values of `parameters` into the problem that `content` identifies; `name` is for messages."""

    name: str

    parameters: Mapping[str, Parameter]
    content: Any
    make: Callable[..., Problem]
    has_exact: bool | None
    has_potential: bool | None
    dimension: int | None
    statement: Statement | None = None

    @property
    def feature_dimension(self) -> int:
        """Number of coordinates that features see, of a problem in formulas."""
        return 0 if self.statement is None else self.statement.domain.feature_dimension

    @staticmethod
    def of(given: object) -> ProblemSource:
        """The source for a statement, or for the statement or factory that a user's file holds."""
        if isinstance(given, Statement):
            return _from_statement(given)
        if not isinstance(given, UserCode):
            raise StudyError(f"`problem` must be in formulas or a function, got {type(given).__name__}")
        loaded = given.load()
        if isinstance(loaded, Statement):
            return _from_statement(loaded)
        name = f"{Path(given.place).name}:{given.attribute}" if ".py" in given.place else given.reference
        content = {**given.identity, "factory": given.attribute}
        parameters, make = signature_parameters(loaded, name), _checked(loaded, name)
        return ProblemSource(name, parameters, content, make, has_exact=None, has_potential=None, dimension=None)


def formula_parameter(name: str) -> Parameter:
    """The declaration of a parameter of a problem's formulas."""
    return Parameter(name, "a finite number", real(), GREEK.get(name, name), OF_FORMULAS)


def _from_statement(statement: Statement) -> ProblemSource:
    content = {
        key: getattr(statement, key) for key in ("dimension", "exact", "initial", "source", "diffusion")
    }  # not its name: the same formulas are the same problem
    optional = {
        "lifting": statement.lifting,
        "potential": statement.potential,
        "advection": statement.advection,
        "reaction": statement.reaction,
        "boundary": statement.boundary or None,
        "domain": None if isinstance(statement.domain, UnitCube) else content_of(statement.domain),
    }
    content |= {key: formula for key, formula in optional.items() if formula is not None}
    parameters = {name: formula_parameter(name) for name in sorted(statement.parameters)}
    return ProblemSource(
        name=statement.name or "problem",
        parameters=parameters,
        content=content,
        make=statement,
        has_exact=statement.exact is not None,
        has_potential=statement.potential is not None,
        dimension=statement.dimension,
        statement=statement,
    )


# SystemExit too: a factory that calls sys.exit must not end the command
def _checked(factory: Callable[..., Any], name: str) -> Callable[..., Problem]:
    def make(**values: Any) -> Problem:
        try:
            problem = factory(**values)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # a user's factory can raise anything
            raise ProblemError(f"`{name}` raised {type(error).__name__}: {error}") from error
        if not isinstance(problem, Problem) or problem.dimension not in (1, 2, 3):
            got = type(problem).__name__ if not isinstance(problem, Problem) else f"dimension {problem.dimension!r}"
            raise ProblemError(f"`{name}` must return a Problem of dimension 1, 2 or 3, got {got}")
        return problem

    return make
