"""Define designs: dimensions along which several parameters change together.

`zip_axes`, `sample` and `table` define a design in Python.  `read_designs` reads all designs of a study.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from evogt_study.errors import InputError, StudyError, shorten
from evogt_study.storage.untrusted import read_text
from evogt_study.study.case_space import MAX_CASES, Axis
from evogt_study.study.model import PointsTable, SeedRange, StudyModel, ZipTable
from evogt_study.study.parameter_values import Declared, SourceLocation, list_values, round_digits
from evogt_study.study.sampled import read_sample, warn_of_count

LINEAR_DIGITS = 15
"""Significant digits of values in equal steps, so that 0.1 + 2 * 0.1 is 0.3."""
SLACK = 1e-9
"""Part of a step that rounding may lose, so that the range still reaches `to`: 10 * 0.1 is 1."""
SECTION = "table_files"
DELIMITERS = (";", "\t", ",")
"""Separators of cells.  The first of them in the header counts.  Spreadsheets write them by country."""
_TRUTH = {"true": True, "false": False}
# from the narrowest: every int is a float too
_KINDS = (int, float, lambda cell: _TRUTH[cell.strip().lower()])
"""Types of a column, if all of its cells have the type.  Otherwise the cells are strings."""


def read_zip(table: ZipTable, declared: Declared, place: SourceLocation) -> Axis:
    """Return parameters that change along one dimension.  Raises StudyError."""
    lists = {name: read_list(raw, place.at(name)) for name, raw in table.parameters.items()}
    if len(lists) < 2:
        message = f"`{table.name}` must have at least two parameters, got {', '.join(lists) or 'none'}"
        raise place.error(message, "one belongs in [axes]")
    first, length = next((name, len(values)) for name, values in lists.items())
    for name, values in lists.items():
        if len(values) != length:
            message = f"`{name}` must have as many values as `{first}`, {length}"
            raise place.at(name).error(f"{message}, got {len(values)}: {shorten(values)}")
    return _make_axis(table.name, "zip", lists, declared, place)


def read_list(raw: Any, place: SourceLocation) -> list[Any]:
    """Return the values of a list, of objects under names or of a range.  Raises StudyError."""
    values = list_values(raw)
    if values is None and isinstance(raw, dict):
        if "from" in raw or "to" in raw:
            return read_range(raw, place)
        try:
            return SeedRange.model_validate(raw).values
        except ValueError:  # pydantic's ValidationError is one
            wanted = f"{{ start = integer >= 0, count = integer >= 1 and at most {MAX_CASES:,} }}"
            wanted = f"a list, or {wanted}, {{ from, to, count }} or {{ from, to, step }}"
            raise place.mistake(wanted, raw, name=place.where) from None
    if not values:
        raise place.mistake("a list of values", raw, "one value belongs in [constants]")
    return values


def read_listed(
    files: Mapping[str, Sequence[str]], table: PointsTable, declared: Declared, place: SourceLocation
) -> Axis:
    """Return points that are listed row by row, here or in a file.  Raises StudyError."""
    if (table.rows is None) == (table.file is None):
        got = "neither" if table.rows is None else "both"
        raise place.error(f"`{table.name}` must have `rows` or `file`, got {got}")
    if table.file is not None:
        if table.file not in files:
            raise place.at("file").mistake("a file whose content is in [table_files]", table.file)
        return _make_axis(table.name, "table", parse_table(files[table.file], table.file, place), declared, place)
    rows, place_of_rows = table.rows or [], place.at("rows")
    if not rows or not rows[0]:
        raise place_of_rows.mistake("a list of at least one table of parameters", rows)
    names = dict.fromkeys(name for row in rows for name in row)
    for number, row in enumerate(rows):
        if missing := [name for name in names if name not in row]:
            raise place_of_rows.at(number).error(f"`{missing[0]}` must be given in every row, got none")
    return _make_axis(table.name, "table", {name: [row[name] for row in rows] for name in names}, declared, place)


def _make_axis(
    name: str, kind: str, lists: Mapping[str, Sequence[Any]], declared: Declared, place: SourceLocation
) -> Axis:
    columns = {each: declared.column(each, values, place.at(each)) for each, values in lists.items()}
    count = len(next(iter(columns.values())))
    description = json.dumps({"kind": kind, "count": count, "parameters": {each: {} for each in columns}})
    return Axis(name, tuple(range(count)), columns, description=description)


def read_range(raw: dict[str, Any], place: SourceLocation) -> list[int | float]:
    """Return the values of a range by count or step, which are integers if all are integral.  Raises StudyError."""
    required, optional = (("step",), ()) if "step" in raw else (("count",), ("scale",))
    place.check_keys(raw, ("from", "to", *required), optional)
    low, high, is_log = place.interval(raw)
    is_whole = isinstance(low, int) and isinstance(high, int)
    if "step" in raw:
        step = place.number(raw, "step")
        if step <= 0:
            raise place.at("step").mistake("above 0", step)
        steps = (high - low) / step + SLACK
        if steps >= MAX_CASES:
            raise place.at("step").mistake(f"at least {(high - low) / MAX_CASES:g}, for {MAX_CASES:,} values", step)
        is_whole = is_whole and isinstance(step, int)
        inner = [low + number * step for number in range(1, int(steps) + 1)]
        values = [low, *(inner if is_whole else [round_digits(value, LINEAR_DIGITS) for value in inner])]
    else:
        count = raw["count"]
        if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= MAX_CASES:
            wanted = f"an integer from 2 to {MAX_CASES:,}"
            raise place.at("count").mistake(wanted, count, "one value belongs in [constants]")
        start, width = (math.log(low), math.log(high) - math.log(low)) if is_log else (low, high - low)
        inner = [start + number / (count - 1) * width for number in range(1, count - 1)]
        if is_log:
            inner = [round_digits(math.exp(value)) for value in inner]
        else:
            inner = [round_digits(value, LINEAR_DIGITS) for value in inner]
        values = [low, *inner, high]  # the ends as they are written: computed they would be rounded
    near = [round(value) for value in values]
    if is_whole and all(abs(value - integer) <= SLACK for value, integer in zip(values, near, strict=True)):
        return list(near)
    return [float(value) for value in values]


def read_files(model: StudyModel, file: str) -> dict[str, list[str]]:
    """Return the lines of each file beside `file` that a table names and the study does not contain, by its name."""
    names = dict.fromkeys(each.file for each in model.table if each.file is not None)
    try:
        return {
            name: read_text(Path(file).parent / name, "the table", StudyError).splitlines()
            for name in names
            if name not in model.table_files
        }
    except StudyError as error:
        raise StudyError(f"{error} ({file}, table.file)") from None


def parse_table(lines: Sequence[str], name: str, place: SourceLocation) -> dict[str, list[Any]]:
    """Return the columns of a CSV file by its header, as numbers if all cells are numbers.  Raises StudyError."""
    place = place.at("file")
    first = next((line for line in lines if line.strip()), "")
    # strict: a quote that is not closed would swallow the rows behind it
    reader = csv.reader(lines, delimiter=next((each for each in DELIMITERS if each in first), ","), strict=True)
    try:
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise place.error(f"{name} must be a table of CSV, got one in which {error}") from None
    if len(rows) < 2:
        raise place.error(f"{name} must have a header and at least one row, got {len(lines)} lines")
    names = [cell.strip() for cell in rows.pop(0)[1]]
    if "" in names or len(set(names)) < len(names):
        raise place.error(f"{name} must have a header of different names, got {shorten(names)}")
    for line, cells in rows:
        if len(cells) != len(names) or not all(cell.strip() for cell in cells):
            wanted = f"{name} must have {len(names)} values in each row"
            raise place.error(f"{wanted}, got {shorten(cells)} in line {line}")
    columns = zip(*(cells for _, cells in rows), strict=True)
    found = {}
    for column, cells in zip(names, columns, strict=True):
        for kind in (*_KINDS, str.strip):
            with suppress(ValueError, KeyError):
                found[column] = [kind(cell) for cell in cells]
                break
    return found


NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
SECTIONS = ("zip", "sample", "table")


@dataclass(frozen=True)
class StatedDesign:
    """A design, by the `section` of a study file that states it, and that section's keys."""

    section: str
    table: Mapping[str, Any]


def zip_axes(name: str, /, **parameters: Any) -> StatedDesign:
    """Return a dimension along which several parameters change together.

    Parameters
    ----------
    name : str
        Name of the dimension.
    **parameters
        List of values of each parameter; all lists have one length.

    Returns
    -------
    StatedDesign
        Design for the argument `designs` of `Study`, which checks it.

    Examples
    --------
    >>> zip_axes("level", N=[20, 40], quadrature=[100, 200]).section
    'zip'
    """
    return StatedDesign("zip", {"name": name, **parameters})


def sample(name: str, /, rule: str, count: int, **more: Any) -> StatedDesign:
    """Return a dimension of points that are drawn in a box.

    Parameters
    ----------
    name : str
        Name of the dimension.
    rule : str
        "sobol", "halton", "latin_hypercube", "random", "saltelli" or "morris".
    count : int
        Number of points, of base points of "saltelli", or of trajectories of "morris".
    **more
        `sample_seed`, `start`, `second_order` and `levels`, and the distribution of each parameter as a
        study file has it.

    Returns
    -------
    StatedDesign
        Design for the argument `designs` of `Study`, which checks it.

    Examples
    --------
    >>> design = sample("point", "sobol", 512, gamma={"from": 2, "to": 30, "scale": "log"}, k={"choice": [1, 2]})
    """
    return StatedDesign("sample", {"name": name, "rule": rule, "count": count, **more})


def table(name: str, /, points: Any) -> StatedDesign:
    """Return a dimension of points that are listed.

    Parameters
    ----------
    name : str
        Name of the dimension.
    points : iterable of mappings, DataFrame, str or Path
        Values of the parameters at each point, or a CSV file with a column for each parameter.

    Returns
    -------
    StatedDesign
        Design for the argument `designs` of `Study`, which checks it.

    Raises
    ------
    InputError
        If `points` is none of these.

    Examples
    --------
    >>> design = table("case", [{"N": 20, "tau": 1e-8}, {"N": 40, "tau": 1e-12}])
    """
    if isinstance(points, (str, PathLike)):
        return StatedDesign("table", {"name": name, "file": fspath(points)})
    if hasattr(points, "to_dict"):  # pandas need not be installed
        points = points.to_dict(orient="records")
    if not isinstance(points, Iterable) or isinstance(points, Mapping):
        raise InputError(f"`points` must be a list of mappings, a data frame or a file, got {shorten(points)}")
    return StatedDesign("table", {"name": name, "rows": list(points)})


def read_designs(table: StudyModel, declared: Declared, *, warn: bool) -> tuple[Axis, ...]:
    """Return the index axes of a study.  warn: give an `AccuracyWarning` for an unbalanced sequence."""
    owners = {name: f"axes.{name}" for name in table.axes} | {name: f"constants.{name}" for name in table.constants}
    readers: dict[str, Callable[[Any, Declared, SourceLocation], Axis]] = {
        "zip": read_zip, "sample": read_sample, "table": partial(read_listed, table.table_files)
    }  # fmt: skip
    every = []
    for section, read in readers.items():
        for number, design in enumerate(getattr(table, section)):
            place = declared.place(section).at(number)
            axis = read(design, declared, place)
            if not NAME.fullmatch(axis.name):
                raise place.at("name").mistake("made of letters, digits and _, and begin with a letter", axis.name)
            if axis.name in declared.method.parameters:
                message = f"`{axis.name}` must be a new name for the dimension, got the name of a parameter"
                raise place.at("name").error(message)
            declared.check_free(axis.name, place.at("name"), "dimension")
            for name in (axis.name, *axis.parameters):
                if name in owners:
                    raise place.at(name).error(f"`{name}` must be given once, got it in {owners[name]} too")
                owners[name] = f"{place.where}.{name}"
            every.append(axis)
    for number, sample in enumerate(table.sample if warn else ()):
        warn_of_count(sample, declared.place("sample").at(number))
    return tuple(every)
