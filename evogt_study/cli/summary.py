"""The commands `evogt summary`, `evogt compare` and `evogt export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from evogt_study.cli.display import warn, warnings_at_the_end
from evogt_study.cli.inputs import names, runs_of_phase
from evogt_study.inference.intervals import MIN_UNITS
from evogt_study.text import tell, tell_lines

ANY = "the one there is"
"""Value of `--orders` without an axis.  No axis has this name."""


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option(
    "--over", help="Dimensions to reduce over, or none.  [default: seed; --sensitivity: the sample, and seed]"
)
@click.option("--variable", default="", help="Variables to reduce, separated by commas.  [default: the first]")
@click.option(
    "--statistic",
    default="",
    help="Of mean, std, median, geometric_mean, min, max, quantiles in percent like q25, each with _ci for its "
    "interval or _se for its standard error, and ci.  [default: mean,std,ci,median,median_ci; with --columns mean,std]",
)
@click.option(
    "--sensitivity",
    metavar="VARIABLE",
    help="Shares of the sampled parameters in the variance of a variable; of status: in failure.",
)
@click.option("--log", is_flag=True, help="Shares in the variance of the logarithm.")
@click.option(
    "--orders",
    metavar="[AXIS]",
    is_flag=False,
    flag_value=ANY,
    help="Observed orders (EOC) along a numeric axis, or what follows it.  [the one there is]",
)
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="Only these labels.")
@click.option("--rows", help="Axes down, in this order, and parameters that follow them.  [default: all others]")
@click.option("--columns", default="", help="Axes across; each cell then holds all statistics.")
@click.option("--ratio", default="", metavar="A/B", help="One more column: mean of label A over that of B, paired.")
@click.option("--format", "form", default="text", show_default=True, help="text, markdown, latex or csv.")
@click.option("--digits", type=int, default=4, show_default=True, help="Significant digits.")
@click.option("--notation", default="auto", show_default=True, help="auto (plain from 1e-3 to 1e4), scientific, plain.")
@click.option("--interval", default="", help="Of ci: bootstrap-t, student or percentile.  [default: bootstrap-t]")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence of intervals.")
@click.option(
    "--min-units", type=int, default=MIN_UNITS, show_default=True, help="Fewest seeds of the default interval."
)
@click.option(
    "--incomplete", default="blocks", show_default=True, help="Pooled means with failed runs: blocks, setups or omit."
)
@click.option("--units", help="Of --over the axes that are drawn: their pooled values belong together.  [seed]")
@click.option("--missing", default="warn", show_default=True, help="Runs without a value: warn, raise or drop.")
@click.option("--pilot", is_flag=True, help="The pilot's runs.")
def summary(
    file: Path,
    over: str | None,
    variable: str,
    statistic: str,
    sensitivity: str | None,
    log: bool,
    orders: str | None,
    points: tuple[str, ...],
    rows: str | None,
    columns: str,
    ratio: str,
    form: str,
    digits: int,
    notation: str,
    interval: str,
    confidence: float,
    min_units: int,
    incomplete: str,
    units: str | None,
    missing: str,
    pilot: bool,
) -> None:
    """Print statistics over seeds, or other dimensions, with the runs they rest on.

    Without other options: mean, standard deviation, median and 95 % intervals, one row for each point.
    """
    from evogt_study.analysis.statistics import IncompleteWarning
    from evogt_study.analysis.summary_table import TableRequest, describe_pilot, summary_table
    from evogt_study.analysis.tables import NumberFormat
    from evogt_study.inference.intervals import Interval
    from evogt_study.schema.variables import doubts
    from evogt_study.study.case_space import read_point

    request = TableRequest(
        variables=names(variable), over=names("seed" if over is None else over), statistics=names(statistic),
        at=read_point(",".join(points)), rows=None if rows is None else names(rows), columns=names(columns),
        ratio=ratio, form=form,
        numbers=NumberFormat(digits, notation),
        interval=Interval(method=interval, confidence=confidence, min_units=min_units),
        units=None if units is None else names(units), missing=missing, incomplete=incomplete,
    )  # fmt: skip
    data = runs_of_phase(file, "pilot" if pilot else "main")
    with warnings_at_the_end(IncompleteWarning):
        if sensitivity is not None:
            from evogt_study.analysis.sensitivity import shares_table

            tell_lines(shares_table(data, sensitivity, request, None if over is None else names(over), log))
        elif orders is not None:
            from evogt_study.analysis.orders import eoc_table

            tell_lines(eoc_table(data, request, "" if orders == ANY else orders))
        else:
            tell_lines(summary_table(data, request))
    message = describe_pilot(data) if pilot else ""
    if message:
        tell(f"the pilot: {message}")
    warn(doubts(data))


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.argument("axis", metavar="AXIS")
@click.option("--over", default="seed", show_default=True, help="Axes that are pooled.")
@click.option("--variable", default="", help="Variable to compare.  [default: the first]")
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="Select these coordinate values.")
@click.option("--estimand", default="", help="win, geometric_mean or mean.  [default: as the study declares, else win]")
@click.option("--better", default="", help='lower, higher or "nearest 0.95".  [default: as the study declares]')
@click.option("--scale", default="", help="Scale of the effect: ratio or difference.  [default: ratio if positive]")
@click.option("--margin", type=float, default=0.0, help="Difference, relative for ratios, that counts as equal.")
@click.option("--failures", default="loss", show_default=True, help="Failed runs: loss or omit.")
@click.option("--family", default="setup", show_default=True, help="all: adjust tests for the number of setups.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Confidence of intervals.")
@click.option("--units", help="Axes in --over whose values are independent samples.  [default: seed]")
def compare(
    file: Path, axis: str, over: str, variable: str, points: tuple[str, ...], units: str | None, **options: Any
) -> None:
    """Compare the values of AXIS, for example `evogt compare FILE.nc dictionary`.

    One conclusion for each setup, then the effect of each value over the leader with its confidence interval.
    """
    from evogt_study.analysis.comparison import compare as compared
    from evogt_study.analysis.runs import finished_runs
    from evogt_study.analysis.summary_table import comparison_lines, find_variables, select_runs
    from evogt_study.schema.variables import doubts
    from evogt_study.study.case_space import read_point

    data = runs_of_phase(file, "main")
    (name,) = find_variables(data, *names(variable)[:1])
    at, keys = read_point(",".join(points)), finished_runs(data)
    found = compared(
        select_runs(data[name], at), axis, names(over), units=None if units is None else names(units),
        planned=None if keys is None else select_runs(keys, at), **options,
    )  # fmt: skip
    tell_lines(comparison_lines(found))
    warn(doubts(data))


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", metavar="TABLE", required=True, type=click.Path(path_type=Path), help="New .csv or .parquet file."
)
@click.option("--pilot", is_flag=True, help="The pilot's runs.")
def export(file: Path, output: Path, pilot: bool) -> None:
    """Write the runs as a flat table: one row a point, with parameters, status by name, message and numbers.

    In CSV, text that a spreadsheet would compute (=, +, -, @) has an apostrophe before it.  Parquet needs pandas and
    pyarrow (extra parquet).
    """
    from evogt_study.analysis.export import write_table

    count = write_table(runs_of_phase(file, "pilot" if pilot else "main"), output)
    tell(f"{output}: {count} runs")
