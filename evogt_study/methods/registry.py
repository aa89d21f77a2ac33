"""Finding a method by the name in a study file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from evogt_study.errors import StudyError
from evogt_study.methods.baseline import Baseline, BaselineCase
from evogt_study.methods.evolution import Evolution
from evogt_study.methods.finite_difference import FiniteDifferences
from evogt_study.methods.p1_fem import P1FiniteElements
from evogt_study.methods.protocol import Method, MethodSpec, Output
from evogt_study.methods.space_time_regression import SpaceTimeRegression
from evogt_study.methods.user_code import PythonFile
from evogt_study.methods.user_function import UserFunction
from evogt_study.problems import BUILT_IN, Statement

BASELINES: Mapping[str, type[BaselineCase[Any]]] = {
    kind.NAME: kind for kind in (P1FiniteElements, FiniteDifferences, SpaceTimeRegression)
}
# the paper's method first, as in messages; a user's own function needs no name here
NAMES = ("evolution", *BASELINES)


def method_spec(
    method: str,
    problem: str | Mapping[str, Any] | None,
    output: Output | None,
    named: Callable[[str], PythonFile],
) -> MethodSpec:
    """The spec that a study file's `method` and `problem` entries mean; `named` finds their Python files.

    Raises StudyError for a name that does not exist.
    """
    if ":" in method:
        return MethodSpec(named(method), _problem(problem, named), output)
    if method not in NAMES:
        raise StudyError(f"`method` must be one of {', '.join(NAMES)} or file.py:function, got {method!r}")
    if problem is None:
        raise StudyError(
            f"`problem` must be given for the method {method}; "
            f"use one of {', '.join(BUILT_IN)}, file.py:factory or a [problem] table"
        )
    return MethodSpec(method, _problem(problem, named), output or Output())


def _problem(
    problem: str | Mapping[str, Any] | None, named: Callable[[str], PythonFile]
) -> Statement | PythonFile | None:
    if problem is None:
        return None
    if not isinstance(problem, str):
        return Statement(**problem)
    if ":" in problem:
        return named(problem)
    if problem not in BUILT_IN:
        raise StudyError(
            f"`problem` must be one of {', '.join(BUILT_IN)}, file.py:factory or a [problem] table, got {problem!r}"
        )
    return BUILT_IN[problem]


@lru_cache(maxsize=8)  # once a process for all the batches of a study
def load_method(spec: MethodSpec) -> Method:
    """The method of `spec`.  Raises StudyError where a user's file cannot be used."""
    if isinstance(spec.method, PythonFile):
        return UserFunction.of(spec)
    return Baseline.of(spec, BASELINES[spec.method]) if spec.method in BASELINES else Evolution.of(spec)
