"""Declare the options and arguments of several commands, and read studies, results and runs.

`evogt --help` imports this module, so all slow imports are inside functions.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from evogt_study.errors import AccuracyWarning, InputError, StudyError
from evogt_study.storage.files import description_path, store_folder
from evogt_study.text import format_count, print_line
from evogt_study.workers.runner import RunOptions

if TYPE_CHECKING:
    import xarray as xr

    from evogt_study.results.finished import FinishedRuns
    from evogt_study.study.study import Study

PATH = click.Path(path_type=Path)


# --- declarations of commands -----------------------------------------------------------------------------------------


class Command(click.Command):
    """Click command with groups of options under headings."""

    groups: Mapping[str, Sequence[click.Option]]

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function of the command.  An InputError names options and arguments as on the command line."""
        try:
            return super().invoke(ctx)
        except StudyError:  # it names keys of the study
            raise
        except InputError as error:
            raise InputError(name_options(str(error))) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of each group of options under a heading.  The last group contains --help."""
        for number, (heading, options) in enumerate(self.groups.items(), 1):
            listed = [*options, self.get_help_option(ctx)] if number == len(self.groups) else options
            with formatter.section(heading):
                formatter.write_dl([row for each in listed if each and (row := each.get_help_record(ctx))])


def make_command(
    arguments: Sequence[click.Argument],
    options: Sequence[click.Option] | Mapping[str, Sequence[click.Option]],
    **more: Any,
) -> Callable[[Callable[..., None]], Command]:
    """Return a decorator that makes a function a command.  Keys of the mapping of options become headings."""
    groups = options if isinstance(options, Mapping) else {"Options": options}

    def decorate(function: Callable[..., None]) -> Command:
        params: list[click.Parameter] = [*arguments, *chain(*groups.values())]
        made = click.command(cls=Command, params=params, **more)(function)
        made.groups = groups
        return made

    return decorate


def split_names(text: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the different names of a list with commas."""
    parts = text.split(",") if isinstance(text, str) else text
    return tuple(dict.fromkeys(name.strip() for name in parts if name.strip()))


def option(flags: str, metavar: str, help: str, **more: Any) -> click.Option:
    """Create an option with flags such as "-o --output".  An option without a metavar is a switch."""
    if metavar.endswith(",..."):
        more.setdefault("type", split_names)
    elif metavar in ("PATH", "FOLDER", "STUDY.toml", "FILE.py"):
        more["type"] = PATH
    shown = more.get("default") not in (None, "", ())
    more |= {"metavar": metavar, "show_default": shown} if metavar else {"is_flag": True}
    return click.Option(flags.split(), help=help, **more)


def argument(name: str, metavar: str, **more: Any) -> click.Argument:
    """Create an argument of a command, by default for a path."""
    return click.Argument([name], metavar=metavar, **{"type": PATH, **more})


def _read_points(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str]:
    """Return the values by axis of "seed=3,hidden=240,120".  A value may contain commas.  Raises InputError."""
    text, at = ",".join(values), dict[str, str]()
    for part in re.split(r",(?=[^,=]*=)", text) if text.strip() else ():
        name, sign, value = (word.strip() for word in part.partition("="))
        if not sign:
            raise InputError(f"`--at` must have the form axis=value,axis=value, got {text!r}. Use e.g. --at seed=3")
        if name in at:
            raise InputError(f"`--at` must name each axis once, got {name} twice")
        at[name] = ",".join(filter(None, (word.strip() for word in value.split(","))))
    return at


STUDY_FILE, RESULT_FILE = argument("study_file", "STUDY.toml"), argument("file", "FILE.nc")
ASSIGNMENTS = argument("assignments", "[KEY=VALUE]...", nargs=-1, type=str)
OUTPUT = option("-o --output", "PATH", "Result file.  [default: results/NAME.nc]")
AT = option("--at", "AXIS=VALUE,...", "Select these axis values.", type=str, multiple=True, callback=_read_points)
OVER = option("--over", "AXIS,...", "Axes whose values are the sample.  [default: seed]")
UNITS = option("--units", "AXIS,...", "Axes in --over whose values are independent samples.  [default: seed]")
CONFIDENCE = option("--confidence", "LEVEL", "Confidence level.", default=0.95)
PILOT = option("--pilot", "", "Use the runs of the pilot.")
JSON = option("--json as_json", "", "Print one JSON document instead of text.")
STRICT = option("--strict", "", "Exit with code 1 if runs failed.")
QUIET = option("-q --quiet", "", "Show no progress.")
CODE = option("--code", "FILE.py", "File, folder or module with the code of the study.  [default: beside the study]")
SCHEDULER = (
    option("--scheduler", "ADDRESS", "Use a running Dask scheduler, such as tcp://host:8786."),
    option("--scheduler-file", "PATH", "Use the Dask scheduler whose address is in this file."),
)
_TYPES: Mapping[str, Mapping[str, Any]] = {
    "int | None": {"type": int}, "float | None": {"type": float}, "Sequence[str | Path]": {"multiple": True}
}  # fmt: skip  # settings of Click options, by the annotation of a field of `RunOptions`


def format_option(name: str) -> str:
    """Convert the name of a field of `RunOptions` to an option such as "--run-timeout"."""
    return "--" + name.replace("_", "-")


RUN_OPTIONS = {
    each.name: option(format_option(each.name), **each.metadata, default=each.default, **_TYPES.get(str(each.type), {}))
    for each in fields(RunOptions)
}


def name_options(text: str) -> str:
    """Return a message with the options and arguments of the command as the user types them."""
    context = click.get_current_context()
    typed = set(re.findall(r"\w+", str(list(context.params.values()))))  # such as an axis with the name of an option
    for each in context.command.params:
        is_option, metavar = isinstance(each, click.Option), str(each.metavar)
        shown = each.opts[-1] if is_option else re.findall(r"[A-Z][\w.]*", metavar)[-1].rstrip(".")
        for name in {str(each.name), shown.strip("-").replace("-", "_") if is_option else str(each.name)} - typed:
            text = text.replace(f"`{name}`", f"`{shown}`")
    return text


def read_task(text: str) -> tuple[int, ...]:
    """Parse a task such as "7/200", or "7/200:2" for the second class of resources.  Raises InputError."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})(?::(\d{1,9}))?", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise InputError(f"`--task` must be I/N, with I from 1 to N, got {text!r}")
    return tuple(int(number) for number in match.groups() if number)


def refuse_options(reason: str, *, allowed: str) -> None:
    """Raise InputError if the user gave any option except `allowed`, because it has no effect with `reason`."""
    context = click.get_current_context()
    for each in context.command.params:
        is_given = context.get_parameter_source(str(each.name)) == ParameterSource.COMMANDLINE
        if isinstance(each, click.Option) and is_given and each.name not in allowed.split():
            raise InputError(f"`{each.opts[-1]}` has no effect with {reason}. Leave it out.")


def check_together(**options: object) -> None:
    """Raise InputError if the user gave more than one of these options."""
    given = [f"`{format_option(name)}`" for name, value in options.items() if value not in (None, False)]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} must not be combined. Give one of them.")


# --- assignments ------------------------------------------------------------------------------------------------------


def read_assignments(texts: Iterable[str]) -> dict[str, Any]:
    """Parse assignments: "a=5" sets a constant, and "n=10,20", "n=10," or "seed=0..99" sets axis values."""
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not name or not value:
            raise InputError(
                f"an assignment must be KEY=VALUE, got {text!r}. Use for example a=5, n=10,20 or seed=0..9."
            )
        if name in found:
            raise InputError(f"`{name}` has two assignments. Give one of them.")
        found[name] = read_values(value)
    return found


class AxisValues(list[Any]):
    """List of axis values in an assignment such as "n=10,20"."""


def read_values(text: str) -> Any:
    """Parse the value of an assignment, or several values as `AxisValues`.  Raises InputError."""
    whole = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", text)
    if whole:
        first, last = int(whole[1]), int(whole[2])
        if not 0 <= last - first < 10_000_000:
            raise InputError(f"a range must be FIRST..LAST with FIRST <= LAST, got {text}")
        return AxisValues(range(first, last + 1))
    if "," not in text:
        return _read_toml(text, text)
    listed = _read_toml(f"[{text}]", None)  # commas inside strings and lists do not separate values
    if listed is None:
        listed = [_read_toml(part.strip(), part.strip()) for part in text.split(",") if part.strip()]
    return listed[0] if len(listed) == 1 and not text.endswith(",") else AxisValues(listed)


def _read_toml(text: str, default: Any) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except ValueError:
        return default
    return table["value"] if len(table) == 1 else default


# --- studies and results ----------------------------------------------------------------------------------------------


@contextmanager
def open_runs_so_far(path: Path, variables: Sequence[str] | None = None) -> Iterator[Mapping[str, xr.Dataset]]:
    """Open the phases of a result.  If it is unfinished, read the finished runs, optionally only some variables."""
    from evogt_study.cli.display import warn_if_unfinished
    from evogt_study.results.netcdf import open_partial_result

    check_exists(path)
    with open_partial_result(path, variables) as runs:
        warn_if_unfinished(path)
        yield runs


def read_phase(path: Path, phase: str) -> xr.Dataset:
    """Open the runs of one phase of a result.  If the result is unfinished, read its finished runs."""
    from evogt_study.results.netcdf import open_result
    from evogt_study.schema.variables import EARLIER_PHASES

    # `open_runs_so_far` also reads finished runs that are not in the result file yet
    if path.exists() and not description_path(path).exists():
        data = open_result(path, phase)
        click.get_current_context().call_on_close(data.close)  # not by the garbage collector in another thread
        return data
    with open_runs_so_far(path) as runs:
        found = runs.get(phase)
    if found is None:
        unfinished = f"whose {next(iter(runs))} is not finished"
        missing = f"which has no {phase}. Leave out --{phase}." if phase in EARLIER_PHASES else unfinished
        raise InputError(f"`FILE` must have runs of the {phase}, got {path}, {missing}")
    return found


def check_finished(*paths: Path) -> None:
    """Raise InputError if a result is not finished."""
    check_exists(*paths)
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} is not finished. Run the missing cases with `evogt run`.")


def check_exists(*paths: Path) -> None:
    """Raise InputError if a result does not exist and has no finished runs."""
    for path in paths:
        if not path.exists() and not description_path(path).exists():
            raise InputError(f"no result file {path}. Create it with `evogt run`.")


def read_study(study_file: Path, assignments: Iterable[str] = ()) -> Study:
    """Read a study file, apply assignments, and print a line for each accuracy warning."""
    from evogt_study.cli.display import print_warnings_at_end
    from evogt_study.study.study import Study

    with print_warnings_at_end(AccuracyWarning):
        study, given = Study.from_file(study_file), read_assignments(assignments)
        if not given:
            return study
        for name, value in given.items():  # a string instead of numbers, such as the wrong range "0-9"
            texts = [each for each in (value if isinstance(value, AxisValues) else [value]) if isinstance(each, str)]
            known = study.axes.get(name) or [study.model.constants.get(name)]
            if texts and all(isinstance(each, Number) for each in known):
                message = f"`{name}` has numbers in the study, got {texts[0]!r}"
                raise InputError(f"{message}. Use for example a=5, n=10,20 or seed=0..9.")
        axes = {name: list(value) for name, value in given.items() if isinstance(value, AxisValues)}
        constants = {name: value for name, value in given.items() if name not in axes}
        return study.replace(**{key: table for key, table in (("axes", axes), ("constants", constants)) if table})


def print_unplanned(path: Path, done: FinishedRuns | None) -> None:
    """Print the number of finished runs that the study no longer includes."""
    if done is not None and (unplanned := done.count_unplanned()):
        print_line(
            f"{path} holds {format_count(unplanned, 'finished run')} that {done.study.file} no longer includes "
            f"({done.changed}). `evogt run` moves them to {store_folder(path)}."
        )
