"""List the results in a folder, and count the runs that meet conditions."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.analysis.runs import count_status
from evogt_study.errors import Completeness, InputError, ResultError, shorten, suggest
from evogt_study.results.netcdf import open_partial_result
from evogt_study.schema.values import MAX_TEXT_ERROR, to_canonical, to_string
from evogt_study.schema.variables import MAIN, STATUS_NAMES, to_status
from evogt_study.storage.files import description_path

CONDITION_PATTERN = re.compile(r"\s*(\w+)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*")
OPERATORS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


@dataclass(frozen=True)
class Condition:
    """Condition such as n>40 on a parameter, a variable, `status`, `method` or `study`."""

    name: str
    sign: str
    value: str

    def mask(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return a boolean mask of the values that meet the condition.  Unordered values raise InputError."""
        kind = values.dtype.kind
        try:
            value = np.datetime64(self.value) if kind == "M" else float(self.value) if kind in "iuf" else self.value
        except ValueError:
            raise InputError(f"cannot compare `{self.name}` with {self.value!r}. Use a number or a date.") from None
        if self.sign in OPERATORS:
            if kind not in "iufM":
                raise InputError(f"the values of `{self.name}` have no order, got {self.sign}. Use = or !=.")
            return np.asarray(OPERATORS[self.sign](values, value))
        if kind in "iuf":
            same = np.isclose(values, value, rtol=MAX_TEXT_ERROR, atol=0.0)
        elif kind == "M":
            same = values == value
        else:
            same = np.array([self.value in _list_names(each) for each in values.ravel().tolist()]).reshape(values.shape)
        return np.asarray(same if self.sign in ("=", "==") else ~same)


def _list_names(value: object) -> set[str]:
    """Return all texts that select a value: "own.py:method", "own.py", "own" and "method" for a function."""
    text = to_string(to_canonical(value))
    file, _, function = text.rpartition(":") if ".py:" in text else ("", "", "")
    return {text, file, file.removesuffix(".py"), function} - {""} | {text}


def read_conditions(text: str) -> list[Condition]:
    """Parse conditions such as "n>40 and method=own".  Raises InputError for any other text."""
    found = []
    for part in re.split(r"\s+and\s+", text) if text.strip() else ():
        match = CONDITION_PATTERN.fullmatch(part)
        # an operator in a value without quotes starts a second condition
        if match is None or (match[3][0] not in "'\"" and re.search(r"[<>=]|\bor\b", match[3])):
            raise InputError(f"`--where` must be conditions such as 'n>40 and method=own', got {part.strip()!r}")
        found.append(Condition(match[1], match[2], match[3].strip("'\"")))
        if found[-1].name == "status" and found[-1].value not in STATUS_NAMES:
            raise InputError(f"`status` must be one of {', '.join(STATUS_NAMES)}, got {shorten(found[-1].value)}")
    return found


@dataclass(frozen=True)
class ListedResult:
    """Study, method, date, axis lengths and run counts of a result in a folder."""

    path: Path
    study: str
    method: str
    date: str
    is_finished: bool
    axes: Mapping[str, int]
    runs: Completeness


def list_results(folder: Path, conditions: Sequence[Condition] = ()) -> Iterator[ListedResult | str]:
    """Yield each result in a folder with runs that meet all conditions, and an error message for an unreadable file."""
    if not folder.is_dir():
        raise InputError(f"no folder {folder}. Name a folder with results.")
    begun = (path.with_name(path.name.removesuffix(".shards")) for path in folder.glob("*.nc.shards"))
    known: set[str] = set()
    unknown = [each.name for each in conditions]
    for path in sorted({*folder.glob("*.nc"), *begun}):
        try:
            with open_partial_result(path, None if conditions else ()) as groups:
                data = groups[MAIN] if MAIN in groups else next(iter(groups.values()))
                values = _read_values(data)
                known |= values.keys()
                unknown = [name for name in unknown if name not in values]
                found = _list_result(path, data, values, conditions)
        except (ResultError, OSError) as error:
            yield str(error)
            continue
        if found is not None:
            yield found
    if unknown and known:
        raise InputError(f"no result in {folder} has `{unknown[0]}`. {suggest(unknown[0], sorted(known))}")


def _read_values(data: xr.Dataset) -> dict[str, xr.Variable]:
    """Read the variables for conditions: parameters, scalar variables, status, method and study."""
    axes = data["run_status"].dims
    found = {
        str(name): each for name, each in data.variables.items()
        if set(each.dims) <= set(axes) and not str(name).startswith("run_")
    }  # fmt: skip
    status = xr.Variable(axes, STATUS_NAMES[to_status(data["run_status"])])
    method = ""
    with suppress(ValueError):
        method = str(tomllib.loads(str(data.attrs.get("study", ""))).get("method", ""))
    own = {"status": status, "method": xr.Variable((), method), "study": xr.Variable((), data.attrs["id"])}
    return {**own, **found}


def _list_result(
    path: Path, data: xr.Dataset, values: Mapping[str, xr.Variable], conditions: Sequence[Condition]
) -> ListedResult | None:
    """Count the runs of a result that meet the conditions.  Return None if no run meets the conditions."""
    keys = data["run_key"].variable
    meets: xr.Variable = keys != ""
    for each in conditions:
        if each.name not in values:
            return None
        variable = values[each.name]
        meets = meets & xr.Variable(variable.dims, each.mask(variable.values))
    if not meets.any():
        return None
    date = str(data.attrs.get("date_created", ""))
    is_finished = path.exists() and not description_path(path).exists()
    if not is_finished:
        date = datetime.fromtimestamp(description_path(path).stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = data.assign(run_key=keys.copy(data=np.where(meets.values, keys.values, "")))
    axes, method = {str(name): size for name, size in keys.sizes.items()}, str(values["method"].values)
    return ListedResult(path, str(data.attrs["id"]), method, date, is_finished, axes, count_status(kept))
