"""Files of listed points (CSV).  Their content becomes a part of the study's text, so that a result has it."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evogt_study.errors import StudyError
from evogt_study.storage.atomic import is_special
from evogt_study.study.designs.place import Place
from evogt_study.study.study_file import quoted

SECTION = "table_files"
DELIMITERS = (";", "\t", ",")
"""What separates cells: the first of them that the header has, as spreadsheets write by country."""
TRUTH = {"true": True, "false": False}
# from the narrowest: every int is a float too
KINDS = (int, float, lambda cell: TRUTH[cell.strip().lower()])
"""What the cells of a column may be, all of them; else they are strings."""


def with_files(text: str, file: str) -> str:
    """The study's text with the content of the files that its tables name, which lie beside `file`.

    A text that names none, or has the content, stays as it is.  Raises StudyError where a file cannot be read.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError):  # the reader of the text says what is wrong
        return text
    listed = table.get("table", [])
    known = table.get(SECTION, {})
    if not isinstance(listed, list) or not isinstance(known, dict):
        return text
    names = [each.get("file") for each in listed if isinstance(each, dict)]
    missing = dict.fromkeys(name for name in names if isinstance(name, str) and name not in known)
    if not missing:
        return text
    head = "" if SECTION in table else f"\n# what the files of [[table]] held\n[{SECTION}]\n"
    # appended and not written anew: the comments and the order of the study file stay
    return text.rstrip("\n") + "\n" + head + "".join(_stated(name, file) for name in missing)


def _stated(name: str, file: str) -> str:
    lines = "".join(f"  {quoted(line)},\n" for line in _lines(name, file))
    return f"{quoted(name)} = [\n{lines}]\n"


def _lines(name: str, file: str) -> list[str]:
    path = Path(file).parent / name
    if is_special(path):
        raise StudyError(f"cannot read the table {path}: it is a pipe or a device ({file}, table.file)")
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()  # spreadsheets write a byte order mark
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"cannot read the table {path}: {reason} ({file}, table.file)") from None


def rows_of(lines: Sequence[str], name: str, place: Place) -> dict[str, list[Any]]:
    """The columns of a CSV file by its header: numbers where all cells of a column are some.  Raises StudyError."""
    try:
        header, *rows = list(_cells(lines)) or [(1, [])]
    except csv.Error as error:
        raise StudyError(f"{name} must be a table of CSV, got one in which {error} ({place.at('file')})") from None
    names = [cell.strip() for cell in header[1]]
    for number, each in enumerate(names):
        if not each or each in names[:number]:
            told = "twice" if each else "an empty one"
            raise StudyError(f"{name} must have a header of different names, got {each} {told} ({place.at('file')})")
    if not rows:
        raise StudyError(f"{name} must have a header and at least one row, got {len(lines)} lines ({place.at('file')})")
    for line, cells in rows:
        if len(cells) != len(names):
            told = f"{len(cells)} cells in line {line}"
            raise StudyError(f"{name} must have {len(names)} cells in each row, got {told} ({place.at('file')})")
        for column, cell in zip(names, cells, strict=True):
            if not cell.strip():
                told = f"an empty one for `{column}` in line {line}"
                raise StudyError(f"{name} must have a value in each cell, got {told} ({place.at('file')})")
    columns = zip(*(cells for _, cells in rows), strict=True)
    return {column: _typed(cells) for column, cells in zip(names, columns, strict=True)}


def _cells(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that has any, with its number from 1."""
    first = next((line for line in lines if line.strip()), "")
    delimiter = next((each for each in DELIMITERS if each in first), ",")
    # strict: a quote that is not closed would swallow the rows behind it
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _typed(cells: Sequence[str]) -> list[Any]:
    for kind in KINDS:
        try:
            return [kind(cell) for cell in cells]
        except (ValueError, KeyError):
            continue
    return [cell.strip() for cell in cells]
