"""Run a user function as a method.

The function takes the parameters by name and returns a number, a mapping or an xarray.Dataset.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import DivergedError, StudyError
from evogt_study.methods.code import UserCode, signature_parameters
from evogt_study.methods.protocol import BoundCase, Method, MethodSpec, StageCache
from evogt_study.methods.returned import as_record, without_parameters
from evogt_study.methods.streams import (
    ALL,
    RNG,
    Common,
    add_generator,
    add_seed,
    check_seed,
    describe_common,
    omit_unused_seed,
)
from evogt_study.schema.parameters import Parameter, get_defaults
from evogt_study.schema.records import Record
from evogt_study.schema.values import Exact, Values, canonical_json, is_composite
from evogt_study.schema.variables import objection

PROBLEM = "problem"
"""Argument of a function that takes the problem of the study."""
PATHS = (Path, "Path", "pathlib.Path", "Path | None")
"""Annotations of arguments that are paths, relative to the study file."""


@dataclass(frozen=True, eq=False)
class UserFunction(Method):
    """A user function, called with the parameters of a case by name.  Arguments without a default are required."""

    code: UserCode
    function: Any
    parameters: Mapping[str, Parameter]
    common: Common = ALL

    @staticmethod
    def of(spec: MethodSpec) -> UserFunction:
        """Return the method.  Raises StudyError if there is no function, or if the study has a problem or an output."""
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
        return UserFunction(spec.method, function, own_parameters(function, reference), spec.common)

    @property
    def has_streams(self) -> bool:  # type: ignore[override]
        return RNG in self.parameters

    def required(self, values: Values) -> tuple[str, ...]:
        return omit_unused_seed(super().required(values), self.names, values)

    @property
    def plain_parameters(self) -> Collection[str]:  # type: ignore[override]  # all of them
        return self.parameters

    @cached_property
    def defaults(self) -> Values:
        """Default values of the arguments that have one."""
        return get_defaults(self.parameters)

    @cached_property
    def setup(self) -> str:
        """The setup of all cases: the code, and where seeds are common."""
        return canonical_json(
            {**self.code.identity, **describe_common(self.common, self.parameters, self.code.attribute)}
        )

    @cached_property  # reading the signature takes as long as the rest of a short run
    def paths(self) -> frozenset[str]:
        """Arguments that are paths."""
        return path_arguments(self.function)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return argument_names(self.function)

    def bind(self, values: Values) -> UserCase:
        return UserCase(self, values)


@dataclass(frozen=True, eq=False)
class FunctionCase(BoundCase):
    """One call of a function: its method has one `setup` for all cases, and every value enters the key unchanged."""

    method: Any
    values: Values

    @property
    def setup(self) -> str:
        setup: str = self.method.setup
        return setup

    @property
    def plain(self) -> Values:
        return self.values

    @property
    def defaults(self) -> Values:
        defaults: Values = self.method.defaults
        return defaults


class UserCase(FunctionCase):
    """One call of a user function."""

    def check(self) -> None:
        check_seed(self.method.names, self.values)

    def run(self, share: StageCache) -> Record:
        method = self.method
        arguments = given_arguments(method.paths, method.code, self.values)
        decisive = {"method": method.code.attribute, **self.values}
        arguments = add_generator(arguments, method.names, decisive, method.common)
        with method.code.importable():
            returned = method.function(**arguments)
        record = without_parameters(as_record(returned), self.values)
        check_error(record)
        return record


def solves_a_problem(function: Any) -> bool:
    """Return True for a function with an argument for the problem of the study."""
    return PROBLEM in argument_names(function)


def argument_names(function: Any) -> tuple[str, ...]:
    """Return the names of the arguments, or () for an object without a signature."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def own_parameters(function: Any, reference: str) -> dict[str, Parameter]:
    """Return a parameter for each argument.  Raises StudyError for a name that a result cannot have."""
    parameters = signature_parameters(function, reference)
    for name in parameters:
        reason = objection(name)
        if reason is not None:
            raise StudyError(f"the argument `{name}` must have another name, since {reason}")
    return add_seed(parameters)


def path_arguments(function: Any) -> frozenset[str]:
    """Return the names of the arguments that are annotated as paths."""
    parameters = inspect.signature(function).parameters.items()
    return frozenset(name for name, each in parameters if each.annotation in PATHS)  # annotations may be strings


def given_arguments(paths: frozenset[str], code: UserCode, values: Values) -> dict[str, Any]:
    """Return the arguments of a call: the values as the user wrote them, and `paths` relative to the study's folder."""
    objects = dict(code.objects)
    given = {name: plain(value, objects) for name, value in values.items()}
    for name in paths & given.keys():
        if isinstance(given[name], str):
            given[name] = Path(code.folder) / given[name]
    return given


def plain(value: Any, objects: Mapping[str, bytes]) -> Any:
    """Return a value as the user wrote it.  A list, an array or an object is a copy that the function may change."""
    if type(value) in (int, float, str, bool):  # the usual case: a test of the protocol takes ten times as long
        return value
    if isinstance(value, Exact):
        return value.make(objects)
    if isinstance(value, tuple):
        return [plain(entry, objects) for entry in value]
    return dict(value.content()) if is_composite(value) else value


def check_error(record: Record) -> None:
    """Raise DivergedError if a variable `error` is not finite."""
    error = record.variables.get("error")
    if error is None or error.values.dtype.kind != "f":
        return
    if not (np.isfinite(error.values).all() if error.dims else math.isfinite(error.values)):
        raise DivergedError("`error` is not finite")
