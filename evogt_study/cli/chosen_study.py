"""The study that a command was given, and its result."""

from __future__ import annotations

from pathlib import Path

from evogt_study.cli.messages import warnings_at_the_end
from evogt_study.errors import DoubtWarning
from evogt_study.results.finished import Finished
from evogt_study.storage.paths import default_result, store_folder
from evogt_study.study.study import Study
from evogt_study.text import tell


def read_study(study_file: Path) -> Study:
    """Read the study, and print a line for each thing in it that makes its numbers doubtful."""
    with warnings_at_the_end(DoubtWarning):
        return Study.from_file(study_file)


def result_of(study: Study, output: Path | None) -> Path:
    """Return the place of a study's result, unless it is said to be elsewhere."""
    return output or default_result(study.name)


def print_unasked(path: Path, done: Finished | None) -> None:
    """Runs of a result that its study does not ask for, which `evogt run` keeps."""
    if done is not None and done.unasked:
        tell(
            f"{path} holds {done.unasked:,} finished runs that {done.study.file} does not ask for now "
            f"({done.reader.changed}); `evogt run` keeps them in {store_folder(path)}"
        )
