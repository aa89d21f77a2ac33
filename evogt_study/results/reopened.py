"""Reopen a result file: its runs, the study in its text, and the plan that gives the run keys.

A result contains the declaration of the user's code.  This is enough, except to compute runs again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import DoubtWarning, InPythonError, ResultError, StudyError
from evogt_study.methods.code import DeclaredCode, PythonFile, UserCode, named_code
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.run_metadata import CONCATENATED
from evogt_study.results.target_precision import planned_seeds
from evogt_study.schema.values import find, text_label
from evogt_study.schema.variables import MAIN
from evogt_study.study.case_space import CaseSpace, Chosen
from evogt_study.study.model import read_table
from evogt_study.study.phases import Candidate, Choice, in_words
from evogt_study.study.plan import Plan, phase_plan
from evogt_study.study.study import Study

CODE = "--code FILE.py"
TO_FILE = 'write it down with study.to_file("STUDY.toml"), and what `evogt run STUDY.toml` makes can be computed again'
"""Remedy for a study whose function is not in a file."""


@dataclass(frozen=True, eq=False)
class Stored:
    """The runs of one phase in the file `path`, and their plan."""

    path: Path
    phase: str
    data: xr.Dataset
    study: Study
    plan: Plan

    @cached_property
    def keys(self) -> npt.NDArray[Any]:
        """The case keys that the file has, in the order of its cases."""
        return self.data["run_key"].values.ravel()

    def key(self, index: int) -> str:
        """The case key that the file has for case `index`."""
        return str(self.keys[index])

    def run(self, index: int) -> xr.Dataset:
        """The data of case `index` in the file; every axis keeps its one value."""
        positions = np.unravel_index(index, self.plan.space.shape)
        return self.data.isel({name: [int(i)] for name, i in zip(self.plan.space.names, positions, strict=True)})


def stored(
    path: Path, groups: Mapping[str, xr.Dataset], code: Path | None = None, *, folder: Path | None = None
) -> dict[str, Stored]:
    """Return the phases of a result that was read from `path`, with their plans.

    code: the Python file of the study, or its folder, which is then imported; None: the declaration in the result is
    used.  folder: the base of relative paths in the study; None: the folder of its file.  Raises ResultError if the
    axes of the file differ from the axes of its study, or if the Python file is missing.
    """
    study = study_in(path, any_phase(groups), code, folder=folder)
    plans, chosen = dict[str, Plan](), list[Chosen]()
    for each in study.phases:
        if plans and MAIN not in groups:  # an earlier phase, whose choice the next one needs, is not finished
            break
        seeds = planned_seeds(each, [groups[each.name]] if each.name in groups else [])
        plans[each.name] = phase_plan(study, each, chosen if seeds is None else [*chosen, seeds])
        if each.choice is not None and MAIN in groups:
            chosen.append(choice_in(path, groups[MAIN], study, each.choice))
    phases = {}
    for phase, data in groups.items():
        plan = plans.get(phase)
        if plan is None:
            told = f"{path} holds {phase} runs, but its study has no {phase}"
            raise ResultError(f"{told}; it was changed after it was made")
        if data["run_status"].dims != plan.space.names or data["run_status"].shape != plan.space.shape:
            raise ResultError(
                f"{path} ({phase}) must have the axes {_axes(plan.space.names, plan.space.shape)} that its study asks "
                f"for, got {_axes(data['run_status'].dims, data['run_status'].shape)}"
            )
        phases[phase] = Stored(path, phase, data, study, plan)
    return phases


def any_phase(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """The main phase, or else the pilot: each has the text of the study."""
    return groups[MAIN] if MAIN in groups else next(iter(groups.values()))


# Reading a result imports nothing: a file from elsewhere must not run code.  Only `code`, which the user names, is
# imported.
def study_in(path: Path, data: xr.Dataset, code: Path | None = None, *, folder: Path | None = None) -> Study:
    """Return the study in the text of a result; `code` and `folder` are as in `stored`.

    Raises ResultError if it cannot be used.
    """
    if CONCATENATED in data.attrs:
        raise ResultError(f"{path} joins results of several studies, and is that of none; use one of theirs instead")
    text, file = str(data.attrs["study"]), Path(str(data.attrs.get("study_file", "study")))
    if folder is not None:
        file = folder / file.name
    written = str(data.attrs.get(DECLARATION, ""))

    def named(reference: str, depends: Sequence[str]) -> UserCode:
        declared = DeclaredCode.of(reference, file.parent, written)
        if code is None:
            return declared
        if declared.runs_in_python:
            raise StudyError(f"{reference} was given in Python, and has no file; {TO_FILE}")
        return _code_at(reference, depends, code, file.parent)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DoubtWarning)  # the runs themselves give these warnings
            return Study.from_text(text, str(file), named=named, recorded=True)
    except StudyError as error:
        remedy = f"; {CODE} says which Python file is the study's" if ".py:" in text else ""
        raise ResultError(f"the study in {path} cannot be used: {error}{remedy}") from None


def _code_at(reference: str, depends: Sequence[str], code: Path, folder: Path) -> UserCode:
    """The code that `reference` names, from the file, the folder or the module `code`.  Raises StudyError."""
    module, _, attribute = reference.rpartition(":")
    if code.is_dir():
        return named_code(reference, code, depends)
    if not module.endswith(".py") and str(code) in (module, reference):
        return named_code(reference, folder, depends)
    return PythonFile.named(f"{code.name}:{attribute}", code.parent, depends)


def code_beside(path: Path, data: xr.Dataset, folder: Path | None = None) -> Path | None:
    """Return the folder with the Python files of the study in a result, to compute runs again; None without files.

    folder: the folder of the study; by default the recorded one.  Raises ResultError unless the files computed the
    result and are in that folder or below: other files are imported only if the user names them.  Raises InPythonError
    if the code is not in a file.
    """
    study = study_in(path, data, folder=folder)
    folder, table = folder or Path(study.file).parent, read_table(study.text, study.file)
    for code in study.spec.codes:
        if isinstance(code, DeclaredCode):
            check_beside(path, code, folder, table.depends, f"say which file is to be run with {CODE}")
    return folder if study.spec.codes else None


def check_beside(path: Path, declared: DeclaredCode, folder: Path, depends: Sequence[str], remedy: str) -> None:
    """Raise ResultError, with the remedy, unless a Python file that computed a result lies in `folder` as it was.

    Raises InPythonError if the code is not in a file.  Nothing is imported.
    """
    if declared.runs_in_python:
        raise InPythonError(
            f"no run can be computed again from {path}: {declared.reference} was given in Python; its text is in the "
            f"attribute {DECLARATION}; {TO_FILE}"
        )
    file = declared.reference.rpartition(":")[0]
    if not file.endswith(".py"):
        raise ResultError(f"{file}, which computed {path}, must be named to be imported; --code {file} does")
    if not (folder / file).resolve().is_relative_to(folder.resolve()):
        raise ResultError(f"{folder / file}, which computed {path}, must lie beside its study in {folder}; {remedy}")
    try:
        found = PythonFile.named(declared.reference, folder, depends)
    except StudyError as error:
        raise ResultError(f"{error}; {remedy}") from None
    if found.fingerprint != declared.fingerprint:
        raise ResultError(f"{folder / file} must be the file that computed {path}, got other content; {remedy}")


def choice_in(path: Path, data: xr.Dataset, study: Study, choice: Choice) -> Chosen:
    """Read the choice of an earlier phase from the coordinates of a result, without choosing again.

    Raises ResultError if there is no choice, or if it is not a candidate of `study`.
    """
    for name in choice.parameters:
        if name not in data.coords or set(data[name].dims) != set(choice.by):
            over = f" over {', '.join(choice.by)}" if choice.by else ""
            raise ResultError(f"{path} must have the pilot's choice as a coordinate `{name}`{over}, got none")
    columns = [data[name].transpose(*choice.by).values for name in choice.parameters]
    table: dict[tuple[str, ...], Candidate] = {}
    for position in np.ndindex(columns[0].shape):
        shown = [str(data[name].values[i]) for name, i in zip(choice.by, position, strict=True)]
        axes = [study.space.axis(name) for name in choice.by]
        found = [find(axis.values, text) for axis, text in zip(axes, shown, strict=True)]
        if any(i is None for i in found):
            continue  # a point that is not part of `study`
        key = tuple(text_label(axis.values[i]) for axis, i in zip(axes, found, strict=True) if i is not None)
        candidates, texts = choice.candidates_at(key), [str(column[position]) for column in columns]
        fitting = [each for each in candidates if None not in map(find, [(value,) for value in each], texts)]
        if not fitting:
            wanted, got = ", ".join(map(in_words, candidates)), in_words(texts)
            chosen = f"`{in_words(choice.parameters)}` in {path}"
            raise ResultError(f"{chosen} must be one of the pilot's candidates ({wanted}), got {got}")
        table[key] = fitting[0]
    return Chosen(choice.parameters, choice.by, table)


def point(space: CaseSpace, index: int) -> str:
    """Describe case `index`: "dictionary=gtransnet, epsilon=0.1, seed=3"."""
    positions = np.unravel_index(index, space.shape)
    return ", ".join(
        f"{axis.name}={text_label(axis.values[int(i)])}" for axis, i in zip(space.axes, positions, strict=True)
    )


def _axes(names: Sequence[object], shape: Sequence[int]) -> str:
    return " x ".join(f"{size} {name}" for name, size in zip(names, shape, strict=True)) or "none"
