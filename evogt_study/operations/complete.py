"""Recognise a complete result by the text of its study, before heavy imports.

No formula is parsed and no case is created.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evogt_study.errors import EvogtError
from evogt_study.results.provenance import plan_digest
from evogt_study.storage.atomic import followed, remove_unfinished
from evogt_study.storage.lease import only_writer
from evogt_study.storage.paths import default_result, shard_folder
from evogt_study.storage.untrusted import MAX_STUDY_BYTES, parse_toml, read_text


# the lock first: a result that is being replaced is neither complete nor incomplete
def complete_result(study_file: Path, output: Path | None) -> Path | None:
    """Return the path of the result if all of its runs have been tried and no byte has changed since.

    The study, the package and the Python files must be unchanged since it was planned.  Returns None in all other
    cases; running the study then reports any mistake.  Raises ResultError if another process is writing the result.
    """
    try:
        text = read_text(study_file, "the study file", max_bytes=MAX_STUDY_BYTES)
        table = parse_toml(text)
        path = output or default_result(str(table.get("name")))
        if not path.is_file() or shard_folder(path).exists():
            return None
        plan = plan_digest(text, _sources(table, study_file.parent))
    except (OSError, ValueError, EvogtError):
        return None
    from evogt_study.results.index import is_complete  # 0.3 s, with NumPy, only if there is a result

    with only_writer(path):
        remove_unfinished(followed(path).parent, followed(path).name)
        return path if is_complete(path, plan) else None


def _sources(table: dict[str, Any], folder: Path) -> Iterator[str]:
    """The text of the Python files of a study and of their dependencies, as in `UserCode.sources`."""
    for reference in (table.get("method"), table.get("problem")):
        if isinstance(reference, str) and ":" in reference:
            file = folder / reference.rpartition(":")[0]
            from evogt_study.methods.fingerprint import python_file_sources  # with NumPy

            yield from python_file_sources(file, folder, table.get("depends", []))
