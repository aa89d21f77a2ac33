"""What runs need: memory, cores, minutes and a queue, as numbers or formulas of parameters.

They decide where and when a run is computed, and are no part of its run key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from evogt_study.errors import FormulaError, StudyError, shorten
from evogt_study.schema.values import Values, is_number

if TYPE_CHECKING:  # workers need no pydantic
    from evogt_study.study.model import ResourcesTable

_UNITS = {"MB": 10**6, "GB": 10**9}
_MEMORY = re.compile(rf"(.+?)\s*({'|'.join(_UNITS)})")


@dataclass(frozen=True, order=True)
class Needs:
    """What each run of a class needs: bytes of memory, cores, minutes and a queue; 0 or "" if the study is silent."""

    memory: int = 0
    cores: int = 1
    minutes: int = 0
    queue: str = ""

    @property
    def dask(self) -> dict[str, int]:
        """Resources of a Dask worker that a run takes."""
        return {"cores": self.cores} | ({"memory": self.memory} if self.memory else {})

    def describe(self) -> str:
        """Describe the class: "2 cores, 4000 MB, 30 minutes, queue long"."""
        parts = [f"{self.cores} cores", f"{self.memory / 1e6:.0f} MB" * bool(self.memory)]
        parts += [f"{self.minutes} minutes" * bool(self.minutes), f"queue {self.queue}" * bool(self.queue)]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, eq=False)
class Resources:
    """The section ``[resources]`` of a study whose method has the `parameters`."""

    table: ResourcesTable
    parameters: tuple[str, ...]
    file: str

    @cached_property
    def _formulas(self) -> Mapping[str, Callable[[Values], float]]:
        """Functions of the values of a case.  Raises StudyError for text that is no formula of parameters."""
        table, found = self.table, dict[str, Callable[[Values], float]]()
        if table.memory is not None:
            match = _MEMORY.fullmatch(table.memory.strip())
            if match is None:
                raise self._mistake("memory", "a number or formula with the unit MB or GB, such as 4 GB", table.memory)
            found["memory"] = self._read("memory", match[1], _UNITS[match[2]])
        for name in ("cores", "minutes"):
            if (raw := getattr(table, name)) is not None:
                found[name] = self._read(name, str(raw), 1)
        return found

    def _mistake(self, name: str, wanted: str, got: object) -> StudyError:
        return StudyError(f"`{name}` must be {wanted}, got {shorten(got)} ({self.file}, resources.{name})")

    def _read(self, name: str, text: str, unit: int) -> Callable[[Values], float]:
        try:
            number = float(text) * unit  # most are plain: a formula imports SymPy
            return lambda values: number
        except ValueError:
            from evogt_study.formulas import evaluate_formula, parse
        try:
            expression = parse(text)
        except FormulaError as error:
            raise StudyError(f"{error} ({self.file}, resources.{name})") from None
        names = sorted(map(str, expression.free_symbols))
        for each in names:
            if each not in self.parameters:
                raise self._mistake(name, f"a formula of {', '.join(self.parameters)}", text)

        def evaluate(values: Values) -> float:
            given: dict[str, Any] = {each: values.get(each) for each in names}
            if wrong := [each for each, found in given.items() if not is_number(found)]:
                raise self._mistake(name, f"a formula of numbers, and `{wrong[0]}` is none", text)
            return float(evaluate_formula(expression, {each: float(found) for each, found in given.items()})) * unit

        return evaluate

    def needs_of(self, values: Values) -> Needs:
        """Return what a case needs, rounded up to MB, cores and minutes.  Raises StudyError if it is not positive."""
        found = dict[str, int]()
        for name, evaluate in self._formulas.items():
            number, step, text = evaluate(values), 10**6 if name == "memory" else 1, str(getattr(self.table, name))
            if not 0.0 < number < math.inf:
                at = ", ".join(f"{each} = {value}" for each, value in values.items() if re.search(rf"\b{each}\b", text))
                raise self._mistake(name, f"positive for every case, {text!r} at {at}", number)
            found[name] = math.ceil(round(number / step, 6)) * step
        memory, cores, minutes = found.get("memory", 0), found.get("cores", 1), found.get("minutes", 0)
        return Needs(memory, cores, minutes, self.table.queue or "")


def double_memory(needs: Needs) -> Needs:
    """Return the needs with twice the memory."""
    return replace(needs, memory=2 * needs.memory)


def largest_needs(classes: Iterable[Needs]) -> Needs:
    """Return needs that cover all of these."""
    each: list[Any] = list(classes)
    return Needs(*(max(getattr(needs, name) for needs in each) for name in ("memory", "cores", "minutes", "queue")))
