"""Short labels in mathematical type for axes and legends, and the long names that they stand for, for a caption."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.parts.arranged import LONGEST_TITLE, short_label, title_of
from evogt_study.analysis.plots.parts.style import plain
from evogt_study.schema.parameters import GREEK

_INDEXED = re.compile(r"([A-Za-z])_?(\d+)?")


def labelled(label: str, width: int, form: str = "{}") -> str:
    """A label in the place of {} in `form`, on lines of about `width` characters."""
    return "\n".join(textwrap.wrap(form.format(label), width))


def symbol(name: str) -> str:
    """A parameter's name in mathematical type where it is a symbol: tau, N1, dt; else as it is."""
    if name in GREEK and name != "omicron":  # which is no mathematics' letter
        return rf"$\{'var' if name == 'epsilon' else ''}{name}$"  # \varepsilon has the form of GREEK's
    if name == "dt":
        return r"$\Delta t$"
    found = _INDEXED.fullmatch(name)
    if found is None:
        return plain(name)
    return f"${found[1]}_{{{found[2]}}}$" if found[2] else f"${found[1]}$"


def titled(title: str, name: str, width: int, short: str = "") -> str:
    """A parameter's label: its short one, or its title with its symbol behind, or the symbol alone to save a line."""
    if short:
        return labelled(short, width)
    sign = symbol(name) if name else ""
    if title == name and sign:
        return sign
    if sign.startswith("$") and title in (GREEK.get(name), "Δt"):
        return sign
    if not sign.startswith("$") or len(title) <= 3:  # which is a symbol itself
        return labelled(plain(title, LONGEST_TITLE), width)
    words = plain(title.removesuffix(f" {name}"), LONGEST_TITLE)
    quantity, opening, units = words.rpartition(" (")  # of units
    with_units = bool(opening) and units.endswith(")")
    text = f"{quantity} {sign} ({units}" if with_units else f"{words} {sign}"
    return text if len(text) <= width else f"{sign} ({units}" if with_units else sign


def explained(figure: Figure, data: xr.Dataset, variable: str) -> str:
    """The long names of what a figure names by a short label or by a symbol alone, as a sentence; empty without any."""
    drawn = [" ".join(text.split()) for text in _labels(figure)]
    found: dict[str, str] = {}
    for name in dict.fromkeys(map(str, [variable, *data.variables])):
        title, short = (title_of(data[name]), short_label(data[name])) if name in data.variables else (name, "")
        sign = symbol(name)
        if short and any(short in text for text in drawn):
            if not any(_as_text(short) in other for other in found):  # of a variable that is drawn, or more than that
                found[_as_text(short)] = title
        elif sign in drawn and sign.startswith("$") and len(title) > len(name):
            found[name] = title.removesuffix(f" {name}")
    told = "; ".join(f"{short} = {title}" for short, title in found.items() if short != title)
    return f"Labels: {told}." if told else ""


def _labels(figure: Figure) -> Iterator[str]:
    """Every label of an axis, a colour bar or a legend."""
    for axes in figure.axes:
        yield from (axes.get_xlabel(), axes.get_ylabel())
    for legend in (*figure.legends, *(each for axes in figure.axes if (each := axes.get_legend()) is not None)):
        yield legend.get_title().get_text()


def _as_text(label: str) -> str:
    """A label without its mathematical type: "relative L2 error", "E_q(u)"."""
    return re.sub(r"[$\\{}]|\^(?=\w)", "", label)
