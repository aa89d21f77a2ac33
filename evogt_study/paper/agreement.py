"""Compare a published number with a computed one: the number of printed digits that the computed value confirms.

A published number is stored as printed, because its text gives the number of digits.  Its `Measure` fixes the
comparison before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Relation of a computed value to a printed one."""

    all_digits = "agrees in all printed digits"
    one_unit = "within one unit of the last digit"
    same_order = "same order of magnitude"
    differs = "differs"


class Measure(StrEnum):
    """Meaning of a published number: its digits, the order of magnitude of rounding noise, or an upper bound."""

    digits = "digits"
    order = "order"
    bound = "bound"


@dataclass(frozen=True)
class Entry:
    """One published number beside the computed one.

    file: the CSV in data/published, without suffix; table: the paper's label, or "text"; labels: as printed (epsilon,
    dictionary, variable, statistic, ...); n_ok, n_planned: its runs; known: the explanation of a known difference.
    """

    file: str
    table: str
    labels: Mapping[str, str]
    published: str
    computed: float | str
    measure: Measure
    verdict: Verdict
    n_ok: int
    n_planned: int
    known: str = ""

    @property
    def relative_difference(self) -> float:
        """(computed - published) / |published|; NaN for a string and for zero."""
        published = to_number(self.published)
        if isinstance(self.computed, str) or not published:
            return math.nan
        return (self.computed - published) / abs(published)

    @property
    def is_known(self) -> bool:
        """True for a difference that the list of known differences explains."""
        return self.verdict is Verdict.differs and bool(self.known)

    @property
    def agrees(self) -> bool:
        """True if the number is confirmed, or its difference is a known one."""
        return self.verdict is not Verdict.differs or self.is_known


def to_number(text: str) -> float | None:
    """Return a printed number; None for a string such as "singular"."""
    try:
        return float(text)
    except ValueError:
        return None


def last_digit(text: str) -> float:
    """Return the size of one unit in the last printed digit.

    >>> last_digit("4.50e-2")
    0.0001
    """
    mantissa, _, exponent = text.lower().partition("e")
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def judge_value(published: str, computed: float | str, measure: Measure = Measure.digits) -> Verdict:
    """Return the verdict on a printed number or string.

    All digits: the computed value rounds, once, to the printed one.  One unit: it rounds to a neighbour of it.  Same
    order: less than half a decade apart, if the measure of the number is its order.
    """
    if isinstance(computed, str):
        return Verdict.all_digits if computed == published else Verdict.differs
    target = to_number(published)
    if target is None or not math.isfinite(computed):
        return Verdict.differs
    if measure is Measure.bound:
        return Verdict.all_digits if computed <= target else Verdict.differs
    units = abs(computed - target) / last_digit(published)
    if units <= 0.5 * (1.0 + 1e-9):  # a value on the half-unit itself may round either way
        return Verdict.all_digits
    if measure is Measure.order:
        # zero and numbers of different signs have no ratio in decades
        near = computed * target > 0.0 and abs(math.log10(computed / target)) < 0.5
        return Verdict.same_order if near else Verdict.differs
    return Verdict.one_unit if units <= 1.5 * (1.0 + 1e-9) else Verdict.differs
