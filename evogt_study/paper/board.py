"""The board: problems that others have published, solved by several methods at equal time and at equal error.

A study of the board has the axes `method`, `level` and `seed`, and the variables `error`, `error_joint` (all fields in
one norm), `seconds` (CPU time), `unknowns` and `reference_error`.  Published values enter the table only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from evogt_study.analysis.tables import render_table
from evogt_study.errors import InputError
from evogt_study.paper.published import Results, read_csv
from evogt_study.storage.atomic import write_file

PUBLISHED = "board.csv"
OWN = "gtransnet"
"""The method that the other methods are compared with."""
VARIABLES = ("error", "error_joint", "seconds", "unknowns", "reference_error")
NOTHING = "—"
ROWS = "<!-- all rows -->"
"""Separates the summary from the tables of the rows, for pages that include one of them."""
SUMMARY = (
    "problem", "published best", "gtransnet: error", "in one norm", "CPU s", "best other: error in no more seconds",
    "gtransnet over best other", "fastest other: CPU s for no more error", "error of reference",
)  # fmt: skip
METHODS = ("method", "unknowns", "error", "CPU s", "least error in no more seconds", "least CPU s for no more error")


@dataclass(frozen=True)
class MethodLevels:
    """Medians over the seeds of one method, one entry for each level whose runs are ok."""

    name: str
    errors: tuple[float, ...]
    joint: tuple[float, ...]
    seconds: tuple[float, ...]
    unknowns: tuple[float, ...]

    @property
    def best(self) -> int:
        """The level with the smallest error."""
        return int(np.argmin(self.errors))

    def find_least_error(self, seconds: float) -> float:
        """Return the smallest error in no more than `seconds`; NaN if each level takes more."""
        return min((e for e, s in zip(self.errors, self.seconds, strict=True) if s <= seconds), default=math.nan)

    def find_least_seconds(self, error: float) -> float:
        """Return the shortest time for no more than `error`; NaN if no level has so small an error."""
        return min((s for e, s in zip(self.errors, self.seconds, strict=True) if e <= error), default=math.nan)


@dataclass(frozen=True)
class BoardRow:
    """One problem: its published value with its source, the methods, and the error of the reference."""

    study: str
    published: Mapping[str, str]
    methods: tuple[MethodLevels, ...]
    reference_error: float

    @property
    def own(self) -> MethodLevels:
        """The method of the paper."""
        return next(each for each in self.methods if each.name == OWN)

    @property
    def budget(self) -> float:
        """CPU seconds of the best level of the paper's method."""
        return self.own.seconds[self.own.best]

    @property
    def target(self) -> float:
        """Smallest error of the paper's method."""
        return self.own.errors[self.own.best]

    def find_best_other(self) -> tuple[str, float]:
        """Return the other method with the smallest error in no more seconds than the paper's method."""
        found = {each.name: each.find_least_error(self.budget) for each in self.methods if each.name != OWN}
        return min(found.items(), key=lambda item: (math.isnan(item[1]), item[1]))

    def find_fastest_other(self) -> tuple[str, float]:
        """Return the other method that needs the shortest time for no more error than the paper's method."""
        found = {each.name: each.find_least_seconds(self.target) for each in self.methods if each.name != OWN}
        return min(found.items(), key=lambda item: (math.isnan(item[1]), item[1]))


def read_board(folder: Path, results: Results) -> list[BoardRow]:
    """Return a row for each published problem among the results, in the order of the published file.

    Raises InputError if the file cannot be read, or a result is no study of the board.
    """
    return [_read_row(row, results[row["study"]]) for row in check_board(folder) if row["study"] in results]


def check_board(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the published file.  Raises InputError if it cannot be read."""
    return read_csv(folder / PUBLISHED, "study", "problem", "published", "by", "source", "note")


def _read_row(published: Mapping[str, str], data: xr.Dataset) -> BoardRow:
    study = published["study"]
    lacking = [name for name in VARIABLES if name not in data] + [
        name for name in ("method", "level", "seed") if name not in data.dims
    ]
    if lacking or OWN not in data["method"].values:
        raise InputError(f"the result {study} must have {lacking[0] if lacking else f'the method {OWN}'}")
    medians = data[list(VARIABLES)].median("seed")  # a level with no run that is ok is NaN
    methods = []
    for name in data["method"].values.tolist():
        values = {key: medians[key].sel({"method": name}).values for key in VARIABLES}
        ok = np.isfinite(values["error"])
        if ok.any():
            parts = (tuple(values[key][ok].tolist()) for key in VARIABLES[:4])
            methods.append(MethodLevels(name, *parts))
    return BoardRow(study, published, tuple(methods), float(data["reference_error"].max()))


def summarise_board(rows: Sequence[BoardRow]) -> list[list[str]]:
    """Return the cells of the summary: one line for each problem."""
    body = []
    for row in rows:
        best, error = row.find_best_other()
        fastest, seconds = row.find_fastest_other()
        value = row.published["published"]
        body.append([
            row.published["problem"], f"{value} ({row.published['by']})" if value else "no number published",
            _power(row.target), _power(min(row.own.joint)), _seconds(row.budget),
            NOTHING if math.isnan(error) else f"{best}: {_power(error)}",
            NOTHING if math.isnan(error) else _factor(row.target / error),
            NOTHING if math.isnan(seconds) else f"{fastest}: {_seconds(seconds)}",
            _power(row.reference_error) if row.reference_error else "exact solution",
        ])  # fmt: skip
    return body


def describe_methods(row: BoardRow) -> list[list[str]]:
    """Return the cells of one problem: one line for each method, at its best level."""
    body = []
    for each in row.methods:
        error, seconds = each.find_least_error(row.budget), each.find_least_seconds(row.target)
        body.append([
            each.name, f"{each.unknowns[each.best]:.0f}", _power(each.errors[each.best]),
            _seconds(each.seconds[each.best]), NOTHING if math.isnan(error) else _power(error),
            NOTHING if math.isnan(seconds) else _seconds(seconds),
        ])  # fmt: skip
    return body


def format_board(rows: Sequence[BoardRow]) -> str:
    """Return the tables as Markdown: the summary, then one table for each problem."""
    parts = [
        "<!-- made by: evogt reproduce --board -->",
        render_table(SUMMARY, summarise_board(rows), "markdown"),
        ROWS,
    ]
    for row in rows:
        source, note = row.published["source"], row.published["note"]
        value = row.published["published"] or "no number published"
        parts += [
            f"## {row.published['problem']}",
            f"Published: {value} ({note}). Source: {source}. Study: `studies/board/{row.study}.toml`.",
            render_table(METHODS, describe_methods(row), "markdown"),
        ]
    return "\n\n".join(parts) + "\n"


def write_board(rows: Sequence[BoardRow], folder: Path) -> list[Path]:
    """Write the tables as Markdown, and all levels of all methods as CSV; return the paths."""
    header = ["study", "method", "unknowns", "error", "error_joint", "seconds", "published", "source"]
    body = [
        [row.study, each.name, f"{n:.0f}", f"{e:.6g}", f"{j:.6g}", f"{s:.3g}", row.published["published"],
         row.published["source"]]
        for row in rows
        for each in row.methods
        for n, e, j, s in zip(each.unknowns, each.errors, each.joint, each.seconds, strict=True)
    ]  # fmt: skip
    files = {"board.md": format_board(rows), "board.csv": render_table(header, body, "csv") + "\n"}
    for name, text in files.items():
        write_file(folder / name, text.encode(), tidy=True)
    return [folder / name for name in files]


def _power(value: float) -> str:
    return f"{value:.1e}".replace("e-0", "e-").replace("e+00", "")


def _factor(value: float) -> str:
    return f"{value:.2g}" if value < 100.0 else f"{float(f'{value:.2g}'):,.0f}"


def _seconds(value: float) -> str:
    return f"{value:.2g}"
