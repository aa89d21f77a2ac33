"""A result that is all that its study asks for, known by what is written in it: no formula is read, no case is made.

What takes a while to import is imported once there is a result of the very same study: until then workers wait for it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evogt_study.errors import EvogtError
from evogt_study.storage.paths import default_result, shard_folder

if TYPE_CHECKING:
    import xarray as xr


def complete_result(study_file: Path, output: Path | None) -> Path | None:
    """Where the study's result is, if every run of it was tried and nothing of it was changed since.

    Study, code and Python files have to be those by which it was planned.  None wherever that is not sure: whoever
    runs the study finds out, and tells what is wrong.  Raises ResultError where another process writes the result.
    """
    try:
        text = study_file.read_text(encoding="utf-8-sig")
        table = tomllib.loads(text)
        path = output or default_result(str(table.get("name")))
        if not path.is_file() or shard_folder(path).exists() or not _was_planned(path, text, table, study_file.parent):
            return None
    except (OSError, ValueError, EvogtError):
        return None
    from evogt_study.storage.atomic_files import followed, remove_unfinished
    from evogt_study.storage.writer_lock import only_writer

    with only_writer(path):
        remove_unfinished(followed(path).parent, followed(path).name)
        return path if _holds_all(path) else None


def _was_planned(path: Path, text: str, table: dict[str, object], folder: Path) -> bool:
    """Whether a result has the plan of this study.  Raises OSError for what is no NetCDF."""
    import netCDF4

    from evogt_study.results.provenance import PLAN, plan_digest

    with netCDF4.Dataset(path) as file:
        return bool(getattr(file, PLAN, None) == plan_digest(text, _sources(table, folder)))


def _sources(table: dict[str, object], folder: Path) -> Iterator[str]:
    """The text of the Python files that a study names."""
    for reference in (table.get("method"), table.get("problem")):
        if isinstance(reference, str) and ":" in reference:
            file = folder / reference.rpartition(":")[0]
            if not file.is_file():  # a pipe would be waited for, and a device may never end
                raise FileNotFoundError(file)
            yield file.read_text(encoding="utf-8-sig")


def _holds_all(path: Path) -> bool:
    from evogt_study.results.digests import DIGESTS, changed
    from evogt_study.results.integrity import UNREADABLE
    from evogt_study.results.netcdf import opened
    from evogt_study.storage.hdf5_lock import HDF5_LOCK

    try:
        with opened(path) as groups, HDF5_LOCK:
            return all(
                DIGESTS in data.attrs and not any(changed(data)) and _all_tried(data) for data in groups.values()
            )
    except (EvogtError, *UNREADABLE):
        return False


def _all_tried(data: xr.Dataset) -> bool:
    """Whether no planned run of a phase is left; a point without a case has no key."""
    from evogt_study.schema.variables import Status
    from evogt_study.storage.slabs import slabs

    keys, status = data["case_key"].variable, data["status"].variable
    return not any(
        ((keys[slab].values != "") & (status[slab].values == Status.not_run)).any() for slab in slabs(status.shape)
    )
