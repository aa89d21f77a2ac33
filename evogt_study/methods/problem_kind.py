"""Contract of a kind of problem.  A study states a problem, and a method solves it.

A package registers a `ProblemKind` object with an entry point of the group ``evogt_study.problems``::

    [project.entry-points."evogt_study.problems"]
    spring = "my_package.springs:springs"

The name of the entry point is the value of ``kind`` in the table ``[problem]``, and of `ProblemObject.problem_kind`.  A
table without ``kind``, the name of a problem, and a function in a file have the kind `DEFAULT_KIND`.  A user function
with an argument ``problem`` becomes the method `ProblemKind.solver`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard

from evogt_study.errors import InputError
from evogt_study.registry import Registry
from evogt_study.schema.values import TYPE

if TYPE_CHECKING:
    from evogt_study.methods.protocol import Method

PROBLEM_KINDS: Registry[Any] = Registry("kind", "evogt_study.problems")
"""`ProblemKind` objects by name, from the entry points of the group ``evogt_study.problems``."""
DEFAULT_KIND = "pde"
"""Kind of a problem that a study states by its name, by a function, or by a table without the key `kind`."""


class ProblemKind(ABC):
    """A kind of problem, such as a differential equation given by formulas."""

    @abstractmethod
    def read(self, stated: str | Mapping[str, Any], folder: Path, where: str) -> ProblemObject:
        """Return the problem that a study in `folder` states by its name or by a table.

        `where` is the place of the problem in the study, for messages.  Raises StudyError if the problem is not valid.
        """

    @abstractmethod
    def make(self, content: Mapping[str, Any]) -> ProblemObject:
        """Return the problem with this `content`, which a result stores."""

    @property
    @abstractmethod
    def solver(self) -> type[Method]:
        """Subclass of `Method` with ``of(spec)``, for user functions with an argument `problem`."""

    def describe(self, stated: str | Mapping[str, Any]) -> str:
        """Return the problem as HTML list items, or "", without executing user code."""
        return ""


class ProblemObject(Protocol):
    """Problem as a Python object.  A study in Python accepts a problem object instead of a table."""

    problem_kind: ClassVar[str]
    """Name of the `ProblemKind` of the problem."""

    @property
    def content(self) -> Mapping[str, Any]:
        """Content of the problem in JSON types, from which `ProblemKind.make` restores the problem."""

    @property
    def table(self) -> Mapping[str, Any]:
        """Table ``[problem]`` of a study file with this problem."""


def find_problem_kind(problem: object) -> ProblemKind:
    """Return the kind of a problem, or of the problem that a study states.

    Raises ParameterError for an unknown kind.
    """
    stated = problem.get("kind") if isinstance(problem, Mapping) else getattr(problem, "problem_kind", None)
    kind: ProblemKind = PROBLEM_KINDS[DEFAULT_KIND if stated is None else str(stated)]
    return kind


def states_problem(value: object, folder: Path) -> bool:
    """Return True for a problem, its table, its name or the reference of a function that makes it.

    Any other value of a parameter with the name `problem` is an ordinary parameter value.
    """
    if not isinstance(value, str):
        return is_problem(value) or (isinstance(value, Mapping) and TYPE not in value)
    try:
        return ":" in value or find_problem_kind(value).read(value, folder, "") is not None
    except InputError:
        return False


def is_problem(value: object) -> TypeGuard[ProblemObject]:
    """Return True if `value` is a problem object."""
    return isinstance(getattr(type(value), "problem_kind", None), str)
