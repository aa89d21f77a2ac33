"""Define the command `evogt` with its subcommands, error output and exit codes.

The module of a subcommand is imported only when the user calls the subcommand, so `evogt --help` is fast.
"""

import importlib
from collections.abc import Mapping
from errno import EPIPE
from typing import Any, NoReturn

import click

from evogt_study.errors import EvogtError, InputError, StudyInterruptedError, shorten
from evogt_study.registry import Registry
from evogt_study.text import print_line

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
"""Exit codes.  Click uses 2 for invalid options.  Shells use 130 = 128 + SIGINT for an interrupt."""
COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Run the missing cases of a study and write the result file."),
    "try": ("run", "Run one case here and show its return value or traceback."),
    "submit": ("run", "Submit an array of tasks to a batch system."),
    "status": ("status", "Show the progress of a study and its error messages."),
    "list": ("status", "List the results in a folder."),
    "summary": ("summary", "Print statistics of a result, by default over the seeds."),
    "compare": ("summary", "Compare the values of an axis on common seeds."),
    "plot": ("pictures", "Draw figures of a result."),
    "report": ("pictures", "Write one HTML page about a result."),
    "export": ("summary", "Write one row for each run as CSV, Parquet or JSON."),
    "merge": ("results", "Join results of one study, or of several studies."),
    "diff": ("results", "Show the runs in which two results differ."),
    "verify": ("results", "Check a result or a deposit.  Executes nothing."),
    "publish": ("results", "Write results as a folder to deposit."),
    "store": ("status", "List or prune runs that studies no longer include."),
}
"""Module and description of each subcommand, in the order of `evogt --help`."""
_FUNCTIONS = {"try": "try_case", "list": "list_results"}  # functions that differ from the names of their subcommands
MAX_HELP = 100  # characters of the help text of a command from another package
REGISTERED: Registry[click.Command] = Registry("COMMAND", "evogt_study.commands")
"""Click commands from the entry points of installed packages."""


class _Commands(click.Group):
    """Command group that imports a subcommand at its call, and prints an error of this package as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *REGISTERED.list_installed()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return REGISTERED[cmd_name] if cmd_name in REGISTERED else None  # noqa: SIM401  # the error is not a KeyError
        module = importlib.import_module(f"evogt_study.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, _FUNCTIONS.get(cmd_name, cmd_name))
        return command

    # the method of the base class would import all commands
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = [(name, text) for name, (_, text) in COMMANDS.items()]
        for name in REGISTERED.list_installed():
            try:
                lines.append((name, REGISTERED[name].get_short_help_str(limit=MAX_HELP)))
            except Exception as error:  # noqa: BLE001  # the help lists all other packages if one import fails
                lines.append((name, f"(cannot be imported: {shorten(str(error))})"))
        with formatter.section("Commands"):
            formatter.write_dl(lines)

    # outside this method, Click replaces a KeyboardInterrupt by an Abort without a reason
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EvogtError as error:
            _print_and_exit(str(error), BAD_INPUT if isinstance(error, InputError) else FAILED)
        except OSError as error:  # a system error, such as a full disk
            if error.errno == EPIPE or not error.strerror:  # Click handles a closed pipe
                raise
            of = f"{error.filename}: " if error.filename else ""
            _print_and_exit(f"{of}{error.strerror}", BAD_INPUT)
        except MemoryError:
            _print_and_exit("this machine has too little memory for this command. Use another machine.", FAILED)
        except KeyboardInterrupt as reason:
            text = str(reason) or "interrupted"  # a signal or a time limit gives a reason, but Ctrl-C does not
            is_study = isinstance(reason, StudyInterruptedError)
            _print_and_exit(
                text if is_study else f"{text}. Run the same command again to compute the rest.", INTERRUPTED
            )


def _print_and_exit(message: str, code: int) -> NoReturn:
    # replace line breaks in names and messages by spaces
    print_line(f"evogt: {' '.join(message.split())}", err=True)
    raise SystemExit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="evogt-study")
def main() -> None:
    """Run parametric studies of a function, and analyse their results.

    A study file (.toml) names a function, the parameters to vary and the seeds.  The result is one labelled NetCDF
    file with the status and provenance of every run.

    The exit code is 0 for success, 2 for a mistake in the input, 130 after an interrupt and 1 for any other error.
    """
