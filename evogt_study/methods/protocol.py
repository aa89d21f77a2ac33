"""The contract of a method: parameters, and cases that are bound to their values; the rest may be left out.

A bound case gives a record.  The method is rebuilt on each worker from a `MethodSpec`, which holds text and
scalars only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from evogt_study.methods.code import UserCode, declaration
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Record
from evogt_study.schema.values import Values, canonical_json, text_hash
from evogt_study.schema.variables import Variable

T = TypeVar("T")


@dataclass(frozen=True)
class Output:
    """Outputs to record besides scalars: `times` as in `TimeGrid.of`, names in `record`, points of a field's grid."""

    times: int | tuple[float, ...] = 2
    record: tuple[str, ...] = ()
    # odd, so that the middle is a point; a field of 65 x 65 is 34 kB
    grid: int = 65

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Parts that a case's content holds beside the times, as canonical JSON."""
        grid = str(self.grid) if "field" in self.record else "null"
        return {"record": canonical_json(sorted(self.record)), "grid": grid}


Part = TypeVar("Part")


@dataclass(frozen=True)
class Alternatives(Generic[Part]):
    """Several methods or problems that the cases of an axis name by their labels."""

    options: tuple[tuple[str, Part], ...]


@dataclass(frozen=True)
class MethodSpec:
    """Text and scalars from which a worker rebuilds the method: its name or file, its problem, what to record.

    references: functions of the user's that errors are measured against.
    """

    method: str | UserCode | Alternatives[str | UserCode]
    problem: object | Alternatives[object] | None
    output: Output | None
    references: tuple[UserCode, ...] = ()

    @property
    def codes(self) -> tuple[UserCode, ...]:
        """The user's own code that it is made of: the method's, the problem's, that of references."""
        every = (*parts(self.method), *parts(self.problem), *self.references)
        return tuple({part.reference: part for part in every if isinstance(part, UserCode)}.values())

    @property
    def declaration(self) -> str:
        """JSON of what that code declares; empty where there is none."""
        return declaration(self.codes)

    @property
    def sources(self) -> tuple[str, ...]:
        """All text of the user's own that its results follow from."""
        return tuple(text for code in self.codes for text in code.sources)

    def with_codes(self, change: Callable[[UserCode], UserCode]) -> MethodSpec:
        """The same with each of `codes` changed."""
        references = tuple(map(change, self.references))
        return replace(
            self, method=_changed(self.method, change), problem=_changed(self.problem, change), references=references
        )


def parts(whole: object) -> tuple[object, ...]:
    """The method or problem itself, or those of a choice."""
    return tuple(part for _, part in whole.options) if isinstance(whole, Alternatives) else (whole,)


def _changed(whole: Any, change: Callable[[UserCode], UserCode]) -> Any:
    if isinstance(whole, Alternatives):
        return Alternatives(tuple((label, _changed(part, change)) for label, part in whole.options))
    return change(whole) if isinstance(whole, UserCode) else whole


@dataclass(frozen=True)
class Hints:
    """Hints that a method may give of its cases before any is bound; a method that gives none is run all the same.

    reserved: names that its records give a meaning of their own, so that no parameter may have them.
    deciding: parameters whose values decide which others are required.
    leading: parameters of the early, costly stages, the outermost first; None where no stage is shared.
    sizes: parameters on which `work` and `memory` depend, those of the problem's formulas left out.
    copied: parameters that `content` takes over as they are and does not look at, so that any text may stand for one.
    numbers: parameters that are numbers as a rule; `content` takes these over as they are, and no more of a case
        depends on them than whether they can be used.
    unchecked: parameters that `check` does not look at.
    """

    reserved: frozenset[str] = frozenset()
    deciding: tuple[str, ...] = ()
    leading: tuple[str, ...] | None = None
    sizes: tuple[str, ...] = ()
    copied: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    unchecked: frozenset[str] = frozenset()


class StageCache(Protocol):
    """Stages that cases share: the result of a stage for a key, computed if it is not at hand."""

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of `stage` for `key`."""


class BoundCase(ABC):
    """One case of a method, its parameters resolved and typed.  `content` and `run` are all that it must have."""

    @property
    @abstractmethod
    def content(self) -> str:
        """Canonical JSON of all that the record depends on; parameters that the case does not use are no part of it."""

    @abstractmethod
    def run(self, share: StageCache) -> Record:
        """Compute the case.  Raises RunError, or anything else, where it cannot."""

    @property
    def key(self) -> str:
        """The case's identity, by which its run is found again."""
        return text_hash(self.content)

    def check(self) -> None:  # noqa: B027  # a function of one's own has nothing to say before it is called
        """Raise InputError where the case's parameters cannot be used together."""

    @property
    def stages(self) -> Mapping[str, Hashable]:
        """Name and key of each stage of the computation; cases with equal keys can share the stage."""
        return {}

    @property
    def work(self) -> float | None:
        """Rough seconds of a run that shares nothing, by one formula in its sizes; None where only a run shows them."""
        return None

    @property
    def memory(self) -> float:
        """Estimate of the bytes that a run holds at its peak; 0 where nothing is known."""
        return 0.0


class Method(ABC):
    """A method as a study sees it.  `parameters` and `bind` are all that it must have."""

    parameters: Mapping[str, Parameter]
    """The parameters it understands, by name."""
    variables: ClassVar[Mapping[str, Variable]] = {}
    """What it records, coordinates among it, by name.  A record brings the attributes of all else."""
    keywords: ClassVar[tuple[str, ...]] = ()
    """The subject of its results, for their metadata."""

    @abstractmethod
    def bind(self, values: Values) -> BoundCase:
        """The case with these parameters.  Raises InputError where they do not fit together."""

    @property
    def hints(self) -> Hints:
        """Hints that hold for all cases."""
        return Hints()

    def required(self, values: Values) -> tuple[str, ...]:
        """Names of the parameters that a case with (at least) these values cannot do without."""
        return tuple(
            name for name, parameter in self.parameters.items() if parameter.default is None and not parameter.optional
        )

    def scalars(self, values: Values) -> tuple[str, ...] | None:
        """Variables of a case's record that are single numbers; None where only running it shows them."""
        return None
