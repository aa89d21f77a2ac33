"""Declare the variables of a result file: run metadata, reserved names and accuracy warnings.

A variable of a user function needs no declaration, because its record holds the attributes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import AccuracyWarning, ParameterError, warn
from evogt_study.errors import Status as Status

if TYPE_CHECKING:
    import xarray as xr

CONTENT = "coverage_content_type"
"""ACDD attribute that classifies a variable by an ISO 19115-1 code, such as "modelResult"."""
MODEL_RESULT, QUALITY, AUXILIARY = "modelResult", "qualityInformation", "auxiliaryInformation"
LABEL, LIMIT, WARNING, HEADLINE = "label", "warning_limit", "warning", "headline"
"""Names of attributes of a variable that the conventions CF and ACDD do not define."""
BETTER, ESTIMAND = "better", "estimand"
"""Names of the attributes with the better direction, and with the quantity that comparisons estimate."""
LOWER, HIGHER, NEAREST = "lower", "higher", "nearest"
WIN, GEOMETRIC_MEAN, MEAN = "win", "geometric_mean", "mean"
_ESTIMANDS = (WIN, GEOMETRIC_MEAN, MEAN)
TRUTH_MEANINGS = "false true"
"""Value of the CF attribute `flag_meanings` of a boolean variable, which a file stores as numbers."""
DESIGN = "design"
"""Name of the attribute that describes a design in JSON: the rule, the number of points and the distributions."""
RETURNED_DTYPE = "returned_dtype"
"""Name of the attribute with the original dtype, such as float16, of values that NetCDF stores in another dtype."""
CANDIDATE = "candidate"
"""Name of the axis of a pilot that numbers the candidate values.  The axis is not a parameter."""
MAIN, PILOT = "main", "pilot"
EARLIER_PHASES = (PILOT,)
"""Names of the phases that may precede the main phase."""
LONGEST_NAME = 240
"""Maximum number of bytes of a name in UTF-8.  netCDF4 reads up to 255 bytes, and a result may append a suffix."""
HDF5_ATTRIBUTES = frozenset({"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"})
"""Names of attributes in which HDF5 stores dimensions."""
RESERVED_REASON = "the result file uses this name"


@dataclass(frozen=True)
class Variable:
    """Declaration of a variable of the result file.

    `dims` lists the dimensions after the axes of the study.  Values above `limit` may be inaccurate, and `warning`
    gives the reason and the remedy.  `label` is a short text for figures, with mathematics between dollar signs.  A
    study shows the variable with `headline` 1 by default, and never shows a variable with `headline` 0 by default.
    `is_determined` is false if rounding affects the values, such as the signs of vectors.
    """

    name: str
    long_name: str
    comment: str = ""
    dims: tuple[str, ...] = ()
    units: str = "1"
    content: str = MODEL_RESULT
    limit: float = math.inf
    warning: str = ""
    label: str = ""
    headline: int | None = None
    is_determined: bool = True
    better: str = ""
    estimand: str = ""

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes that describe the variable in a result file."""
        written: dict[str, Any] = {
            "long_name": self.long_name, "units": self.units, "comment": self.comment, CONTENT: self.content,
            LABEL: self.label, BETTER: self.better, ESTIMAND: self.estimand,
        }  # fmt: skip
        written = {key: text for key, text in written.items() if text}
        if self.limit < math.inf:
            written |= {LIMIT: self.limit, WARNING: self.warning}
        return written if self.headline is None else {**written, HEADLINE: self.headline}


def read_direction(array: xr.DataArray) -> tuple[str, str]:
    """Return the attributes `better` and `estimand` of a variable, or "" for an invalid or missing attribute."""
    better, estimand = (str(array.attrs.get(name, "")) for name in (BETTER, ESTIMAND))
    try:
        parse_better(better)
    except ParameterError:
        better = ""
    return better, estimand if estimand in _ESTIMANDS else ""


def to_losses(values: npt.NDArray[np.float64], better: str) -> npt.NDArray[np.float64]:
    """Convert values to losses, so that lower is better.  Without a direction, return the values unchanged."""
    direction, target = parse_better(better)
    return -values if direction == HIGHER else np.abs(values - target) if direction == NEAREST else values


def parse_better(text: str) -> tuple[str, float]:
    """Return the direction and the target in a text such as "nearest 0.95".  Raises ParameterError."""
    direction, _, rest = text.strip().partition(" ")
    if direction in ("", LOWER, HIGHER) and not rest:
        return direction, 0.0
    with suppress(ValueError):
        if direction == NEAREST and math.isfinite(target := float(rest)):
            return direction, target
    raise ParameterError(BETTER, '"lower", "higher" or "nearest 0.95"', text)


STATUS_NAMES = np.array([status.name for status in Status], dtype=object)
STATUS_FLAGS: dict[str, Any] = {
    "flag_values": np.array(list(Status), dtype=np.int8),
    "flag_meanings": " ".join(status.name for status in Status),
}
"""CF attributes of the variable `run_status` in a result file."""


def to_status(status: xr.DataArray | xr.Variable) -> npt.NDArray[np.int8]:
    """Convert statuses to their numbers, or to -1 for a string that is not a status."""
    values = np.asarray(status.values)
    if values.dtype.kind not in "OUST":
        return values.astype(np.int8)
    codes = np.full(values.shape, -1, dtype=np.int8)
    for each in Status:
        codes[values == each.name] = each
    return codes


FINAL_STATUSES = (Status.ok, Status.diverged)
"""Statuses of runs that another attempt cannot change."""
OUTPUT = "run_output"
"""Name of the variable with the printed output of the runs, which a result may omit."""
RUN_METADATA = {
    variable.name: variable
    for variable in (
        Variable("run_status", "status of the run", "only runs with status ok have values", (), "", QUALITY),
        Variable("run_message", "message of the run, empty if it is ok", "exception and text, one line", (), "",
                 QUALITY),
        Variable(OUTPUT, "output of the run", "its first and last 8 kB; absent if no run printed anything",
                 content=AUXILIARY),
        Variable("run_attempts", "number of attempts of the run", "0 if it was not run", content=AUXILIARY),
        Variable("run_seconds", "wall time of the run", "its own time plus its share of shared stages", (), "s",
                 AUXILIARY, label="wall time"),
        Variable("run_key", "run key: hash of the method, the problem, the parameters and the recorded output",
                 "equal keys are the same computation; empty if no run is planned", (), "", AUXILIARY),
        Variable("run_software", "index of the version set that computed the run",
                 "position in this variable's attribute software_sets (a JSON list); -1 if it was not run",
                 content=AUXILIARY),
    )
}  # fmt: skip
COORDINATES = {
    variable.name: variable
    for variable in (
        Variable("candidate", "index of the candidate value", content=""),
        Variable("precision_seeds", "number of seeds at the last decision of the target precision", content=""),
        Variable("precision_half_width", "half width of the confidence interval at this decision", content=""),
        Variable("precision_reason", "reason to add no more seeds", units="", content=""),
    )
}
"""Declarations of the coordinates of a pilot, and of a study with a target precision."""
RUN_PREFIX = "run_"
"""Prefix of the names of run metadata, such as "run_status"."""


def find_group_name(phase: str) -> str | None:
    """Return the name of the group of a phase in a result file, or None for the main phase in the root group."""
    return None if phase == MAIN else RUN_PREFIX + phase


_RESERVED = frozenset({*RUN_METADATA, *map(find_group_name, EARLIER_PHASES)})
"""Names that a user function cannot use, because each result file uses them."""


def explain_reserved_name(name: str) -> str | None:
    """Return the reason why a variable, dimension or parameter cannot have a name, or None for a valid name."""
    if name in _RESERVED:
        return RESERVED_REASON
    if re.fullmatch(r"string\d+", name):
        return "xarray uses this name for the characters of strings"
    if name.startswith("_nc4_non_coord_"):
        return "NetCDF removes the beginning of this name"
    if len(name.encode()) > LONGEST_NAME:
        return f"a name in a result file has at most {LONGEST_NAME} bytes"
    return None


def can_store_attribute(name: str) -> bool:
    """Return True if a NetCDF file can store an attribute with this name.  NetCDF reserves a leading underscore."""
    return not name.startswith("_") and name not in HDF5_ATTRIBUTES and len(name.encode()) <= LONGEST_NAME


def list_accuracy_warnings(data: xr.Dataset) -> Iterator[str]:
    """Yield one line for each variable with values above its limit: number of runs, maximum and warning."""
    for name in data.data_vars:
        variable = data.variables[name]  # faster: a DataArray takes 1 ms if there are 2,000 variables
        if LIMIT not in variable.attrs or variable.dtype.kind not in "iuf":
            continue
        values, limit = variable.values, float(variable.attrs[LIMIT])
        count = _count_runs(data, values > limit)  # NaN, for a missing value, is not above the limit
        if count:
            ok = _count_runs(data, to_status(data["run_status"]) == Status.ok) if "run_status" in data else 1
            message = f"in {count:,} of {ok:,} runs, the largest {np.nanmax(values):.3g}"
            yield f"{name} is above {limit:g} ({message}): {variable.attrs.get(WARNING, '')}"


def _count_runs(data: xr.Dataset, where: npt.NDArray[np.bool_]) -> int:
    return len(np.unique(data["run_key"].values[where])) if "run_key" in data else int(np.count_nonzero(where))


def warn_of_accuracy(data: xr.Dataset) -> None:
    """Issue an `AccuracyWarning` for each line of `list_accuracy_warnings`."""
    for line in list_accuracy_warnings(data):
        warn(line, AccuracyWarning)
