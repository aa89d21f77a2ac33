"""Lines for a person: what a study or a result makes doubtful, and what became of the runs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evogt_study.analysis.completeness import completeness
from evogt_study.cli.exit_codes import SOME_FAILED
from evogt_study.cli.progress_display import display
from evogt_study.cli.result_display import format_counts, format_messages
from evogt_study.operations.progress import Progress
from evogt_study.results.netcdf import opened
from evogt_study.schema.variables import doubts
from evogt_study.storage.paths import description
from evogt_study.text import tell


def print_lines(lines: Iterable[str]) -> None:
    """Print each line as one line, whatever is in it."""
    for line in lines:
        tell(line)


def warn(lines: Iterable[str]) -> None:
    """Print lines on standard error, after the name of the command."""
    for line in lines:
        tell(f"evogt: {line}", err=True)


@contextmanager
def warnings_at_the_end(*kinds: type[Warning]) -> Iterator[None]:
    """Print what is warned of meanwhile, one line for each thing, after all else."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in kinds:
            # Python shows a warning once for each line of code, which may be one for several results
            warnings.simplefilter("always", kind)
        yield
    warn(dict.fromkeys(str(warning.message) for warning in caught))


def print_result(path: Path, *, quiet: bool = True) -> None:
    """Print the runs of a result by status, and end with exit code 1 where some are not ok; progress unless `quiet`."""
    with opened(path) as groups:
        found = {phase: completeness(data) for phase, data in groups.items()}
        doubtful = {phase: list(doubts(data)) for phase, data in groups.items()}
    with display(quiet) as listener:
        for phase, each in reversed(found.items()):  # the pilot's first
            # all from before: only of a complete result is progress told here, others have shown theirs
            Progress(phase, each.planned, each.planned, listener, failed=each.planned - each.ok).tell(final=True)
    failed = [phase for phase, each in found.items() if each.ok < each.planned]
    for phase, each in found.items():
        if phase == "study" or phase in failed:
            tell(f"{path}{'' if phase == 'study' else f' ({phase})'}: {format_counts(each)}")
            print_lines(format_messages(each))
            warn(doubtful[phase])
    if failed:
        raise SystemExit(SOME_FAILED)


def tell_unfinished(path: Path) -> None:
    """Say so where a result is being written, or its writing was interrupted."""
    if description(path).exists():
        tell(f"evogt: {path} is not finished; this is what there is", err=True)
