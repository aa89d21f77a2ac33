"""Finding a method by the name in a study file.

A function of one's own needs nothing of the mathematics of the others, which takes a second to import: a method's
module is imported when it is called for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from evogt_study.errors import StudyError
from evogt_study.methods.code import GROUP, UserCode, is_entry_point
from evogt_study.methods.function import UserFunction, solves_a_problem
from evogt_study.methods.problem_kind import kind_of
from evogt_study.methods.protocol import Alternatives, BoundCase, Hints, Method, MethodSpec
from evogt_study.registry import Registry
from evogt_study.schema.parameters import Parameter, choice
from evogt_study.schema.values import Values
from evogt_study.schema.variables import Variable

METHOD, PROBLEM = "method", "problem"
ONE = ""
"""The label of a method or problem that is no axis."""


@dataclass(frozen=True, eq=False)
class ManyMethods(Method):
    """The methods by the labels of method and problem.  A case has the key that it has in a study of its own."""

    methods: Mapping[tuple[str, str], Method]
    parameters: Mapping[str, Parameter]

    @staticmethod
    def of(methods: Mapping[tuple[str, str], Method], own: Iterable[Method]) -> ManyMethods:
        """Of these methods; what is declared by one that is not among `own` is preferred."""
        chosen = {}
        for name, labels in zip((METHOD, PROBLEM), zip(*methods, strict=True), strict=True):
            if set(labels) != {ONE}:
                known = tuple(dict.fromkeys(labels))
                chosen[name] = Parameter(name, f"one of {', '.join(known)}", choice(known))
        last = set(map(id, own))
        ordered = sorted(dict.fromkeys(methods.values()), key=lambda method: id(method) in last)
        return ManyMethods(methods, _joined([method.parameters for method in ordered]) | chosen)

    @property
    def variables(self) -> Mapping[str, Variable]:  # type: ignore[override]  # which are given by the methods
        return {name: each for method in [*self.methods.values()][::-1] for name, each in method.variables.items()}

    @property
    def keywords(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(word for method in self.methods.values() for word in method.keywords))

    def part(self, values: Values) -> tuple[Method, Values]:
        """The method of a case, with the parameters that it knows; defaults are its own."""
        method = self.methods[str(values.get(METHOD, ONE)), str(values.get(PROBLEM, ONE))]
        known = {name: each.default for name, each in method.parameters.items() if each.default is not None}
        return method, {**known, **{name: value for name, value in values.items() if name in method.parameters}}

    def bind(self, values: Values) -> BoundCase:
        method, own = self.part(values)
        return method.bind(own)

    def required(self, values: Values) -> tuple[str, ...]:
        method, own = self.part(values)
        return tuple(name for name in method.required(own) if name not in own)

    @property
    def hints(self) -> Hints:
        every = {method: method.hints for method in self.methods.values()}
        first = tuple(name for name in (METHOD, PROBLEM) if name in self.parameters)

        def of_all(kind: str) -> frozenset[str]:
            """Names that are so in every method that knows them."""
            return frozenset(
                name
                for name in self.parameters
                if name not in first
                and all(name in getattr(hints, kind) for method, hints in every.items() if name in method.parameters)
            )

        leading = [name for hints in every.values() for name in hints.leading or ()]
        return Hints(
            reserved=frozenset().union(*(hints.reserved for hints in every.values())),
            deciding=(*first, *dict.fromkeys(name for hints in every.values() for name in hints.deciding)),
            leading=(*first, *dict.fromkeys(leading)) if leading else None,
            sizes=(*first, *dict.fromkeys(name for hints in every.values() for name in hints.sizes)),
            copied=of_all("copied"),
            numbers=of_all("numbers"),
            unchecked=of_all("unchecked"),
        )


def _joined(several: Iterable[Mapping[str, Parameter]]) -> dict[str, Parameter]:
    """The parameters of all; one of which methods have different defaults has none of its own."""
    found: dict[str, Parameter] = {}
    for parameters in several:
        for name, parameter in parameters.items():
            known = found.setdefault(name, parameter)
            if known.default != parameter.default:
                found[name] = replace(known, default=None, optional=True)
    return found


METHODS: Registry[Any] = Registry("method", GROUP)
"""Types with a function `of` a `MethodSpec`.  A method of this distribution is known by its name alone; code of another
package counts as the user's own, with a fingerprint."""


def known_method(
    method: str | Mapping[str, str], named: Callable[[str], UserCode]
) -> str | UserCode | Alternatives[str | UserCode]:
    """Find the method of a study, or those of an axis by their labels; `named` finds code of the user's own.

    Raises StudyError for a name that does not exist.
    """
    if isinstance(method, str):
        return _method(method, named)
    return Alternatives(tuple((label, _method(reference, named)) for label, reference in method.items()))


def _method(method: str, named: Callable[[str], UserCode]) -> str | UserCode:
    if ":" in method or (method not in METHODS.own and is_entry_point(method)):
        return named(method)
    if method not in METHODS.own:
        raise StudyError(
            f"`method` must be {METHODS.wanted}, file.py:function, package.module:function or an entry "
            f"point of the group {GROUP}, got {method!r}"
        )
    return method


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
        kind = kind_of(spec.problem).solver if solves_a_problem(kind) else UserFunction
    method: Method = kind.of(spec)
    return method
