"""Define the command `evogt reproduce`.

The command starts workers before the imports for the computation, which take a second.
"""

from functools import partial
from pathlib import Path

from evogt_study.cli import inputs
from evogt_study.cli.inputs import option
from evogt_study.cli.main import FAILED
from evogt_study.text import print_line, print_text


@inputs.make_command([inputs.argument("studies", "[STUDIES]...", nargs=-1)], {
    "Numbers and report": [
        option("-o --output", "PATH",
               "Folder for results and report.  [default: results/reproduction or results/board]"),
        option("--published", "PATH", "Folder of the published numbers.", default=Path("data/published")),
        option("--board", "", "Compare many methods on published problems, with the studies in studies/board."),
    ],
    "Workers": [inputs.RUN_OPTIONS["workers"], *inputs.SCHEDULER],
    "Other": [inputs.QUIET],
}, short_help="Run the paper's studies and judge each published number.")  # fmt: skip
def reproduce(
    studies: tuple[Path, ...], output: Path | None, published: Path, workers: int | None, scheduler: str | None,
    scheduler_file: Path | None, board: bool, quiet: bool,
) -> None:  # fmt: skip
    """Run the paper's studies and judge each published number.

    STUDIES are files or folders, by default studies/paper.  The exit code is 1 if a number differs that is not in the
    list of known differences.  With --board, the default is studies/board, and the command writes a table of all
    methods.
    """
    from evogt_study.cli.run import prestart_workers

    inputs.check_together(workers=workers, scheduler=scheduler, scheduler_file=scheduler_file)
    studies = studies or (Path("studies/board" if board else "studies/paper"),)
    output = output or Path("results/board" if board else "results/reproduction")
    prestart_workers(*studies, published, elsewhere=bool(scheduler or scheduler_file))
    from evogt_study.cli.display import make_listener
    from evogt_study.operations.run import run_all
    from evogt_study.paper.board import check_board
    from evogt_study.paper.published import read_known_differences, read_published
    from evogt_study.paper.report import compare_methods, judge_results, read_results, read_studies
    from evogt_study.storage.files import check_writable, write_file
    from evogt_study.workers.dask_executor import connect_to_scheduler
    from evogt_study.workers.runner import RunOptions
    from evogt_study.workers.signals import handle_signals

    found = read_studies(studies)
    with handle_signals(), connect_to_scheduler(scheduler, scheduler_file) as client:
        # check before the runs, which take hours
        if board:
            compare = partial(compare_methods, check_board(published))
        else:
            compare = partial(judge_results, read_published(published), read_known_differences(published))
        for suffix in ("md", "csv"):
            check_writable(output / f"{'board' if board else 'report'}.{suffix}")
        running = run_all(found, output, client=client, options=RunOptions(workers), listener=make_listener(quiet))
        results = read_results(running)
    made = compare(results)
    print_text(made.text)
    for name, content in made.files.items():
        write_file(output / name, content, tidy=True)
        print_line(output / name)
    print_text(made.conclusion)
    if not made.holds:
        raise SystemExit(FAILED)
