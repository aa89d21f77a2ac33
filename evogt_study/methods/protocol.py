"""What the sweep asks of a method: the contract that `evolution` and a user's own function fulfil.

A method maps resolved parameters to a record.  It is rebuilt on each worker from a `MethodSpec`, which holds text and
scalars only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evogt_study.methods.user_code import PythonFile
from evogt_study.numerics.pipeline import Share
from evogt_study.problems import Statement
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Record
from evogt_study.schema.values import Values


@dataclass(frozen=True)
class Output:
    """What to record besides scalars: `times` as in `TimeGrid.of`, names in `record`, points of a field's grid."""

    times: int | tuple[float, ...] = 2
    record: tuple[str, ...] = ()
    grid: int = 65


@dataclass(frozen=True)
class MethodSpec:
    """Text and scalars from which a worker rebuilds the method: its name or file, its problem, what to record."""

    method: str | PythonFile
    problem: Statement | PythonFile | None
    output: Output | None

    @property
    def of_the_package(self) -> bool:
        """Whether the schema says what its records mean; a function of one's own may mean something else."""
        return isinstance(self.method, str)

    @property
    def code(self) -> PythonFile | None:
        """The user's Python file, if it is made of one."""
        return next((part for part in (self.method, self.problem) if isinstance(part, PythonFile)), None)

    @property
    def sources(self) -> tuple[str, ...]:
        """The text of the user's own files."""
        return tuple(part.source for part in (self.method, self.problem) if isinstance(part, PythonFile))


class Method(Protocol):
    """A method as the sweep sees it."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters it understands, by name."""

    def scalars(self, values: Values) -> tuple[str, ...] | None:
        """Variables of a case's record that are single numbers, for a pilot; None where only running it tells."""

    @property
    def reserved(self) -> frozenset[str]:
        """Names that its records give a meaning of their own, so that no parameter may have them."""

    def required(self, values: Values) -> tuple[str, ...]:
        """Names of the parameters that a case with (at least) these values cannot do without."""

    def deciding(self) -> tuple[str, ...]:
        """Parameters whose values decide which others are required."""

    def check(self, values: Values) -> None:
        """Raise InputError where the parameters of one case cannot be used together."""

    def identity(self, values: Values) -> Mapping[str, Any]:
        """Everything that the record depends on, as JSON-able content; parameters the case does not use are no part."""

    def copied(self) -> frozenset[str]:
        """Parameters that `identity` takes over as they are and does not look at, so that any text may stand for one.

        Cases that differ in these alone have identities that differ in these values alone.
        """

    def stages(self, values: Values) -> Mapping[str, Hashable]:
        """Name and key of each stage of the computation; cases with equal keys can share the stage."""

    def leading(self) -> tuple[str, ...]:
        """Parameters of the early, costly stages, in the order in which to walk over them, outermost first."""

    def memory(self, values: Values) -> float:
        """Estimate of the bytes a run holds at its peak."""

    def depends_on_seed(self) -> bool:
        """Whether `check` looks at the seed, so that every seed has to be checked."""

    def work(self, values: Values) -> float | None:
        """Rough seconds of a run that shares nothing, by one formula in its sizes; None where only running tells."""

    def sizes(self) -> tuple[str, ...]:
        """Parameters on which `memory` and `work` depend, those of the problem's formulas left out."""

    def run(self, values: Values, share: Share) -> Record:
        """Compute one case."""
