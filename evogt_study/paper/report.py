"""The report of `evogt reproduce`: each published number beside the computed one, in text, Markdown and CSV.

All three are pure functions of the entries.  `agreement` decides how values are compared.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evogt_study.analysis.tables import render_table
from evogt_study.paper.agreement import Entry, Measure, Verdict

if TYPE_CHECKING:
    from evogt_study.plots.catalogue import Drawn

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

SPEAKING = frozenset({"dictionary", "method", "problem", "variable", "statistic"})
"""Labels whose values need no name beside them."""


def counts(entries: Sequence[Entry]) -> dict[Verdict, int]:
    """Count the entries of each verdict; every verdict is a key."""
    return {verdict: sum(entry.verdict is verdict for entry in entries) for verdict in Verdict}


def is_known(entry: Entry) -> bool:
    """Test for a difference that the list of known differences explains."""
    return entry.verdict is Verdict.differs and bool(entry.known)


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
    known = sum(map(is_known, entries))
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

    An integer has no decimals if the paper prints an integer.  A value far from the printed form has a power of ten.

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
    return f"{entry.verdict} (known)" if is_known(entry) else str(entry.verdict)


def by_file(entries: Sequence[Entry]) -> dict[str, tuple[Entry, ...]]:
    """The entries of each file, in the order of their first entries."""
    names = dict.fromkeys(entry.file for entry in entries)
    return {name: tuple(entry for entry in entries if entry.file == name) for name in names}


def by_severity(entries: Sequence[Entry]) -> list[Entry]:
    """Entries that do not agree in all digits: unexplained differences, then known ones, then near misses."""
    order = [Verdict.differs, Verdict.one_unit, Verdict.same_order]
    rest = [entry for entry in entries if entry.verdict in order]
    # keeps the paper's order where both are equal
    return sorted(rest, key=lambda entry: (order.index(entry.verdict), is_known(entry)))


def explanations(entries: Sequence[Entry]) -> list[str]:
    """Collect the explanations of known differences, each once, on one line."""
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
    parts = [render_table(*overview(entries), "text")]
    rest, notes = by_severity(entries), explanations(entries)
    if rest:
        header = ["table", "number", "published", "computed", "rel. diff.", "verdict", "runs"]
        body = [[entry.table, _brief(entry), *_outcome(entry, notes)] for entry in rest]
        parts.append(render_table(header, body, "text"))
    if notes:
        lines = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
        parts.append("\n".join(textwrap.fill(line, 100, subsequent_indent="    ") for line in lines))
    return "\n\n".join([*parts, summary_line(entries)])


def markdown(entries: Sequence[Entry], provenance: Mapping[str, str], figures: Sequence[Drawn] = ()) -> str:
    """Summary, explanations of what differs, a table with one row for each number of each file, and provenance.

    figures: their PNG files are beside the report.
    """
    parts = [
        f"# {provenance.get('title', TITLE)}",
        f"{summary_line(entries)}.",
        render_table(*overview(entries), "markdown"),
    ]
    notes = explanations(entries)
    if notes:
        parts += ["## Known differences", "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    for file, own in by_file(entries).items():
        names = _label_names(own)
        header = [*names, "published", "computed", "relative difference", "verdict", "runs"]
        body = [[*(entry.labels.get(name, "") for name in names), *_outcome(entry, notes)] for entry in own]
        table = render_table(header, [[" ".join(cell.split()) for cell in row] for row in body], "markdown")
        parts += [f"## {file}: {_tables(own)}", f"{summary_line(own)}.", table]
    for each in figures:
        parts += [f"## {each.title}", f"![{each.alt}]({each.name}.png)", each.caption]
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
    return render_table(CSV_COLUMNS, body, "csv") + "\n"


def _label_names(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(name for entry in entries for name in entry.labels))


def _tables(entries: Sequence[Entry]) -> str:
    return ", ".join(dict.fromkeys(entry.table for entry in entries))


def _labels(entry: Entry, separator: str) -> str:
    return separator.join(f"{name}={value}" for name, value in entry.labels.items())


def _brief(entry: Entry) -> str:
    """Describe the number within one line of a terminal: "epsilon=0.2, transnet, error, mean"."""
    return ", ".join(value if name in SPEAKING else f"{name}={value}" for name, value in entry.labels.items())


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
