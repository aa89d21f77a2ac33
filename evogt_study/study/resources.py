"""What runs need: memory, cores, minutes and a queue, as numbers or formulas of parameters.

They decide where and when a run is computed, and are no part of its run key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from evogt_study.schema.records import Needs
from evogt_study.schema.values import Values
from evogt_study.study.model import ResourcesTable
from evogt_study.study.parameter_values import Declared, SourceLocation, compile_formula

_MEMORY = re.compile(r"(.+?)\s*([MG])B")


@dataclass(frozen=True, eq=False)
class Resources:
    """The section ``[resources]`` of a study, at `place`: a function of the values of a case for each of its needs."""

    formulas: Mapping[str, Callable[[Values], float]]
    queue: str
    retry_memory: bool
    place: SourceLocation

    @staticmethod
    def of(table: ResourcesTable, declared: Declared) -> Resources:
        """Read the section.  Raises StudyError."""
        place, texts = declared.place("resources"), {"cores": str(1 if table.cores is None else table.cores)}
        if table.memory is not None:
            match = _MEMORY.fullmatch(table.memory.strip())
            if match is None:
                wanted = "a number or formula with the unit MB or GB, such as 4 GB"
                raise place.at("memory").mistake(wanted, table.memory)
            texts["memory"] = match[1] if match[2] == "M" else f"1000*({match[1]})"
        if table.minutes is not None:
            texts["minutes"] = str(table.minutes)
        formulas = {name: _read_amount(name, text, place.at(name), declared) for name, text in texts.items()}
        return Resources(formulas, table.queue or "", table.retry_memory, place)

    def needs_of(self, values: Values) -> Needs:
        """Return what a case needs, rounded up.  Raises StudyError if it is not positive."""
        found = dict[str, int]()
        for name, formula in self.formulas.items():
            if not (amount := formula(values)) > 0.0:
                at = ", ".join(f"{each} = {value}" for each, value in values.items())
                raise self.place.at(name).error(f"`{name}` must be positive for every case, got {amount} for {at}")
            found[name] = math.ceil(round(amount, 6))
        return Needs(**found, queue=self.queue)


def _read_amount(name: str, text: str, place: SourceLocation, declared: Declared) -> Callable[[Values], float]:
    with suppress(ValueError):  # most are plain numbers: a formula imports SymPy
        number = float(text)
        return lambda values: number
    return compile_formula(name, text, place, declared)[1]
