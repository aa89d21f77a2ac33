"""Summarise the runs of a result, and recognise a complete result before slow imports.

This module neither parses formulas nor creates cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evogt_study.errors import EvogtError
from evogt_study.methods.python_files import read_file_sources
from evogt_study.results.provenance import PLAN_DIGEST, RunSummary, hash_plan, read_summary
from evogt_study.storage.files import MAX_STUDY_BYTES, default_result, parse_toml, read_text, shard_folder
from evogt_study.storage.lease import lock_result

if TYPE_CHECKING:
    import xarray as xr


# check the lock first, because another process may be replacing the result
def find_complete_result(study_file: Path, output: Path | None) -> tuple[Path, RunSummary] | None:
    """Return the path and the summary of a complete result, or None if its study, package or code has changed."""

    def read_sources() -> Iterator[str]:  # same texts as `UserCode.sources`
        for reference in (table.get("method"), table.get("problem")):
            if isinstance(reference, str) and ":" in reference:
                file = study_file.parent / reference.rpartition(":")[0]
                yield from read_file_sources(file, study_file.parent, table.get("depends", []))

    try:
        text = read_text(study_file, "the study file", max_bytes=MAX_STUDY_BYTES)
        table = parse_toml(text)
        path = output or default_result(str(table.get("name")))
        if not path.is_file() or shard_folder(path).exists():
            return None
        plan = hash_plan(text, read_sources())
    except (OSError, ValueError, EvogtError):
        return None
    with lock_result(path):
        try:
            summary = read_summary(path)
        except OSError:
            return None
    return (path, summary) if summary is not None and summary.is_complete and summary.plan == plan else None


def summarise_runs(phases: Mapping[str, xr.Dataset]) -> RunSummary:
    """Summarise the runs of each phase of an open result."""
    from evogt_study.analysis.runs import count_status
    from evogt_study.schema.variables import MAIN, list_accuracy_warnings

    phases = {MAIN: phases[MAIN], **phases}  # the main phase first
    attributes = phases[MAIN].attrs
    return RunSummary(
        {phase: count_status(data) for phase, data in phases.items()},
        {phase: list(list_accuracy_warnings(data)) for phase, data in phases.items()},
        str(attributes.get("study", "")),
        str(attributes.get(PLAN_DIGEST, "")),
    )
