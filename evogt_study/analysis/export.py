"""Export a result as a table with one row for each run, and its trajectories on a grid or without gaps."""

import csv
import json
import math
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from evogt_study.errors import InputError, ResultError
from evogt_study.schema.variables import RUN_METADATA, STATUS_NAMES, to_status
from evogt_study.storage.files import hash_file, write_atomically
from evogt_study.text import escape_text

SUFFIXES = (".csv", ".parquet", ".json")
_FIRST = ("run_status", "run_message")  # run metadata after the parameters, before all other metadata
_FORMULA = tuple("=+-@＝＋－＠")  # first characters of formulas in spreadsheets, also in wide form


def run_table(data: xr.Dataset) -> pd.DataFrame:
    """Return a table with one row for each planned case, in the order of the axes."""
    axes = list(map(str, data["run_status"].dims))
    coords = [name for name in data.coords if name not in (*axes, *RUN_METADATA) and {*data[name].dims} <= {*axes}]
    parameters = sorted(coords, key=lambda name: not data[name].ndim)  # parameters that follow axes, then constants
    own = [name for name, each in data.data_vars.items() if [*each.dims] == axes and name not in RUN_METADATA]
    names = [*parameters, *_FIRST, *own, *(name for name in RUN_METADATA if name in {*data.variables} - {*_FIRST})]
    runs = xr.Dataset({name: data[name].variable for name in names}, {axis: data[axis].variable for axis in axes})
    runs["run_status"] = (axes, STATUS_NAMES[to_status(data["run_status"])])
    table = runs.to_dataframe(axes).reset_index()
    # xarray reads integers with gaps as floats, and the encoding keeps the type of the file
    kinds = {name: np.dtype(data[name].encoding.get("dtype", data[name].dtype)).kind for name in table}
    integers = [name for name, kind in kinds.items() if kind in "iu" and data[name].dtype.kind == "f"]
    return table[table["run_key"] != ""].reset_index(drop=True).astype(dict.fromkeys(integers, "Int64"))


def write_table(data: xr.Dataset, path: Path) -> int:
    """Write `run_table` as CSV, Parquet or JSON, by the suffix of `path`, and return the number of runs."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"`--output` must end in {', '.join(SUFFIXES)}, got {path.name!r}")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError("a Parquet file needs pyarrow. Install it with `pip install pyarrow`, or write CSV")
    table = run_table(data)
    try:
        with write_atomically(path, tidy=True) as temporary:
            rows = zip(*(_to_plain(table[name]) for name in table), strict=True)
            if path.suffix == ".parquet":
                table.to_parquet(temporary, engine="pyarrow", index=False)
            elif path.suffix == ".json":  # numbers that are not finite are null
                finite = ([None if isinstance(v, float) and not math.isfinite(v) else v for v in row] for row in rows)
                texts = (json.dumps(dict(zip(table, row, strict=True))) for row in finite)
                temporary.write_text("[" + ",\n".join(texts) + "]\n", encoding="utf-8")
            else:
                with temporary.open("w", newline="", encoding="utf-8") as file:
                    # `csv` writes a float with all digits
                    lines = (map(_escape_spreadsheet_formula, row) for row in ([*table], *rows))
                    csv.writer(file, lineterminator="\n").writerows(lines)
            # a file that has this table already stays as it is
            if path.exists() and (not path.is_file() or hash_file(path) != hash_file(temporary)):
                message = f"`--output` must be a new file, got {path}, which exists"
                raise InputError(f"{message}. Choose another output file.")
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None
    return int(table["run_key"].nunique())


def _to_plain(column: pd.Series) -> list[Any]:
    """Return the values of a column.  Dates and durations become ISO 8601 strings, and missing values become None."""
    if column.dtype.kind in "Mm":
        values = column.to_numpy()
        texts = [str(value) if values.dtype.kind == "M" else pd.Timedelta(value).isoformat() for value in values]
        return [None if missing else text for text, missing in zip(texts, np.isnat(values), strict=True)]
    return [None if pd.isna(value) else value for value in column.tolist()]


def _escape_spreadsheet_formula(value: Any) -> Any:
    """Return a value, with an apostrophe before a string that a spreadsheet reads as a formula."""
    if not isinstance(value, str):
        return value
    text = escape_text(value)
    with suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.startswith(_FORMULA) else text


def on_grid(values: xr.DataArray, along: str, points: npt.ArrayLike, how: str = "previous") -> xr.DataArray:
    """Return each run's trajectory at common points of a coordinate.

    Parameters
    ----------
    values : xarray.DataArray
        Variable of a result, such as ``ds.I`` over (x, seed, event).
    along : str
        Name of a coordinate, such as "t" over (x, seed, event).  Its values must increase along each run.
    points : array_like
        Points of the grid, such as times.
    how : {"previous", "linear"}, default "previous"
        Use the previous value between two points of a run, or interpolate linearly.

    Returns
    -------
    xarray.DataArray
        The values over the other dimensions and `along`.  Points outside the range of a run have missing values.

    Raises
    ------
    InputError
        If the values do not have the coordinate `along`, or `how` is unknown.

    Examples
    --------
    >>> import numpy as np, xarray as xr, evogt_study as evs
    >>> I = xr.DataArray([[1.0, 2.0], [5.0, np.nan]], dims=("seed", "event"))
    >>> I.coords["t"] = ("seed", "event"), [[0.0, 1.5], [0.0, np.nan]]
    >>> evs.on_grid(I, "t", [0, 1, 1.5]).values
    array([[ 1.,  1.,  2.],
           [ 5., nan, nan]])
    """
    if along not in values.coords or not values[along].ndim:
        raise InputError(f"`along` must name a coordinate over a dimension of the variable, got {along!r}")
    if how not in ("previous", "linear"):
        raise InputError(f'`how` must be "previous" or "linear", got {how!r}')
    grid, own = np.asarray(points, dtype=float), values[along].dims[-1]

    def one(t: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        there = ~(np.isnan(t) | np.isnan(y))
        t, y = t[there], y[there]
        if not len(t):
            return np.full(len(grid), np.nan)
        if how == "linear":
            return np.asarray(np.interp(grid, t, y, left=np.nan, right=np.nan))
        before = np.searchsorted(t, grid, "right") - 1
        return np.where((before >= 0) & (grid <= t[-1]), y[before], np.nan)

    found: xr.DataArray = xr.apply_ufunc(
        one, values[along].astype(float), values.drop_vars(along).astype(float), input_core_dims=[[own], [own]],
        output_core_dims=[[along]], exclude_dims={own}, vectorize=True, output_dtypes=[float], keep_attrs=True,
        dask="parallelized", dask_gufunc_kwargs={"output_sizes": {along: len(grid)}, "allow_rechunk": True},
    )  # fmt: skip
    found = found.rename(values.name).assign_attrs(values.attrs)
    return found.assign_coords({along: (along, grid, values[along].attrs)})


def to_ragged(data: xr.Dataset, dim: str) -> xr.Dataset:
    """Return the trajectories of a result in CF's contiguous ragged form.

    This form stores the trajectories one after the other, without gaps.

    Parameters
    ----------
    data : xarray.Dataset
        Result with runs of different lengths along `dim`.
    dim : str
        Dimension, such as "event", or "t_index" if `t` itself differs between runs.

    Returns
    -------
    xarray.Dataset
        Variables along `dim` have the dimension `sample`, and all other variables of runs have the dimension `run`.
        The attribute `sample_dimension` of the count variable `row_size` names `sample` (CF, section 9.3.3).

    Raises
    ------
    InputError
        If runs do not differ in length along `dim`.

    Examples
    --------
    >>> import numpy as np, xarray as xr, evogt_study as evs
    >>> columns = {"event_count": ("seed", [2, 1]), "run_status": ("seed", ["ok", "ok"])}
    >>> data = xr.Dataset({"I": (("seed", "event"), [[1.0, 2.0], [5.0, np.nan]]), **columns})
    >>> evs.to_ragged(data, "event").I.values
    array([1., 2., 5.])
    """
    count = f"{dim.removesuffix('_index')}_count"
    if count not in data:
        raise InputError(f"runs must have different lengths along `{dim}`, got no variable `{count}`")
    axes = [str(axis) for axis in data["run_status"].dims]
    rows = np.flatnonzero(data[count].values.ravel())
    sizes, labels = data[count].values.ravel()[rows], np.indices(data[count].shape).reshape(len(axes), -1)[:, rows]
    there = np.arange(data.sizes[dim]) < sizes[:, None]
    made: dict[str, xr.Variable] = {}
    for name, variable in ((str(name), each) for name, each in data.variables.items() if name not in (count, dim)):
        rest = [each for each in variable.dims if each not in (*axes, dim)]
        own = [axis for axis in axes if axis in variable.dims]
        if dim in variable.dims and own == axes:
            values = variable.transpose(*axes, dim, ...).values
            values = values.reshape(-1, *values.shape[len(axes) :])[rows][there]
            stored = np.dtype(variable.encoding.get("dtype", values.dtype))  # integers, and some were missing
            made[name] = xr.Variable(("sample", *rest), values.astype(stored), variable.attrs)
        elif dim not in variable.dims and own:
            values = variable.transpose(*own, ...).values[tuple(labels[axes.index(axis)] for axis in own)]
            made[name] = xr.Variable(("run", *rest), values, variable.attrs)
        elif dim not in variable.dims:
            made[name] = variable
    described = {"long_name": f"number of values along {dim}", "units": "1", "sample_dimension": "sample"}
    made["row_size"] = xr.Variable("run", sizes.astype(np.int32), described)
    return xr.Dataset(made, attrs=data.attrs).set_coords([name for name in made if name in data.coords])
