"""Compare results with the published numbers of the paper, and write a report with figures."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from evogt_study.analysis.tables import render_table
from evogt_study.errors import InputError
from evogt_study.paper.board import SUMMARY, format_board, list_levels, read_board, summarise_board
from evogt_study.paper.published import Entry, KnownDifference, Measure, Results, Row, Verdict, judge_numbers, to_number
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import LABEL, MAIN, Status, to_status
from evogt_study.study.study import Study

if TYPE_CHECKING:
    from evogt_study.plots.canvas import PlottedFigure

TITLE = "The paper's published numbers, computed again"
COMMAND = "evogt reproduce studies/paper"
EXTRA_DIGITS = 3  # number of digits of a computed value after the printed digits
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
CLEAR_LABELS = {"dictionary", "method", "problem", "variable", "statistic"}  # values are clear without these names


@dataclass(frozen=True)
class Reproduction:
    """Texts and files of a reproduction.  `holds` is true if all numbers agree and all runs are ok."""

    text: str
    files: Mapping[str, bytes]
    conclusion: str
    holds: bool


def read_studies(paths: Iterable[Path]) -> list[Study]:
    """Read the studies in files and folders, in the order of their names.  Raises InputError if there is no study."""
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            raise InputError(
                f"`STUDIES` must be study files or folders, got {path}, which does not exist. Run from a checkout of "
                "the project, or name the study files."
            )
        files += sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not files:
        raise InputError("`STUDIES` must be study files or folders with study files, got none. Name a study file.")
    studies = [Study.from_file(file) for file in files]
    ((name, count),) = Counter(study.name for study in studies).most_common(1)
    if count > 1:
        raise InputError(f"`STUDIES` must have different names, got {name!r} twice. Rename one study.")
    return studies


def read_results(paths: Iterable[Path]) -> Results:
    """Read result files by name of the study, and their pilots by "NAME/pilot"."""
    return {
        path.stem if phase == MAIN else f"{path.stem}/{phase}": data
        for path in paths
        for phase, data in read_result(path).items()
    }


def count_failures(results: Results) -> tuple[int, str]:
    """Count the planned runs that are not ok.  Return the number, and a text such as "118 runs, 0 not ok"."""
    planned = [to_status(data["run_status"])[data["run_key"].values != ""] for data in results.values()]
    failures = sum(int(np.count_nonzero(each != Status.ok)) for each in planned)
    return failures, f"{sum(each.size for each in planned)} runs, {failures} not ok"


def judge_results(rows: Sequence[Row], known: Sequence[KnownDifference], results: Results) -> Reproduction:
    """Judge each published number with a result, and draw the figures of the paper."""
    from evogt_study.plots.style import encode_figure  # slow (0.4 s), so only after the runs
    from evogt_study.publishing.report import PROVENANCE

    entries = judge_numbers(rows, results, known)
    failures, counts = count_failures(results)
    figures = draw_figures(results)
    versions = {}  # different values of each attribute
    for attribute, name in PROVENANCE.items():
        values = sorted({str(data.attrs[attribute]) for data in results.values() if attribute in data.attrs})
        versions[name] = f"{values[0]} to {values[-1]}" if name == "date" and len(values) > 1 else "; ".join(values)
    files = {
        "report.md": to_markdown(entries, versions, figures).encode(),
        "report.csv": to_csv(entries).encode(),
        **{f"{each.name}.png": encode_figure(each.figure, "png", 200) for each in figures},
    }
    conclusion = f"{counts}; {summarise(entries)}"
    if len(entries) < len(rows):
        conclusion += f"\n{len(rows) - len(entries)} published numbers belong to other studies"
    holds = not failures and all(entry.agrees for entry in entries)
    return Reproduction(to_terminal(entries), files, conclusion, holds)


def compare_methods(published: Sequence[Mapping[str, str]], results: Results) -> Reproduction:
    """Return the tables that compare several methods on published problems."""
    rows = read_board(published, results)
    failures, counts = count_failures(results)
    files = {"board.md": format_board(rows).encode(), "board.csv": list_levels(rows).encode()}
    return Reproduction(render_table(SUMMARY, summarise_board(rows), "text"), files, counts, not failures)


def draw_figures(results: Results) -> list[PlottedFigure]:
    """Draw the two figures of the paper, if their studies have results."""
    from evogt_study.plots.catalogue import draw_kind
    from evogt_study.plots.groups import PlotRequest

    found = []
    if "nonseparable_2d_field" in results:
        made = draw_kind(results["nonseparable_2d_field"], "fields", PlotRequest(notes=False))
        title = "Final field of the two-dimensional nonseparable benchmark"
        found.append(replace(made, name="nonseparable_2d_fields", title=title, caption=made.alt))
    if {"allen_cahn_2d", "allen_cahn_reference"} <= set(results):
        request = PlotRequest("energy", hue="method", notes=False)
        made = draw_kind(compare_energies(results), "time_series", request)
        falls = "Two curves that fall from 1 at every saved time."
        found.append(replace(made, name="allen_cahn_energy", title="Energy of the Allen-Cahn test", alt=falls))
    return found


def compare_energies(results: Results) -> xr.Dataset:
    """Return the energy divided by the initial energy, for finite differences and for GTransNet with seed 0."""
    reference = results["allen_cahn_reference"].sel(points=160, dt=0.002)
    run = results["allen_cahn_2d"].sel(dictionary="gtransnet", seed=0)
    energies = [each["free_energy_history"].reset_coords(drop=True) for each in (reference, run)]
    shares = [each / each.isel(time=0) for each in energies]
    energy = xr.concat(shares, xr.Variable("method", ["finite differences", "GTransNet"]), join="outer")
    attributes = {"long_name": "energy divided by its initial value", LABEL: "$E_q(t) / E_q(0)$"}
    data = energy.to_dataset(name="energy")
    data["energy"].attrs, data["time"].attrs = attributes, reference["time"].attrs
    return data.assign(run_status=("method", ["ok", "ok"]))


# --- text -------------------------------------------------------------------------------------------------------------


def summarise(entries: Sequence[Entry]) -> str:
    """Return a summary such as "3 published numbers: 2 agree in all printed digits, 1 differs (known)"."""
    if not entries:
        return "no published numbers"
    numbers = Counter(entry.verdict for entry in entries)
    parts = [
        f"{numbers[verdict]} {phrases[numbers[verdict] != 1]}"
        for verdict, phrases in PHRASES.items()
        if numbers[verdict] or verdict is Verdict.all_digits
    ]
    known = sum(bool(entry.known) for entry in entries)
    unexplained = numbers[Verdict.differs] - known
    if not numbers[Verdict.differs]:
        parts.append("none differs")
    elif known and unexplained:
        parts[-1] += f" ({known} known, {unexplained} unexplained)"
    else:
        parts[-1] += " (known)" if known else " (unexplained)"
    return f"{len(entries)} published number{'s' * (len(entries) != 1)}: {', '.join(parts)}"


def format_computed(published: str, computed: float | str) -> str:
    """Format a computed value like the published value, with three more digits.

    If the paper prints an integer, an integer has no decimals.  A much larger or smaller value has a power of ten.

    >>> format_computed("4.50e-2", 0.0449683), format_computed("99.8", 99.7654321), format_computed("20", 20.0)
    ('4.49683e-2', '99.7654', '20')
    """
    if isinstance(computed, str):
        return computed
    if not math.isfinite(computed):
        return str(float(computed))
    if to_number(published) is None:
        return f"{computed:.4g}"
    mantissa, exponent, _ = published.lower().partition("e")
    if not exponent and (computed == 0.0 or 1e-3 <= abs(computed) < 1e7):
        decimals = 0 if published.isdigit() and float(computed).is_integer() else EXTRA_DIGITS
        return f"{computed:.{len(mantissa.partition('.')[2]) + decimals}f}"
    digits = sum(character.isdigit() for character in mantissa)
    return _format_power(computed, f".{digits - 1 + EXTRA_DIGITS}e")


def _format_power(value: float, form: str) -> str:
    """Format a number with a short power of ten, such as "4.50e-2" instead of "4.50e-02"."""
    mantissa, _, power = f"{value:{form}}".partition("e")
    return f"{mantissa}e{int(power)}"


def sort_disagreements(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that do not agree in all digits, unexplained differences first."""
    order = [Verdict.differs, Verdict.one_unit, Verdict.same_order]
    rest = [entry for entry in entries if entry.verdict in order]
    # entries with equal keys stay in the order of the paper
    return sorted(rest, key=lambda entry: (order.index(entry.verdict), bool(entry.known)))


def list_explanations(entries: Sequence[Entry]) -> list[str]:
    """Return the explanations of all known differences, each as one line and without repetition."""
    return list(dict.fromkeys(" ".join(entry.known.split()) for entry in sort_disagreements(entries) if entry.known))


def count_by_file(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """Count the entries of each file by verdict.  Return the header and the rows of a table."""
    header = ["file", "table", "numbers", "all digits", "one unit", "order", "differs"]
    body = []
    for file, own in _group_by_file(entries):
        numbers = Counter(entry.verdict for entry in own)
        body.append([file, _list_tables(own), str(len(own)), *(str(numbers[verdict]) for verdict in Verdict)])
    return header, body


def to_terminal(entries: Sequence[Entry]) -> str:
    """Return plain text with the counts of each file, all disagreements, and the explanations."""
    parts = [render_table(*count_by_file(entries), "text")]
    rest, notes = sort_disagreements(entries), list_explanations(entries)
    if rest:
        header = ["table", "number", "published", "computed", "rel. diff.", "verdict", "runs"]
        places = [
            ", ".join(value if name in CLEAR_LABELS else f"{name}={value}" for name, value in entry.labels.items())
            for entry in rest
        ]
        body = [[each.table, place, *_describe_outcome(each, notes)] for each, place in zip(rest, places, strict=True)]
        parts.append(render_table(header, body, "text"))
    if notes:
        lines = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
        parts.append("\n".join(textwrap.fill(line, 100, subsequent_indent="    ") for line in lines))
    return "\n\n".join([*parts, summarise(entries)])


def to_markdown(entries: Sequence[Entry], provenance: Mapping[str, str], figures: Sequence[PlottedFigure] = ()) -> str:
    """Return Markdown with a summary, explanations, a table for each file, figures and provenance."""
    overview = render_table(*count_by_file(entries), "markdown")
    parts = [f"# {TITLE}", f"{summarise(entries)}.", overview]
    notes = list_explanations(entries)
    if notes:
        parts += ["## Known differences", "\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    for file, own in _group_by_file(entries):
        names = list(dict.fromkeys(name for entry in own for name in entry.labels))
        header = [*names, "published", "computed", "relative difference", "verdict", "runs"]
        body = [[*(entry.labels.get(name, "") for name in names), *_describe_outcome(entry, notes)] for entry in own]
        table = render_table(header, [[" ".join(cell.split()) for cell in row] for row in body], "markdown")
        parts += [f"## {file}: {_list_tables(own)}", f"{summarise(own)}.", table]
    for each in figures:
        parts += [f"## {each.title}", f"![{each.alt}]({each.name}.png)", each.caption]
    origin = "\n".join(f"- {name}: {text}" for name, text in provenance.items())
    parts += ["## Provenance", *([origin] if origin else []), f"Reproduce: `{COMMAND}`"]
    return "\n\n".join(parts) + "\n"


def to_csv(entries: Sequence[Entry]) -> str:
    """Return CSV with one row for each published number, and computed values in full precision."""
    body = [
        [
            entry.file, entry.table, "; ".join(f"{name}={value}" for name, value in entry.labels.items()),
            entry.published, entry.computed if isinstance(entry.computed, str) else repr(float(entry.computed)),
            repr(float(entry.relative_difference)), str(entry.measure), str(entry.verdict), entry.known,
            str(entry.n_ok), str(entry.n_planned),
        ]
        for entry in entries
    ]  # fmt: skip
    return render_table(CSV_COLUMNS, body, "csv") + "\n"


def _group_by_file(entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    files = dict.fromkeys(entry.file for entry in entries)
    return [(file, [entry for entry in entries if entry.file == file]) for file in files]


def _list_tables(entries: Sequence[Entry]) -> str:
    return ", ".join(dict.fromkeys(entry.table for entry in entries))


def _describe_outcome(entry: Entry, notes: Sequence[str]) -> list[str]:
    """Return the cells "published" to "runs" of an entry, and the number of the explanation in the verdict."""
    difference = entry.relative_difference
    relative = _format_power(difference, "+.1e") if math.isfinite(difference) else "—"
    verdict = f"{entry.verdict} (known)" if entry.known else str(entry.verdict)
    if entry.measure is Measure.bound and entry.verdict is Verdict.all_digits:
        verdict = "within the printed bound"
    known = " ".join(entry.known.split())
    note = f" [{notes.index(known) + 1}]" if known in notes else ""
    runs = f"{entry.n_ok}/{entry.n_planned}"
    return [entry.published, format_computed(entry.published, entry.computed), relative, verdict + note, runs]
