"""What is finished of a result that is not: the earlier file and the shards, read while another process writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import xarray as xr

from evogt_study.errors import ResultError
from evogt_study.methods.user_code import DeclaredFile
from evogt_study.results.dataset import DECLARATION, global_attributes
from evogt_study.results.finished_runs import finished
from evogt_study.results.netcdf import PILOT, loaded, opened
from evogt_study.schema.variables import BOOKKEEPING
from evogt_study.storage.atomic_files import make_folder, steadily, written_whole
from evogt_study.storage.paths import description as description
from evogt_study.study.study import Study


def describe(result: Path, study: Study) -> None:
    """Write the study down, so that its shards can be read without its file.  Raises ResultError."""
    path, code = description(result), study.spec.code
    described = {"file": study.file, "text": study.text, DECLARATION: "" if code is None else code.declaration}
    try:
        make_folder(path.parent)
        with written_whole(path) as temporary:
            temporary.write_text(json.dumps(described), encoding="utf-8")
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None


def unfinished(result: Path, variables: Sequence[str] | None = None) -> dict[str, xr.Dataset] | None:
    """The finished runs of a result that is being written, or whose writing was interrupted; None where none is.

    By phase, "study" and "pilot"; the study's are left out until its pilot has chosen.  A phase of an earlier result
    that has runs which the study does not ask for, or does not yet, is given as it is: nothing will replace it.

    variables: those that are read beside the runs' bookkeeping; None: all.  Raises ResultError where the description
    cannot be read.
    """
    return steadily(result, lambda: _unfinished(result, variables))


def _unfinished(result: Path, variables: Sequence[str] | None) -> dict[str, xr.Dataset] | None:
    """As `unfinished`, while nobody writes."""
    study = _described(description(result))
    done = None if study is None else finished(study, result, variables)
    if study is None or done is None:
        return None
    found = done.runs()
    for phase, data in found.items():
        data.attrs = {**global_attributes(study, phase), **data.attrs}
    kept = [phase for phase in ("study", PILOT) if phase not in found or done.beyond.get(phase)]
    return found | (_as_they_are(result, kept, variables) if kept and result.exists() else {})


def _described(path: Path) -> Study | None:
    """The study of a description, None where there is none.  Raises ResultError."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        code = partial(DeclaredFile.declared, folder=Path(known["file"]).parent, text=known.get(DECLARATION, ""))
        return Study.from_text(known["text"], known["file"], named=code)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ResultError(f"cannot read {path}: {error}") from None


def _as_they_are(result: Path, phases: Sequence[str], variables: Sequence[str] | None) -> dict[str, xr.Dataset]:
    """Those of the phases that a result has."""
    with opened(result) as groups:
        return {
            phase: loaded(result, data if variables is None else data[[*BOOKKEEPING, *variables]])
            for phase, data in groups.items()
            if phase in phases
        }
