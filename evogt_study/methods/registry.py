"""Finding a method by the name in a study file.

A function of one's own needs nothing of the mathematics of the others, which takes a second to import: a method's
module is imported when it is called for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from evogt_study import problems
from evogt_study.errors import StudyError
from evogt_study.methods.many_methods import ONE, ManyMethods
from evogt_study.methods.own.user_code import GROUP, UserCode, is_entry_point
from evogt_study.methods.own.user_function import UserFunction, solves_a_problem
from evogt_study.methods.protocol import Alternatives, Method, MethodSpec, Output
from evogt_study.numerics.registry import Registry

# the paper's method first, as in messages
METHODS: Registry[Any] = Registry(
    "method",
    GROUP,
    evolution="evogt_study.methods.evolution:Evolution",
    p1_fem="evogt_study.methods.p1_fem:P1FiniteElements",
    finite_difference="evogt_study.methods.finite_difference:FiniteDifferences",
    space_time_regression="evogt_study.methods.space_time_regression:SpaceTimeRegression",
)
"""The package's methods, each with a function `of` a `MethodSpec`."""


def method_spec(
    method: str | Mapping[str, str],
    problem: object,
    output: Output | None,
    named: Callable[[str], UserCode],
) -> MethodSpec:
    """The spec that a study file's `method` and `problem` entries mean; `named` finds code of the user's own.

    Either may be a mapping of an axis's labels to several.  Raises StudyError for a name that does not exist.
    """
    if isinstance(method, Mapping):
        methods = tuple((label, _method(reference, named)) for label, reference in method.items())
    else:
        methods = ((ONE, _method(method, named)),)
    of_the_package = [part for _, part in methods if isinstance(part, str)]
    if of_the_package and problem is None:
        raise StudyError(
            f"`problem` must be given for the method {of_the_package[0]}; "
            f"use one of {', '.join(problems.BUILT_IN)}, file.py:factory or a [problem] table"
        )
    found = Alternatives(methods) if isinstance(method, Mapping) else methods[0][1]
    outputs = output or Output() if of_the_package else output
    if isinstance(problem, Several):
        several = tuple((label, _problem(each, named)) for label, each in problem.stated.items())
        return MethodSpec(found, Alternatives(several), outputs)
    return MethodSpec(found, None if problem is None else _problem(problem, named), outputs)


@dataclass(frozen=True)
class Several:
    """The problems of an axis by their labels: names, or mappings of formulas."""

    stated: Mapping[str, object]


def _method(method: str, named: Callable[[str], UserCode]) -> str | UserCode:
    if ":" in method or (method not in METHODS.places and is_entry_point(method)):
        return named(method)
    if method not in METHODS.places:
        raise StudyError(
            f"`method` must be one of {', '.join(METHODS)}, file.py:function, package.module:function or an entry "
            f"point of the group {GROUP}, got {method!r}"
        )
    return method


def _problem(problem: Any, named: Callable[[str], UserCode]) -> problems.Statement | UserCode:
    if isinstance(problem, str) and ":" in problem:
        return named(problem)
    if not isinstance(problem, str):
        return problems.Statement(**problem)
    known = problems.BUILT_IN
    if problem not in known:
        raise StudyError(
            f"`problem` must be one of {', '.join(known)}, file.py:factory or a [problem] table, got {problem!r}"
        )
    return known[problem]


@lru_cache(maxsize=8)  # once a process for all the batches of a study
def load_method(spec: MethodSpec) -> Method:
    """The method of `spec`.  Raises StudyError where a user's file cannot be used."""
    if not isinstance(spec.method, Alternatives) and not isinstance(spec.problem, Alternatives):
        return _loaded(spec)
    methods = spec.method.options if isinstance(spec.method, Alternatives) else ((ONE, spec.method),)
    stated = spec.problem.options if isinstance(spec.problem, Alternatives) else ((ONE, spec.problem),)
    every = {(m, p): _loaded(replace(spec, method=each, problem=of)) for m, each in methods for p, of in stated}
    return ManyMethods.of(every, [every[m, p] for m, each in methods for p, _ in stated if isinstance(each, UserCode)])


def _loaded(spec: MethodSpec) -> Method:
    """Load one method for one problem."""
    kind: Any = spec.method.load() if isinstance(spec.method, UserCode) else METHODS[str(spec.method)]
    if isinstance(spec.method, UserCode) and not (isinstance(kind, type) and issubclass(kind, Method)):
        kind = _user_solver() if solves_a_problem(kind) else UserFunction
    method: Method = kind.of(spec)
    return method


def _user_solver() -> Any:
    from evogt_study.methods.own.user_solver import UserSolver  # with the mathematics, which other functions save

    return UserSolver
