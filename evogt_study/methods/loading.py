"""Load the method that a study names.

A package registers a method with an entry point of the group ``evogt_study.methods``::

    [project.entry-points."evogt_study.methods"]
    my_solver = "my_package.solvers:MySolver"

The entry point is a function of the parameters, a function with an argument ``problem``, or a subclass of `Method`.
The fingerprint of this user code is part of the run keys.  A built-in method has no fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import entry_points
from typing import Any

from evogt_study.errors import StudyError
from evogt_study.methods.code import GROUP, Alternatives, MethodSpec, UserCode
from evogt_study.methods.function import PROBLEM, UserFunction, list_arguments
from evogt_study.methods.protocol import BoundCase, Method, find_problem_kind
from evogt_study.registry import Registry
from evogt_study.schema.parameters import Parameter, choice, get_defaults
from evogt_study.schema.values import Values
from evogt_study.schema.variables import Variable

METHODS: Registry[Any] = Registry("method", GROUP)
"""Built-in methods by name.  A method of another package is `UserCode`."""
METHOD = "method"
NO_AXIS = ""
"""Axis value in `MethodChoices` if the method or the problem is not an axis."""


def load_named_method(
    method: str | Mapping[str, str], find_user_code: Callable[[str], UserCode]
) -> str | UserCode | Alternatives[str | UserCode]:
    """Return the method that a study names, or the methods of an axis.  Raises StudyError for an unknown name."""
    if not isinstance(method, str):
        parts: Any = tuple((label, load_named_method(reference, find_user_code)) for label, reference in method.items())
        return Alternatives(parts)
    if ":" in method or (method not in METHODS.own and entry_points(group=GROUP, name=method)):
        return find_user_code(method)
    if method not in METHODS.own:
        raise StudyError(
            f"`method` must be {METHODS.wanted}, file.py:function, package.module:function or an entry "
            f"point of the group {GROUP}, got {method!r}"
        )
    return method


@lru_cache(maxsize=8)  # a process loads a method once for all batches of a study
def load_method(spec: MethodSpec) -> Method:
    """Create the method from its data `spec`.  Raises StudyError if the import of user code fails."""
    if isinstance(spec.method, Alternatives) or isinstance(spec.problem, Alternatives):
        methods = spec.method.options if isinstance(spec.method, Alternatives) else ((NO_AXIS, spec.method),)
        stated = spec.problem.options if isinstance(spec.problem, Alternatives) else ((NO_AXIS, spec.problem),)
        every = {(m, p): load_method(replace(spec, method=each, problem=of)) for m, each in methods for p, of in stated}
        own = [every[m, p] for m, each in methods for p, _ in stated if isinstance(each, UserCode)]
        return MethodChoices.combine(every, own)
    kind: Any = spec.method.load() if isinstance(spec.method, UserCode) else METHODS[str(spec.method)]
    if isinstance(spec.method, UserCode) and not (isinstance(kind, type) and issubclass(kind, Method)):
        solves = spec.problem is not None and PROBLEM in list_arguments(kind)
        kind = find_problem_kind(spec.problem).solver if solves else UserFunction
    method: Method = kind.of(spec)
    return method


@dataclass(frozen=True, eq=False)
class MethodChoices(Method):
    """Methods by the axis values of `method` and `problem`.  Each case has the run key that its method computes."""

    methods: Mapping[tuple[str, str], Method]
    parameters: Mapping[str, Parameter]
    chosen: tuple[str, ...]

    @staticmethod
    def combine(methods: Mapping[tuple[str, str], Method], own: Iterable[Method]) -> MethodChoices:
        """Combine methods.  The declarations of parameters in the methods `own` have the lowest priority."""
        chosen = {}
        for name, labels in zip((METHOD, PROBLEM), zip(*methods, strict=True), strict=True):
            if set(labels) != {NO_AXIS}:
                known = tuple(dict.fromkeys(labels))
                chosen[name] = Parameter(name, f"one of {', '.join(known)}", choice(known))
        last = set(map(id, own))
        ordered = sorted(dict.fromkeys(methods.values()), key=lambda method: id(method) in last)
        found: dict[str, Parameter] = {}
        for name, parameter in ((name, each) for method in ordered for name, each in method.parameters.items()):
            known_parameter = found.setdefault(name, parameter)
            if known_parameter.default != parameter.default:  # the methods disagree about the default
                found[name] = replace(known_parameter, default=None, optional=True)
        return MethodChoices(methods, found | chosen, tuple(chosen))

    @property
    def variables(self) -> Mapping[str, Variable]:  # type: ignore[override]  # given by the methods
        return {name: each for method in [*self.methods.values()][::-1] for name, each in method.variables.items()}

    @property
    def keywords(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(word for method in self.methods.values() for word in method.keywords))

    def select_method(self, values: Values) -> tuple[Method, Values]:
        """Return the method of a case and the values of its parameters, including defaults."""
        one, other = (str(values[name]) if name in self.chosen else NO_AXIS for name in (METHOD, PROBLEM))
        method = self.methods[one, other]
        own = {name: value for name, value in values.items() if name in method.parameters}
        return method, get_defaults(method.parameters) | own

    def bind(self, values: Values) -> BoundCase:
        method, own = self.select_method(values)
        return method.bind(own)

    def list_required_parameters(self, values: Values) -> tuple[str, ...]:
        method, own = self.select_method(values)
        return tuple(name for name in method.list_required_parameters(own) if name not in own)

    @property
    def stage_parameters(self) -> tuple[str, ...] | None:  # type: ignore[override]
        known = [name for method in self.methods.values() for name in method.stage_parameters or ()]
        return tuple(dict.fromkeys((*self.chosen, *known))) if known else None

    @cached_property
    def key_only_parameters(self) -> frozenset[str]:  # type: ignore[override]
        """Parameters that are key-only in all methods that declare the parameters."""
        others = {name for method in self.methods.values() for name in method.setup_parameters}
        return frozenset(self.parameters) - others - {*self.chosen}

    @property
    def has_streams(self) -> bool:  # type: ignore[override]
        return any(method.has_streams for method in self.methods.values())
