"""The place in a study file where a mistake stands, and the line that says so."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evogt_study.errors import StudyError, shortened

LARGEST = sys.float_info.max
"""Of a number: an integer may be larger than any that is stored."""


@dataclass(frozen=True)
class Place:
    """A key of a study file, such as ``sample[0].gamma`` in FILE."""

    file: str
    where: str

    def __str__(self) -> str:
        return f"{self.file}, {self.where}"

    def at(self, key: str) -> Place:
        """The place of a key below."""
        return Place(self.file, f"{self.where}.{key}")

    def mistake(self, wanted: str, got: object, remedy: str = "") -> StudyError:
        """The line "`gamma` must be ..., got ... (FILE, sample[0].gamma); remedy"."""
        key = self.where.rpartition(".")[2]
        told = f"`{key}` must be {wanted}, got {shortened(got)} ({self})"
        return StudyError(f"{told}; {remedy}" if remedy else told)

    def check_keys(self, table: Mapping[str, Any], required: Iterable[str], optional: Iterable[str] = ()) -> None:
        """Raise StudyError for a key that is unknown or missing."""
        required = tuple(required)
        known = (*required, *optional)
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
                raise StudyError(f"unknown key `{key}` ({self}); {advice}")
        for key in required:
            if key not in table:
                raise StudyError(f"`{key}` must be given ({self}), got {shortened(table)}")

    def number(self, table: Mapping[str, Any], key: str) -> float | int:
        """A finite number under a key.  Raises StudyError."""
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -LARGEST <= value <= LARGEST:
            raise self.at(key).mistake("a finite number", value)
        return value

    def interval(self, table: Mapping[str, Any], logarithmic: bool = False) -> tuple[float | int, float | int]:
        """The numbers `from` < `to`, above zero where `logarithmic`.  Raises StudyError."""
        low, high = self.number(table, "from"), self.number(table, "to")
        if not low < high:
            raise self.at("from").mistake(f"below `to` = {high}", low)
        if not math.isfinite(float(high) - float(low)):
            raise self.at("from").mistake(f"nearer to `to` = {high}, by a finite difference", low)
        if logarithmic and low <= 0:
            raise self.at("from").mistake("above 0 on a logarithmic scale", low)
        return low, high

    def logarithmic(self, table: Mapping[str, Any]) -> bool:
        """True for the scale "log".  Raises StudyError for another than "linear"."""
        scale = table.get("scale", "linear")
        if scale not in ("linear", "log"):
            raise self.at("scale").mistake('"linear" or "log"', scale)
        return bool(scale == "log")
