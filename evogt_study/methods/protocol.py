"""Define the base classes of methods, and of kinds of problems that a method solves.

`Method.bind` makes a `BoundCase` from parameter values, and `BoundCase.run` computes a record.  A subclass may omit all
members that are not abstract.

A package registers a `ProblemKind` object with an entry point of the group ``evogt_study.problems``::

    [project.entry-points."evogt_study.problems"]
    spring = "my_package.springs:springs"

The name of the entry point is the value of ``kind`` in the table ``[problem]``, and of `ProblemObject.problem_kind`.
`ProblemKind.solver` runs a user function with an argument ``problem``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeGuard, TypeVar

from evogt_study.errors import InputError
from evogt_study.registry import Registry
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Record
from evogt_study.schema.values import KEY_DIGITS, TYPE, Value, Values, dump_json, hash_text
from evogt_study.schema.variables import Variable

T = TypeVar("T")


class Method(ABC):
    """A method that a study can run.  A subclass must define `parameters`, `bind` and a static or class method `of`.

    Each worker calls ``of(spec)`` to create the method from a `MethodSpec`, which holds only text and scalars.
    """

    parameters: Mapping[str, Parameter]
    """Declarations of the parameters, by name."""
    variables: ClassVar[Mapping[str, Variable]] = {}
    """Declarations of variables and coordinates by name.  For any other variable, the record holds the attributes."""
    keywords: ClassVar[tuple[str, ...]] = ()
    """Keywords for the metadata of result files."""
    stage_parameters: tuple[str, ...] | None = None
    """Parameters of the expensive stages that cases share, the first stage first.  None if cases share no stage."""
    key_only_parameters: Collection[str] = ()
    """Parameters that do not affect the setup, the required parameters, the work and the memory of a case."""
    has_streams: bool = False
    """True if a parameter `rng` without a value receives a generator (`evogt_study.methods.current_run`)."""

    @abstractmethod
    def bind(self, values: Values) -> BoundCase:
        """Return the case with these parameter values.  Raises InputError if the values are inconsistent."""

    def list_required_parameters(self, values: Values) -> tuple[str, ...]:
        """Return the names of all parameters that a case with these values requires."""
        return tuple(name for name, each in self.parameters.items() if each.default is None and not each.optional)

    @property
    def setup_parameters(self) -> tuple[str, ...]:
        """Names of all parameters that are not key-only parameters."""
        return tuple(name for name in self.parameters if name not in self.key_only_parameters)

    def list_scalar_variables(self, values: Values) -> tuple[str, ...] | None:
        """Return the names of the variables that are single numbers, or None if they are unknown before a run."""
        return None


class BoundCase(ABC):
    """One case of a method.  A subclass must define `setup` and `run`."""

    @property
    @abstractmethod
    def setup(self) -> str:
        """Canonical JSON of all data that determine the record, except `key_only_values` and default values."""

    @abstractmethod
    def run(self, share: StageCache) -> Record:
        """Compute the record of the case.  Any exception makes the run fail.  Raise RunError for expected failures."""

    @property
    def key_only_values(self) -> Values:
        """Values of the key-only parameters that the case uses.  The run key contains these values unchanged."""
        return {}

    @property
    def defaults(self) -> Values:
        """Default values of the key-only parameters.  The run key omits a value that equals its default."""
        return {}

    @property
    def key(self) -> str:
        """Run key, a hash of `setup` and `key_only_values`."""
        values, defaults = self.key_only_values, self.defaults
        entries = [make_entry(name, values[name], defaults) for name in sorted(values)]
        return hashlib.sha256(b"".join([hash_setup(self.setup), *entries])).hexdigest()[:KEY_DIGITS]

    def check(self) -> None:  # noqa: B027  # optional
        """Raise InputError if the parameters of the case are inconsistent."""

    @property
    def stages(self) -> Mapping[str, Hashable]:
        """Keys of the stages, by name of the stage.  Cases with equal keys share the result of a stage."""
        return {}

    @property
    def work(self) -> float | None:
        """Estimated wall time in seconds of a run that shares no stage, or None if unknown."""
        return None

    @property
    def memory(self) -> float:
        """Estimated peak memory of a run in bytes, or 0 if unknown."""
        return 0.0


class StageCache(Protocol):
    """Cache of the stage results that several cases share."""

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the cached result of `stage` for `key`, or the result of `compute` if the cache has none."""


@lru_cache(maxsize=64)  # all cases of a user function have equal setups
def hash_setup(setup: str) -> bytes:
    """Return the hash of a setup, which is the beginning of the text that the run key hashes."""
    return hash_text(setup).encode()


def make_entry(name: str, value: Value, defaults: Values) -> bytes:
    """Return the entry of a parameter in the text that the run key hashes, or b"" for the default value."""
    if name in defaults and (value is defaults[name] or dump_json(value) == dump_json(defaults[name])):
        return b""
    return f"{dump_json(name)}:{dump_json(value)};".encode()


PROBLEM_KINDS: Registry[ProblemKind] = Registry("kind", "evogt_study.problems")
"""`ProblemKind` objects by name, from the entry points of the group ``evogt_study.problems``."""
DEFAULT_KIND = "pde"
"""Kind of a problem without the key `kind`: a name, a function or a table."""


class ProblemKind(ABC):
    """A kind of problem, such as a differential equation given by formulas."""

    @abstractmethod
    def read(self, stated: str | Mapping[str, Any], folder: Path, where: str) -> ProblemObject:
        """Return the problem that a study names or describes in a table.

        `folder` is the folder of the study file.  `where` is the place of the table in messages.  Raises StudyError if
        the problem is not valid.
        """

    @abstractmethod
    def make(self, content: Mapping[str, Any]) -> ProblemObject:
        """Return the problem from its `content` in a result."""

    @property
    @abstractmethod
    def solver(self) -> type[Method]:
        """Subclass of `Method` that runs user functions with an argument `problem`."""

    def describe(self, stated: str | Mapping[str, Any]) -> str:
        """Return HTML list items that describe the problem, or "", without executing user code."""
        return ""


class ProblemObject(Protocol):
    """Problem as a Python object.  A study in Python accepts the object instead of a table."""

    problem_kind: ClassVar[str]
    """Name of the entry point with the `ProblemKind` of the problem."""

    @property
    def content(self) -> Mapping[str, Any]:
        """Content of the problem in JSON types, from which `ProblemKind.make` restores the problem."""

    @property
    def table(self) -> Mapping[str, Any]:
        """Table ``[problem]`` that describes the problem in a study file."""


def find_problem_kind(problem: object) -> ProblemKind:
    """Return the kind of a problem object, or of a problem in a study file.  Raises ParameterError."""
    stated = problem.get("kind") if isinstance(problem, Mapping) else getattr(problem, "problem_kind", None)
    return PROBLEM_KINDS[DEFAULT_KIND if stated is None else str(stated)]


def can_be_problem(value: object, folder: Path) -> bool:
    """Return True if a value is a problem, or the table, the name or the function of a problem."""
    if not isinstance(value, str):
        return is_problem(value) or (isinstance(value, Mapping) and TYPE not in value)
    try:
        return ":" in value or find_problem_kind(value).read(value, folder, "") is not None
    except InputError:
        return False


def is_problem(value: object) -> TypeGuard[ProblemObject]:
    """Return True if `value` is a problem object."""
    return isinstance(getattr(type(value), "problem_kind", None), str)
