"""Read the points and ranges that a study lists: ``[[zip]]``, ``[[table]]`` and the CSV files of tables."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evogt_study.errors import StudyError, shortened
from evogt_study.storage.untrusted import read_text
from evogt_study.study.case_space import MAX_CASES, Axis, Points
from evogt_study.study.model import PointsTable, StudyModel, ZipTable
from evogt_study.study.parameter_values import Declared, SourceLocation, stated_entries

# exp and log of different processors differ in the last bits of a double: in 12 digits they agree, and a study has the
# same runs everywhere
DIGITS = 12
"""Significant digits of values that are computed by exponentials, logarithms or quantiles."""
LINEAR_DIGITS = 15
"""Significant digits of values in equal steps, so that 0.1 + 2 * 0.1 is 0.3."""
SLACK = 1e-9
"""Part of a step that rounding may lose, so that the range still reaches `to`: 10 * 0.1 is 1."""
SECTION = "table_files"
DELIMITERS = (";", "\t", ",")
"""Separators of cells; the first of them in the header counts.  Spreadsheets write them by country."""
_TRUTH = {"true": True, "false": False}
# from the narrowest: every int is a float too
_KINDS = (int, float, lambda cell: _TRUTH[cell.strip().lower()])
"""Types of a column, if all of its cells have the type.  Otherwise the cells are strings."""


def read_zip(table: ZipTable, declared: Declared, place: SourceLocation) -> Axis:
    """Parameters that change along one dimension.  Raises StudyError."""
    lists = {name: _list(raw, place.at(name)) for name, raw in table.parameters.items()}
    if len(lists) < 2:
        message = f"`{table.name}` must have at least two parameters, got {', '.join(lists) or 'none'}"
        raise place.error(message, "one belongs in [axes]")
    first, length = next((name, len(values)) for name, values in lists.items())
    for name, values in lists.items():
        if len(values) != length:
            message = f"`{name}` must have as many values as `{first}`, {length}"
            raise place.at(name).error(f"{message}, got {len(values)}: {shortened(values)}")
    return _axis(table.name, "zip", lists, declared, place)


def _list(raw: Any, place: SourceLocation) -> list[Any]:
    values = stated_entries(raw)
    if values is None and isinstance(raw, dict):
        values = spaced(raw, place)
    if not isinstance(values, list) or not values:
        raise place.mistake("a list of values", raw, "one value belongs in [constants]")
    return values


def read_listed(
    files: Mapping[str, Sequence[str]], table: PointsTable, declared: Declared, place: SourceLocation
) -> Axis:
    """Points that are listed row by row, here or in a file.  Raises StudyError."""
    if (table.rows is None) == (table.file is None):
        got = "neither" if table.rows is None else "both"
        raise place.error(f"`{table.name}` must have `rows` or `file`, got {got}")
    if table.file is not None:
        if table.file not in files:
            raise place.at("file").mistake("a file whose content is in [table_files]", table.file)
        return _axis(table.name, "table", rows_of(files[table.file], table.file, place), declared, place)
    rows = table.rows or []
    if not rows or not rows[0]:
        raise place.at("rows").mistake("a list of at least one table of parameters", rows)
    names = dict.fromkeys(name for row in rows for name in row)
    for number, row in enumerate(rows):
        for name in names:
            if name not in row:
                raise place.at("rows").at(number).error(f"`{name}` must be given in every row, got none")
    return _axis(table.name, "table", {name: [row[name] for row in rows] for name in names}, declared, place)


def _axis(name: str, kind: str, lists: Mapping[str, Sequence[Any]], declared: Declared, place: SourceLocation) -> Axis:
    columns = {each: declared.column(each, values, place.at(each)) for each, values in lists.items()}
    count = len(next(iter(columns.values())))
    description = json.dumps({"kind": kind, "count": count, "parameters": {each: {} for each in columns}})
    return Axis(name, tuple(range(count)), Points(columns, 0, description))


def spaced(raw: dict[str, Any], place: SourceLocation) -> list[int | float]:
    """The values of ``{ from, to, count, scale }`` or ``{ from, to, step }``; integers if all are integral.

    Raises StudyError.
    """
    if "step" in raw:
        place.check_keys(raw, ("from", "to", "step"))
        return _stepped(raw, place)
    place.check_keys(raw, ("from", "to", "count"), ("scale",))
    logarithmic = place.logarithmic(raw)
    low, high = place.interval(raw, logarithmic)
    count = raw["count"]
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= MAX_CASES:
        wanted = f"an integer from 2 to {MAX_CASES:,}"
        raise place.at("count").mistake(wanted, count, "one value belongs in [constants]")
    parts = [number / (count - 1) for number in range(count)]
    inner = [_between(low, high, part, logarithmic) for part in parts[1:-1]]
    # the ends as they are written: computed they would be rounded
    return _whole([low, *inner, high], whole=isinstance(low, int) and isinstance(high, int))


def _between(low: float, high: float, part: float, logarithmic: bool) -> float:
    if logarithmic:
        return rounded(math.exp(math.log(low) + part * (math.log(high) - math.log(low))))
    return rounded(low + part * (high - low), LINEAR_DIGITS)


def _stepped(raw: dict[str, Any], place: SourceLocation) -> list[int | float]:
    low, high = place.interval(raw)
    step = place.number(raw, "step")
    if step <= 0:
        raise place.at("step").mistake("above 0", step)
    steps = (high - low) / step + SLACK
    if steps >= MAX_CASES:
        raise place.at("step").mistake(f"at least {(high - low) / MAX_CASES:g}, for {MAX_CASES:,} values", step)
    whole = all(isinstance(number, int) for number in (low, high, step))
    values = [low + number * step for number in range(1, int(steps) + 1)]
    return _whole([low, *(values if whole else [rounded(value, LINEAR_DIGITS) for value in values])], whole)


def _whole(values: list[int | float], whole: bool) -> list[int | float]:
    """The values as integers, if the ends are and all are whole up to rounding; else all as floats."""
    near = [round(value) for value in values]
    if whole and all(abs(value - integer) <= SLACK for value, integer in zip(values, near, strict=True)):
        return list(near)
    return [float(value) for value in values]


def rounded(value: float, digits: int = DIGITS) -> float:
    """`value` to significant digits: values of a range or a sample, which the user did not write."""
    return float(f"{value:.{digits}g}") + 0.0  # no -0.0, which equals 0.0 as a coordinate


def missing_files(model: StudyModel, file: str) -> dict[str, list[str]]:
    """Return the lines of the files that tables name and whose content is not in the study, by name.

    They lie beside `file`.  Raises StudyError if a file cannot be read.
    """
    names = dict.fromkeys(each.file for each in model.table if each.file is not None)
    try:
        return {
            name: read_text(Path(file).parent / name, "the table", StudyError).splitlines()
            for name in names
            if name not in model.table_files
        }
    except StudyError as error:
        raise StudyError(f"{error} ({file}, table.file)") from None


def rows_of(lines: Sequence[str], name: str, place: SourceLocation) -> dict[str, list[Any]]:
    """The columns of a CSV file by its header: numbers if all cells of a column are numbers.  Raises StudyError."""
    place = place.at("file")
    try:
        header, *rows = list(_cells(lines)) or [(1, [])]
    except csv.Error as error:
        raise place.error(f"{name} must be a table of CSV, got one in which {error}") from None
    names = [cell.strip() for cell in header[1]]
    for number, each in enumerate(names):
        if not each or each in names[:number]:
            got = f"{each} twice" if each else "an empty one"
            raise place.error(f"{name} must have a header of different names, got {got}")
    if not rows:
        raise place.error(f"{name} must have a header and at least one row, got {len(lines)} lines")
    for line, cells in rows:
        if len(cells) != len(names):
            raise place.error(f"{name} must have {len(names)} cells in each row, got {len(cells)} cells in line {line}")
        for column, cell in zip(names, cells, strict=True):
            if not cell.strip():
                message = f"got an empty one for `{column}` in line {line}"
                raise place.error(f"{name} must have a value in each cell, {message}")
    columns = zip(*(cells for _, cells in rows), strict=True)
    return {column: _typed(cells) for column, cells in zip(names, columns, strict=True)}


def _cells(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not empty, with its number from 1."""
    first = next((line for line in lines if line.strip()), "")
    delimiter = next((each for each in DELIMITERS if each in first), ",")
    # strict: a quote that is not closed would swallow the rows behind it
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _typed(cells: Sequence[str]) -> list[Any]:
    for kind in _KINDS:
        try:
            return [kind(cell) for cell in cells]
        except (ValueError, KeyError):
            continue
    return [cell.strip() for cell in cells]
