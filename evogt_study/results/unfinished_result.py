"""What is finished of a result that is not: the earlier file and the shards, read while another process writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import xarray as xr

from evogt_study.errors import ResultError
from evogt_study.planning.plan import pilot_plan, study_plan
from evogt_study.results.dataset import dataset, global_attributes, records_of
from evogt_study.results.netcdf import PILOT, read_result
from evogt_study.results.pilot_choice import choice_so_far
from evogt_study.results.run_table import Table
from evogt_study.results.shards import readable_shards, shard_folder
from evogt_study.schema.records import RunRecords
from evogt_study.storage.atomic_files import written_whole
from evogt_study.storage.paths import description as description
from evogt_study.study.study import Study


def describe(result: Path, study: Study) -> None:
    """Write the study down, so that its shards can be read without its file.  Raises ResultError."""
    path = description(result)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            temporary.write_text(json.dumps({"file": study.file, "text": study.text}), encoding="utf-8")
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None


def unfinished(result: Path) -> dict[str, xr.Dataset] | None:
    """The finished runs of a result that is being written, or whose writing was interrupted; None where none is.

    By phase, "study" and "pilot"; the study's are left out until its pilot has chosen.  A phase of an earlier result
    that has runs which the study does not ask for, or does not yet, is given as it is: nothing will replace it.  Raises
    ResultError where the description cannot be read, StudyError where the study cannot be used any more.
    """
    path = description(result)
    if not path.exists():
        return None
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
        study = Study.from_text(described["text"], described["file"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultError(f"cannot read {path}: {error}") from None
    earlier = read_result(result) if result.exists() else {}
    shards = list(readable_shards(shard_folder(result)))
    found: dict[str, xr.Dataset] = {}
    choice, first = None, pilot_plan(study)
    if first is not None and study.pilot is not None:
        pilot = Table(first)
        found[PILOT] = _filled(pilot, earlier, shards, study)
        choice = choice_so_far(study.pilot, pilot)
        if choice is None:
            return {**earlier, **found}
    return {"study": _filled(Table(study_plan(study, choice)), earlier, shards, study), **found}


def _filled(table: Table, earlier: Mapping[str, xr.Dataset], shards: Iterable[RunRecords], study: Study) -> xr.Dataset:
    """A phase with what is finished of it; the table is filled with the same."""
    phase = table.plan.phase
    before = [records_of(earlier[phase])] if phase in earlier else []
    table.add_all([*before, *shards])
    if not all(table.knows(records.keys).all() for records in before):
        return earlier[phase]
    data = dataset(table, study)
    data.attrs = {**global_attributes(study, phase), **data.attrs}
    return data
