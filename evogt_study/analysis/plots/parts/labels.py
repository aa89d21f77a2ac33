"""Short labels in mathematical type for axes and legends, and the long names that they stand for, for a caption."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

import xarray as xr
from matplotlib.figure import Figure

from evogt_study.analysis.plots.parts.arranged import title_of
from evogt_study.analysis.plots.parts.style import plain
from evogt_study.schema.parameters import GREEK
from evogt_study.schema.variables import BOOKKEEPING, MEASURED, Variable

_OTHERS = {
    "dictionary of prescribed features": "dictionary",  # declared where an import takes a second
    "time t": "time $t$",
    **{f"coordinate {name}": f"coordinate ${name}$" for name in "xyz"},
}
"""Labels of the package's parameters and coordinates."""


def _declared(variable: Variable) -> tuple[str, str]:
    units = "" if variable.units in ("", "1") else f" ({variable.units})"
    return f"{variable.long_name}{units}", f"{variable.label}{units}"


SHORT: Mapping[str, str] = {
    **dict(_declared(each) for each in (*MEASURED.values(), *BOOKKEEPING.values()) if each.label),
    **_OTHERS,
}
"""Short label of each long name that the package itself has written: mathematics is never read from a file's text."""

_INDEXED = re.compile(r"([A-Za-z])_?(\d+)?")


def labelled(title: str, width: int, form: str = "{}") -> str:
    """A title from a file in the place of {} in `form`, on lines of about `width` characters.

    A long name of the package's own is its short label; any other text is drawn as it is.
    """
    known = SHORT.get(title)
    return "\n".join(textwrap.wrap(form.format(known if known is not None else plain(title, 160)), width))


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


def titled(title: str, name: str, width: int) -> str:
    """A parameter's label: its title with its symbol behind, or the symbol alone where that takes more than a line."""
    sign = symbol(name) if name else ""
    if title == name and sign:
        return sign
    if sign.startswith("$") and title in (GREEK.get(name), "Δt"):
        return sign
    if not sign.startswith("$") or len(title) <= 3:  # which is a symbol itself
        return labelled(title, width)
    words = plain(title.removesuffix(f" {name}"), 160)
    quantity, opening, units = words.rpartition(" (")  # of units
    with_units = bool(opening) and units.endswith(")")
    text = f"{quantity} {sign} ({units}" if with_units else f"{words} {sign}"
    return text if len(text) <= width else f"{sign} ({units}" if with_units else sign


def explained(figure: Figure, data: xr.Dataset, variable: str) -> str:
    """The long names of what a figure names by a short label or by a symbol alone, as a sentence; empty without any."""
    drawn = [" ".join(text.split()) for text in _labels(figure)]
    found: dict[str, str] = {}
    for name in dict.fromkeys(map(str, [variable, *data.variables])):
        title = title_of(data[name]) if name in data.variables else name
        short, sign = SHORT.get(title), symbol(name)
        if short is not None and any(short in text for text in drawn):
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
    """A label of ours without its mathematical type: "relative L2 error", "E_q(u)"."""
    return re.sub(r"[$\\{}]|\^(?=\w)", "", label)
