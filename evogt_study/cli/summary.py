"""Define the commands `evogt summary`, `compare` and `export`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evogt_study.cli import display, inputs
from evogt_study.cli.inputs import option
from evogt_study.errors import InputError
from evogt_study.inference.intervals import MIN_UNITS
from evogt_study.text import format_count, print_line, print_text

if TYPE_CHECKING:
    import xarray as xr

_ANY_AXIS = "the one there is"  # value of `--orders` without an axis, which no axis can have as its name
STATISTICS_OPTIONS = "variables over at statistics units method confidence min_units missing pilot as_json"


@inputs.make_command([inputs.RESULT_FILE], {
    "What to compute": [
        option("--variable variables", "NAME,...", "Variables to summarise.  [default: the first]", default=()),
        option("--over", "AXIS,...", "Dimensions to reduce, or `none`.  [default: seed]"),
        inputs.AT,
        option("--statistic statistics", "NAME,...",
               "mean, std, median, geometric_mean, min, max or a quantile such as q25.  Add _ci for a confidence "
               "interval or _se for a standard error.  [default: mean,std,ci,median,median_ci; with --columns: "
               "mean,std]", default=()),
        option("--ratio", "A/B",
               "Also print the ratio of means of two values of the --columns axis, paired by seed.", default=""),
        option("--orders", "[AXIS]",
               "Print observed orders of convergence along a numeric axis or a parameter that depends on it.  "
               "[default AXIS: the only one]", is_flag=False, flag_value=_ANY_AXIS),
        option("--sensitivity", "VARIABLE",
               "Print sensitivity indices for the parameters of a sample.  Use `run_status` to explain failures."),
        option("--log", "", "Use the logarithm of the variable for --sensitivity."),
        inputs.PILOT,
    ],
    "Confidence intervals and missing runs": [
        option("--interval method", "METHOD",
               "Method for `ci`: bootstrap-t, student or percentile.  [default: bootstrap-t]", default=""),
        inputs.CONFIDENCE,
        option("--min-units", "N", "Use Student's interval for fewer than N seeds.", default=MIN_UNITS),
        inputs.UNITS,
        option("--missing", "POLICY", "For missing runs: warn, raise an error or drop silently.", default="warn"),
        option("--incomplete", "POLICY", "For seeds with failed runs in pooled means: blocks, setups or omit.",
               default="blocks"),
    ],
    "Table layout": [
        option("--rows", "NAME,...", "Axes and parameters shown as rows.  [default: all others]"),
        option("--columns", "AXIS,...", "Axes shown as columns.  Each cell then holds all statistics.", default=()),
        option("--format form", "FORMAT", "text, markdown, latex or csv.", default="text"),
        option("--digits", "N", "Number of significant digits.", default=4),
        option("--notation", "NAME", "auto (plain from 1e-3 to 1e4), scientific or plain.", default="auto"),
        inputs.JSON,
    ],
    "Other": [],
})  # fmt: skip
def summary(
    file: Path, over: tuple[str, ...] | None, orders: str | None, sensitivity: str | None, log: bool, pilot: bool,
    method: str, confidence: float, min_units: int, digits: int, notation: str, at: Mapping[str, str],
    as_json: bool, **layout: Any,
) -> None:  # fmt: skip
    """Print statistics of a result, by default over the seeds.

    The default table has one row for each setup.  The columns are mean, standard deviation and median with 95 %
    confidence intervals, and the numbers of used and planned runs.
    """
    # raise an error for an option without an effect
    inputs.check_together(json=as_json, orders=orders, sensitivity=sensitivity)
    if sensitivity is not None:
        allowed = "sensitivity log over at method confidence min_units missing pilot form digits"
        inputs.refuse_options("--sensitivity", allowed=allowed)
    elif orders is not None:
        inputs.refuse_options("--orders", allowed=f"orders form digits notation {STATISTICS_OPTIONS}")
    elif as_json:
        inputs.refuse_options("--json", allowed=f"incomplete {STATISTICS_OPTIONS}")
    elif log:
        raise InputError("`--log` has no effect without --sensitivity. Leave it out.")
    from evogt_study.analysis import tables
    from evogt_study.analysis.runs import select_point
    from evogt_study.analysis.statistics import IncompleteWarning
    from evogt_study.inference.intervals import Interval
    from evogt_study.schema.variables import list_accuracy_warnings

    interval = Interval(method=method, confidence=confidence, min_units=min_units)
    statistics = tables.TableRequest(interval=interval, numbers=tables.NumberFormat(digits, notation), **layout)
    request = statistics if over is None else replace(statistics, over=over)
    data = inputs.read_phase(file, "pilot" if pilot else "main")
    runs = select_point(data, at)
    with display.print_warnings_at_end(IncompleteWarning):
        if sensitivity is not None:
            print_text(tables.format_shares(runs, sensitivity, request, over, log))
        elif orders is not None:
            print_text(tables.make_order_table(runs, request, "" if orders == _ANY_AXIS else orders))
        elif as_json:
            made = tables.summarise_variables(runs, request)[1]
            found = {name: _list_points(each, each["n_ok"].dims) for name, each in made.items()}
            display.print_json({"result": str(file), "phase": "pilot" if pilot else "main", "variables": found})
        else:
            print_text(tables.make_summary_table(runs, request))
    display.print_warning(list_accuracy_warnings(data))


def _list_points(data: xr.Dataset, dims: Sequence[object]) -> list[dict[str, Any]]:
    """Return a row with coordinates and variables for each point of `dims`.  Other dimensions become lists."""
    import numpy as np

    listed: list[tuple[str, list[int], Any]] = []
    for name in (*data.coords, *data.data_vars):
        own = [number for number, dim in enumerate(dims) if dim in data[name].dims]
        if name in data.data_vars or set(data[name].dims) <= set(dims):
            listed.append((str(name), own, data[name].transpose(*(dims[number] for number in own), ...).values))
    places = np.ndindex(*(data.sizes[dim] for dim in dims))
    return [{name: values[tuple(at[i] for i in own)] for name, own, values in listed} for at in places]


@inputs.make_command([inputs.RESULT_FILE, inputs.argument("dim", "[AXIS]", required=False, type=str)], {
    "What to compare": [
        option("--variable", "NAME", "Variable to compare.  [default: the first]"),
        option("--over", "AXIS,...", "Axes whose values are the sample.", default="seed"),
        inputs.AT,
        option("--estimand", "NAME",
               "win, geometric_mean or mean.  [default: as the study declares, else win]", default=""),
        option("--better", "RULE", 'lower, higher or "nearest 0.95".  [default: as the study declares]', default=""),
        option("--scale", "NAME", "Scale of the effect: ratio or difference.  [default: ratio if positive]",
               default=""),
        option("--margin", "NUMBER", "Largest difference that counts as equal.  It is relative for ratios.",
               type=float, default=0.0),
    ],
    "Tests and failed runs": [
        option("--failures", "POLICY", "For failed runs: loss or omit.", default="loss"),
        option("--family", "NAME", "Tests that are adjusted together: setup or all.", default="setup"),
        inputs.CONFIDENCE, inputs.UNITS,
    ],
    "Other": [inputs.JSON],
})  # fmt: skip
def compare(
    file: Path, dim: str | None, over: tuple[str, ...], variable: str | None, at: Mapping[str, str], as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Compare the values of an axis on common seeds.

    AXIS is optional if only one axis can be compared.  Print one conclusion for each setup, then the effect of each
    value relative to the leader, with confidence intervals.
    """
    from evogt_study.analysis.comparison import compare as compare_values
    from evogt_study.analysis.runs import find_finished_keys, select_point
    from evogt_study.analysis.tables import find_variables, format_comparison
    from evogt_study.schema.variables import list_accuracy_warnings

    if dim is not None and dim.endswith(".nc"):
        advice = "Compare two results with `evogt diff`, or join them with `evogt merge --along NAME`"
        raise InputError(f"`AXIS` must be an axis of {file}, got the file {dim}. {advice}.")
    data = inputs.read_phase(file, "main")
    runs, (name,) = select_point(data, at), find_variables(data, *([variable] if variable else []))
    values = runs[name]
    axes = [str(dim) for dim in data["run_status"].dims if dim in values.dims]
    known = [name for name in axes if name not in over and values.sizes[name] > 1]
    strings = [name for name in known if values[name].dtype.kind in "OU"]
    dim = dim or next((names[0] for names in (known, strings) if len(names) == 1), None)
    if dim is None:
        raise InputError(f"`AXIS` must be one of {', '.join(known) or 'none'}, got none. Name the axis to compare.")
    found = compare_values(values, dim, over, planned=find_finished_keys(runs), **options)
    if as_json:
        attributes = {key: found.attrs[key] for key in ("unit", "scale")}
        listed = {"axis": dim, "values": found[dim].values, "variable": name, **attributes}
        display.print_json({"result": str(file), **listed, "setups": _list_points(found, found["leader"].dims)})
    else:
        print_text(format_comparison(found))
    display.print_warning(list_accuracy_warnings(data))


@inputs.make_command([inputs.RESULT_FILE], [
    option("-o --output", "TABLE", "New file: .csv, .parquet or .json.", required=True, type=inputs.PATH),
    inputs.PILOT,
])  # fmt: skip
def export(file: Path, output: Path, pilot: bool) -> None:
    """Write one row for each run as CSV, Parquet or JSON.

    A row has the parameters, status, message and values of a run.

    In CSV, an apostrophe precedes text that a spreadsheet would compute (=, +, -, @).  Parquet needs pandas and pyarrow
    (extra `parquet`).
    """
    from evogt_study.analysis.export import write_table

    count = write_table(inputs.read_phase(file, "pilot" if pilot else "main"), output)
    print_line(f"{output}: {format_count(count, 'run')}")
