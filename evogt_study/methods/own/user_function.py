"""A user's own method: a plain function of the parameters that returns a number, a mapping or an xarray.Dataset."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import DivergedError, StudyError
from evogt_study.methods.own.captured_stderr import last_lines_noted
from evogt_study.methods.own.returned import as_record, check_names
from evogt_study.methods.own.user_code import UserCode, signature_parameters
from evogt_study.methods.protocol import BoundCase, Hints, Method, MethodSpec, StageCache
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Record
from evogt_study.schema.values import Values, canonical_json, is_composite
from evogt_study.schema.variables import objection

PROBLEM = "problem"
"""The argument by which a function asks for the study's problem."""
PATHS = (Path, "Path", "pathlib.Path", "Path | None")
"""Annotations of arguments that are paths, given relative to the study's file."""


@dataclass(frozen=True, eq=False)
class UserFunction(Method):
    """`function` called with the case's parameters by name; its arguments without default are required."""

    code: UserCode
    function: Any
    parameters: Mapping[str, Parameter]

    @staticmethod
    def of(spec: MethodSpec) -> UserFunction:
        """Raises StudyError where there is no such function, or the study asks for what only other methods know."""
        if not isinstance(spec.method, UserCode):
            raise StudyError(f"`method` must be file.py:function, got {spec.method!r}")
        reference = spec.method.reference
        if spec.problem is not None or spec.output is not None:
            name = "problem" if spec.problem is not None else "output"
            raise StudyError(
                f"`{name}` must be left out with the method {reference}, which returns what it wants to; a function "
                "that solves a problem has an argument `problem`"
            )
        function = spec.method.load()
        return UserFunction(spec.method, function, own_parameters(function, reference))

    @property
    def hints(self) -> Hints:
        return Hints(copied=frozenset(self.parameters))

    @cached_property  # a look at the signature takes as long as all else around a short run
    def paths(self) -> frozenset[str]:
        """Names of the arguments that are paths."""
        return path_arguments(self.function)

    def bind(self, values: Values) -> UserCase:
        return UserCase(self, values)


@dataclass(frozen=True, eq=False)
class UserCase(BoundCase):
    """One call of the function."""

    method: UserFunction
    values: Values

    @property
    def content(self) -> str:
        code = self.method.code
        return canonical_json({"method": code.attribute, **code.identity, "values": self.values})

    def run(self, share: StageCache) -> Record:
        method = self.method
        record = as_record(noted(method.function, given_arguments(method.paths, method.code, self.values)))
        check_names(record, method.parameters)
        check_error(record)
        return record


def solves_a_problem(function: Any) -> bool:
    """True of a function with an argument for the study's problem."""
    return PROBLEM in argument_names(function)


def argument_names(function: Any) -> tuple[str, ...]:
    """Names of the arguments; none of what is no function."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def own_parameters(function: Any, reference: str) -> dict[str, Parameter]:
    """A parameter for each argument.  Raises StudyError for a name that a result cannot have."""
    parameters = signature_parameters(function, reference)
    for name in parameters:
        reason = objection(name)
        if reason is not None:
            raise StudyError(f"the argument `{name}` must have another name, since {reason}")
    return parameters


def given_arguments(paths: frozenset[str], code: UserCode, values: Values) -> dict[str, Any]:
    """The values as a function gets them: in built-in types, and `paths` from the study's folder."""
    given = {name: plain(value) for name, value in values.items()}
    for name in paths & given.keys():
        if isinstance(given[name], str):
            given[name] = Path(code.folder) / given[name]
    return given


def noted(function: Any, arguments: Mapping[str, Any]) -> Any:
    """Call the function.  Raises what it raises, with the last lines that it wrote to standard error."""
    with last_lines_noted():
        return function(**arguments)


def path_arguments(function: Any) -> frozenset[str]:
    """Names of the arguments that are annotated as paths."""
    parameters = inspect.signature(function).parameters.items()
    return frozenset(name for name, each in parameters if each.annotation in PATHS)  # annotations may be text


def check_error(record: Record) -> None:
    """Raise DivergedError where a variable `error` is not finite."""
    error = record.variables.get("error")
    if error is None or error.values.dtype.kind != "f":
        return
    if not (np.isfinite(error.values).all() if error.dims else math.isfinite(error.values)):
        raise DivergedError("`error` is not finite")


def plain(value: Any) -> Any:
    """A parameter value in built-in types: a user's function need not know ours."""
    if type(value) in (int, float, str, bool):  # as a rule: a look at a protocol takes ten times as long
        return value
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    return dict(value.content()) if is_composite(value) else value
