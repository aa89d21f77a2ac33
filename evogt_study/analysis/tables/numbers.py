"""Forms of numbers: digits and notation, for reading and for LaTeX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from evogt_study.errors import ParameterError

NOTATIONS = ("scientific", "plain")


@dataclass(frozen=True)
class NumberFormat:
    r"""Significant digits, and notation: scientific (4.50e-02) or plain (0.0450).  Raises ParameterError.

    >>> NumberFormat(3).text(0.04497), NumberFormat(3).latex(0.04497), NumberFormat(3, "plain").text(26.35)
    ('4.50e-02', '4.50\\times10^{-2}', '26.4')
    """

    digits: int = 4
    notation: str = "scientific"

    def __post_init__(self) -> None:
        if not 1 <= self.digits <= 17:  # 17 tell any two doubles apart
            raise ParameterError("digits", "from 1 to 17", self.digits, remedy="use e.g. 3")
        if self.notation not in NOTATIONS:
            raise ParameterError("notation", f"one of {', '.join(NOTATIONS)}", self.notation)

    def text(self, value: float) -> str:
        """The number as it is read."""
        if not math.isfinite(value) or self.notation == "scientific":
            return f"{value:.{self.digits - 1}e}"
        return format(Decimal(f"{value:.{self.digits - 1}e}"), "f")  # a float's own "f" has a fixed number of decimals

    def latex(self, value: float) -> str:
        """The number in mathematics; numbers from 1 to 10 without a power of ten, as the paper has them."""
        if not math.isfinite(value):
            return r"\mathrm{nan}" if math.isnan(value) else (r"\infty" if value > 0 else r"-\infty")
        mantissa, _, exponent = f"{value:.{self.digits - 1}e}".partition("e")
        if self.notation == "plain":
            return self.text(value)
        return mantissa if int(exponent) == 0 else rf"{mantissa}\times10^{{{int(exponent)}}}"


def ratio_text(value: float, form: NumberFormat) -> str:
    """A ratio: one decimal from 1 on, as the paper has gains, else significant digits without exponent."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{value:.1f}" if abs(value) >= 1.0 else NumberFormat(form.digits, "plain").text(value)
