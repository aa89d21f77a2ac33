"""User functions that solve the problem of the study.  The package measures the error of their solution.

The user function has an argument `problem`, a `Problem`.  The function may have an argument `validation`, the nodes
(Q, d) and weights (Q,) of the validation rule.  The function may have an argument `times`, the saved times (S,).  The
function returns `u` at the nodes, at the final time (Q,) or at all saved times (S, Q).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from evogt_study.errors import ReturnError, StudyError
from evogt_study.methods.code import MethodSpec, UserCode
from evogt_study.methods.function import PROBLEM, UserCase, UserFunction, read_function_parameters, to_record
from evogt_study.pde.methods.declarations import declare_parameters
from evogt_study.pde.methods.problem_method import ProblemMethod, make_quadrature, measure_errors
from evogt_study.pde.numerics import Array
from evogt_study.pde.pipeline import Share
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values, canonical_json, json_object
from evogt_study.schema.variables import Variable

RULE, _TIMES, _SOLUTION = "validation", "times", "u"
SUPPLIED_ARGUMENTS = (PROBLEM, RULE, _TIMES)
"""Names of the arguments that the package supplies to the function."""
_RECORDABLE = ("error_history", "validation_values")
COMPUTED_NAMES = ("error", "initial_error", *_RECORDABLE)
"""Names of the variables that the package computes from `u`."""


@dataclass(frozen=True, eq=False)
class UserSolver(UserFunction, ProblemMethod):
    """Method that calls a user function with the problem and the parameters of the case by name."""

    variables: ClassVar[Mapping[str, Variable]] = {}  # the returned values have their own attributes
    keywords: ClassVar[tuple[str, ...]] = ()

    own: tuple[str, ...]

    @staticmethod
    def of(spec: MethodSpec) -> UserSolver:
        """Return the method for a study.  Raises StudyError if the problem or an output does not exist."""
        if not isinstance(spec.method, UserCode) or spec.problem is None:
            name = spec.method.reference if isinstance(spec.method, UserCode) else spec.method
            raise StudyError(f"the method {name} has an argument `problem`. State a `problem` in the study")
        function = spec.method.load()
        own = {
            name: each
            for name, each in read_function_parameters(function, spec.method.reference).items()
            if name not in SUPPLIED_ARGUMENTS
        }
        shared = declare_parameters(RULE, "final_time")
        return UserSolver.declare(
            spec, own | shared, _RECORDABLE, code=spec.method, function=function, own=tuple(own), common=spec.common
        )

    def bind(self, values: Values) -> UserSolverCase:
        return UserSolverCase(self, values)

    @property
    def stage_parameters(self) -> tuple[str, ...]:  # type: ignore[override]  # cases share only the problem
        return (*self.source.parameters, *(name for name in self.own if name not in self.source.parameters))

    @cached_property
    def setup(self) -> str:
        """Common part of the setups of all cases, with the code, the problem and the output."""
        fixed = {"problem": self.content_text, "times": canonical_json(self.output.times), **self.output.texts}
        common = {name: canonical_json(value) for name, value in self.describe_streams().items()}
        return json_object({"code": canonical_json({"code": self.code.fingerprint}), **fixed, **common})


class UserSolverCase(UserCase):
    """Case of a `UserSolver`, which is one call of the function."""

    @property
    def stages(self) -> Mapping[str, Hashable]:
        return {PROBLEM: self.method.hash_problem(self.values)}

    @cached_property
    def times(self) -> Array:
        """Saved times of the case, either evenly spaced from 0 to T or listed in the study."""
        given, final = self.method.output.times, float(self.values["final_time"])  # type: ignore[arg-type]  # a number
        # any times are valid, because the user function does not use the time grid of the package
        return np.linspace(0.0, final, given) if isinstance(given, int) else np.array(given)

    def check(self) -> None:
        super().check()
        make_quadrature(RULE, self.values[RULE], self.method.make_problem(self.values))  # type: ignore[arg-type]  # a rule

    def run(self, share: Share) -> Record:
        method, problem = self.method, self.method.share_problem(self.values, share)
        rule = make_quadrature(RULE, self.values[RULE], problem)  # type: ignore[arg-type]  # a rule
        made = {PROBLEM: problem, RULE: rule, _TIMES: self.times}
        values = {name: self.values[name] for name in method.own if name in self.values}
        supplied = {name: each for name, each in made.items() if name in method.names}
        returned = self.call(values, {PROBLEM: method.content_text}, supplied)
        record = to_record({_SOLUTION: returned} if isinstance(returned, np.ndarray) else returned)
        variables = {**record.variables}
        solution = variables.pop(_SOLUTION, None)
        if solution is None:
            return self.to_checked(record)
        u, wanted = np.asarray(solution.values, dtype=float), method.output.record
        if computed_names := [name for name in COMPUTED_NAMES if name in record.variables]:
            name = computed_names[0]
            raise ReturnError(f"the method returned `{name}`, which the package computes from `u`. Leave out `{name}`")
        shapes = ((len(rule.weights),), (len(self.times), len(rule.weights)))
        if u.shape not in shapes:
            known = f"Return the values at the nodes, of shape {shapes[0]} or {shapes[1]}"
            raise ReturnError(f"the method returned `u` of shape {u.shape}. {known}")
        at_nodes, times = (u[None, :], self.times[-1:]) if u.ndim == 1 else (u, self.times)
        arrays = wanted if u.ndim == 2 else tuple(name for name in wanted if name != "error_history")
        errors, coordinates = measure_errors(problem, rule, at_nodes, times, arrays)
        if "error_history" in errors:
            coordinates["time"] = Datum(("time",), times)
        variables, coordinates = variables | errors, {**record.coordinates, **coordinates}
        return self.to_checked(replace(record, variables=variables, coordinates=coordinates))
