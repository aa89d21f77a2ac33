"""What is finished of the runs that a study asks for: looked up in its result and shards; nothing is computed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

from evogt_study.errors import ResultError
from evogt_study.methods.user_code import DeclaredFile
from evogt_study.planning.plan import Plan, pilot_plan, study_plan
from evogt_study.results.bookkeeping import RECORDED
from evogt_study.results.dataset import DECLARATION, dataset, global_attributes, records_of
from evogt_study.results.earlier_result import Earlier, parts
from evogt_study.results.netcdf import PILOT, loaded, opened
from evogt_study.results.pilot_choice import choice_so_far
from evogt_study.results.run_table import Table
from evogt_study.results.shards import readable_shards, shard_folder
from evogt_study.schema.records import RunRecords
from evogt_study.schema.variables import BOOKKEEPING, Status
from evogt_study.storage.atomic_files import make_folder, steadily, written_whole
from evogt_study.storage.paths import description as description
from evogt_study.study.study import Study


@dataclass(frozen=True, eq=False)
class Finished:
    """What there is of a study's runs.

    tables: the fate of each run by phase, "study" (left out until its pilot has chosen) and "pilot".  beyond: by
    phase, the number of finished runs of the result that the study does not ask for.
    """

    study: Study
    tables: Mapping[str, Table]
    beyond: Mapping[str, int]

    @property
    def unasked(self) -> int:
        """Number of finished runs of the result that the study does not ask for."""
        return sum(self.beyond.values())

    def runs(self) -> dict[str, xr.Dataset]:
        """The runs labelled, by phase, with their bookkeeping and the variables that were read."""
        return {phase: dataset(table, self.study) for phase, table in self.tables.items()}

    def count(self, phase: str) -> int | None:
        """Number of runs of a phase that are finished, whatever came of them; None where its cases are not known."""
        if phase not in self.tables:
            return None
        return sum(count for status, count in self.tables[phase].counts().items() if status != Status.not_run)


def finished(study: Study, path: Path, variables: Sequence[str] | None = ()) -> Finished | None:
    """What the result `path`, and shards beside it, have of the runs that `study` asks for; None where neither is.

    variables: those that tables have beside the runs' bookkeeping; None: all.  Raises ResultError where the file is
    not a result, or that of another study.
    """
    return steadily(path, lambda: _finished(study, path, variables))


def _finished(study: Study, path: Path, variables: Sequence[str] | None) -> Finished | None:
    """As `finished`, while nobody writes."""
    places = _Places(Earlier(study, path), shard_folder(path))
    if not path.exists() and not places.shards.exists():
        return None
    first, choice, pilot, beyond = pilot_plan(study), None, {}, {}
    if first is not None and study.pilot is not None:
        wanted = None if variables is None else (*variables, study.pilot.minimise)
        pilot[PILOT], beyond[PILOT] = _filled(first, places, wanted)
        choice = choice_so_far(study.pilot, pilot[PILOT])
        if choice is None:
            return Finished(study, pilot, beyond)
    else:
        beyond[PILOT] = sum(len(records.keys) for records in places.of_result(PILOT, ()))
    table, beyond["study"] = _filled(study_plan(study, choice), places, variables)
    return Finished(study, {"study": table, **pilot}, beyond)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where runs are: the result, as far as it exists, and the folder of shards."""

    earlier: Earlier
    shards: Path

    def of_result(self, phase: str, variables: Sequence[str] | None) -> Iterator[RunRecords]:
        """The result's runs of a phase part by part, with these variables and no others; None: all."""
        if phase not in self.earlier.history:
            return
        with opened(self.earlier.path) as groups:
            data = groups[phase]
            if variables is not None:
                names = [*BOOKKEEPING, *(name for name in variables if name in data)]
                data = data[names].assign_attrs({RECORDED: ""})
            for part in parts(data):
                yield records_of(loaded(self.earlier.path, part))

    def of_shards(self, variables: Sequence[str] | None) -> Iterator[RunRecords]:
        """The runs in shards, of whatever phase, with these variables and no others; None: all."""
        for records in readable_shards(self.shards):
            stacks = [stack for stack in records.stacks if variables is None or stack.name in variables]
            yield replace(records, stacks=tuple(stacks))


def _filled(plan: Plan, places: _Places, variables: Sequence[str] | None) -> tuple[Table, int]:
    """The plan's table with what is there, and how many runs of the result are none of the plan's."""
    table, unasked = Table(plan), 0
    for records in places.of_result(plan.phase, variables):
        unasked += int(np.count_nonzero(~table.knows(records.keys)))
        table.add_all([records])
    table.add_all(places.of_shards(variables))
    return table, unasked


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
