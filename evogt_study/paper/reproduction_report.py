"""The report of `evogt reproduce`: every published number beside the computed one, in text, Markdown, CSV and HTML.

All four are pure functions of the entries: what is compared, and how strictly, is decided in `agreement`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import groupby

from jinja2 import Template

from evogt_study.analysis.report.page import Picture, spoken, template
from evogt_study.analysis.tables.tables import rendered
from evogt_study.paper.agreement import Entry, Measure, Verdict

TITLE = "The paper's published numbers, computed again"
COMMAND = "evogt reproduce studies/paper"
EXTRA_DIGITS = 3  # of a computed value beyond the printed ones, so that a reader sees how it rounds

CSV_COLUMNS = (
    "file", "table", "labels", "published", "computed", "relative_difference", "measure", "verdict", "known",
    "n_ok", "n_planned",
)  # fmt: skip

PHRASES = {
    Verdict.all_digits: ("agrees in all printed digits", "agree in all printed digits"),
    Verdict.one_unit: ("within one unit of the last digit",) * 2,
    Verdict.same_order: ("in order of magnitude",) * 2,
    Verdict.differs: ("differs", "differ"),
}

# labels that head columns; the others head rows, unless `ROW_LABELS` says how the paper has a table
COLUMN_LABELS = ("dictionary", "method", "problem", "dofs", "variable", "statistic")
SPEAKING = frozenset(COLUMN_LABELS) - {"dofs"}  # their values say by themselves what they are of
ROW_LABELS: Mapping[str, tuple[str, ...]] = {"conditioning": ("epsilon", "dictionary")}

TITLES: Mapping[str, str] = {
    "allen_cahn_2d": "Allen–Cahn equation in two dimensions",
    "allen_cahn_reference": "Refinement of the Allen–Cahn reference",
    "conditioning": "Rank and conditioning",
    "cross_grid": "Defects on another quadrature grid",
    "feature_count": "Number of features",
    "gamma_selected": "Selected shape parameters",
    "nonseparable_2d": "Nonseparable solution in two dimensions",
    "nonseparable_3d": "Nonseparable solution in three dimensions",
    "operator_2d": "Fixed and time-dependent operator in two dimensions",
    "oscillatory_1d": "Oscillatory coefficient in one dimension",
    "p1_fem": "Piecewise-linear finite elements",
    "quadrature": "Number of quadrature points",
    "reference_tolerance": "Tolerances of the references",
    "space_time_diagnostic": "Space-time regression and evolution",
    "target_1d": "Solution that depends on ε in one dimension",
    "temporal_convergence": "Order of the implicit midpoint rule",
    "threshold": "Truncation threshold",
}


class Kind(StrEnum):
    """Verdict as a reader has to tell it apart: with differences split into unexplained and known ones."""

    all_digits = "all-digits"
    one_unit = "one-unit"
    same_order = "same-order"
    known = "known"
    differs = "differs"


@dataclass(frozen=True)
class Mark:
    """Appearance of a kind, with and without colour."""

    symbol: str
    words: str


MARKS: Mapping[Kind, Mark] = {
    Kind.all_digits: Mark("✓", "agrees in all printed digits"),
    Kind.one_unit: Mark("±1", "within one unit of the last printed digit"),
    Kind.same_order: Mark("~", "same order of magnitude, which is all that this number means"),
    Kind.known: Mark("†", "differs, and is on the list of known differences"),
    Kind.differs: Mark("✗", "differs, unexplained"),
}


@dataclass(frozen=True)
class Pivot:
    """The entries of one file laid out like the paper's table.

    row_labels: names of the columns that head the rows; heads: header lines, each cell with its text and how many
    columns it spans; rows: row heads, then the entries of each cell; constant: labels that are the same throughout.
    """

    row_labels: tuple[str, ...]
    heads: tuple[tuple[tuple[str, int], ...], ...]
    rows: tuple[tuple[tuple[str, ...], tuple[tuple[Entry, ...], ...]], ...]
    constant: Mapping[str, str]


@dataclass(frozen=True)
class Section:
    """One file of published numbers."""

    file: str
    tables: str
    entries: tuple[Entry, ...]
    summary: str
    pivot: Pivot


def counts(entries: Sequence[Entry]) -> dict[Verdict, int]:
    """Count the entries of each verdict; every verdict is a key."""
    return {verdict: sum(entry.verdict is verdict for entry in entries) for verdict in Verdict}


def kind(entry: Entry) -> Kind:
    """The entry's verdict, a difference with an explanation told from one without."""
    if entry.verdict is Verdict.differs and entry.known:
        return Kind.known
    return Kind[entry.verdict.name]


def summary_line(entries: Sequence[Entry]) -> str:
    """One sentence: "3 published numbers: 2 agree in all printed digits, 1 differs (known)"."""
    if not entries:
        return "no published numbers"
    numbers = counts(entries)
    parts = [
        f"{number} {PHRASES[verdict][number != 1]}"
        for verdict, number in numbers.items()
        if number or verdict is Verdict.all_digits
    ]
    known = sum(kind(entry) is Kind.known for entry in entries)
    unexplained = numbers[Verdict.differs] - known
    if known and unexplained:
        parts[-1] += f" ({known} known, {unexplained} unexplained)"
    elif known or unexplained:
        parts[-1] += " (known)" if known else " (unexplained)"
    else:
        parts.append("none differs")
    return f"{len(entries)} published number{'s' * (len(entries) != 1)}: {', '.join(parts)}"


def shown(published: str, computed: float | str) -> str:
    """The computed value as the published one is printed, with three more digits.

    A whole number stays one where the paper prints one; a value too far off for the printed form is in powers of ten.

    >>> shown("4.50e-2", 0.0449683), shown("99.8", 99.7654321), shown("20", 20.0)
    ('4.49683e-2', '99.7654', '20')
    """
    if isinstance(computed, str):
        return computed
    if not math.isfinite(computed):
        return str(float(computed))
    mantissa, exponent, _ = published.lower().partition("e")
    digits = sum(character.isdigit() for character in mantissa)
    if not _is_number(published):
        return f"{computed:.4g}"
    if not exponent and (computed == 0.0 or 1e-3 <= abs(computed) < 1e7):
        decimals = 0 if published.isdigit() and float(computed).is_integer() else EXTRA_DIGITS
        return f"{computed:.{len(mantissa.partition('.')[2]) + decimals}f}"
    return _short_power(f"{computed:.{digits - 1 + EXTRA_DIGITS}e}")


def relative(entry: Entry) -> str:
    """The relative difference in two digits, or a dash where there is none."""
    difference = entry.relative_difference
    return _short_power(f"{difference:+.1e}") if math.isfinite(difference) else "—"


def judged(entry: Entry) -> str:
    """The verdict in words."""
    if entry.measure is Measure.bound and entry.verdict is Verdict.all_digits:
        return "within the printed bound"
    return f"{entry.verdict} (known)" if kind(entry) is Kind.known else str(entry.verdict)


def runs_behind(entries: Sequence[Entry]) -> str:
    """On how many runs the numbers rest: "each from 20 runs", "from 3 to 40 runs each"."""
    ok = sorted({entry.n_ok for entry in entries})
    missing = sum(entry.n_ok < entry.n_planned for entry in entries)
    words = f"each from {ok[0]} run{'s' * (ok[0] != 1)}" if len(ok) == 1 else f"from {ok[0]} to {ok[-1]} runs each"
    return words + (f", {missing} of them from fewer than planned" if missing else "")


def by_file(entries: Sequence[Entry]) -> dict[str, tuple[Entry, ...]]:
    """The entries of each file, in the order of their first entries."""
    names = dict.fromkeys(entry.file for entry in entries)
    return {name: tuple(entry for entry in entries if entry.file == name) for name in names}


def by_severity(entries: Sequence[Entry]) -> list[Entry]:
    """Entries that do not agree in all digits: unexplained differences, then known ones, then near misses."""
    order = [Kind.differs, Kind.known, Kind.one_unit, Kind.same_order]
    rest = [entry for entry in entries if kind(entry) in order]
    return sorted(rest, key=lambda entry: order.index(kind(entry)))  # keeps the paper's order within a kind


def explanations(entries: Sequence[Entry]) -> list[str]:
    """Collect what is known about entries that do not agree in all digits, each explanation once, on one line."""
    return list(dict.fromkeys(" ".join(entry.known.split()) for entry in by_severity(entries) if entry.known))


def overview(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """Header and one row for each file: how many numbers, and how many with each verdict."""
    header = ["file", "table", "numbers", "all digits", "one unit", "order", "differs"]
    body = []
    for file, own in by_file(entries).items():
        numbers = counts(own)
        body.append([file, _tables(own), str(len(own)), *(str(numbers[verdict]) for verdict in Verdict)])
    return header, body


def terminal_table(entries: Sequence[Entry]) -> str:
    """Plain text: one line for each file, then every number that does not agree in all digits, then explanations."""
    parts = [rendered(*overview(entries), "text")]
    rest, notes = by_severity(entries), explanations(entries)
    if rest:
        header = ["table", "number", "published", "computed", "rel. diff.", "verdict", "runs"]
        body = [[entry.table, _brief(entry), *_outcome(entry, notes)] for entry in rest]
        parts.append(rendered(header, body, "text"))
    if notes:
        lines = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
        parts.append("\n".join(textwrap.fill(line, 100, subsequent_indent="    ") for line in lines))
    return "\n\n".join([*parts, summary_line(entries)])


def markdown(entries: Sequence[Entry], provenance: Mapping[str, str]) -> str:
    """Summary, explanations of what differs, a table with one row for each number of each file, and provenance."""
    parts = [
        f"# {provenance.get('title', TITLE)}",
        f"{summary_line(entries)}.",
        rendered(*overview(entries), "markdown"),
    ]
    notes = explanations(entries)
    if notes:
        parts += ["## Known differences", "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    for file, own in by_file(entries).items():
        names = _label_names(own)
        header = [*names, "published", "computed", "relative difference", "verdict", "runs"]
        body = [[*(entry.labels.get(name, "") for name in names), *_outcome(entry, notes)] for entry in own]
        table = rendered(header, [[" ".join(cell.split()) for cell in row] for row in body], "markdown")
        parts += [f"## {file}: {_tables(own)}", f"{summary_line(own)}.", table]
    origin = "\n".join(f"- {name}: {text}" for name, text in provenance.items() if name != "title")
    parts += ["## Where these numbers come from", *([origin] if origin else []), f"Compute them again: `{COMMAND}`"]
    return "\n\n".join(parts) + "\n"


def csv_text(entries: Sequence[Entry]) -> str:
    """One row for each number; computed values in full precision."""
    body = [
        [
            entry.file, entry.table, _labels(entry, "; "), entry.published,
            entry.computed if isinstance(entry.computed, str) else repr(float(entry.computed)),
            repr(float(entry.relative_difference)), str(entry.measure), str(entry.verdict), entry.known,
            str(entry.n_ok), str(entry.n_planned),
        ]
        for entry in entries
    ]  # fmt: skip
    return rendered(CSV_COLUMNS, body, "csv") + "\n"


def html(entries: Sequence[Entry], provenance: Mapping[str, str], figures: Sequence[Picture] = ()) -> str:
    """One page that needs nothing else: the paper's tables with both numbers, what differs, figures, provenance."""
    rest = by_severity(entries)
    page = _template().render(
        title=provenance.get("title", TITLE),
        provenance={name: text for name, text in provenance.items() if name != "title"},
        summary=summary_line(entries),
        sections=[
            Section(file, _tables(own), own, f"{summary_line(own)}, {runs_behind(own)}", pivot(file, own))
            for file, own in by_file(entries).items()
        ],
        differing=[entry for entry in rest if entry.verdict is Verdict.differs],
        near=[entry for entry in rest if entry.verdict is not Verdict.differs],
        pictures=[Picture(*figure) for figure in figures],
        command=COMMAND,
    )
    return page.lstrip()  # the template's macros leave empty lines


def pivot(file: str, entries: Sequence[Entry]) -> Pivot:
    """The entries as the paper's table: declared or leading labels head the rows, the others that vary the columns."""
    names = _label_names(entries)
    across = [name for name in names if name in COLUMN_LABELS]
    rows = [name for name in ROW_LABELS.get(file, ()) if name in names]
    rows = rows or [name for name in names if name not in across] or names[:1]
    values = {name: list(dict.fromkeys(entry.labels.get(name, "") for entry in entries)) for name in names}
    columns = [name for name in names if name not in rows and len(values[name]) > 1]
    cells: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Entry, ...]] = {}
    for entry in entries:
        place = _point(entry, rows), _point(entry, columns)
        cells[place] = (*cells.get(place, ()), entry)
    # columns with a common head stand together, wherever in the file they come
    points = sorted(
        {column for _, column in cells},
        key=lambda point: [values[name].index(value) for name, value in zip(columns, point, strict=True)],
    )
    return Pivot(
        row_labels=tuple(rows),
        heads=_heads(points, columns),
        rows=tuple(
            (row, tuple(cells.get((row, column), ()) for column in points))
            for row in dict.fromkeys(row for row, _ in cells)
        ),
        constant={name: values[name][0] for name in names if name not in rows and name not in columns},
    )


def _heads(points: Sequence[tuple[str, ...]], names: Sequence[str]) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Header lines over the columns; neighbours that agree down to a line share its cell."""
    if not names:
        return ((("number", 1),),)
    return tuple(
        tuple((_head(name, prefix[-1]), len(list(group))) for prefix, group in groupby(points, _beginning(level)))
        for level, name in enumerate(names, 1)
    )


def _head(name: str, value: str) -> str:
    return value if name in SPEAKING else f"{name} = {value}"


def _beginning(length: int) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    return lambda point: point[:length]


def _point(entry: Entry, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(entry.labels.get(name, "") for name in names)


def _label_names(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(name for entry in entries for name in entry.labels))


def _tables(entries: Sequence[Entry]) -> str:
    return ", ".join(dict.fromkeys(entry.table for entry in entries))


def _labels(entry: Entry, separator: str) -> str:
    return separator.join(f"{name}={value}" for name, value in entry.labels.items())


def _brief(entry: Entry, spoken: Callable[[str], str] = str, equals: str = "=") -> str:
    """Describe the number in as many words as a terminal's line has room for: "epsilon=0.2, transnet, error, mean"."""
    return ", ".join(
        spoken(value) if name in SPEAKING else f"{spoken(name)}{equals}{spoken(value)}"
        for name, value in entry.labels.items()
    )


def _outcome(entry: Entry, notes: Sequence[str]) -> list[str]:
    """Published, computed, relative difference, verdict with the number of its explanation, and runs."""
    known = " ".join(entry.known.split())
    note = f" [{notes.index(known) + 1}]" if known in notes else ""
    computed = shown(entry.published, entry.computed)
    return [entry.published, computed, relative(entry), judged(entry) + note, f"{entry.n_ok}/{entry.n_planned}"]


def _short_power(text: str) -> str:
    """The power of ten as the published files write it: "4.50e-2" for "4.50e-02"."""
    mantissa, _, power = text.partition("e")
    return f"{mantissa}e{int(power)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@cache
def _template() -> Template:
    return template(
        "reproduction.html.j2",
        shown=shown,
        relative=relative,
        judged=judged,
        kind=kind,
        title_of=lambda file: TITLES.get(file, spoken(file)),
        number_of=lambda entry: _brief(entry, spoken, " = "),
        marks=MARKS,
        counts=counts,
    )
