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
    """Meaning of a published number.

    digits: all printed digits.  order: only the order of magnitude, for rounding noise such as mass defects.  bound: an
    upper bound.
    """

    digits = "digits"
    order = "order"
    bound = "bound"


@dataclass(frozen=True)
class Entry:
    """One published number beside the computed one.

    file: the CSV in data/published, without suffix; table: the paper's label, or "text"; labels: what the row says the
    number is (epsilon, dictionary, variable, statistic, ...), as printed there; n_ok of n_planned runs it rests on;
    known: the explanation where the difference is a known one, else empty.
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
        """(computed - published) / |published|; NaN where one of them is a word."""
        try:
            published = float(self.published)
        except ValueError:
            return math.nan
        if isinstance(self.computed, str) or published == 0.0:
            return math.nan
        return (self.computed - published) / abs(published)

    @property
    def agrees(self) -> bool:
        """True where the number is borne out, or its difference is a known one."""
        return self.verdict != Verdict.differs or bool(self.known)


def last_digit(text: str) -> float:
    """Size of one unit in the last printed digit.

    >>> last_digit("4.50e-2")
    0.0001
    """
    mantissa, _, exponent = text.lower().partition("e")
    return float(f"1e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def verdict(published: str, computed: float | str, measure: Measure = Measure.digits) -> Verdict:
    """The verdict on a printed number or word.

    All digits: the computed value rounds, once, to the printed one.  One unit: it rounds to a neighbour of it.  Same
    order: less than half a decade apart, if the measure of the number is its order.
    """
    if isinstance(computed, str):
        return Verdict.all_digits if computed == published else Verdict.differs
    try:
        target = float(published)
    except ValueError:
        return Verdict.differs
    if not math.isfinite(computed):
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
