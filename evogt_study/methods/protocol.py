"""Contract of a method.

A method has `parameters`.  `Method.bind` makes a `BoundCase` from their values, and `BoundCase.run` computes a record.
Each worker creates the method with ``of`` from a `MethodSpec`, which holds only text and scalars.  A subclass may omit
all members that are not abstract.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from evogt_study.methods.code import UserCode
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Record
from evogt_study.schema.values import KEY_DIGITS, Value, Values, canonical_json, hash_text, json_text
from evogt_study.schema.variables import Variable

T = TypeVar("T")
Part = TypeVar("Part")


class Method(ABC):
    """A method that a study can run.  A subclass must define `parameters`, `bind` and a static or class method `of`.

    ``of(spec)`` makes the method from a `MethodSpec`.
    """

    parameters: Mapping[str, Parameter]
    """Parameters by name."""
    variables: ClassVar[Mapping[str, Variable]] = {}
    """Declared variables and coordinates of the records, by name.

    A record holds the attributes of all other variables.
    """
    keywords: ClassVar[tuple[str, ...]] = ()
    """Keywords for the metadata of result files."""
    stage_parameters: tuple[str, ...] | None = None
    """Parameters of the early, expensive stages that cases share, outermost first, or None if cases share no stage."""
    key_only_parameters: Collection[str] = ()
    """Parameters that affect neither `BoundCase.setup` nor the required parameters, work and memory of a case."""
    has_streams: bool = False
    """True if a parameter `rng` without a value receives a generator (`evogt_study.methods.streams`)."""

    @abstractmethod
    def bind(self, values: Values) -> BoundCase:
        """Return the case with these values.  Raises InputError if the values are inconsistent."""

    def list_required_parameters(self, values: Values) -> tuple[str, ...]:
        """Return the names of all parameters that a case with these values requires."""
        return tuple(
            name for name, parameter in self.parameters.items() if parameter.default is None and not parameter.optional
        )

    @property
    def setup_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that affect the setup."""
        return tuple(name for name in self.parameters if name not in self.key_only_parameters)

    def list_scalar_variables(self, values: Values) -> tuple[str, ...] | None:
        """Return the names of the variables that are single numbers, or None if they are unknown before a run."""
        return None


class BoundCase(ABC):
    """One case of a method.  A subclass must define `setup` and `run`."""

    @property
    @abstractmethod
    def setup(self) -> str:
        """Canonical JSON of everything that decides the record, except `key_only_values`.

        The setup contains neither parameters that the case does not use nor parameters with their default value.
        """

    @abstractmethod
    def run(self, share: StageCache) -> Record:
        """Compute the record of the case.

        Any exception makes the run fail.  A method raises RunError for expected failures.
        """

    @property
    def key_only_values(self) -> Values:
        """Values of the method's `key_only_parameters` that the case uses.

        The run key contains these values unchanged.
        """
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
        """Key of each stage, by the name of the stage.  Cases with equal keys share the stage."""
        return {}

    @property
    def work(self) -> float | None:
        """Estimate of the seconds of a run that shares no stage, or None if unknown."""
        return None

    @property
    def memory(self) -> float:
        """Estimate of the peak memory of a run, in bytes, or 0 if unknown."""
        return 0.0


class StageCache(Protocol):
    """Cache for the results of stages that cases share."""

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of `stage` for `key`.  Call `compute` if the cache has no result."""


@lru_cache(maxsize=64)  # all cases of a user function have one setup
def hash_setup(setup: str) -> bytes:
    """Return the hash of a setup, which is the first part of the text of a run key."""
    return hash_text(setup).encode()


def make_entry(name: str, value: Value, defaults: Values) -> bytes:
    """Return the entry of a parameter in the text of a run key, or b"" for the default value."""
    if name in defaults and (value is defaults[name] or json_text(value) == json_text(defaults[name])):
        return b""
    return f"{json_text(name)}:{json_text(value)};".encode()


@dataclass(frozen=True)
class MethodSpec:
    """Text and scalars from which a worker creates the method.

    `references` are user functions that are reference solutions.  `common` has the type
    `evogt_study.methods.streams.Common`.  `kinds` lists the classes that parameters name (`Parameter.kinds`).  Each
    entry of `kinds` holds a parameter, the name of a class, and a hash of its declared parameters.
    """

    method: str | UserCode | Alternatives[str | UserCode]
    problem: object | Alternatives[object] | None
    output: Output | None
    references: tuple[UserCode, ...] = ()
    common: str | tuple[str, ...] = "all"
    kinds: tuple[tuple[str, str, int], ...] = ()

    @property
    def codes(self) -> tuple[UserCode, ...]:
        """User code of the method, the problem and the references."""
        parts: list[object] = []
        for whole in (self.method, self.problem):
            parts += [part for _, part in whole.options] if isinstance(whole, Alternatives) else [whole]
        parts += self.references
        return tuple({part.reference: part for part in parts if isinstance(part, UserCode)}.values())

    @property
    def declaration(self) -> str:
        """Declarations of all user code as JSON, or "" without user code."""
        known = {code.reference: code.declared for code in self.codes}
        return canonical_json({"codes": known}) if known else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Texts of the user code that affect the results."""
        return tuple(text for code in self.codes for text in code.sources)

    def with_codes(self, change: Callable[[UserCode], UserCode]) -> MethodSpec:
        """Return the spec with `change` applied to each of `codes`."""

        def changed(whole: Any) -> Any:
            if isinstance(whole, Alternatives):
                return Alternatives(tuple((label, changed(part)) for label, part in whole.options))
            return change(whole) if isinstance(whole, UserCode) else whole

        references = tuple(map(change, self.references))
        return replace(self, method=changed(self.method), problem=changed(self.problem), references=references)


@dataclass(frozen=True)
class Output:
    """Outputs to record besides scalars.

    `times` has the form of the argument of `TimeGrid.of`.  `record` lists names of variables.  `grid` is the number of
    grid points of a field in each dimension.
    """

    times: int | tuple[float, ...] = 2
    record: tuple[str, ...] = ()
    # odd, so that the middle is a point; a field of 65 x 65 has 34 kB
    grid: int = 65

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Canonical JSON of `record` and `grid` for the setup of a case.  `grid` is null if no field is recorded."""
        grid = str(self.grid) if "field" in self.record else "null"
        return {"record": canonical_json(sorted(self.record)), "grid": grid}


@dataclass(frozen=True)
class Alternatives(Generic[Part]):
    """Methods or problems by the values of an axis."""

    options: tuple[tuple[str, Part], ...]
