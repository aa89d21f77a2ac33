"""A study in a few words, and as a small table for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import prod
from typing import Any

MOST_VALUES = 6
"""Values of an axis that are shown; more do not fit on a line of a notebook."""


def described(name: str, axes: Mapping[str, Sequence[Any]], count: int) -> str:
    """Return the number of cases, `count`: "study lorenz: 20 cases = 2 rho x 10 seed"."""
    return f"study {name}: {_cases(axes, count)}"


def _cases(axes: Mapping[str, Sequence[Any]], count: int) -> str:
    points = prod(map(len, axes.values()))
    holes = "" if count == points else f" of {points:,} points"
    return f"{count:,} cases{holes} = " + " x ".join(f"{len(values):,} {name}" for name, values in axes.items())


def constants_line(constants: Mapping[str, Any]) -> list[str]:
    """Return the constants on a line, if there are any."""
    return ["  " + ", ".join(f"{name} = {_shown(value)}" for name, value in constants.items())] if constants else []


def html_of(name: str, title: str, axes: Mapping[str, Sequence[Any]], constants: Mapping[str, Any], count: int) -> str:
    """Return a table of the axes and constants."""
    rows = [(axis, str(len(values)), _values(values)) for axis, values in axes.items()]
    rows += [(constant, "", _shown(value)) for constant, value in constants.items()]
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    head = "<tr><th>parameter</th><th>values</th><th></th></tr>"
    caption = f"<b>{escape(name)}</b>{': ' + escape(title) if title else ''} &middot; {escape(_cases(axes, count))}"
    return f"<div>{caption}<table>{head}{cells}</table></div>"


def _values(values: Sequence[Any]) -> str:
    shown = [_shown(value) for value in values]
    return ", ".join(shown if len(shown) <= MOST_VALUES else [*shown[: MOST_VALUES - 1], "...", shown[-1]])


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
