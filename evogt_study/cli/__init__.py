"""The command line.

- `exit_codes`: what the command returns
- `main`: the commands by name, each imported when it is called; failures as one line
- `commands`: one module a command
- `options`: options that several commands have
- `run_options`: the options of `evogt run`, as one value
- `workers_ahead`: workers that start while the command still imports
- `chosen_study`: the study that a command was given
- `chosen_runs`: the runs that a command was given
- `computing`: `evogt run`, once something is to be computed
- `messages`: lines for a person
- `reporting`: the page of a result
- `progress_display`: progress on the terminal
- `progress_bar`: its bar
- `result_display`: results in lines of text
- `plot_files`: pictures of a result as files

Commands declare their options at once, and import what they do when it is done: `run_study` and the other names below.
"""

from typing import TYPE_CHECKING

from evogt_study.registry import lazy_names

if TYPE_CHECKING:
    from evogt_study.analysis.orders import eoc_table
    from evogt_study.analysis.sensitivity import shares_table
    from evogt_study.cli.display import print_result
    from evogt_study.cli.inputs import read_study, result_of
    from evogt_study.cli.pictures import check_page, write_report
    from evogt_study.cli.run import run_study, work_on

__all__ = [
    "check_page", "eoc_table", "print_result", "read_study", "result_of", "run_study",
    "shares_table", "work_on", "write_report",
]  # fmt: skip

__getattr__ = lazy_names(
    __name__,
    {
        "evogt_study.cli.inputs": "read_study result_of",
        "evogt_study.cli.run": "run_study work_on",
        "evogt_study.cli.display": "print_result",
        "evogt_study.cli.pictures": "check_page write_report",
        "evogt_study.analysis.orders": "eoc_table",
        "evogt_study.analysis.sensitivity": "shares_table",
    },
)
