"""Write the runs of a result as a flat table, one row for each run, for spreadsheets, R and data frames."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from evogt_study.errors import InputError, ResultError
from evogt_study.schema.variables import BOOKKEEPING, STATUS_NAMES, status_codes
from evogt_study.storage.atomic import written_whole
from evogt_study.storage.untrusted import hash_file
from evogt_study.text import shown

SUFFIXES = (".csv", ".parquet")
FIRST = ("run_status", "run_message")
"""Run metadata that comes right after the parameters.  The rest comes last."""
FORMULA = tuple("=+-@＝＋－＠")  # also the wide forms
"""First characters of cells that spreadsheets compute (OWASP, CSV injection)."""
Column = npt.NDArray[Any]


def run_table(data: xr.Dataset) -> dict[str, Column]:
    """Return the columns of the table, with one entry for each planned case, in the order of the axes.

    The columns are the axes, dependent parameters, constants, the name of the status, the message, the variables with
    one value for each run, attempts, wall_seconds, run_key and software.  A missing value is NaN, or None among
    integers.
    """
    axes = list(map(str, data["run_status"].dims))
    planned = np.flatnonzero(data["run_key"].values.ravel() != "")
    shape = data["run_status"].shape
    names = [*axes, *_parameters(data, axes), *FIRST, *_scalars(data, axes)]
    names += [name for name in BOOKKEEPING if name not in FIRST]
    return {name: _column(data, name, axes, shape)[planned] for name in names}


def _parameters(data: xr.Dataset, axes: list[str]) -> Iterator[str]:
    """Coordinates other than the axes that have one value a run: first those that follow axes, then constants."""
    for following in (True, False):
        for name, coord in data.coords.items():
            if (
                name not in axes
                and set(coord.dims) <= set(axes)
                and bool(coord.ndim) is following
                and name not in BOOKKEEPING
            ):
                yield str(name)


def _scalars(data: xr.Dataset, axes: list[str]) -> Iterator[str]:
    """Variables of one value a run, other than bookkeeping."""
    for name, variable in data.data_vars.items():
        if list(variable.dims) == axes and name not in BOOKKEEPING:
            yield str(name)


def _column(data: xr.Dataset, name: str, axes: list[str], shape: tuple[int, ...]) -> Column:
    """The values of a name for each run, in the order of the axes."""
    if name == "run_status":
        return np.asarray(STATUS_NAMES[status_codes(data[name]).ravel()])
    variable = data[name].variable
    present = [axis for axis in axes if axis in variable.dims]
    sizes = [length if axis in present else 1 for axis, length in zip(axes, shape, strict=True)]
    values: Column = np.broadcast_to(variable.transpose(*present).values.reshape(sizes), shape).ravel()
    if values.dtype.kind in "US":
        return values.astype(object)
    if values.dtype.kind == "O":
        return np.array([None if value != value else value for value in values.tolist()], dtype=object)
    # xarray reads integers with gaps as floats; the encoding has the type of the file
    if values.dtype.kind != "f" or np.dtype(variable.encoding.get("dtype", values.dtype)).kind not in "iu":
        return values
    return np.array([None if value != value else int(value) for value in values.tolist()], dtype=object)


def write_table(data: xr.Dataset, path: Path) -> int:
    """Write `run_table` as CSV or Parquet, by the suffix of `path`, whole or not at all.

    Returns the number of runs.  There are more rows if several cases share a run.

    In CSV a missing value is empty, and the text of a number reads back as the same number.  Text that a spreadsheet
    would compute as a formula has an apostrophe before it, and characters that are not printable are escapes.  Parquet
    has all text as it is.  A file with this table stays as it is: an earlier command may have been killed after its
    last write.

    Raises InputError for another suffix, another file at `path`, or if a package for Parquet is missing, and
    ResultError if the disk refuses.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"`--output` must end in {' or '.join(SUFFIXES)}, got {path.name!r}")
    lacking = [name for name in ("pandas", "pyarrow") if path.suffix == ".parquet" and find_spec(name) is None]
    if lacking:
        raise InputError(f"a Parquet file needs {' and '.join(lacking)}: pip install {' '.join(lacking)}; or write CSV")
    columns = run_table(data)
    write = _write_csv if path.suffix == ".csv" else _write_parquet
    try:
        with written_whole(path, tidy=True) as temporary:
            write(columns, temporary)
            if path.exists() and (not path.is_file() or hash_file(path) != hash_file(temporary)):
                raise InputError(
                    f"`--output` must be a new file, got {path}, which exists; choose another place with -o"
                )
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None
    return len(set(columns["run_key"].tolist()))


def _write_csv(columns: Mapping[str, Column], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(_safe, columns))
        writer.writerows(zip(*map(_texts, columns.values()), strict=True))


def _texts(column: Column) -> list[Any]:
    """Return the values for the CSV writer, whose text of a float reads back as the same float."""
    if column.dtype.kind in "Mm":  # as text in ISO 8601
        shown = [str(value) if column.dtype.kind == "M" else pd.Timedelta(value).isoformat() for value in column]
        return ["" if missing else text for text, missing in zip(shown, np.isnat(column), strict=True)]
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f":
        return ["" if value != value else value for value in values]  # only NaN differs from itself
    return list(map(_safe, values))


def _safe(value: Any) -> Any:
    """The value, with an apostrophe before text that begins like a formula and is no number."""
    if not isinstance(value, str):
        return value
    text = shown(value)
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(FORMULA) else text
    return text


def _write_parquet(columns: Mapping[str, Column], path: Path) -> None:
    data_frame(columns).to_parquet(path, engine="pyarrow", index=False)


def data_frame(columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return the table of `run_table` for pandas, with integers with gaps in its type Int64."""
    gaps = [name for name, column in columns.items() if column.dtype.kind == "O" and None in column]
    return pd.DataFrame(columns).astype(dict.fromkeys(gaps, "Int64"))
