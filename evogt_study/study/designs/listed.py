"""The sections ``[[together]]`` and ``[[table]]`` read into index axes: points that are listed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evogt_study.errors import StudyError, shortened
from evogt_study.study.case_space import Axis, Points
from evogt_study.study.declared_values import Declared
from evogt_study.study.designs.place import Place
from evogt_study.study.designs.ranges import spaced
from evogt_study.study.designs.table_files import rows_of
from evogt_study.study.study_file import PointsTable, TogetherTable


def read_together(table: TogetherTable, declared: Declared, place: Place) -> Axis:
    """Parameters that change along one dimension.  Raises StudyError."""
    lists = {name: _list(raw, place.at(name)) for name, raw in table.parameters.items()}
    if len(lists) < 2:
        got = ", ".join(lists) or "none"
        raise StudyError(
            f"`{table.name}` must have at least two parameters, got {got} ({place}); one belongs in [axes]"
        )
    first, length = next((name, len(values)) for name, values in lists.items())
    for name, values in lists.items():
        if len(values) != length:
            told = f"`{name}` must have as many values as `{first}`, {length}, got {len(values)}: {shortened(values)}"
            raise StudyError(f"{told} ({place.at(name)})")
    return _axis(table.name, "together", lists, declared, place)


def _list(raw: Any, place: Place) -> list[Any]:
    values = spaced(raw, place) if isinstance(raw, dict) else raw
    if not isinstance(values, list) or not values:
        raise place.mistake("a list of values", raw, "one value belongs in [constants]")
    return values


def read_listed(table: PointsTable, files: Mapping[str, Sequence[str]], declared: Declared, place: Place) -> Axis:
    """Points that are listed row by row, here or in a file.  Raises StudyError."""
    if (table.rows is None) == (table.file is None):
        got = "neither" if table.rows is None else "both"
        raise StudyError(f"`{table.name}` must have `rows` or `file`, got {got} ({place})")
    if table.file is not None:
        if table.file not in files:
            raise place.at("file").mistake("a file whose content is in [table_files]", table.file)
        return _axis(table.name, "table", rows_of(files[table.file], table.file, place), declared, place)
    rows = table.rows or []
    if not rows or not rows[0]:
        raise place.at("rows").mistake("a list of at least one table of parameters", rows)
    names = list(rows[0])
    for number, row in enumerate(rows):
        for name in names:
            if name not in row:
                raise StudyError(f"`{name}` must be given in every row, got none ({place}.rows[{number}])")
        for name in row:
            if name not in names:
                raise StudyError(f"`{name}` must be given in every row, got none ({place}.rows[0])")
    return _axis(table.name, "table", {name: [row[name] for row in rows] for name in names}, declared, place)


def _axis(name: str, kind: str, lists: Mapping[str, Sequence[Any]], declared: Declared, place: Place) -> Axis:
    columns = {each: declared.column(each, values, f"{place.where}.{each}") for each, values in lists.items()}
    count = len(next(iter(columns.values())))
    description = json.dumps({"kind": kind, "count": count, "parameters": {each: {} for each in columns}})
    return Axis(name, tuple(range(count)), Points(columns, 0, description))
