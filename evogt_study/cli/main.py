"""The command `evogt`: its commands by name, errors as one line, and exit codes.

The module of a command is imported when the command is called, so that `evogt --help` answers at once.
"""

from __future__ import annotations

import importlib
from errno import EPIPE
from typing import Any, NoReturn

import click

from evogt_study.errors import EvogtError, InputError, shortened
from evogt_study.registry import Registry
from evogt_study.text import tell

# 2 is what Click ends with for wrong options; 130 is a shell's 128 + SIGINT
SOME_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
COMMANDS = {
    "run": "Run the missing cases of a study and write the result file.",
    "submit": "Submit an array of tasks to a batch system, or print its script.",
    "plan": "Predict cases, shared work, time and memory; run nothing.",
    "try": "Compute one case of a study here, and print what it returns.",
    "status": "Count what is done, failed and missing.",
    "summary": "Print statistics over seeds, with the runs they rest on.",
    "compare": "Compare the values of an axis over common seeds.",
    "plot": "Draw a result.",
    "report": "Write one HTML page of a result to share.",
    "export": "Write the runs as a flat table.",
    "replay": "Compute one case again, here, and compare it bit for bit.",
    "verify": "Check a result or a deposit, without executing anything of it.",
    "publish": "Write results as a folder to deposit: cited, checkable, repeatable.",
    "merge": "Join results of one study that were computed apart.",
    "store": "List, prune or move finished runs that are kept beside results.",
    "concat": "Join results of different studies along a new dimension.",
}
"""Commands and their descriptions, in the order of `evogt --help`."""
MOST_HELP = 100
"""Largest number of characters of the help of a registered command."""
REGISTERED: Registry[click.Command] = Registry("COMMAND", "evogt_study.commands")
"""Click commands that packages register by entry points."""
MODULES = {
    "run": ("run", "submit", "plan", "try"),
    "status": ("status", "store"),
    "summary": ("summary", "compare", "export"),
    "pictures": ("plot", "report"),
    "results": ("merge", "concat", "verify", "replay", "publish"),
}
"""Modules of this folder, and the commands of each."""


class _Commands(click.Group):
    """Import a command when it is called, and turn the errors of the package into one line and an exit code.

    Any other exception is a bug and keeps its traceback.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *REGISTERED.installed()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return REGISTERED[cmd_name] if cmd_name in REGISTERED else None  # noqa: SIM401  # its error is no KeyError
        name = "try_case" if cmd_name == "try" else cmd_name  # a keyword of Python
        (home,) = (module for module, commands in MODULES.items() if cmd_name in commands)
        module = importlib.import_module(f"evogt_study.cli.{home}")
        command: click.Command = getattr(module, name)
        return command

    # the method of Click would import every command for its help
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            registered = [(name, _first_line(name)) for name in REGISTERED.installed()]
            formatter.write_dl([*COMMANDS.items(), *registered])

    # here, because Click turns a KeyboardInterrupt into an Abort without its reason
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EvogtError as error:
            _stop(str(error), BAD_INPUT if isinstance(error, InputError) else SOME_FAILED)
        except OSError as error:  # of the system: disk, name, limit of the process
            if error.errno == EPIPE or not error.strerror:  # the reader of the output is gone, which Click handles
                raise
            of = f"{error.filename}: " if error.filename else ""
            _stop(f"{of}{error.strerror}", BAD_INPUT)
        except MemoryError:
            _stop("there is not enough memory on this machine for what was asked", SOME_FAILED)
        except KeyboardInterrupt as reason:
            text = str(reason) or "interrupted"  # Ctrl-C has no reason; a signal or a time limit has
            _stop(f"{text}; finished runs are kept, the same command computes the rest", INTERRUPTED)


def _first_line(name: str) -> str:
    """The help of a registered command; a package that cannot be imported leaves the others listed."""
    try:
        return REGISTERED[name].get_short_help_str(limit=MOST_HELP)
    except Exception as error:  # noqa: BLE001  # whatever the package raises
        return f"(cannot be imported: {shortened(str(error))})"


def _stop(message: str, code: int) -> NoReturn:
    # one line, also with a line break in a name or a message
    tell(f"evogt: {' '.join(message.split())}", err=True)
    raise SystemExit(code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="evogt-study")
def main() -> None:
    """Parametric studies of any function: a study file in, one labelled NetCDF file out.

    The paper's method, Evo-GTransNet, is the first of these functions; a Python function of your own is studied the
    same way, and two of them side by side.
    """
