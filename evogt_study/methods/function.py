"""Run a user function as a method.

The function receives the parameters of a case by name.  The module `returned` converts the returned object to a record.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import DivergedError, ParameterError, StudyError
from evogt_study.methods.code import UserCode, read_signature
from evogt_study.methods.current_run import CHECKPOINT, make_checkpoint_folder
from evogt_study.methods.protocol import BoundCase, Method, MethodSpec, StageCache
from evogt_study.methods.returned import remove_parameters, to_record
from evogt_study.methods.streams import ALL, RNG, SEED, Common, add_seed, make_generator
from evogt_study.schema.parameters import Parameter, get_defaults
from evogt_study.schema.records import Record
from evogt_study.schema.values import Exact, Values, canonical_json, is_composite
from evogt_study.schema.variables import explain_reserved_name

PROBLEM = "problem"
"""Argument through which a user function receives the problem of the study."""
_PATHS = (Path, "Path", "pathlib.Path", "Path | None")
"""Annotations of arguments that are paths, relative to the study file."""


@dataclass(frozen=True, eq=False)
class UserFunction(Method):
    """User function as a method.  All its parameters are key-only parameters."""

    code: UserCode
    function: Any
    parameters: Mapping[str, Parameter]
    common: Common

    @staticmethod
    def of(spec: MethodSpec) -> UserFunction:
        """Return the method.  Raises StudyError if the spec has no user function, or has a problem or an output."""
        if not isinstance(spec.method, UserCode):
            raise StudyError(f"`method` must be file.py:function, got {spec.method!r}")
        reference = spec.method.reference
        if spec.problem is not None or spec.output is not None:
            name = "problem" if spec.problem is not None else "output"
            raise StudyError(
                f"`{name}` must be left out with the method {reference}. A function that solves a problem must have an "
                "argument `problem`"
            )
        function = spec.method.load()
        return UserFunction(spec.method, function, read_function_parameters(function, reference), spec.common)

    def bind(self, values: Values) -> UserCase:
        return UserCase(self, values)

    @cached_property
    def setup(self) -> str:
        """Setup text that all cases share."""
        return canonical_json({**self.code.identity, **self.describe_streams()})

    def describe_streams(self) -> dict[str, Any]:
        """Return the part of the setup that decides the random streams."""
        is_part = self.has_streams and self.common != ALL
        return {"common": self.common, "drawn by": self.code.attribute} if is_part else {}

    @property
    def has_streams(self) -> bool:  # type: ignore[override]
        return RNG in self.parameters

    @cached_property
    def key_only_parameters(self) -> frozenset[str]:  # type: ignore[override]  # all of them
        return frozenset(self.parameters)

    def list_required_parameters(self, values: Values) -> tuple[str, ...]:
        is_unused = RNG in values and SEED not in self.names
        return tuple(name for name in super().list_required_parameters(values) if name != SEED or not is_unused)

    # these are cached, since reading the signature takes as long as the rest of a short run
    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments of the function."""
        return list_arguments(self.function)

    @cached_property
    def paths(self) -> frozenset[str]:
        """Arguments that are annotated as paths.  Annotations may be strings."""
        arguments = inspect.signature(self.function).parameters.items()
        return frozenset(name for name, each in arguments if each.annotation in _PATHS)

    @cached_property
    def defaults(self) -> Values:
        """Default values of the arguments that have one."""
        return get_defaults(self.parameters)


@dataclass(frozen=True, eq=False)
class UserCase(BoundCase):
    """One case of a user function."""

    method: Any
    values: Values

    @property
    def setup(self) -> str:
        return str(self.method.setup)

    @property
    def key_only_values(self) -> Values:
        return self.values

    @property
    def defaults(self) -> Values:
        defaults: Values = self.method.defaults
        return defaults

    def check(self) -> None:
        if RNG in self.values and SEED in self.values and SEED not in self.method.names:
            raise ParameterError(SEED, "left out if `rng` has a value", self.values[SEED])

    def call(self, values: Values, decisive: Values, more: Mapping[str, Any]) -> Any:
        """Call the function with `values` and `more`.

        `decisive` and the values of the case determine the random stream.
        """
        method, objects = self.method, dict(self.method.code.objects)
        arguments = {name: to_argument(value, objects) for name, value in values.items()}
        for name in method.paths & arguments.keys():  # relative to the study's folder
            if isinstance(arguments[name], str):
                arguments[name] = Path(method.code.folder) / arguments[name]
        if RNG in method.names and RNG not in arguments:
            decisive = {"method": method.code.attribute, **decisive, **self.values}
            arguments = {name: value for name, value in arguments.items() if name in method.names}
            arguments[RNG] = make_generator(decisive, method.common)
        if CHECKPOINT in method.names and CHECKPOINT not in arguments:
            arguments[CHECKPOINT] = make_checkpoint_folder()
        with method.code.enable_imports():
            return method.function(**arguments, **more)

    def run(self, share: StageCache) -> Record:
        return self.to_checked(to_record(self.call(self.values, {}, {})))

    def to_checked(self, record: Record) -> Record:
        """Return the record without coordinates that repeat parameters.

        Raises ReturnError for a name that a parameter has, and DivergedError if the variable `error` is not finite.
        """
        record = remove_parameters(record, self.values)
        error = record.variables.get("error")
        if error is None or error.values.dtype.kind != "f":
            return record
        if not (np.isfinite(error.values).all() if error.dims else math.isfinite(error.values)):
            raise DivergedError("`error` is not finite")
        return record


def list_arguments(function: Any) -> tuple[str, ...]:
    """Return the names of the arguments, or () for an object without a signature."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def read_function_parameters(function: Any, reference: str) -> dict[str, Parameter]:
    """Return a parameter for each argument of a function.  Raises StudyError if a name is reserved."""
    parameters = read_signature(function, reference)
    for name in parameters:
        reason = explain_reserved_name(name)
        if reason is not None:
            raise StudyError(f"the argument `{name}` must have another name, because {reason}")
    if CHECKPOINT in parameters:
        parameters[CHECKPOINT] = replace(parameters[CHECKPOINT], default=None, optional=True)
    return add_seed(parameters)


def to_argument(value: Any, objects: Mapping[str, bytes]) -> Any:
    """Return a value as the user wrote it.  Lists, arrays and objects are copies that the function may change."""
    if type(value) in (int, float, str, bool):  # the usual case: a test of the protocol takes ten times as long
        return value
    if isinstance(value, Exact):
        return value.make(objects)
    if isinstance(value, tuple):
        return [to_argument(entry, objects) for entry in value]
    return dict(value.content()) if is_composite(value) else value
