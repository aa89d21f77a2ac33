"""Finding a method by the name in a study file.

A function of one's own needs nothing of the mathematics of the others, which takes a second to import: a method's
module is imported when it is called for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from evogt_study.errors import StudyError
from evogt_study.methods.many_methods import ONE, ManyMethods
from evogt_study.methods.own.user_code import GROUP, UserCode, is_entry_point
from evogt_study.methods.own.user_function import UserFunction, solves_a_problem
from evogt_study.methods.problem_kind import kind_of
from evogt_study.methods.protocol import Alternatives, Method, MethodSpec
from evogt_study.registry import Registry

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
