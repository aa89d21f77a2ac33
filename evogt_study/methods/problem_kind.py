"""The contract of a kind of problem: packages register kinds, and studies state problems of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard

from evogt_study.registry import Registry

if TYPE_CHECKING:
    from evogt_study.methods.protocol import Method


class Problem(Protocol):
    """A problem as an object, which a study in Python has in place of a table."""

    problem_kind: ClassVar[str]
    """The name of its `ProblemKind`."""

    @property
    def content(self) -> Mapping[str, Any]:
        """JSON-able content from which its kind makes it again."""

    @property
    def table(self) -> Mapping[str, Any]:
        """The section ``[problem]`` of a study file."""


class ProblemKind(ABC):
    """A kind of problem that studies state and methods solve, such as a differential equation in formulas."""

    @abstractmethod
    def read(self, stated: str | Mapping[str, Any], folder: Path, where: str) -> Problem:
        """Read the problem that a study in `folder` states, by its name or by a table.

        Raises StudyError; `where` is the place for its message.
        """

    @abstractmethod
    def make(self, content: Mapping[str, Any]) -> Problem:
        """Make the problem again from its `content`."""

    @property
    @abstractmethod
    def solver(self) -> type[Method]:
        """The method of a user function that has an argument `problem`."""

    def describe(self, stated: str | Mapping[str, Any]) -> str:
        """Return HTML that shows the problem, list items; empty for what it cannot read.  Executes no user code."""
        return ""


PROBLEM_KINDS: Registry[Any] = Registry("kind", "evogt_study.problems")
"""`ProblemKind` objects by name."""
DEFAULT_KIND = "pde"
"""The kind of a problem that a study states by a name, by a function, or by a table without the key `kind`."""


def kind_of(problem: object) -> ProblemKind:
    """Return the kind of a problem, or of what a study states.  Raises ParameterError for a kind that is not there."""
    stated = problem.get("kind") if isinstance(problem, Mapping) else getattr(problem, "problem_kind", None)
    kind: ProblemKind = PROBLEM_KINDS[DEFAULT_KIND if stated is None else str(stated)]
    return kind


def is_problem(value: object) -> TypeGuard[Problem]:
    """Return True for a problem as an object."""
    return isinstance(getattr(type(value), "problem_kind", None), str)
